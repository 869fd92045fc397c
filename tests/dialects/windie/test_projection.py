"""A conversation's log as stream events: what each fact becomes, and that numbers hold whatever the log says."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings

from dragoman.dialects.windie.messages import StreamPayload, Turn, encode_event
from dragoman.dialects.windie.projection import (
    CANCELLED,
    INTERRUPTED,
    NO_ANSWER,
    WITHDRAWN,
    Projection,
    Said,
    beginning,
    request_id,
)
from dragoman.hub.events import (
    AnyFact,
    Attachment,
    Compacted,
    ContextReported,
    DecisionOpened,
    Event,
    MessageAdded,
    Option,
    PartDelta,
    Problem,
    PromptSubmitted,
    PromptWithdrawn,
    ToolCalled,
    ToolEnded,
    ToolProgressed,
    TurnEnded,
    TurnStarted,
    UsageReported,
)
from dragoman.hub.permissions import LOCAL
from dragoman.hub.state import SessionState
from dragoman.hub.tool_offers import ToolOffer
from tests.agents.native.native_rig import Recording, native_hub, script, settled
from tests.hub.facts import logs
from tests.hub.rig import until

from .judges.sequence import faults, heard

QUERY = PromptSubmitted(prompt="p", text="hello", by="u", via="windie", client_message_id="turn_1", client="link")
STARTED = TurnStarted(turn="t", prompt="p")
TOKENS = (
    *("prompt_tokens", "visible_output_tokens", "thinking_tokens", "output_tokens_total"),
    *("total_tokens", "conversation_tokens"),
)
WINDOW = "<system_context><active_window>Terminal</active_window></system_context>"
MEMORY = "<episodic_memory>\nNone\n</episodic_memory>\n\n<semantic_memory>\nlikes tea\n</semantic_memory>"
DONE = TurnEnded(turn="t", outcome="completed", result="Hi.")


def plain(payload: object) -> Any:
    """As it is on the wire."""
    return msgspec.json.decode(msgspec.json.encode(payload))


def project(*facts: AnyFact) -> list[Said]:
    projection = Projection("s")
    return [said for seq, fact in enumerate(facts, 1) for said in projection.take(Event(seq, seq, "e", fact))]


def told(*facts: AnyFact) -> list[tuple[str, dict[str, Any]]]:
    """Type and payload of each event of one turn, whose numbers are held to be dense."""
    said = project(QUERY, STARTED, *facts)
    assert [each.sequence for each in said] == list(range(1, len(said) + 1))
    assert {each.turn_ref for each in said} == {"turn_1"}
    return [(each.payload.TYPE, plain(each.payload)) for each in said]


def types(*facts: AnyFact) -> list[str]:
    return [name for name, _ in told(*facts)]


def delta(text: str, kind: Any = "text") -> PartDelta:
    return PartDelta(turn="t", part=kind, kind=kind, text=text)


def message(text: str, role: Any = "assistant") -> MessageAdded:
    return MessageAdded(message="m", role=role, text=text, turn="t")


def usage(name: str = "m", **more: Any) -> UsageReported:
    return UsageReported(message=name, turn="t", **more)


def call(name: str = "c", **more: Any) -> ToolCalled:
    return ToolCalled(**{"call": name, "tool": "bash", "input": {"command": "ls"}, "turn": "t", **more})


# A turn


def test_a_turn_in_order() -> None:
    tool = {"name": "webSearch", "description": "d", "schema": {"type": "object"}}
    assert types(
        ContextReported(part="system_prompt", content="SP", turn="t"),
        ContextReported(part="user_message", content="hello", turn="t"),
        ContextReported(part="tool_schemas", content=[tool], turn="t"),
        delta("mm", "reasoning"),
        delta("Hi."),
        message("mm", "reasoning"),
        message("Hi."),
        usage(input_tokens=1, output_tokens=1),
        DONE,
    ) == [
        "query-accepted",
        "system-prompt",
        "user-message-full",
        "tool-schemas",
        "llm-thought",
        "streaming-response",
        "assistant-message-full",
        "token-count",
        "streaming-complete",
    ]


def test_tools_are_told_nested_and_by_the_contracts_names() -> None:
    tool = {"name": "webSearch", "description": "d", "schema": {"type": "object"}}
    (_, payload) = told(ContextReported(part="tool_schemas", content=[tool], turn="t"))[1]
    assert payload == {
        "tool_schemas": [
            {
                "type": "function",
                "function": {"name": "web_search", "description": "d", "parameters": {"type": "object"}},
            }
        ]
    }


@pytest.mark.parametrize("before", [(), (delta("hi"),), (call(),), (message("hi"),)], ids=lambda facts: str(len(facts)))
def test_what_the_model_is_given_is_told_once_and_before_what_it_does(before: tuple[AnyFact, ...]) -> None:
    first, second = (
        [ContextReported(turn="t", part=part, content=content) for part in ("system_prompt", "tool_schemas")]
        for content in ([], [])
    )
    names = types(*first, *before, *second)
    assert [names.count(name) for name in ("system-prompt", "tool-schemas")] == [1, 1]
    late = types(*before, *second) if before else []
    assert not {"system-prompt", "tool-schemas"} & set(late)


@pytest.mark.parametrize("turns", [0, 1, 2])
@pytest.mark.parametrize("waiting", [0, 1, 3])
def test_who_begins_later_is_told_the_open_turn_whole_and_alike(turns: int, waiting: int) -> None:
    def submitted(name: str) -> PromptSubmitted:
        return PromptSubmitted(prompt=name, text="q", by="u", via="windie", client_message_id=f"turn_{name}")

    facts: list[AnyFact] = []
    for number in range(turns + 1):
        name = str(number)
        facts += [submitted(name), TurnStarted(turn=name, prompt=name)]
        facts.append(PartDelta(turn=name, part="1", kind="text", text="hi"))
        if number < turns:
            facts.append(TurnEnded(turn=name, outcome="completed", duration_ms=1))
    facts += [submitted(f"w{number}") for number in range(waiting)]
    events = [Event(seq, seq, "e", fact) for seq, fact in enumerate(facts, 1)]
    state, whole = SessionState(session="s"), Projection("s")
    said = []
    for event in events:
        state.apply(event)
        said += [(event.seq, each) for each in whole.take(event)]
    after, late = beginning(state)
    heard = [each for event in events[after:] for each in late.take(event)]
    assert heard == [each for seq, each in said if seq > after]
    assert [each.sequence for each in heard] == [1, 2, 3]
    assert all(each.turn_ref == f"turn_{turns}" for each in heard)


def test_what_no_agent_reports_is_told_before_its_first_word() -> None:
    assert types(delta("Hi."), message("Hi."), DONE)[:3] == [
        "query-accepted",
        "user-message-full",
        "streaming-response",
    ]


@pytest.mark.parametrize(
    ("facts", "result", "texts", "final"),
    [
        ([delta("H"), delta("i."), message("Hi.")], "Hi.", ["H", "i."], "Hi."),
        ([message("Hi.")], "Hi.", ["Hi."], "Hi."),
        ([], "Hi.", ["Hi."], "Hi."),
        ([], None, [NO_ANSWER], NO_ANSWER),
        (
            [delta("One."), message("One."), delta("T"), delta("wo."), message("Two.")],
            "Two.",
            ["One.", "\n\nT", "wo."],
            "One.\n\nTwo.",
        ),
        ([message("One."), message("Two.")], None, ["One.", "\n\nTwo."], "One.\n\nTwo."),
    ],
    ids=["deltas", "whole", "only a result", "nothing", "two texts", "two whole texts"],
)
def test_all_text_is_streamed_once_and_told_whole_at_the_end(
    facts: list[AnyFact], result: str | None, texts: list[str], final: str
) -> None:
    said = told(*facts, TurnEnded(turn="t", outcome="completed", result=result))
    assert "".join(texts) == final
    assert [payload["text"] for name, payload in said if name == "streaming-response"] == texts
    assert said[-2] == ("assistant-message-full", {"content": "".join(texts)})
    assert said[-1] == ("streaming-complete", {"final_response": final})


@pytest.mark.parametrize(
    ("ended", "why"),
    [
        (TurnEnded(turn="t", outcome="cancelled"), CANCELLED),
        (TurnEnded(turn="t", outcome="interrupted"), INTERRUPTED),
        (TurnEnded(turn="t", outcome="failed", problem=Problem(code="x", message="no key")), "no key"),
        (TurnEnded(turn="t", outcome="failed"), "The query failed."),
    ],
    ids=["cancelled", "interrupted", "failed", "failed without a reason"],
)
def test_a_turn_that_ends_otherwise_ends_in_one_error(ended: TurnEnded, why: str) -> None:
    assert told(delta("Hi"), message("Hi"), usage(input_tokens=1), ended)[-1] == ("error", {"message": why})


def test_nothing_of_a_turn_follows_its_end() -> None:
    assert types(DONE, delta("late"), message("late"), usage(input_tokens=1), call())[-1] == "streaming-complete"


def test_a_query_that_is_taken_back_is_told_by_its_id() -> None:
    (said,) = project(QUERY, PromptWithdrawn(prompt="p", reason="withdrawn"))
    assert (said.turn_ref, said.sequence, said.payload) == ("turn_1", 1, type(said.payload)(message=WITHDRAWN))


def test_a_turn_of_another_dialect_has_its_own_name() -> None:
    other = msgspec.structs.replace(QUERY, via="hub")
    assert {said.turn_ref for said in project(other, STARTED, DONE)} == {"t"}


# The query as the model has it


@pytest.mark.parametrize(
    ("content", "detail", "attachments", "expected"),
    [
        ("hello", {}, (), {}),
        (
            f"{WINDOW}\n<user_query>open file</user_query>",
            {},
            (),
            {
                "injected_context": WINDOW,
                "active_window": "Terminal",
            },
        ),
        (
            f"{MEMORY}\n\n<user_query>\nhi\n</user_query>",
            {},
            (),
            {
                "injected_context": MEMORY,
                "has_memory": True,
            },
        ),
        ("<episodic_memory>\nNone\n</episodic_memory>", {}, (), {}),
        ("hi", {"system_state_internal": {"active_window": "Mail"}}, (), {"active_window": "Mail"}),
        ("hi", {"system_state_internal": {"active_window": 5}}, (), {}),
        ("hi", {}, (Attachment(artifact="a", name="shot", kind="image"),), {"has_screenshot": True}),
        ("hi", {}, (Attachment(artifact="a", name="text", kind="file"),), {}),
    ],
    ids=["plain", "context", "memory", "no memory", "state", "odd state", "screenshot", "file"],
)
def test_what_is_told_beside_a_query(
    content: str, detail: dict[str, Any], attachments: tuple[Attachment, ...], expected: dict[str, Any]
) -> None:
    query = msgspec.structs.replace(QUERY, content=content, detail=detail, attachments=attachments)
    reported = ContextReported(part="user_message", content=content, turn="t")
    payload = plain(project(query, STARTED, reported)[1].payload)
    usual = {
        "original_query": "hello",
        "context_type": "initial",
        "injected_context": "",
        "active_window": "Unknown",
        "has_screenshot": False,
        "has_memory": False,
    }
    assert payload == {"content": content, "metadata": {**usual, **expected}}


def test_later_queries_are_no_beginnings() -> None:
    again = msgspec.structs.replace(QUERY, prompt="q", client_message_id="turn_2")
    said = project(QUERY, STARTED, DONE, again, TurnStarted(turn="u", prompt="q"), delta("x"))
    contexts = [each.payload.metadata.context_type for each in said if each.payload.TYPE == "user-message-full"]  # type: ignore[attr-defined]
    assert contexts == ["initial", "follow_up"]


# Tools


def test_a_clients_call_is_run_by_its_link_and_shown_to_others() -> None:
    said = project(QUERY, STARTED, call(executor="client", client="link"))[-1]
    ours, theirs = plain(said.shown_to("link")), plain(said.shown_to("other"))
    assert ours == {
        "tool_name": "bash",
        "parameters": {"command": "ls"},
        "request_id": request_id("s", 3),
        "metadata": {"tool_call_id": "c"},
    }
    assert theirs == {**ours, "metadata": {"tool_call_id": "c", "skip_local_execution": True}}


def test_a_bundle_is_one_message_and_other_links_run_none_of_it() -> None:
    def step(position: int) -> ToolCalled:
        name = f"c{position}"
        return call(
            name, input={"n": position}, executor="client", client="link", bundle="b", bundle_size=2, position=position
        )

    said = project(QUERY, STARTED, step(1), step(0))
    assert [each.payload.TYPE for each in said] == ["query-accepted", "user-message-full", "tool-bundle"]
    steps = [{"name": "bash", "args": {"n": 0}}, {"name": "bash", "args": {"n": 1}}]
    assert plain(said[-1].shown_to("link")) == {"bundle_id": "b", "tools": steps}
    elsewhere = plain(said[-1].shown_to("other"))
    assert said[-1].shown_to("other").TYPE == "tool-call"
    assert elsewhere["metadata"]["skip_local_execution"] is True
    assert elsewhere["parameters"] == {"tools": steps}
    assert elsewhere["metadata"]["tool_call_id"] != elsewhere["request_id"]


def test_what_a_client_ran_is_not_told_again() -> None:
    assert (
        types(
            call(executor="client", client="link"), ToolEnded(call="c", tool="bash", status="ok", output="x", turn="t")
        )[-1]
        == "tool-call"
    )


def test_a_call_that_no_client_was_given_is_not_told() -> None:
    failed = ToolEnded(
        call="c", tool="bash", status="error", problem=Problem(code="client_gone", message="x"), turn="t"
    )
    assert types(call(executor="client"), failed) == ["query-accepted"]


@pytest.mark.parametrize(
    ("ended", "expected"),
    [
        (
            {"status": "ok", "output": "x", "duration_ms": 420},
            {"success": True, "execution_time": 0.42, "output": "x", "error": None},
        ),
        ({"status": "ok", "output": None}, {"success": True, "output": None, "error": None}),
        (
            {"status": "error", "problem": Problem(code="x", message="broke")},
            {"success": False, "output": None, "error": "broke"},
        ),
        ({"status": "denied", "output": "no"}, {"success": False, "output": "no", "error": "no"}),
        (
            {"status": "ok", "output": {"a": 1}, "artifacts": ("f" * 64,), "detail": {"k": 1}},
            {"success": True, "output": {"a": 1}, "error": None, "screenshot_ref": "f" * 64, "metadata": {"k": 1}},
        ),
    ],
    ids=["ok", "null", "error", "denied", "picture"],
)
@pytest.mark.parametrize("executor", ["server", "provider", "agent"])
def test_the_servers_own_tools_are_shown_with_their_output(
    executor: Any, ended: dict[str, Any], expected: dict[str, Any]
) -> None:
    said = told(
        call(tool="webSearch", executor=executor, input=None), ToolEnded(call="c", tool="webSearch", turn="t", **ended)
    )
    assert said[-2][1] == {
        "tool_name": "web_search",
        "parameters": {},
        "request_id": request_id("s", 3),
        "metadata": {"tool_call_id": "c", "skip_local_execution": True, "execution_owner": "backend"},
    }
    assert said[-1] == ("tool-output", {"tool_name": "web_search", **expected})


def test_how_a_search_goes_is_told_and_how_others_go_is_not() -> None:
    search = [call(tool="webSearch"), ToolProgressed(call="c", output="looking", turn="t")]
    assert told(*search)[-1] == ("web-search-progress", {"text": "looking", "request_id": request_id("s", 3)})
    assert types(call(), ToolProgressed(call="c", output="10 %", turn="t"))[-1] == "tool-call"


# The rest


def test_a_question_says_where_it_can_be_answered() -> None:
    asked = DecisionOpened(
        decision="d", kind="permission", text="rm -r x", options=(Option(label="Yes"), Option(label="No")), turn="t"
    )
    (name, payload) = told(asked)[-1]
    assert name == "streaming-response"
    for part in ("rm -r x", "1) Yes; 2) No", "dragoman chat --session s"):
        assert part in payload["text"]


@pytest.mark.parametrize(
    ("reports", "counts", "source", "cache"),
    [
        (
            [usage("a", input_tokens=150, output_tokens=50, reasoning_tokens=12, conversation_tokens=3200)],
            (150, 38, 12, 50, 200, 3200),
            "provider",
            {},
        ),
        (
            [usage("a", input_tokens=1, output_tokens=1), usage("a", input_tokens=2, output_tokens=3)],
            (2, 3, None, 3, 5, 5),
            "provider",
            {},
        ),
        (
            [usage("a", input_tokens=2, output_tokens=3), usage("b", input_tokens=4, output_tokens=5, estimated=True)],
            (6, 8, None, 8, 14, 14),
            "estimated",
            {},
        ),
        ([usage("a", input_tokens=2)], (2, 0, None, 0, 2, 2), "estimated", {}),
        (
            [
                usage("a", input_tokens=2, output_tokens=1, cached_tokens=0),
                usage("b", input_tokens=2, output_tokens=1, cached_tokens=2),
            ],
            (4, 2, None, 2, 6, 6),
            "provider",
            {"cached_tokens": 2, "cache_hit": True, "cache_status": "hit"},
        ),
    ],
    ids=["provider's", "the last of a message counts", "an estimate", "a part unknown", "cache"],
)
def test_the_tokens_of_a_turn(
    reports: list[AnyFact], counts: tuple[int | None, ...], source: str, cache: dict[str, Any]
) -> None:
    (name, payload) = told(*reports, DONE)[-2]
    assert name == "token-count"
    assert payload == {**dict(zip(TOKENS, counts, strict=True)), "usage_source": source, **cache}


def test_where_nobody_counted_nothing_is_counted() -> None:
    assert "token-count" not in types(DONE)


def test_a_shortening_has_its_own_name_and_numbers_inside_a_turn_too() -> None:
    begun = Compacted(compaction="k", phase="started", reason="threshold", strategy="summary", tokens_before=9)
    done = Compacted(
        compaction="k", phase="done", reason="threshold", strategy="summary", tokens_before=9, tokens_after=4,
        messages_before=7, messages_after=2, summary="S", turn="t",
    )  # fmt: skip
    said = project(QUERY, STARTED, begun, delta("x"), done)
    shortened = [(each.sequence, each.payload.TYPE) for each in said if each.turn_ref == "k"]
    assert shortened == [(1, "context-compaction-started"), (2, "context-compaction-completed")]
    assert [each.sequence for each in said if each.turn_ref == "turn_1"] == [1, 2, 3]
    assert plain(said[-1].payload)["removed_messages"] == 5


@settings(max_examples=300, deadline=None)
@given(logs())
def test_numbers_are_dense_and_everything_can_be_said_whatever_the_log_is(log: list[Event]) -> None:
    """Twice the same log gives twice the same, and each event of it can be encoded for any link."""
    projection, again = Projection("s"), Projection("s")
    counts: dict[str, int] = defaultdict(int)
    over: set[str] = set()
    for event in log:
        said = list(projection.take(event))
        assert said == list(again.take(event))
        for each in said:
            counts[each.turn_ref] += 1
            assert each.sequence == counts[each.turn_ref]
            assert each.turn_ref not in over
            if each.payload.TYPE in ("streaming-complete", "error"):
                over.add(each.turn_ref)
            for link in ("link", "other"):
                payload = each.shown_to(link)
                assert isinstance(payload, StreamPayload)
                turn = Turn(user_id="u", session_id="s", conversation_ref="c", turn_ref=each.turn_ref)
                frame = msgspec.json.decode(encode_event(turn, payload, timestamp="", sequence=each.sequence))
                assert frame["payload"] == plain(payload)


async def test_a_real_turn_with_a_clients_tool_and_one_of_ours(tmp_path: Path) -> None:
    async with native_hub(tmp_path, provider=Recording()) as hub:
        session = await hub.session(mode="all")
        await session.declare_tools(LOCAL, "link", [ToolOffer(name="save_note")])
        task = script('think well\ncall save_note {"text": "x"}', 'call glob {"pattern": "*"}', "say done")
        await hub.submit(session, task, client="link")
        await until(lambda: session.shown.calls)
        (open_call,) = session.shown.calls
        await session.end_tool(LOCAL, open_call, link="link", output="saved")
        await settled(session)
        projection = Projection(session.id)
        said = [each for event in await session.read(0) for each in projection.take(event)]
    turn = Turn(user_id="u", session_id=session.id, conversation_ref="c", turn_ref=said[0].turn_ref)
    frames = [
        encode_event(turn, each.shown_to("link"), timestamp="2026-01-01T00:00:00Z", sequence=each.sequence)
        for each in said
    ]
    assert faults([heard(msgspec.json.decode(frame)) for frame in frames], opened=False) == []
    assert [each.sequence for each in said] == list(range(1, len(said) + 1))
    names = [each.payload.TYPE for each in said]
    assert names[:4] == ["query-accepted", "system-prompt", "user-message-full", "tool-schemas"]
    assert names[-3:] == ["assistant-message-full", "token-count", "streaming-complete"]
    assert [name for name in names if name.startswith("tool-")] == [
        "tool-schemas",
        "tool-call",
        "tool-call",
        "tool-output",
    ]


def test_who_joins_while_a_context_is_shortened_is_not_told_an_end_without_a_start() -> None:
    def shortened(phase: str) -> Compacted:
        return Compacted(compaction="k", phase=phase, reason="manual")  # type: ignore[arg-type]

    state = SessionState(session="s")
    state.apply(Event(1, 1, "e", shortened("started")))
    after, late = beginning(state)
    assert (after, list(late.take(Event(2, 2, "e", shortened("completed"))))) == (1, [])
    state.apply(Event(2, 2, "e", shortened("completed")))
    after, late = beginning(state)
    again = Compacted(compaction="l", phase="started", reason="manual")
    assert [each.sequence for each in late.take(Event(3, 3, "e", again))] == [1]
