"""What a scripted model was asked, and what became of each answer."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from .heard import Heard, Json
from .script import Turn


class Entry:
    """One request. ``heard`` is None where it could not be understood; ``violation`` says why it was not taken."""

    def __init__(self, number: int, api: str, path: str, headers: dict[str, str], body: Any) -> None:
        self.number = number
        self.api = api
        self.path = path
        self.headers = headers
        self.body = body
        self.heard: Heard | None = None
        self.violation: str | None = None
        self.turn: Turn | None = None
        self.script: str | None = None
        self.sent = 0
        self.left = asyncio.Event()
        """The client went away before the answer was complete."""
        self.ended = asyncio.Event()
        """The answer is over, one way or another."""

    @property
    def asked(self) -> Heard:
        """What was understood."""
        assert self.heard is not None, self.violation
        return self.heard

    def json(self) -> Json:
        """For readers in other processes. Bytes are base64."""
        return {
            "number": self.number,
            "api": self.api,
            "path": self.path,
            "headers": self.headers,
            "body": self.body,
            "heard": msgspec.to_builtins(self.heard),
            "violation": self.violation,
            "turn": msgspec.to_builtins(self.turn),
            "script": self.script,
            "sent": self.sent,
            "left": self.left.is_set(),
            "ended": self.ended.is_set(),
        }
