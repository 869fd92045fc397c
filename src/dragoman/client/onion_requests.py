"""What a client says in ConnectOnion's protocol, and how the answers to it are known.

The protocol has no ids for requests: an answer is known by its type and by what it is about. An ERROR says neither
whom it answers nor whether it ends a turn, so that is told from what runs and from its words.
"""

from __future__ import annotations

import base64
import mimetypes
import re
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from .onion_place import Message

_REPLIES = re.compile(
    r"unauthorized|forbidden|misconfigured|authenticate first|prompt required|too many |(file|image) too large|"
    r"invalid (json|invite|base64|file|image|request)|unknown (message|admin)|insufficient payment|"
    r"'?\w+'? (is )?required",
    re.IGNORECASE,
)
"""How a refusal begins; any other ERROR while a turn runs is that turn's end."""

INTERRUPTED = "turn interrupted by a restart"
"""The ERROR of a turn that ended with its server: it comes when nothing runs any more, and refuses nothing."""


@dataclass(frozen=True)
class Request:
    """``message`` as it goes out. ``is_answer`` knows the answer to it; ``may_be_refused`` says whether an ERROR that
    ends no turn may be one, ``again`` whether the server knows a second one as the same."""

    message: Message
    is_answer: Callable[[Message], bool] = lambda _: False
    may_be_refused: bool = False
    again: bool = False


def is_reply(error: Message) -> bool:
    """Whether this ERROR refuses a request, and ends no turn whatever runs."""
    return "code" in error or "received" in error or _REPLIES.match(str(error.get("message", ""))) is not None


def prompt(text: str, images: Iterable[bytes | str], files: Mapping[str, bytes]) -> Request:
    """INPUT. Answered by its acknowledgement where a turn runs, else by the ``user_input`` that begins one."""
    message: Message = {"type": "INPUT", "prompt": text, "input_id": str(uuid.uuid4())}
    if pictures := [image if isinstance(image, str) else data_url(image, "image/png") for image in images]:
        message["images"] = pictures
    if files:
        message["files"] = [{"name": name, "data": data_url(data, _kind(name))} for name, data in files.items()]

    def is_answer(frame: Message) -> bool:
        if frame["type"] == "RUNTIME_INPUT_ACK":
            return True
        return frame["type"] == "user_input" and frame.get("content") == text and not frame.get("runtime_input")

    return Request(message, is_answer, may_be_refused=True, again=True)


def status(session_id: str) -> Request:
    """SESSION_STATUS."""
    message = {"type": "SESSION_STATUS", "session": {"session_id": session_id}}
    return Request(message, lambda frame: frame["type"] == "SESSION_STATUS")


def onboard(signed: dict[str, Any]) -> Request:
    """ONBOARD_SUBMIT."""
    message = {"type": "ONBOARD_SUBMIT", **signed}
    return Request(message, lambda frame: frame["type"] == "ONBOARD_SUCCESS", may_be_refused=True)


def administer(action: str, signed: dict[str, Any]) -> Request:
    """ADMIN_PROMOTE and the like."""
    message = {"type": f"ADMIN_{action.upper()}", **signed}
    return Request(message, lambda frame: frame["type"] == "ADMIN_RESULT", may_be_refused=True)


def answer(request_id: str | None, given: str | list[str]) -> Request:
    """ASK_USER_RESPONSE."""
    return _response("ASK_USER_RESPONSE", request_id, answer=given)


def approval(
    request_id: str | None, *, approved: bool, scope: str, feedback: str | None, rejection: str | None
) -> Request:
    """APPROVAL_RESPONSE."""
    more = {key: value for key, value in (("feedback", feedback), ("mode", rejection)) if value is not None}
    return _response("APPROVAL_RESPONSE", request_id, approved=approved, scope=scope, **more)


def review(request_id: str | None, message: str) -> Request:
    """PLAN_REVIEW_RESPONSE."""
    return _response("PLAN_REVIEW_RESPONSE", request_id, message=message)


def data_url(data: bytes, kind: str) -> str:
    """``data`` as the protocol carries bytes."""
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def _response(kind: str, request_id: str | None, **fields: Any) -> Request:
    named = {} if request_id is None else {"request_id": request_id}
    return Request({"type": kind, **named, **fields})


def _kind(name: str) -> str:
    return mimetypes.guess_type(name)[0] or "application/octet-stream"
