"""What a client may say, typed (seed: Client → Server Messages; ``payload`` for ``data``: seed, Migration Notes).

What is none of these is not answered with an end: the seed's servers ignore it, and so do we where it is an extension;
anything else is told what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from dragoman.hub.errors import NOT_JSON
from dragoman.hub.events import Json

DEFAULT_LIMIT = 100
"""Events of a ``get_history`` that names no number."""

RESPONSE_CHARACTERS = 9
"""Digits of an answer."""

FILTERS = 1000
"""Sessions, or types, that a subscription may name."""


class ProtocolProblem(Exception):
    """A message that is none; the text says why."""


class ClientMessage(msgspec.Struct, frozen=True):
    """What all have in common: nothing."""


class Ping(ClientMessage, frozen=True):
    """Still there?"""


class GetHistory(ClientMessage, frozen=True):
    """``limit`` may be zero or less: then nothing is wanted."""

    limit: int
    session_id: str | None


class Subscribe(ClientMessage, frozen=True):
    """Empty: all."""

    sessions: frozenset[str]
    event_types: frozenset[str]


class PermissionResponse(ClientMessage, frozen=True):
    """``response`` is the number of a choice. Without ``decision_id`` it is to what this link was shown last."""

    session_id: str
    response: str
    decision_id: str | None


class Voice(ClientMessage, frozen=True):
    """``voice_start`` or ``voice_stop``."""

    start: bool


class Harness(ClientMessage, frozen=True):
    """An extension of a test bench, to be handed on to all links."""

    type: str
    data: Json


class Ignored(ClientMessage, frozen=True):
    """An extension that means nothing here."""


_decoder = msgspec.json.Decoder()


def decode(text: str) -> ClientMessage:
    """The message that the text is. Raises ``ProtocolProblem``."""
    try:
        message = _decoder.decode(text)
    except NOT_JSON as problem:
        raise ProtocolProblem(f"not JSON: {problem}") from problem
    kind = message.get("type") if isinstance(message, dict) else None
    if not isinstance(kind, str):
        raise ProtocolProblem("a message is an object with a type")
    reader = _READERS.get(kind)
    if reader is not None:
        return reader(_data(message))
    if kind.startswith("harness:"):
        return Harness(kind, message.get("data", message.get("payload")))
    if ":" in kind:
        return Ignored()
    raise ProtocolProblem(f"unknown message type: {kind[:100]!r}")


def _data(message: dict[str, Any]) -> dict[str, Any]:
    """What it says, under either name."""
    for name in ("data", "payload"):
        given = message.get(name)
        if isinstance(given, dict):
            return given
        if given is not None:
            raise ProtocolProblem(f"{name} must be an object")
    return {}


def _ping(data: dict[str, Any]) -> ClientMessage:  # noqa: ARG001
    return Ping()


def _history(data: dict[str, Any]) -> ClientMessage:
    limit, session = data.get("limit"), data.get("sessionId")
    if isinstance(limit, str) and limit.isascii() and limit.isdigit() and len(limit) < RESPONSE_CHARACTERS:
        limit = int(limit)
    if limit is None:
        limit = DEFAULT_LIMIT
    if isinstance(limit, bool) or not isinstance(limit, int | float) or limit != limit:  # noqa: PLR0124  NaN
        raise ProtocolProblem("limit must be a number")
    if session is not None and not isinstance(session, str):
        raise ProtocolProblem("sessionId must be a string")
    return GetHistory(int(min(max(limit, 0), 1_000_000)), session or None)


def _subscribe(data: dict[str, Any]) -> ClientMessage:
    return Subscribe(_names(data, "sessions"), _names(data, "eventTypes"))


def _names(data: dict[str, Any], field: str) -> frozenset[str]:
    given = data.get(field)
    if given is None:
        return frozenset()
    if not isinstance(given, list) or any(not isinstance(name, str) for name in given):
        raise ProtocolProblem(f"{field} must be a list of strings")
    if len(given) > FILTERS:
        raise ProtocolProblem(f"{field} names more than {FILTERS}")
    return frozenset(given)


def _permission(data: dict[str, Any]) -> ClientMessage:
    session, response, decision = data.get("sessionId"), data.get("response"), data.get("decisionId")
    if isinstance(response, int) and not isinstance(response, bool):
        response = str(response)
    if not isinstance(session, str) or not isinstance(response, str):
        raise ProtocolProblem("sessionId and response must be strings")
    if not (response.isascii() and response.isdigit() and len(response) <= RESPONSE_CHARACTERS):
        raise ProtocolProblem("response must be the number of a choice")
    if decision is not None and not isinstance(decision, str):
        raise ProtocolProblem("decisionId must be a string")
    return PermissionResponse(session, response, decision)


def _voice(*, start: bool) -> Callable[[dict[str, Any]], ClientMessage]:
    return lambda _data: Voice(start)


_READERS: dict[str, Callable[[dict[str, Any]], ClientMessage]] = {
    "ping": _ping,
    "get_history": _history,
    "subscribe": _subscribe,
    "permission_response": _permission,
    "cin:permission_response": _permission,
    "voice_start": _voice(start=True),
    "cin:voice_start": _voice(start=True),
    "voice_stop": _voice(start=False),
    "cin:voice_stop": _voice(start=False),
}
