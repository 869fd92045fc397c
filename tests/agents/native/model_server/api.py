"""What each API module is: how it hears, what it forbids, how it speaks and how it refuses."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from typing import Any, Protocol

from .heard import Heard, Json
from .playback import Playback
from .script import Answer, Failure

Event = tuple[str, Any]
"""Name ('' is none) and data of a server-sent event; data is text or goes out as JSON."""


class Api(Protocol):
    """One wire format."""

    name: str

    def hear(self, body: Json, headers: dict[str, str], model: str) -> Heard:
        """Understand a request. ``model`` is from its address, where it stands there. Raises ``Violation``."""

    def speak(self, answer: Answer, heard: Heard, playback: Playback) -> AsyncIterator[Event]:
        """An answer as events. Raises ``ConnectionCut``."""

    def refuse(self, failure: Failure) -> tuple[int, Json]:
        """Status and body of a refusal."""


def new_id(prefix: str) -> str:
    """A fresh id."""
    return f"{prefix}_{uuid.uuid4().hex[:20]}"
