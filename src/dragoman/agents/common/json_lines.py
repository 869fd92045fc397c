"""JSON lines that come in pieces: whole lines only, however they are cut."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from dragoman.hub.errors import NOT_JSON, LimitReached
from dragoman.hub.hook_payload import check_hook_payload
from dragoman.hub.limits import HubLimits

_decode = msgspec.json.Decoder().decode


class JsonLines:
    """Puts lines together. ``say`` is told of each line that is left out for its size.

    ``limits.hook_bytes`` and ``hook_values`` bound a line. ``damaged`` is called for each line that is no JSON object;
    an empty one is none.
    """

    def __init__(
        self, limits: HubLimits, say: Callable[[str], None], *, damaged: Callable[[], None] = lambda: None
    ) -> None:
        self._limits = limits
        self._say = say
        self._damaged = damaged
        self._partial = b""
        self._skipping = False

    def begin(self, *, skipping: bool = False) -> None:
        """What comes next is the beginning of a line, or the rest of one that is left out (``skipping``)."""
        self._partial, self._skipping = b"", skipping

    def feed(self, data: bytes) -> Iterator[dict[str, Any]]:
        """The records of the lines that this completes. The bytes are taken, whatever is done with the records."""
        *lines, self._partial = (self._partial + data).split(b"\n")
        if lines and self._skipping:
            del lines[0]
            self._skipping = False
        if len(self._partial) > self._limits.hook_bytes:
            if not self._skipping:
                self._say(f"it brings more than {self._limits.hook_bytes} bytes (hub.hook_bytes)")
            self._skipping = True
        if self._skipping:
            self._partial = b""
        return self._records(lines)

    def _records(self, lines: list[bytes]) -> Iterator[dict[str, Any]]:
        for line in lines:
            if not line.strip():
                continue
            try:
                record = read_line(line, self._limits)
            except LimitReached as problem:
                self._say(str(problem))
                continue
            if record is None:
                self._damaged()
            else:
                yield record


def read_line(line: bytes, limits: HubLimits) -> dict[str, Any] | None:
    """The record in a line of a log, if any. Raises ``LimitReached`` without taking apart what is too large."""
    if not line.strip():
        return None
    check_hook_payload(line, limits, "it")
    try:
        record = _decode(line)
    except NOT_JSON:
        return None  # damaged, or no JSON at all: the log is the agent's own and may hold anything
    return record if isinstance(record, dict) else None
