"""The parts of a ``model_stream_chunk``, spelled as on the wire (seed: partType contract).

Each is its type, the part as the seed has it, and the part as its SDK would have said it (``rawPart``): the same fields
under the type in kebab case. All that comes from outside is sanitised in both, but a part's own text stays whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from dragoman.hub.events import Json, Problem, StepEnded, UsageReported

from .metadata import Metadata, metadata_of
from .sanitise import sanitise

Fields = dict[str, Any]
Spelled = tuple[str, Fields, Fields]
"""``partType``, ``part`` and ``rawPart``."""

CANCELLED = "The operation was aborted."
INTERRUPTED = "The turn was interrupted: the server stopped, or the session was closed."

_FINISHED = frozenset({"stop", "length", "content-filter", "tool-calls", "error", "other", "unknown"})
_STATUS = "completed"
"""What Responses says of a whole answer that ended: no reason, and the SDK has none for it."""

_ERRORS = {"no_such_tool": "AI_NoSuchToolError", "invalid_input": "AI_InvalidToolInputError"}
_PROVIDER_ERROR = "AI_APICallError"

_REQUEST = frozenset({"model", "stream", "store", "max_output_tokens", "max_tokens", "temperature", "top_p"})
"""What may be shown of a request: nothing that was said in it, and no header."""


def start() -> Spelled:
    """The turn's stream begins."""
    return "start", {}, {"type": "start"}


def abort(reason: str) -> Spelled:
    """It was broken off."""
    return _both("abort", {"reason": reason})


def error(problem: Problem) -> Spelled:
    """It failed. Never with a stack: its lines are the server's own paths."""
    return _both("error", {"error": {**error_of(problem), "code": problem.code}})


def error_of(problem: Problem) -> Fields:
    """A problem as a JavaScript error."""
    name = _PROVIDER_ERROR if problem.source == "provider" else _ERRORS.get(problem.code, "Error")
    return {"name": name, "message": problem.message}


def finish(ended: StepEnded | None, reports: Sequence[UsageReported]) -> Spelled:
    """The turn ended well, with this step the last; ``reports`` are those of its steps."""
    return _both("finish", {**_reasons(ended), "totalUsage": _usage(reports)})


def start_step(request: Json, warnings: Sequence[Json]) -> Spelled:
    """A model call was answered."""
    shown = _shown_request(request)
    return _both("start_step", {**({"request": shown} if shown else {}), "warnings": list(warnings)})


def finish_step(ended: StepEnded, report: UsageReported | None, provider: str) -> Spelled:
    """A model call ended well."""
    fields: Fields = {"response": _response(ended.response)}
    if report is not None:
        fields["usage"] = _usage([report])
    fields |= _reasons(ended)
    return _both("finish_step", _with(fields, metadata_of(provider, ended.provider_metadata)))


def text_edge(part_type: str, part: str, metadata: Metadata | None) -> Spelled:
    """A text, or a tool's input, opens or closes."""
    return _both(part_type, _with({"id": part}, metadata))


def reasoning_edge(part_type: str, part: str, mode: str, metadata: Metadata | None) -> Spelled:
    """A thought opens or closes."""
    fields = _with({"id": part}, metadata)
    _, shown, raw = _both(part_type, fields)
    return part_type, {"id": part, "mode": mode, **shown}, raw


def text_delta(part: str, text: str, metadata: Metadata | None) -> Spelled:
    """More of a text."""
    shown, raw = {"id": part, "text": text}, {"type": "text-delta", "id": part, "text": sanitise(text)}
    return "text_delta", _with(shown, metadata), _with(raw, metadata)


def reasoning_delta(part: str, mode: str, text: str, metadata: Metadata | None) -> Spelled:
    """More of a thought."""
    shown = {"id": part, "mode": mode, "text": text}
    raw = {"type": "reasoning-delta", "id": part, "text": sanitise(text)}
    return "reasoning_delta", _with(shown, metadata), _with(raw, metadata)


def tool_input_start(
    part: str, tool: str, *, dynamic: bool, by_provider: bool, title: str | None, metadata: Metadata | None
) -> Spelled:
    """A call's input begins."""
    fields: Fields = {"id": part, "toolName": tool}
    fields |= {"providerExecuted": True} if by_provider else {"dynamic": dynamic}
    if title is not None:
        fields["title"] = title
    return _both("tool_input_start", _with(fields, metadata))


def tool_input_delta(part: str, text: str, metadata: Metadata | None) -> Spelled:
    """More of a call's input, as the model writes it."""
    shown, raw = {"id": part, "delta": text}, {"type": "tool-input-delta", "id": part, "delta": sanitise(text)}
    return "tool_input_delta", _with(shown, metadata), _with(raw, metadata)


def tool_call(
    call: str,
    tool: str,
    given: Json,
    *,
    dynamic: bool,
    by_provider: bool,
    invalid: Problem | None,
    metadata: Metadata | None,
) -> Spelled:
    """A call is complete. ``invalid`` is why it cannot be run."""
    fields: Fields = {"toolCallId": call, "toolName": tool, "input": {} if given is None else given}
    if dynamic or invalid is not None:
        fields["dynamic"] = True
    if invalid is not None:
        fields |= {"invalid": True, "error": error_of(invalid)}
    return _both("tool_call", _with(fields, metadata), **_executed(by_provider))


def tool_result(
    call: str,
    tool: str,
    given: Json,
    output: Json,
    *,
    dynamic: bool,
    by_provider: bool,
    metadata: Metadata | None,
) -> Spelled:
    """A call has its result."""
    fields: Fields = {"toolCallId": call, "toolName": tool, "output": output}
    if not by_provider:
        fields["dynamic"] = dynamic
    return _both("tool_result", _with(fields, metadata), input=given, **_executed(by_provider))


def tool_error(
    call: str, tool: str, given: Json, wrong: Json, *, dynamic: bool, by_provider: bool, metadata: Metadata | None
) -> Spelled:
    """A call failed: with an error, or with words where it could not even be run."""
    fields: Fields = {"toolCallId": call, "toolName": tool, "error": wrong}
    if not by_provider:
        fields["dynamic"] = dynamic
    return _both("tool_error", _with(fields, metadata), input=given, **_executed(by_provider))


def tool_output_denied(call: str, tool: str, reason: str | None, metadata: Metadata | None) -> Spelled:
    """A call was not permitted."""
    fields: Fields = {"toolCallId": call, "toolName": tool}
    if reason is not None:
        fields["reason"] = reason
    return _both("tool_output_denied", _with(fields, metadata))


def tool_approval_request(approval: str, call: str, tool: str, given: Json) -> Spelled:
    """A call waits for permission. No fact becomes one: ``approval`` says it, and once is enough."""
    asked = {"toolCallId": call, "toolName": tool, "input": {} if given is None else given}
    return _both("tool_approval_request", {"approvalId": approval, "toolCall": {"type": "tool-call", **asked}})


def source(named: Json) -> Spelled:
    """The model named a source."""
    said = {name: value for name, value in named.items() if name != "type"} if isinstance(named, dict) else {}
    if "url" in said:
        said.setdefault("sourceType", "url")
    said = sanitise(said)
    return "source", {"source": said}, sanitise({**said, "type": "source"})


def file(made: Json) -> Spelled:
    """The model made a file."""
    return _both("file", {"file": made})


def raw(event: Json) -> Spelled:
    """An event of the provider's own."""
    shown = sanitise(event, 1)
    if shown is event:
        return "raw", {"raw": event}, {"type": "raw", "rawValue": event}
    return "raw", {"raw": sanitise(event)}, {"type": "raw", "rawValue": shown}


def unknown(sdk_type: str, event: Json) -> Spelled:
    """A part that has no type here."""
    whole = {**event, "type": sdk_type} if isinstance(event, dict) else {"type": sdk_type, "value": event}
    whole = sanitise(whole)
    return "unknown", {"sdkType": sdk_type, "raw": whole}, whole


def _both(part_type: str, fields: Fields, **more: Json) -> Spelled:
    """The part both ways; ``more`` is what only the SDK says. There every field lies one level deeper."""
    said = {**fields, **more}
    part = {name: sanitise(value) for name, value in fields.items()}
    raw_part = {name: sanitise(value, 1) for name, value in said.items()}
    return part_type, part, {"type": part_type.replace("_", "-"), **raw_part}


def _with(fields: Fields, metadata: Metadata | None) -> Fields:
    if metadata is not None:
        fields["providerMetadata"] = metadata
    return fields


def _executed(by_provider: bool) -> Fields:
    return {"providerExecuted": True} if by_provider else {}


def _reasons(ended: StepEnded | None) -> Fields:
    """Why the model stopped; the provider's own word where it has one."""
    if ended is None:
        return {"finishReason": "unknown"}
    reason = ended.finish_reason.replace("_", "-")
    said: Fields = {"finishReason": reason if reason in _FINISHED else "other"}
    if ended.raw_finish_reason not in (None, _STATUS):
        said["rawFinishReason"] = ended.raw_finish_reason
    return said


def _response(response: Json) -> Fields:
    """Which answer it was. Its headers are nobody's business."""
    given = response if isinstance(response, dict) else {}
    said = {"id": given.get("id"), "timestamp": _time(given.get("created_at")), "modelId": given.get("model")}
    return {name: value for name, value in said.items() if value is not None}


def _time(seconds: Json) -> str | None:
    """Seconds since 1970 as JavaScript writes a time."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        return None
    try:
        moment = datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, OSError, ValueError):
        return None
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _usage(reports: Sequence[UsageReported]) -> Fields:
    """Tokens in the SDK's words; those that nobody counted are left out."""
    given = _sum([report.input_tokens for report in reports])
    said = _sum([report.output_tokens for report in reports])
    cached = _sum([report.cached_tokens for report in reports])
    thought = _sum([report.reasoning_tokens for report in reports])
    usage: Fields = {
        "inputTokens": given,
        "inputTokenDetails": _known({"noCacheTokens": _less(given, cached), "cacheReadTokens": cached}),
        "outputTokens": said,
        "outputTokenDetails": _known({"textTokens": _less(said, thought), "reasoningTokens": thought}),
        "totalTokens": _sum([given, said]),
        "reasoningTokens": thought,
        "cachedInputTokens": cached,
    }
    return _known(usage)


def _sum(counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def _less(whole: int | None, part: int | None) -> int | None:
    return None if whole is None or part is None else max(0, whole - part)


def _known(fields: Fields) -> Fields:
    return {name: value for name, value in fields.items() if value is not None}


def _shown_request(request: Json) -> Fields | None:
    body = request.get("body", request) if isinstance(request, dict) else None
    if not isinstance(body, dict):
        return None
    shown = {name: value for name, value in body.items() if name in _REQUEST and not isinstance(value, dict | list)}
    return {"body": shown} if shown else None
