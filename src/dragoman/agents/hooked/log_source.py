"""What following session logs must know of one agent: where they lie, which is whose, what their records say."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, Protocol

import msgspec

from dragoman.agents.common.files import open_regular
from dragoman.agents.common.json_lines import read_line
from dragoman.agents.common.observation import Observation
from dragoman.hub.errors import LimitReached
from dragoman.hub.events import AnyFact, Json, ToolCalled, ToolEnded
from dragoman.hub.limits import HubLimits

HEAD_BYTES = 1024 * 1024
"""Bytes at a log's beginning within which it must say whose it is: instructions may be written there first."""

MAX_CALLS = 256
"""Open calls of one log whose names are remembered."""


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """What a log says of itself at its beginning.

    ``session`` is the agent's id, ``cwd`` its folder as far as that is written there. ``forked``: it begins with a copy
    of another's records. ``aside``: it is no session of a person's, such as a sub-agent's.
    """

    session: str
    cwd: str | None = None
    forked: bool = False
    aside: bool = False


class LogReader(Protocol):
    """Reads one log's records in order. ``cwd`` is the agent's folder as last told."""

    cwd: str | None

    def read(self, record: dict[str, Any]) -> Observation | None:
        """What a record says; None for one that is not of this session's own story. Never fails."""


class LogSource(Protocol):
    """One agent's logs. All of it may wait for a disk, but for ``is_log`` and ``reader``."""

    agent: str

    roots: tuple[Path, ...]
    """Folders below which its logs lie."""

    def folders(self) -> Iterator[Path]:
        """Folders that hold logs, as far as its sessions can be known by their logs alone."""

    def busy_folders(self) -> Collection[Path]:
        """Those of them in which a log of today would be."""

    def is_log(self, name: str) -> bool:
        """Whether a file of this name is the log of a session."""

    def head(self, path: Path) -> Head | None:
        """What a log says of itself; None while it says nothing, or cannot be read."""

    def reader(self, session: str) -> LogReader:
        """For the log of this session."""


def first_records(path: Path, limits: HubLimits) -> Iterator[dict[str, Any]]:
    """The records at a log's beginning; none where it cannot be read."""
    left = HEAD_BYTES
    try:
        with open_regular(path, own=True) as file:
            while left > 0 and (line := file.readline(left)).endswith(b"\n"):
                left -= len(line)
                try:
                    record = read_line(line, limits)
                except LimitReached:
                    continue
                if record is not None:
                    yield record
    except (OSError, ValueError):
        return


class CallNames:
    """What the end of a call lacks in a log: its tool and its input, told at its begin."""

    def __init__(self) -> None:
        self._open: dict[str, tuple[str, Json]] = {}

    def named(self, fact: AnyFact) -> AnyFact:
        """The fact, with the tool and the input of the call that it ends."""
        if isinstance(fact, ToolCalled) and fact.call:
            self._open.pop(fact.call, None)
            self._open[fact.call] = fact.tool, fact.input
            if len(self._open) > MAX_CALLS:
                del self._open[next(iter(self._open))]
        elif isinstance(fact, ToolEnded) and not fact.tool and fact.call in self._open:
            tool, given = self._open[fact.call]
            return msgspec.structs.replace(fact, tool=tool, input=given)
        return fact
