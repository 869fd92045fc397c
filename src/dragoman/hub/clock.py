"""Time and ids as arguments, so that a recorded conversation replays exactly."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache
from typing import Protocol

IdSource = Callable[[], str]
"""Makes a new id that nobody can guess."""


class Clock(Protocol):
    """What time it is, in two senses."""

    def now(self) -> int:
        """Milliseconds since 1970, for people and for the log."""

    def monotonic(self) -> float:
        """Seconds that never run backwards, for durations and limits."""


class SystemClock:
    """The machine's own clocks."""

    def now(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()


def random_id() -> str:
    """A UUID, version 4."""
    return str(uuid.uuid4())


@lru_cache(4096)
def iso_time(ms: int) -> str:
    """Milliseconds since 1970 as ``2026-02-11T12:00:00.000Z``."""
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
