"""How what goes wrong is said: one code, one message, one HTTP status per code."""

from __future__ import annotations

from http import HTTPStatus

import msgspec

from dragoman.hub.errors import AlreadyResolved, Busy, Gone, HubError, InvalidRequest, LimitReached
from dragoman.hub.events import Answer

STATUS: dict[str, int] = {
    "invalid_request": 400,
    "invalid_size": 400,
    "unauthorized": 401,
    "not_permitted": 403,
    "unknown_session": 404,
    "unknown_turn": 404,
    "unknown_decision": 404,
    "unknown_call": 404,
    "unknown_checkpoint": 404,
    "unknown_skill": 404,
    "unknown_command": 404,
    "not_found": 404,
    "method_not_allowed": 405,
    "busy": 409,
    "closed": 409,
    "already_running": 409,
    "not_running": 409,
    "already_resolved": 409,
    "already_ended": 409,
    "conflicting_repeat": 409,
    "gone": 410,
    "too_large": 413,
    "unsupported": 422,
    "invalid_answer": 422,
    "checkpoint_failed": 422,
    "input_refused": 429,
    "limit_reached": 429,
    "internal": 500,
    "not_ready": 503,
    "storage_unavailable": 503,
}
"""Error code -> HTTP status. A code that is missing here is ``internal`` to a client."""

_HTTP_CODES = {401: "unauthorized", 404: "not_found", 405: "method_not_allowed", 413: "too_large"}

MESSAGE_CHARS = 500
"""Characters of an error message. What it quotes came from a client and may be long."""


class Problem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An error as clients see it. ``outcome`` (and the winner's ``answer``) comes with ``already_resolved``, ``turn``
    with ``busy``, ``floor`` (the lowest cursor that still works) with ``gone``, where it is known."""

    code: str
    message: str
    outcome: str | None = None
    answer: Answer | None = None
    turn: str | None = None
    floor: int | None = None


class ErrorBody(msgspec.Struct, frozen=True):
    """The body of every HTTP answer that is not a success."""

    error: Problem


class Unauthorized(HubError):
    """No valid token came with the request."""

    code = "unauthorized"

    def __init__(self) -> None:
        super().__init__("give the server's token: Authorization: Bearer TOKEN, or ?token=TOKEN")


class UnknownSkill(HubError):
    """The session's folder has no such skill."""

    code = "unknown_skill"

    def __init__(self, skill: str) -> None:
        super().__init__(f'Skill "{skill}" not found.')


class UnknownCommand(HubError):
    """The session's folder has no such slash command."""

    code = "unknown_command"

    def __init__(self, command: str) -> None:
        super().__init__(f"Unknown command: {command}")


class TooLarge(HubError):
    """A request body over its limit."""

    code = "too_large"


def problem_of(error: HubError) -> Problem:
    """What a client is told of a refusal."""
    code = error.code if error.code in STATUS else "internal"
    return Problem(
        code=code,
        message=_short(str(error)),
        outcome=error.outcome if isinstance(error, AlreadyResolved) else None,
        answer=error.answer if isinstance(error, AlreadyResolved) else None,
        turn=error.turn if isinstance(error, Busy) else None,
        floor=error.floor if isinstance(error, Gone) else None,
    )


def invalid(error: Exception) -> Problem:
    """What a client is told of a message that is not JSON, or has the wrong shape."""
    text = "the JSON is nested too deeply" if isinstance(error, RecursionError) else str(error)
    return Problem(code="invalid_request", message=_short(text))


INTERNAL = Problem(code="internal", message="the server failed here; its log says why")


def http_problem(status: int, detail: str) -> Problem:
    """A refusal of the HTTP layer itself in the same form."""
    return Problem(code=_HTTP_CODES.get(status, "invalid_request"), message=detail or HTTPStatus(status).phrase)


def status_of(problem: Problem) -> int:
    """The HTTP status that goes with a problem."""
    return STATUS[problem.code]


def check_json(value: object, depth: int) -> None:
    """Raise ``InvalidRequest`` for JSON nested over ``depth`` levels: what is taken in must be writable again."""
    level = [value]
    for _ in range(depth + 1):
        level = [inner for item in level for inner in _inside(item)]
        if not level:
            return
    raise InvalidRequest(f"the JSON is nested over {depth} levels deep (json_depth)")


def check_json_bytes(size: int, limit: int, name: str = "json_bytes") -> None:
    """Raise ``LimitReached`` for a message whose own JSON may be larger than the named limit."""
    if size > limit:
        raise LimitReached(f"a message with JSON of its own is limited to {limit} bytes ({name})")


def _inside(value: object) -> list[object]:
    if isinstance(value, dict):
        return list(value.values())
    if isinstance(value, list | tuple):
        return list(value)
    if isinstance(value, msgspec.Struct):
        return [getattr(value, name) for name in value.__struct_fields__]
    return []


def _short(text: str) -> str:
    return text if len(text) <= MESSAGE_CHARS else text[: MESSAGE_CHARS - 1] + "…"
