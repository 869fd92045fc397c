"""How a difference is written: changes of a recorded conversation that leave everything else as it is."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from .recording import CHUNK, Entry, Frame, Received


def each(entries: Sequence[Entry], change: Callable[[Frame], None]) -> list[Entry]:
    """Every message of the server, changed in place (they are copies)."""
    made: list[Entry] = []
    for entry in entries:
        if isinstance(entry, Received):
            frame = copy.deepcopy(entry.frame)
            change(frame)
            made.append(Received(frame))
        else:
            made.append(entry)
    return made


def chunk(frame: Frame, *sorts: str) -> bool:
    """Whether it is a chunk of one of these sorts."""
    return frame["type"] == CHUNK and frame["partType"] in sorts


def both(frame: Frame) -> tuple[dict[str, Any], dict[str, Any]]:
    """The two forms of what a chunk says."""
    return frame["part"], frame["rawPart"]


def without(value: Any, key: str) -> None:
    """Take a key out of a value, at whatever depth."""
    if isinstance(value, dict):
        value.pop(key, None)
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        without(item, key)


def renumbered(entries: Sequence[Entry]) -> list[Entry]:
    """Chunks counted anew, after some came or went."""
    counts: Counter[str] = Counter()

    def count(frame: Frame) -> None:
        if frame["type"] == CHUNK:
            frame["index"] = counts[frame["turnId"]]
            counts[frame["turnId"]] += 1

    return each(entries, count)


def position(entries: Sequence[Entry], wanted: Callable[[Frame], bool]) -> int:
    """Where the first such message of the server stands."""
    return next(at for at, entry in enumerate(entries) if isinstance(entry, Received) and wanted(entry.frame))
