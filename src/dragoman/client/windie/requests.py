"""What a client says on the socket (seed: Client → Server Messages), each in the envelope of the protocol."""

from __future__ import annotations

import html
import json
import uuid
from dataclasses import dataclass
from typing import Any

Message = dict[str, Any]
"""A frame, as on the wire."""


@dataclass(slots=True)
class Request:
    """``message`` as it goes out, ``reply`` the type of its answer.

    ``again``: it may go out a second time where its answer was lost. ``lasts``: it may go out on a later connection
    than the one there was when it was made. ``sent`` is whether it has gone out.
    """

    message: Message
    reply: str | None = None
    again: bool = False
    lasts: bool = True
    sent: bool = False

    @property
    def id(self) -> str:
        """The message's id; a turn's is that of its query."""
        return str(self.message["id"])


def request(
    kind: str,
    payload: Message,
    reply: str | None = None,
    *,
    again: bool = False,
    lasts: bool = True,
    message_id: str | None = None,
) -> Request:
    """One message. Keys of the payload that are None are left out. Raises ``TypeError`` for what is no JSON."""
    given = {name: value for name, value in payload.items() if value is not None}
    json.dumps(given)
    return Request({"id": message_id or str(uuid.uuid4()), "type": kind, "payload": given}, reply, again, lasts)


def result(kind: str, payload: Message) -> Request:
    """What a tool gave: for the connection that asked, as its turn ends with it. None is said."""
    return Request({"id": str(uuid.uuid4()), "type": kind, "payload": payload}, lasts=False)


def as_content(text: str) -> str:
    """The text as the original clients say it in a query's ``content``."""
    return f"<user_query>\n{html.escape(text, quote=False)}\n</user_query>"


def read(data: str | bytes) -> Message | None:
    """A frame; None for what is none. Its payload is always an object."""
    try:
        frame = json.loads(data)
    except ValueError:
        return None
    if not isinstance(frame, dict) or not isinstance(frame.get("type"), str):
        return None
    if not isinstance(frame.get("payload"), dict):
        frame["payload"] = {}
    return frame
