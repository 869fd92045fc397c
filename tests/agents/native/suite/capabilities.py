"""What an adapter or an API cannot say, or says otherwise than the reference: the written table of differences.

Each is a change of the reference's transcript into what its way gives. One that changes nothing in a whole run is to be
struck out: the table can only shrink. ``docs/native-providers.md`` is made of it: run this module to write it anew.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from .events import Line, is_empty_text
from .turns import Turn
from .ways import REFERENCE, RETRY_FIRST, WAYS, Way

Change = Callable[[list[list[Line]], Turn], None]
"""Changes the steps of a turn's transcript in place. The first one is what comes before any step."""

DOCUMENT = Path(__file__).parents[4] / "docs" / "native-providers.md"
HEAD, TAIL = "<!-- made by tests/agents/native/suite/capabilities.py -->", "<!-- end -->"


class Difference(msgspec.Struct, frozen=True):
    """One row: what is different, why, and the change."""

    name: str
    why: str
    change: Change


def expected(lines: Sequence[Line], turn: Turn, differences: Iterable[Difference]) -> tuple[list[Line], set[str]]:
    """What a way with these differences makes of the reference's transcript, and which of them did something."""
    steps = _steps(copy.deepcopy(list(lines)))
    used = set()
    for difference in differences:
        before = copy.deepcopy(steps)
        difference.change(steps, turn)
        if steps != before:
            used.add(difference.name)
    return [line for step in steps for line in step if not is_empty_text(line)], used


def _steps(lines: Iterable[Line]) -> list[list[Line]]:
    steps: list[list[Line]] = [[]]
    for line in lines:
        if line["what"] == "step":
            steps.append([])
        steps[-1].append(line)
    return steps


# Finding things


def _all(steps: Iterable[list[Line]], *whats: str) -> Iterable[Line]:
    return (line for step in steps for line in step if line["what"] in whats)


def _place(step: Sequence[Line], **fields: Any) -> int | None:
    """Where the first line with these fields is."""
    return next((at for at, line in enumerate(step) if fields.items() <= line.items()), None)


def _parts(step: Iterable[Line]) -> list[Line]:
    return [line for line in step if line["what"] in {"text", "reasoning", "tool_input"}]


def _drop_call(step: list[Line], call: str) -> None:
    """That it was made, and all that became of it; not its input."""
    step[:] = [line for line in step if line["what"] == "tool_input" or line.get("call") != call]


# Changes


def _no_raw(steps: list[list[Line]], turn: Turn) -> None:
    for step in steps:
        step[:] = [line for line in step if line["what"] != "raw"]


def _words(reasons: Mapping[str, str]) -> Change:
    def change(steps: list[list[Line]], turn: Turn) -> None:
        for line in _all(steps, "step-ended"):
            if line["problem"] is None:
                line["raw"] = reasons["stop" if turn.stops_with_calls else line["reason"]]

    return change


def _response(*fields: str) -> Change:
    def change(steps: list[list[Line]], turn: Turn) -> None:
        for line in _all(steps, "step-ended"):
            if line["problem"] is None:
                line["response"] = sorted(fields)

    return change


def _end_with_the_next_part(steps: list[list[Line]], turn: Turn) -> None:
    parts = _parts(steps[-1])
    if not turn.unfinished or not parts:
        return
    step, last = steps[-1], parts[-1]
    if last["what"] == "tool_input":
        _drop_call(step, last["call"])
        return
    role = "assistant" if last["what"] == "text" else "reasoning"
    place = _place(step, what="message", role=role, text=last["text"])
    if place is None:
        return
    if role == "assistant":
        step[place] |= {"kind": "partial", "signed": False}
    else:
        del step[place]


def _calls_at_the_end(steps: list[list[Line]], turn: Turn) -> None:
    if turn.unfinished:
        for part in _parts(steps[-1]):
            if part["what"] == "tool_input" and part["executor"] is None:
                _drop_call(steps[-1], part["call"])


def _texts_joined(steps: list[list[Line]], turn: Turn) -> None:
    for step in steps:
        at = 0
        while at + 1 < len(step):
            first, second = step[at], step[at + 1]
            if first["what"] != "text" or second["what"] != "text":
                at += 1
                continue
            place = _place(step, what="message", text=first["text"]) if first["text"] and second["text"] else None
            if place is not None:
                step[place]["text"] += second["text"]
                del step[place + 1]
            first["text"] += second["text"]
            del step[at + 1]


def _empty_text_after_thoughts(steps: list[list[Line]], turn: Turn) -> None:
    for step in steps:
        thoughts = [it["text"] for it in step if it["what"] == "message" and it["role"] == "reasoning"]
        for at in reversed(range(len(step))):
            if step[at]["what"] == "reasoning" and step[at]["text"] in thoughts:
                step.insert(at + 1, {"what": "text", "text": "", "ended": True})


def _arguments_whole(steps: list[list[Line]], turn: Turn) -> None:
    for step in steps:
        for line in [it for it in step if it["what"] == "tool_input" and it["executor"] is None]:
            place = _place(step, what="call", call=line["call"])
            if place is None:
                step.remove(line)
            else:
                line["text"] = msgspec.json.encode(step[place]["input"]).decode()


def _no_search(steps: list[list[Line]], turn: Turn) -> None:
    """The provider does not search, so our own tool is there."""
    for line in _all(steps, "context"):
        if line["part"] == "system_prompt":
            line["content"] = line["content"].replace("webFetch, ", "webFetch, webSearch, ")
        elif line["part"] == "tool_schemas":
            line["content"].insert(line["content"].index("webFetch") + 1, "webSearch")
    for step in steps:
        step[:] = [it for it in step if it.get("tool") != "webSearch" or not _by_provider(it, turn)]
    for line in _all(steps, "call", "result"):
        if line["tool"] == "webSearch":
            message = "webSearch disabled: set BRAVE_API_KEY or EXA_API_KEY"
            problem = {"code": "tool_failed", "message": message, "source": None, "detail": None}
            if line["what"] == "call":
                line.update(problem=None, flags=[])
            else:
                line["problem"] = _problem(line["problem"], problem)


def _problem(like: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
    """With the fields that its like has."""
    return {key: value for key, value in wanted.items() if key in like}


def _by_provider(line: Line, turn: Turn) -> bool:
    return turn.name == "provider-search" and line["what"] in {"tool_input", "call", "result"}


def _search(given: dict[str, Any], output: Any = None, *, text_first: bool = False) -> Change:
    """The provider's own words for what was searched, and what was found."""

    own: dict[str, dict[str, Any]] = {
        "tool_input": {"text": msgspec.json.encode(given).decode()},
        "call": {"input": given},
        "result": {} if output is None else {"output": output},
    }

    def change(steps: list[list[Line]], turn: Turn) -> None:
        for step in steps:
            if not any(_by_provider(line, turn) for line in step):
                continue
            for line in step:
                if _by_provider(line, turn):
                    line.update(own[line["what"]])
            if text_first:
                _put_text_first(step)

    return change


def _put_text_first(step: list[Line]) -> None:
    at, searched = _place(step, what="text"), _place(step, what="tool_input")
    assert at is not None
    assert searched is not None
    step.insert(searched, step.pop(at))
    result = _place(step, what="result")
    assert result is not None
    said = _place(step, what="message")
    assert said is not None
    step[said]["signed"] = True  # what the text was grounded on
    source = {"url": "https://one.test/", "title": "https://one.test/"}
    step.insert(result + 1, {"what": "part.source", "source": source})


def _signed(*, messages: bool | None = None, reasoning: bool | None = None, calls: bool | None = None) -> Change:
    """Whether something is kept with a part that the provider wants back."""

    def change(steps: list[list[Line]], turn: Turn) -> None:
        for line in _all(steps, "message", "call"):
            if line["what"] == "call":
                wanted = calls if line["executor"] != "provider" and "." not in line["call"] else None
            else:
                wanted = messages if line["role"] == "assistant" else reasoning
            if wanted is not None and line.get("kind") != "partial":
                line["signed"] = wanted

    return change


def _sub_calls_signed(steps: list[list[Line]], turn: Turn) -> None:
    for line in _all(steps, "call"):
        if "." in line["call"]:
            line["signed"] = True


def _text_signed_after_thoughts(steps: list[list[Line]], turn: Turn) -> None:
    for step in steps:
        for first, second in zip(parts := _parts(step), parts[1:], strict=False):
            if first["what"] == "reasoning" and second["what"] == "text":
                place = _place(step, what="message", role="assistant", text=second["text"])
                if place is not None and step[place]["kind"] is None:
                    step[place]["signed"] = True


def _lost_connection(steps: list[list[Line]], turn: Turn) -> None:
    for line in _all(steps, "log.written", "step-ended", "turn.ended"):
        holder, key = (line, "line") if "line" in line else (line.get("problem") or {}, "message")
        if key in holder:
            holder[key] = holder[key].replace("the connection to HOST broke", "the connection to PROVIDER failed")


def _failure_has_a_status(steps: list[list[Line]], turn: Turn) -> None:
    for detail in _details(steps):
        if "status" not in detail:
            error = detail.pop("error")
            detail |= {"status": 500, "error": error}


def _overloaded_is(status: int) -> Change:
    def change(steps: list[list[Line]], turn: Turn) -> None:
        for detail in _details(steps):
            if detail.get("status") == 503:
                detail["status"] = status

    return change


def _error_object(make: Callable[[dict[str, Any], int, Turn], dict[str, Any]]) -> Change:
    """The provider's own error object, which is shown as it came."""

    def change(steps: list[list[Line]], turn: Turn) -> None:
        for detail in _details(steps):
            detail["error"] = make(detail["error"], detail.get("status", 500), turn)

    return change


def _details(steps: Iterable[list[Line]]) -> Iterable[dict[str, Any]]:
    for line in _all(steps, "step-ended", "turn.ended"):
        detail = (line.get("problem") or {}).get("detail")
        if detail is not None:
            yield detail


def _chat_error(error: dict[str, Any], _status: int, _turn: Turn) -> dict[str, Any]:
    if "type" in error:
        return error
    return {"message": error["message"], "type": error["code"], "param": None, "code": None}


_ANTHROPIC_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    400: "invalid_request_error",
    429: "rate_limit_error",
    500: "api_error",
    529: "overloaded_error",
}


def _anthropic_error(error: dict[str, Any], status: int, _turn: Turn) -> dict[str, Any]:
    return {"type": _ANTHROPIC_TYPES[status], "message": error["message"]}


_GOOGLE_STATUSES = {
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    400: "INVALID_ARGUMENT",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
}


def _google_error(error: dict[str, Any], status: int, turn: Turn) -> dict[str, Any]:
    told: dict[str, Any] = {"code": status, "message": error["message"], "status": _GOOGLE_STATUSES[status]}
    if turn.name == "rate-limited-for-long":
        told["details"] = [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "3600s"}]
    return told


def _no_reasoning_tokens(steps: list[list[Line]], turn: Turn) -> None:
    for line in _all(steps, "usage"):
        if line["reasoning_tokens"]:
            line["reasoning_tokens"] = 0


def _usage_always_told(steps: list[list[Line]], turn: Turn) -> None:
    for line in _all(steps, "usage"):
        if line["estimated"]:
            line["estimated"] = False
            line.update(dict.fromkeys(("input_tokens", "output_tokens", "reasoning_tokens", "cached_tokens"), 0))


def fails(way: Way, turn: Turn) -> bool:
    """Whether a turn that the reference completes fails in this way."""
    return (way.api == "google" and turn.malformed) or (way.adapter == "pydantic-ai" and turn.refused)


def _malformed_fails(steps: list[list[Line]], turn: Turn) -> None:
    if not turn.malformed:
        return
    message = "google failed: MALFORMED_FUNCTION_CALL."
    problem = {
        "code": "provider_failed",
        "message": message,
        "source": "provider",
        "detail": {"error": {"finish_reason": "MALFORMED_FUNCTION_CALL"}},
    }
    tries = [
        {"what": "log.written", "line": f"model call failed ({message}); trying again in {delay} s", "level": "warning"}
        for delay in (RETRY_FIRST, 2 * RETRY_FIRST)
    ]
    ended = {"what": "step-ended", "reason": "error", "raw": None, "response": None, "problem": problem}
    over = {"what": "turn.ended", "outcome": "failed", "problem": problem}
    steps[1:] = [[steps[1][0], *tries, ended, over]]


def _refusal_fails(provider: str, word: str) -> Change:
    def change(steps: list[list[Line]], turn: Turn) -> None:
        if not turn.refused:
            return
        problem = {
            "code": "provider_invalid_request",
            "message": f"{provider} refused to answer: {word}.",
            "source": "provider",
            "detail": {"error": {"finish_reason": word}},
        }
        ended = {"what": "step-ended", "reason": "error", "raw": None, "response": None, "problem": problem}
        steps[1:] = [[steps[1][0], ended, {"what": "turn.ended", "outcome": "failed", "problem": problem}]]

    return change


# The table

_CHAT_WORDS = {it: it for it in ("stop", "length", "content_filter", "tool_calls")}
_CLAUDE_WORDS = {"stop": "end_turn", "length": "max_tokens", "content_filter": "refusal", "tool_calls": "tool_use"}
_GEMINI_WORDS = {"stop": "STOP", "length": "MAX_TOKENS", "content_filter": "SAFETY", "tool_calls": "STOP"}
_FOUND = ("https://one.test/", "https://two.test/")
_CLAUDE_FOUND = [
    {"encrypted_content": "eA==", "page_age": None, "title": url, "type": "web_search_result", "url": url}
    for url in _FOUND
]
_GEMINI_FOUND = [{"domain": None, "title": url, "uri": url} for url in _FOUND]

NO_RAW = Difference(
    "no raw parts", "The library does not show the provider's own events, so `raw_parts` gives nothing.", _no_raw
)
NEXT_PART = Difference(
    "a part ends with the next one",
    "That a part is complete is known only when another begins or the answer ends. So of an answer that is cut off, "
    "the last text counts as partial, the last thoughts are not kept, and the last call is not made.",
    _end_with_the_next_part,
)
CALLS_LAST = Difference(
    "calls are made at the end",
    "Arguments of several calls may come in turns, so none is complete before the answer is. No tool runs while the "
    "model still speaks, and an answer that is cut off makes no call.",
    _calls_at_the_end,
)
ONE_TEXT = Difference(
    "adjacent texts are one", "The API has no mark between two texts of one answer: they join.", _texts_joined
)
NO_SEARCH = Difference(
    "no search by the provider",
    "The API has no search of its own, so the model is offered our tool `webSearch` in its place.",
    _no_search,
)
CONNECTION = Difference(
    "a lost connection names the provider",
    "Who is connected to lies within the library: the message names the provider, not the host.",
    _lost_connection,
)
STATUS = Difference(
    "a failure within an answer has a status",
    "The library gives HTTP status 500 to a failure that was told within an answer that began well.",
    _failure_has_a_status,
)
RESPONSE = Difference(
    "less is told of the response",
    "The library keeps of it `id` and `model`, not when it was made.",
    _response("id", "model"),
)


def _words_of(reasons: Mapping[str, str]) -> Difference:
    told = ", ".join(f"`{reason}`" for reason in dict.fromkeys(reasons.values()))
    why = f"`raw_finish_reason` is the provider's own word: {told} in place of `completed`, or why it is incomplete."
    return Difference("other words for why it stopped", why, _words(reasons))


def _errors_of(make: Callable[[dict[str, Any], int, Turn], dict[str, Any]]) -> Difference:
    return Difference(
        "another error object", "`problem.detail.error` is the provider's own, as it came.", _error_object(make)
    )


def _search_of(change: Change) -> Difference:
    return Difference(
        "searches in the provider's own words",
        "Input and output of a tool that the provider runs are shown as it gives them.",
        change,
    )


def _keeps(why: str, change: Change) -> Difference:
    return Difference("other parts carry what the provider wants back", why, change)


def _refused_by(provider: str, word: str) -> Difference:
    why = "Where the provider's filter left nothing of an answer, the turn fails and says so; ours just ends."
    return Difference("an answer that was filtered whole is a failure", why, _refusal_fails(provider, word))


def _together(*changes: Change) -> Change:
    def change(steps: list[list[Line]], turn: Turn) -> None:
        for each in changes:
            each(steps, turn)

    return change


TABLE: Mapping[str, tuple[Difference, ...]] = {
    "ours, openai-responses": (),
    "ours, openai-chat": (
        NO_SEARCH,
        ONE_TEXT,
        NEXT_PART,
        CALLS_LAST,
        _words_of(_CHAT_WORDS),
        Difference(
            "the response is told in other fields",
            "The API says `created` where the other says `created_at`.",
            _response("created", "id", "model"),
        ),
        _errors_of(_chat_error),
    ),
    "pydantic-ai, openai-responses": (
        NO_RAW,
        _search_of(_search({"type": "search", "queries": ["dragoman"], "query": "dragoman"})),
        NEXT_PART,
        RESPONSE,
        CONNECTION,
        STATUS,
        _keeps(
            "The library wants the ids of texts and calls back, too.",
            _together(_signed(messages=True, calls=True), _sub_calls_signed),
        ),
        _refused_by("openai", "content_filter"),
    ),
    "pydantic-ai, openai-chat": (
        NO_RAW,
        NO_SEARCH,
        ONE_TEXT,
        NEXT_PART,
        CALLS_LAST,
        _words_of(_CHAT_WORDS),
        RESPONSE,
        CONNECTION,
        STATUS,
        _errors_of(_chat_error),
        _refused_by("openai", "content_filter"),
    ),
    "pydantic-ai, anthropic": (
        NO_RAW,
        _search_of(_search({"query": "dragoman"}, _CLAUDE_FOUND)),
        NEXT_PART,
        _words_of(_CLAUDE_WORDS),
        RESPONSE,
        CONNECTION,
        STATUS,
        Difference("overload has status 529", "The API's own status for it; others say 503.", _overloaded_is(529)),
        _errors_of(_anthropic_error),
        Difference(
            "thinking is not counted", "The API does not say how many tokens went into thoughts.", _no_reasoning_tokens
        ),
        Difference(
            "tokens are always told", "Usage is part of every answer, so it is never our estimate.", _usage_always_told
        ),
        _refused_by("anthropic", "refusal"),
    ),
    "pydantic-ai, google": (
        NO_RAW,
        _search_of(_search({"queries": ["dragoman"]}, _GEMINI_FOUND, text_first=True)),
        Difference(
            "arguments arrive whole",
            "The API gives arguments as an object, in one piece: nothing is shown of them before they are complete. "
            "What is shown is that object as JSON, spaces gone, and `{}` where there was nothing.",
            _arguments_whole,
        ),
        Difference(
            "an empty text after thoughts",
            "The signature of thoughts comes with a text of its own, which may stay empty.",
            _empty_text_after_thoughts,
        ),
        ONE_TEXT,
        NEXT_PART,
        _words_of(_GEMINI_WORDS),
        RESPONSE,
        CONNECTION,
        STATUS,
        _errors_of(_google_error),
        _keeps(
            "Signatures hang on calls, and on the text after thoughts, not on the thoughts.",
            _together(_signed(reasoning=False, calls=True), _sub_calls_signed, _text_signed_after_thoughts),
        ),
        Difference(
            "arguments are an object, or the answer fails",
            "Where others hand on whatever the model wrote, and the model is told of it, the API ends the answer with "
            "`MALFORMED_FUNCTION_CALL`. It is tried again; then the turn fails.",
            _malformed_fails,
        ),
        _refused_by("google", "SAFETY"),
    ),
}
"""By way, in the order in which they are applied. What the reference itself cannot do is not in it."""


def rows() -> list[str]:
    """The table as Markdown, one row for each difference of each way."""
    lines = ["| adapter | API | what is different | why |", "|---|---|---|---|"]
    for way in WAYS:
        lines += [_row(way, difference) for difference in TABLE[way.name]]
    return lines


def _row(way: Way, difference: Difference) -> str:
    return f"| {way.adapter} | {way.api} | {difference.name} | {difference.why} |"


def written(document: str) -> str:
    """The document with the table as it is now."""
    before, _, rest = document.partition(HEAD)
    _, _, after = rest.partition(TAIL)
    return "\n".join([f"{before}{HEAD}", "", *rows(), "", f"{TAIL}{after}"])


assert set(TABLE) == {way.name for way in WAYS}
assert not TABLE[REFERENCE.name]

if __name__ == "__main__":
    DOCUMENT.write_text(written(DOCUMENT.read_text()))
