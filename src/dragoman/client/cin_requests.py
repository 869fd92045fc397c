"""What a client of the bridge says (seed: Client → Server Messages), and what it reads in what it is told."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from .cin_place import Message


@dataclass(frozen=True, slots=True)
class Request:
    """``message`` as it goes out, ``reply`` the type of its answer. ``lasts``: it may go out on a later connection."""

    message: Message
    reply: str | None = None
    lasts: bool = True


def ping() -> Request:
    """Answered by ``pong``."""
    return Request({"type": "ping"}, "pong")


def history(limit: int, session: str | None = None) -> Request:
    """Answered by ``history``."""
    asked = {"limit": limit} if session is None else {"limit": limit, "sessionId": session}
    return Request(_twinned("get_history", asked), "history")


def subscribe(sessions: Collection[str], types: Collection[str]) -> Request:
    """Not answered. It goes out with each connection anew, so one that waits is out of date."""
    return Request(_twinned("subscribe", {"sessions": list(sessions), "eventTypes": list(types)}), lasts=False)


def answer(session: str, response: str, decision: str | None) -> Request:
    """Not answered. One that names no decision is to what is asked now, and to nothing that is asked later."""
    given = {"sessionId": session, "response": response}
    if decision is not None:
        given["decisionId"] = decision
    return Request(_twinned("permission_response", given), lasts=decision is not None)


def extension(kind: str, data: object) -> Request:
    """Not answered. Raises ``ValueError`` for a type that is none of an extension's (seed: Extension Points)."""
    space, colon, name = kind.partition(":")
    if not (space and colon and name) or space == "session":
        raise ValueError(f"{kind!r} is no extension: its type is to be like harness:test_started")
    return Request({"type": kind} if data is None else {"type": kind, "data": data})


def read(text: str | bytes) -> Message | None:
    """A frame; None for what is none."""
    try:
        frame = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):  # the latter: nested deeper than any frame is
        return None
    return frame if isinstance(frame, dict) and isinstance(frame.get("type"), str) else None


def data_of(frame: Message) -> Any:
    """What a frame says: ``data``, or ``payload`` where it has only that (seed: Migration Notes)."""
    return frame["data"] if "data" in frame else frame.get("payload")


def _twinned(kind: str, data: Message) -> Message:
    """With both names of the payload: servers in use read only the old one (seed: Backward Compatibility)."""
    return {"type": kind, "data": data, "payload": data}
