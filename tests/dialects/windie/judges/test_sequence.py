"""The judge of what a windie client hears: good connections have no fault, and each of many faults is found."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from . import payloads
from .good import CATALOG, MANIFEST, METADATA, TOKENS, Script, whole
from .sequence import STREAM_KEYS, Frame, Line, faults, heard

Lines = list[Line]


def of(lines: Lines, kind: str, turn: str | None = None, nth: int = 0) -> int:
    """The place of the n-th such frame, of that turn."""
    places = [
        place
        for place, line in enumerate(lines)
        if line.frame["type"] == kind and turn in (None, line.frame.get("turn_ref"), line.frame.get("id"))
    ]
    return places[nth]


def frame(lines: Lines, kind: str, turn: str | None = None, nth: int = 0) -> Frame:
    return lines[of(lines, kind, turn, nth)].frame


def renumber(lines: Lines) -> None:
    """Numbers without gaps again, in the order of the lines: so that only the order itself is wrong."""
    count: dict[str, int] = {}
    for line in lines:
        if "sequence" in line.frame:
            count[line.frame["turn_ref"]] = line.frame["sequence"] = count.get(line.frame["turn_ref"], 0) + 1


def drop(kind: str, turn: str | None = None, *, numbered: bool = True) -> Callable[[Lines], None]:
    def mutated(lines: Lines) -> None:
        del lines[of(lines, kind, turn)]
        if numbered:
            renumber(lines)

    return mutated


def put(kind: str, turn: str | None = None, **changes: object) -> Callable[[Lines], None]:
    """Other values in an envelope; ``...`` takes the key away."""

    def mutated(lines: Lines) -> None:
        changed = frame(lines, kind, turn)
        for key, value in changes.items():
            if value is ...:
                del changed[key]
            else:
                changed[key] = value

    return mutated


def load(kind: str, turn: str | None = None, **changes: object) -> Callable[[Lines], None]:
    """Other values in a payload; ``...`` takes the key away."""

    def mutated(lines: Lines) -> None:
        changed = frame(lines, kind, turn)["payload"]
        for key, value in changes.items():
            if value is ...:
                del changed[key]
            else:
                changed[key] = value

    return mutated


def swap(first: str, second: str, turn: str | None = "t1") -> Callable[[Lines], None]:
    def mutated(lines: Lines) -> None:
        one, other = of(lines, first, turn), of(lines, second, turn)
        lines[one], lines[other] = lines[other], lines[one]
        renumber(lines)

    return mutated


def repeat(kind: str, turn: str | None = None) -> Callable[[Lines], None]:
    """The same once more, right behind it, with an identity of its own."""

    def mutated(lines: Lines) -> None:
        place = of(lines, kind, turn)
        again = copy.deepcopy(lines[place])
        if "event_id" in again.frame:
            again.frame["event_id"] += "-again"
        lines.insert(place + 1, again)
        renumber(lines)

    return mutated


def late(after: str, turn: str, kind: str = "streaming-response") -> Callable[[Lines], None]:
    """An event of a turn whose numbers and identity are good, behind another frame."""

    def mutated(lines: Lines) -> None:
        more = copy.deepcopy(frame(lines, kind, turn))
        more["event_id"] += "-late"
        place = max(place for place, line in enumerate(lines) if line.frame["type"] == after)
        if after in ("streaming-complete", "error"):
            place = of(lines, after, turn)
        lines.insert(place + 1, heard(more))
        renumber(lines)

    return mutated


def move(kind: str, turn: str | None, before: str, of_turn: str) -> Callable[[Lines], None]:
    def mutated(lines: Lines) -> None:
        line = lines.pop(of(lines, kind, turn))
        lines.insert(of(lines, before, of_turn), line)
        renumber(lines)

    return mutated


def same_event(lines: Lines) -> None:
    frame(lines, "streaming-response", "t1", 1)["event_id"] = frame(lines, "streaming-response", "t1")["event_id"]


def same_event_in_two_turns(lines: Lines) -> None:
    frame(lines, "query-accepted", "t2")["event_id"] = frame(lines, "query-accepted", "t1")["event_id"]


def numbers_of_the_connection(lines: Lines) -> None:
    for number, line in enumerate([line for line in lines if "sequence" in line.frame], 1):
        line.frame["sequence"] = number


def bare_error(lines: Lines) -> None:
    place = of(lines, "error", "t2")
    lines[place] = heard({"id": "t2", "type": "error", "payload": {"message": "boom"}})


def result_is_shown_twice(lines: Lines) -> None:
    frame(lines, "tool-output", "t1")["payload"]["tool_name"] = "save_note"


def a_stop_completes(lines: Lines) -> None:
    """The end that a stop must not make up, between the message and its acknowledgement."""
    end = copy.deepcopy(frame(lines, "streaming-complete", "t1"))
    end |= {"id": "t3", "turn_ref": "t3", "conversation_ref": "c2", "event_id": "t3-end", "sequence": 7}
    end["payload"] = {"final_response": "Long "}
    lines.insert(of(lines, "stop-query-ack"), heard(end))
    renumber(lines)


def two_bundles_of_one_name(lines: Lines) -> None:
    repeat("tool-bundle", "t1")(lines)


def settings_loaded(key: str) -> Callable[[Lines], None]:
    def mutated(lines: Lines) -> None:
        config = {
            "model_mode": "online",
            "model_provider": "openai",
            "selected_model_id": "m",
            "interaction_mode": "chat",
            "speech_mode_enabled": True,
            "wakeword_enabled": True,
            "wakeword_stt_enabled": False,
            "browser_automation_enabled": False,
            "include_query_screenshot": True,
            "provider_api_keys": {"openai": {"enabled": True, "api_key": key}},
        }
        script = Script()
        script.say("load-settings", "x1")
        script.reply("settings-loaded", "x1", config=config)
        lines[:] = script.lines

    return mutated


BEFORE = "was used before"
GAP = "was due"

MUTATIONS: dict[str, tuple[Callable[[Lines], None], str]] = {
    "an event is lost": (drop("streaming-response", "t1", numbered=False), GAP),
    "the first event is lost": (drop("query-accepted", "t1", numbered=False), GAP),
    "numbers start at 0": (put("query-accepted", "t1", sequence=0), GAP),
    "a number steps back": (put("token-count", "t1", sequence=3), GAP),
    "a number is a text": (put("token-count", "t1", sequence="14"), GAP),
    "a number is true": (put("query-accepted", "t1", sequence=True), GAP),
    "numbers go on in the next turn": (numbers_of_the_connection, GAP),
    "no number": (put("llm-thought", "t1", sequence=...), "no sequence"),
    "no event_id": (put("llm-thought", "t1", event_id=...), "no event_id"),
    "a blank event_id": (put("llm-thought", "t1", event_id=" "), "event_id is no text"),
    "an event_id twice in a turn": (same_event, BEFORE),
    "an event_id twice in two turns": (same_event_in_two_turns, BEFORE),
    "the turn's id is the event's": (put("streaming-response", "t1", event_id="t1"), "is the turn's own id"),
    "no conversation_ref": (put("streaming-response", "t1", conversation_ref=...), "no conversation_ref"),
    "null conversation_ref": (put("streaming-response", "t1", conversation_ref=None), "conversation_ref is no text"),
    "another conversation_ref": (put("streaming-response", "t1", conversation_ref="c9"), "is not that of turn t1"),
    "no turn_ref": (put("streaming-response", "t1", turn_ref=...), "no turn_ref"),
    "another turn_ref": (put("streaming-response", "t1", turn_ref="t2"), "id is not turn_ref"),
    "a fresh id for each event": (put("streaming-response", "t1", id="x"), "id is not turn_ref"),
    "a turn that nobody asked for": (drop("query", "t1"), "which nobody asked for"),
    "no user_id": (put("llm-thought", "t1", user_id=...), "no user_id"),
    "another user_id": (put("llm-thought", "t1", user_id="v"), "user_id changed"),
    "no session_id": (put("llm-thought", "t1", session_id=...), "no session_id"),
    "no timestamp": (put("llm-thought", "t1", timestamp=...), "no timestamp"),
    "a timestamp in seconds": (put("llm-thought", "t1", timestamp=1767225600), "timestamp is no text"),
    "a timestamp in words": (put("llm-thought", "t1", timestamp="today"), "timestamp is no moment"),
    "a key more in the envelope": (put("llm-thought", "t1", index=1), "key index is not in the contract"),
    "a key more in the payload": (load("llm-thought", "t1", text="x"), "payload.text: not in the contract"),
    "an unknown type": (put("llm-thought", "t1", type="thought"), "unknown type"),
    "thinking_tokens left out": (load("token-count", "t1", thinking_tokens=...), "thinking_tokens: not there"),
    "thinking tokens counted twice": (load("token-count", "t1", visible_output_tokens=50), "are not output_tokens"),
    "a wrong total": (load("token-count", "t1", total_tokens=201), "are not total_tokens"),
    "tokens below none": (load("token-count", "t1", conversation_tokens=-1), "no count"),
    "half a token": (load("token-count", "t1", prompt_tokens=1.5), "no count"),
    "an unknown usage_source": (load("token-count", "t1", usage_source="guess"), "is none of provider"),
    "token-count twice": (repeat("token-count", "t1"), "a second token-count"),
    "the prompt after the user's message": (swap("system-prompt", "user-message-full"), "system-prompt after"),
    "tool-schemas before the user's message": (swap("user-message-full", "tool-schemas"), "user-message-full after"),
    "the model before the tool-schemas": (swap("tool-schemas", "llm-thought"), "tool-schemas after llm-thought"),
    "query-accepted is second": (swap("query-accepted", "system-prompt"), "is not the turn's first event"),
    "query-accepted twice": (repeat("query-accepted", "t1"), "a second query-accepted"),
    "system-prompt twice": (repeat("system-prompt", "t1"), "a second system-prompt"),
    "no user-message-full": (drop("user-message-full", "t1"), "the turn had no user-message-full"),
    "metadata without the seed's flags": (load("user-message-full", "t1", metadata={}), "has_screenshot: not there"),
    "a tool-output before its tool-call": (move("tool-output", "t1", "tool-call", "t1"), "without a tool-call"),
    "a tool-output of another tool": (load("tool-output", "t1", tool_name="ls"), "without a tool-call"),
    "a tool-output of another request": (load("tool-output", "t1", request_id="r9"), "without a tool-call"),
    "a tool-output twice": (repeat("tool-output", "t1"), "without a tool-call"),
    "no tool-output of the server's tool": (drop("tool-output", "t1"), "had no tool-output"),
    "a client's result is shown again": (result_is_shown_twice, "it would show it twice"),
    "a tool-call without request_id": (load("tool-call", "t1", request_id=...), "request_id: not there"),
    "a request_id twice": (repeat("tool-call", "t1"), "request_id 'r1' was used before"),
    "the provider's id as request_id": (load("tool-call", "t1", request_id="call-r1"), "the provider's own id"),
    "a tool-call without tool_call_id": (load("tool-call", "t1", metadata={}), "tool_call_id: not there"),
    "a bundle_id twice": (two_bundles_of_one_name, "bundle_id 'b1' was used before"),
    "a bundle of none": (load("tool-bundle", "t1", tools=[]), "fewer than 1"),
    "schemas are flat": (load("tool-schemas", "t1", tool_schemas=[{"type": "function", "name": "x"}]), "function"),
    "a chunk after the end": (late("streaming-complete", "t1"), "after its streaming-complete"),
    "a chunk after the error": (late("error", "t2"), "after its error"),
    "two ends": (repeat("streaming-complete", "t1"), "after its streaming-complete"),
    "a thought after the error": (late("error", "t2", "llm-thought"), "after its error"),
    "no end": (drop("streaming-complete", "t1"), "turn t1 never ended"),
    "no end by error": (drop("error", "t2"), "turn t2 never ended"),
    "a chunk after the message": (move("assistant-message-full", "t1", "llm-thought", "t1"), "after assistant-message"),
    "the final text is another": (load("streaming-complete", "t1", final_response="Bye"), "is not what was streamed"),
    "the message is another": (load("assistant-message-full", "t1", content="Bye"), "is not what was streamed"),
    "a chunk is repeated": (repeat("streaming-response", "t1"), "is not what was streamed"),
    "an error without identity": (bare_error, "error: no event_id"),
    "an error without a message": (load("error", "t2", message=""), "blank"),
    "an error with a code": (load("error", "t2", code="LLM_ERROR"), "payload.code: not in the contract"),
    "a chunk after the ack": (late("stop-query-ack", "t3"), "after its stop was acknowledged"),
    "a stop completes its turn": (a_stop_completes, "no turn in its reach was open"),
    "two acks": (repeat("stop-query-ack"), "stop-query-ack: a second one"),
    "the catalog twice": (repeat("remote-tool-catalog"), "a second remote-tool-catalog"),
    "the catalog after an answer": (
        move("remote-tool-catalog", None, "llm-thought", "t1"),
        "before the startup events",
    ),
    "a model's event in a compaction": (
        put("llm-thought", "t3", id="compaction1", turn_ref="compaction1", conversation_ref="c1"),
        "which nobody asked for",
    ),
    "audio at another rate": (load("audio-chunk", sample_rate=16000), "not 22050"),
    "a cache hit that is none": (load("token-count", "t1", cache_status="miss", cache_hit=True), "cache_hit is not"),
    "more cached than sent": (load("token-count", "t1", cached_tokens=151), "more cached_tokens"),
    "no ack": (drop("stop-query-ack"), "has no stop-query-ack"),
    "the ack of nobody": (put("stop-query-ack", id="t3"), "which is no stop-query of ours"),
    "the ack takes a number": (put("stop-query-ack", sequence=7), "key sequence is not in the contract"),
    "the ack without turn_ref": (load("stop-query-ack", turn_ref=...), "turn_ref: not there"),
    "the ack of another conversation": (load("stop-query-ack", conversation_ref="c1"), "that was to stop"),
    "the ack contradicts itself": (load("stop-query-ack", canceled=False), "canceled is not what status says"),
    "nothing was stopped": (load("stop-query-ack", status="not-running", canceled=False), "turn t3 never ended"),
    "a turn begins within another": (
        move("query-accepted", "t2", "token-count", "t1"),
        "of the same conversation runs",
    ),
    "compaction in the query's turn": (put("context-compaction-started", id="t1", turn_ref="t1"), "of a query"),
    "compaction without a start": (drop("context-compaction-started"), "without context-compaction-started"),
    "compaction without an end": (drop("context-compaction-completed"), "turn compaction1 never ended"),
    "compaction ends twice": (repeat("context-compaction-completed"), "after its context-compaction-completed"),
    "skipped, yet shortened": (load("context-compaction-completed", skipped_reason="short"), "something was removed"),
    "no catalog": (drop("remote-tool-catalog"), "no remote-tool-catalog"),
    "the catalog has an id": (put("remote-tool-catalog", id="x"), "more than type and payload"),
    "the manifest after the catalog": (swap("client-tool-manifest", "remote-tool-catalog", None), "after remote-tool"),
    "audio takes a number": (put("audio-chunk", sequence=1), "key sequence is not in the contract"),
    "audio is no base64": (load("audio-chunk", audio="%"), "no base64"),
    "audio of half a sample": (load("audio-chunk", audio="AAAA"), "no PCM of 16 bits"),
    "audio before the greeting": (drop("wakeword-greeting"), "audio-chunk after wakeword-activated"),
    "a greeting of its own id": (put("wakeword-greeting", id="x"), "which is no wakeword-detected"),
    "settings of nobody": (put("settings-updated", id="x"), "which is no update-settings"),
    "models as a list": (put("models-listed", payload=[]), "no object"),
    "a key is shown": (settings_loaded("sk-1"), "a key is shown"),
}


def test_a_good_connection_has_no_fault() -> None:
    assert faults(whole()) == []


def test_good_settings_have_no_fault() -> None:
    lines: Lines = []
    settings_loaded("")(lines)
    assert faults(lines) == []


@pytest.mark.parametrize("name", MUTATIONS)
def test_is_found(name: str) -> None:
    """Each is found, for the reason that it is wrong."""
    mutate, what = MUTATIONS[name]
    lines = copy.deepcopy(whole())
    mutate(lines)
    found = faults(lines)
    assert any(what in each for each in found), found


def test_a_fault_names_its_frame() -> None:
    lines = copy.deepcopy(whole())
    place = of(lines, "llm-thought", "t1")
    lines[place].frame["payload"]["extra"] = 1
    assert faults(lines) == [f"{place}: llm-thought: payload.extra: not in the contract"]


def test_what_was_only_heard_is_judged_too() -> None:
    """Without the client's own frames nothing is said of who asked."""
    lines = [line for line in copy.deepcopy(whole()) if not line.ours]
    assert faults(lines) == []
    late("stop-query-ack", "t3")(lines)
    assert any("after its stop was acknowledged" in each for each in faults(lines))


def test_a_refused_query_is_answered_and_over() -> None:
    script = Script()
    script.ask("t1", text="")
    script.reply("error", "t1", message="Invalid message format: query.payload.text: blank")
    assert faults(script.lines) == []
    script.event("t1", "streaming-response", text="x")
    assert any("whose query was refused" in each for each in faults(script.lines))


def test_malformed_json_is_answered_without_an_id() -> None:
    script = Script()
    script.lines.append(heard({"id": None, "type": "error", "payload": {"message": "Malformed JSON"}}))
    assert faults(script.lines) == []


def test_turns_of_two_conversations_may_interleave() -> None:
    script = Script()
    script.begin("t1", "c1")
    script.begin("t2", "c2")
    for turn in ("t1", "t2"):
        script.speak(turn, "Hi")
    script.finish("t2", "Hi")
    script.finish("t1", "Hi")
    assert faults(script.lines) == []


def test_nothing_streamed_needs_a_final_response() -> None:
    script = Script()
    script.begin("t1")
    script.event("t1", "streaming-complete", final_response="The model gave no answer.")
    assert faults(script.lines) == []
    script.lines[-1].frame["payload"] = {}
    assert any("does not stand in for it" in each for each in faults(script.lines))


def test_audio_of_a_turn_may_follow_its_end_but_not_its_stop() -> None:
    script = Script()
    script.begin("t1")
    script.speak("t1", "Hi")
    script.finish("t1", "Hi")
    script.reply("audio-chunk", "t1", audio="AAA=", sample_rate=22050)
    assert faults(script.lines) == []
    lines = copy.deepcopy(whole())
    lines.append(heard({"id": "t3", "type": "audio-chunk", "payload": {"audio": "AAA=", "sample_rate": 22050}}))
    assert any("audio-chunk of turn t3 after its stop" in each for each in faults(lines))


def test_an_echo_with_its_request_comes_after_the_result() -> None:
    script = Script()
    script.begin("t1")
    script.call("t1", "r1", answered=False)
    echo = {"tool_name": "save_note", "success": True, "output": "saved", "request_id": "r1"}
    script.event("t1", "tool-output", **echo)
    script.event("t1", "error", message="x")
    assert [each.split(": ", 1)[1] for each in faults(script.lines)] == [
        "tool-output of 'save_note' before the client gave its result"
    ]


def test_a_bundle_is_not_echoed() -> None:
    script = Script()
    script.begin("t1")
    script.bundle("t1", "b1")
    script.event("t1", "tool-output", tool_name="save_note", success=True, output="saved")
    assert any("which the client ran in a bundle" in each for each in faults(script.lines))


def test_a_stop_of_what_had_ended_says_so() -> None:
    script = Script()
    script.begin("t1")
    script.speak("t1", "Hi")
    script.finish("t1", "Hi")
    script.say("stop-query", "s1", conversation_ref="c1", turn_ref="t1")
    ack = {"status": "not-running", "canceled": False, "conversation_ref": "c1", "turn_ref": "t1"}
    script.reply("stop-query-ack", "s1", **ack)
    assert faults(script.lines) == []
    script.lines[-1].frame["payload"] |= {"status": "stopped", "canceled": True}
    assert any("no turn in its reach was open" in each for each in faults(script.lines))


def test_a_stop_hits_queries_that_wait_and_none_that_come_later() -> None:
    script = Script()
    script.begin("t1")
    script.ask("t2")
    script.say("stop-query", "s1", conversation_ref="c1", turn_ref=None)
    script.ask("t3")
    ack = {"status": "stopped", "canceled": True, "conversation_ref": "c1", "turn_ref": None}
    script.reply("stop-query-ack", "s1", **ack)
    script.event("t3", "error", message="x")
    assert faults(script.lines) == []
    script.event("t2", "query-accepted", status="accepted")
    assert any("of turn t2 after its stop" in each for each in faults(script.lines))


def test_an_error_answers_what_was_sent() -> None:
    script = Script()
    script.reply("error", "x9", message="Invalid settings: model_mode")
    assert any("answers 'x9', which was not sent" in each for each in faults(script.lines))


def test_a_query_is_refused_once() -> None:
    script = Script()
    script.ask("t1", text="")
    for _ in range(2):
        script.reply("error", "t1", message="blank")
    assert any("a second one for the same query" in each for each in faults(script.lines))


def test_a_model_speaks_in_no_compaction() -> None:
    lines = copy.deepcopy(whole())
    place = of(lines, "context-compaction-completed")
    more = copy.deepcopy(frame(lines, "llm-thought", "t1"))
    more |= {"id": "compaction1", "turn_ref": "compaction1", "event_id": "x", "sequence": 2}
    lines.insert(place, heard(more))
    renumber(lines)
    assert any("has the turn_ref of a compaction" in each for each in faults(lines))


def test_a_compaction_starts_once_and_first() -> None:
    lines = copy.deepcopy(whole())
    repeat("context-compaction-started")(lines)
    assert any("is not its turn's first event" in each for each in faults(lines))


def test_the_ack_is_of_the_turn_that_was_to_stop() -> None:
    script = Script()
    script.begin("t1")
    script.say("stop-query", "s1", conversation_ref="c1", turn_ref="t1")
    ack = {"status": "stopped", "canceled": True, "conversation_ref": "c1", "turn_ref": "t2"}
    script.reply("stop-query-ack", "s1", **ack)
    assert any("not the turn_ref that was to stop" in each for each in faults(script.lines))


def test_message_and_final_response_are_the_same_where_nothing_was_streamed() -> None:
    script = Script()
    script.begin("t1")
    script.event("t1", "assistant-message-full", content="One.")
    script.event("t1", "streaming-complete", final_response="Two.")
    assert any("final_response is not assistant-message-full" in each for each in faults(script.lines))


@pytest.mark.parametrize("kind", sorted(payloads.ALL))
def test_every_type_has_a_closed_payload(kind: str) -> None:
    """A key of our own is a fault wherever the contract does not leave the payload open."""
    found = payloads.faults(kind, {"key_of_our_own": 1})
    assert kind == "trace-event" or "payload.key_of_our_own: not in the contract" in found


@st.composite
def connections(draw: st.DrawFn) -> Lines:
    """Good connections: up to five turns in two conversations, of any length, with any end, in any interleaving."""
    script = Script(manifest=draw(st.booleans()))
    waiting = [f"t{number}" for number in range(draw(st.integers(1, 5)))]
    running: dict[str, str] = {}
    texts: dict[str, str] = {}
    while waiting or running:
        free = [place for place in ("c1", "c2") if place not in running] if waiting else []
        place = draw(st.sampled_from(sorted({*free, *running})))
        if place in free:
            running[place] = waiting.pop(0)
            texts[running[place]] = ""
            script.begin(running[place], place)
            continue
        turn = running[place]
        step = draw(st.sampled_from(("end", "fail", "stop", "say", "say", "think", "call", "own", "bundle")))
        if step == "say":
            chunk = draw(st.text(min_size=1, max_size=4))
            texts[turn] += chunk
            script.event(turn, "streaming-response", text=chunk)
        elif step == "think":
            script.event(turn, "llm-thought", status="Hm")
        elif step == "call":
            script.call(turn, f"r{len(script.lines)}")
        elif step == "own":
            script.call(turn, f"r{len(script.lines)}", local=False)
            script.event(turn, "tool-output", tool_name="web_search", success=False, error="none")
        elif step == "bundle":
            script.bundle(turn, f"b{len(script.lines)}")
        elif step == "stop":
            script.say("stop-query", f"s{turn}", conversation_ref=place, turn_ref=turn)
            ack = {"status": "stopped", "canceled": True, "conversation_ref": place, "turn_ref": turn}
            script.reply("stop-query-ack", f"s{turn}", **ack)
        elif step == "fail":
            script.event(turn, "error", message="boom")
        else:
            script.finish(turn, texts[turn] if texts[turn].strip() else "No answer.")
        if step in ("stop", "fail", "end"):
            del running[place]
    return copy.deepcopy(script.lines)


def test_random_text_that_is_blank_is_told_in_full_otherwise() -> None:
    """What ``connections`` leans on: blank chunks count as nothing streamed."""
    script = Script()
    script.begin("t1")
    script.event("t1", "streaming-response", text=" ")
    script.finish("t1", "No answer.")
    assert faults(script.lines) == []


@settings(max_examples=60, deadline=None)
@given(connections())
def test_random_good_connections_have_no_fault(lines: Lines) -> None:
    assert faults(lines) == []


@settings(max_examples=150, deadline=None)
@given(connections(), st.data())
def test_random_damage_is_found(lines: Lines, data: st.DataObject) -> None:
    """One event lost, repeated, swapped with its neighbour of the turn, or robbed of a key, wherever it is."""
    events = [place for place, line in enumerate(lines) if "sequence" in line.frame]
    place = data.draw(st.sampled_from(events))
    mine = [each for each in events if lines[each].frame["turn_ref"] == lines[place].frame["turn_ref"]]
    damage = data.draw(st.sampled_from(("lose", "repeat", "swap", "key")))
    if damage == "lose" and place != mine[-1]:
        del lines[place]
    elif damage == "swap" and place != mine[-1]:
        other = mine[mine.index(place) + 1]
        lines[place], lines[other] = lines[other], lines[place]
    elif damage == "key":
        del lines[place].frame[data.draw(st.sampled_from(sorted(STREAM_KEYS - {"type", "payload"})))]
    else:
        lines.insert(place + 1, copy.deepcopy(lines[place]))
    assert faults(lines)


def test_the_hand_made_parts_are_what_the_contract_shows() -> None:
    for kind, payload in (
        ("remote-tool-catalog", CATALOG["payload"]),
        ("client-tool-manifest", MANIFEST["payload"]),
        ("token-count", TOKENS),
        ("user-message-full", {"content": "", "metadata": METADATA}),
    ):
        assert payloads.faults(kind, payload) == []
