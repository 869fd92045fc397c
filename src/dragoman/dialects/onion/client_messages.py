"""What a client may say in ConnectOnion's protocol, typed (seed: Client -> Server; spec §6).

What is read here is only whether a message is one, and the fields that it must have; what it carries beside (a session,
files, what is signed) stays the bytes it came as, until its turn comes to be checked.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import TypeVar

import msgspec
from msgspec import Raw

from dragoman.hub.errors import NOT_JSON
from dragoman.services.trust import Signed

LONGEST_ID = 256
"""Characters of an id that a client makes up: a session's, an input's, that of what it answers."""

RECEIVED = 200
"""Characters of what was no JSON that its ERROR repeats."""

EXPLAINED = 64 * 1024
"""Characters of a message up to which the original's own parser says what is wrong with it: that one makes objects of
all that is right."""

REJECTIONS = ("reject_hard", "reject_soft", "reject_explain")
"""How a person may say no to a tool; the first is meant where none is named (spec §9)."""

T = TypeVar("T")


class ProtocolProblem(Exception):
    """A message that is none. The text is for ERROR; ``received`` is what could not be read as JSON."""

    def __init__(self, message: str, received: str | None = None) -> None:
        super().__init__(message)
        self.received = received


class ClientMessage(msgspec.Struct, frozen=True):
    """What all have in common: nothing."""


class Connect(ClientMessage, frozen=True, kw_only=True):
    """Who it is, which session, what it remembers of it. ``session`` is a claim (``merging``)."""

    session_id: str | None
    last_msg_id: str | None
    session: Raw
    signed: Signed


class Input(ClientMessage, frozen=True, kw_only=True):
    """A prompt. ``input_id`` makes a repeat the same one."""

    prompt: str
    images: Raw
    files: Raw
    session: Raw
    input_id: str | None
    signed: Signed


class Pong(ClientMessage, frozen=True):
    """Still here."""


class Response(ClientMessage, frozen=True, kw_only=True):
    """What answers a question. ``request_id`` is beyond the seed: the id of the event that asked."""

    request_id: str | None
    signed: Signed


class AskUserResponse(Response, frozen=True, kw_only=True):
    """An answer to ``ask_user``: one text, or several choices."""

    answer: str | tuple[str, ...]


class ApprovalResponse(Response, frozen=True, kw_only=True):
    """An answer to ``approval_needed``. ``mode`` is one of ``REJECTIONS``."""

    approved: bool
    scope: str
    feedback: str | None
    mode: str


class PlanReviewResponse(Response, frozen=True, kw_only=True):
    """An answer to ``plan_review``."""

    message: str


class UlwResponse(Response, frozen=True, kw_only=True):
    """An answer to ``ulw_turns_reached``, which this server never asks."""


class ModeChange(ClientMessage, frozen=True, kw_only=True):
    """Another mode, in the protocol's own word."""

    mode: str


class Interrupt(ClientMessage, frozen=True):
    """End the turn."""


class PromptUpdate(ClientMessage, frozen=True):
    """Another goal for unattended work, which this server does not have."""


class StatusQuery(ClientMessage, frozen=True, kw_only=True):
    """Answered by SESSION_STATUS."""

    session_id: str | None


class OnboardSubmit(ClientMessage, frozen=True, kw_only=True):
    """What lets a stranger in."""

    signed: Signed


class Admin(ClientMessage, frozen=True, kw_only=True):
    """An ADMIN_ message, by its type."""

    type: str
    signed: Signed


class _Given(msgspec.Struct):
    """Every field of every message, unread. Of one that is there twice, the last."""

    type: Raw = Raw()
    session_id: Raw = Raw()
    last_msg_id: Raw = Raw()
    session: Raw = Raw()
    payload: Raw = Raw()
    sender: Raw = msgspec.field(default=Raw(), name="from")
    signature: Raw = Raw()
    prompt: Raw = Raw()
    images: Raw = Raw()
    files: Raw = Raw()
    input_id: Raw = Raw()
    request_id: Raw = Raw()
    answer: Raw = Raw()
    approved: Raw = Raw()
    scope: Raw = Raw()
    feedback: Raw = Raw()
    mode: Raw = Raw()
    message: Raw = Raw()

    @property
    def signed(self) -> Signed:
        return Signed(payload=self.payload, sender=self.sender, signature=self.signature)


class _Asked(msgspec.Struct):
    """The one field of SESSION_STATUS's ``session``."""

    session_id: Raw = Raw()


TOO_DEEP = "Invalid JSON: Nested too deep, or a number too long"
NO_OBJECT = "message must be a JSON object"
HALF = "Invalid JSON: Half of a surrogate pair is no character"

_MALFORMED = re.compile(r"JSON is malformed: (.*) \(byte (\d+)\)")

_decoder = msgspec.json.Decoder(_Given)
_text = msgspec.json.Decoder(str)
_texts: msgspec.json.Decoder[str | tuple[str, ...]] = msgspec.json.Decoder(str | tuple[str, ...])
_bool = msgspec.json.Decoder(bool)
_asked = msgspec.json.Decoder(_Asked)


def decode(message: str | bytes) -> ClientMessage:
    """The message that this frame holds. Raises ``ProtocolProblem``; never anything else."""
    if isinstance(message, bytes):
        raise ProtocolProblem("binary frames are not part of this protocol: send JSON text")
    try:
        given = _decoder.decode(message)
    except NOT_JSON:
        raise _what_is_wrong(message) from None
    kind = _read(given.type, _text)
    if kind is None:
        raise ProtocolProblem("message type required")
    if kind.startswith("ADMIN_"):
        return Admin(type=kind, signed=given.signed)
    make = _MESSAGES.get(kind)
    if make is None:
        raise ProtocolProblem(f"unknown message type: {kind[:LONGEST_ID]!r}")
    return make(given)


def _what_is_wrong(message: str) -> ProtocolProblem:
    """Why a frame is no message, in the words of the original's own parser (spec §3)."""
    if len(message) > EXPLAINED:
        return _what_is_wrong_at_length(message)
    try:
        found = json.loads(message)
    except json.JSONDecodeError as wrong:
        where = f"line {wrong.lineno} col {wrong.colno} (pos {wrong.pos})"
        return ProtocolProblem(f"Invalid JSON: {wrong.msg} at {where}", _received(message))
    except (RecursionError, ValueError):
        return ProtocolProblem(TOO_DEEP, _received(message))
    if isinstance(found, dict):
        return ProtocolProblem(HALF, _received(message))
    return ProtocolProblem(NO_OBJECT, _received(message))


def _what_is_wrong_at_length(message: str) -> ProtocolProblem:
    """The same in our parser's words, which makes nothing of what it reads."""
    try:
        msgspec.json.decode(message, type=Raw)
    except RecursionError:
        return ProtocolProblem(TOO_DEEP, _received(message))
    except NOT_JSON as wrong:
        return ProtocolProblem(f"Invalid JSON: {_where(message, str(wrong))}", _received(message))
    return ProtocolProblem(NO_OBJECT, _received(message))


def _where(message: str, wrong: str) -> str:
    """What our parser says, which counts bytes, as the original's says it."""
    found = _MALFORMED.fullmatch(wrong)
    if found is None:
        what, at = "It ends too early", len(message)
    else:
        what, at = found[1].capitalize(), len(message.encode()[: int(found[2])].decode(errors="ignore"))
    line, column = message.count("\n", 0, at) + 1, at - message.rfind("\n", 0, at)
    return f"{what} at line {line} col {column} (pos {at})"


def _received(message: str) -> str:
    return message if len(message) <= RECEIVED else f"{message[:RECEIVED]}...(truncated)"


def _is_there(raw: Raw) -> bool:
    """Whether there is such a field, and more than null in it."""
    return bytes(memoryview(raw)[:5]) not in (b"", b"null")


def _read(raw: Raw, decoder: msgspec.json.Decoder[T]) -> T | None:
    if not _is_there(raw):
        return None
    try:
        return decoder.decode(raw)
    except NOT_JSON:
        return None


def _id(raw: Raw, name: str) -> str | None:
    """An id that a client made up; an empty one is none."""
    if not _is_there(raw):
        return None
    text = _read(raw, _text)
    if text is None:
        raise ProtocolProblem(f"{name} must be a string")
    if len(text) > LONGEST_ID:
        raise ProtocolProblem(f"{name} is longer than {LONGEST_ID} characters")
    return text or None


def _maybe_text(raw: Raw, name: str) -> str | None:
    if not _is_there(raw):
        return None
    text = _read(raw, _text)
    if text is None:
        raise ProtocolProblem(f"{name} must be a string")
    return text


def _connect(given: _Given) -> Connect:
    return Connect(
        session_id=_id(given.session_id, "session_id"),
        last_msg_id=_read(given.last_msg_id, _text),
        session=given.session,
        signed=given.signed,
    )


def _input(given: _Given) -> Input:
    return Input(
        prompt=_read(given.prompt, _text) or "",
        images=given.images,
        files=given.files,
        session=given.session,
        input_id=_id(given.input_id, "input_id"),
        signed=given.signed,
    )


def _ask_user_response(given: _Given) -> AskUserResponse:
    answer = _read(given.answer, _texts)
    if answer is None:
        raise ProtocolProblem("answer must be a string or a list of strings")
    return AskUserResponse(answer=answer, request_id=_id(given.request_id, "request_id"), signed=given.signed)


def _approval_response(given: _Given) -> ApprovalResponse:
    approved = _read(given.approved, _bool)
    if approved is None:
        raise ProtocolProblem("approved must be true or false")
    mode = _maybe_text(given.mode, "mode")
    return ApprovalResponse(
        approved=approved,
        # Whatever is not the wider scope is the narrower one, and whatever is no softer refusal the hard one.
        scope="session" if _maybe_text(given.scope, "scope") == "session" else "once",
        feedback=_maybe_text(given.feedback, "feedback"),
        mode=mode if mode in REJECTIONS else REJECTIONS[0],
        request_id=_id(given.request_id, "request_id"),
        signed=given.signed,
    )


def _plan_review_response(given: _Given) -> PlanReviewResponse:
    message = _maybe_text(given.message, "message")
    return PlanReviewResponse(
        message=message or "", request_id=_id(given.request_id, "request_id"), signed=given.signed
    )


def _ulw_response(given: _Given) -> UlwResponse:
    return UlwResponse(request_id=_id(given.request_id, "request_id"), signed=given.signed)


def _mode_change(given: _Given) -> ModeChange:
    mode = _maybe_text(given.mode, "mode")
    if mode is None:
        raise ProtocolProblem("mode required")
    return ModeChange(mode=mode)


def _status_query(given: _Given) -> StatusQuery:
    asked = _read(given.session, _asked)
    return StatusQuery(session_id=_id(asked.session_id, "session_id") if asked is not None else None)


_MESSAGES: dict[str, Callable[[_Given], ClientMessage]] = {
    "CONNECT": _connect,
    "INPUT": _input,
    "PONG": lambda _: Pong(),
    "ASK_USER_RESPONSE": _ask_user_response,
    "APPROVAL_RESPONSE": _approval_response,
    "PLAN_REVIEW_RESPONSE": _plan_review_response,
    "ULW_RESPONSE": _ulw_response,
    "mode_change": _mode_change,
    "INTERRUPT": lambda _: Interrupt(),
    "prompt_update": lambda _: PromptUpdate(),
    "SESSION_STATUS": _status_query,
    "ONBOARD_SUBMIT": lambda given: OnboardSubmit(signed=given.signed),
}
