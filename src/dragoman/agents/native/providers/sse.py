"""Server-sent events, read from bytes as they come (WHATWG HTML §9.2.6, "Interpreting an event stream").

A state machine without I/O. ``id`` and ``retry`` are for browsers that connect again; nothing here does.
"""

from __future__ import annotations

import msgspec

LONGEST_EVENT = 16 * 1024 * 1024
"""Bytes of one event. The last event of an answer may repeat all of it, pictures included."""

_BOM = b"\xef\xbb\xbf"


class SseEvent(msgspec.Struct, frozen=True, gc=False):
    """One event: its type (empty where none was given) and its data, UTF-8 as it came."""

    name: str
    data: bytes


class EventTooLong(Exception):
    """An event, or a line that might become one, passed the limit. The parser is of no more use."""


class SseParser:
    """Bytes in, cut anywhere; whole events out. An event that nothing ends is none."""

    def __init__(self, longest: int = LONGEST_EVENT) -> None:
        self._longest = longest
        self._pieces: list[bytes] = []
        """A line that has not ended yet. Joined once, however many pieces it came in."""
        self._unended = 0
        """Bytes of that line."""
        self._data: list[bytes] = []
        self._size = 0
        """Bytes of the data."""
        self._name = ""
        self._started = False
        self._after_cr = False

    def feed(self, chunk: bytes) -> list[SseEvent]:
        """The events that these bytes complete. Raises ``EventTooLong``."""
        lines = self._split(chunk)
        rest = lines.pop()
        if lines:
            self._join_first(lines)
        events = []
        for line in lines:
            if not line:
                if self._data:
                    events.append(self._taken())
                self._name = ""
            elif line.startswith(b"data: "):
                self._add(line[6:])
            else:
                self._field(line)
        if rest:
            self._keep(rest)
        return events

    def _split(self, chunk: bytes) -> list[bytes]:
        """Lines, and what is after the last end of one. A CR ends its line at once, whether or not LF follows."""
        if self._after_cr and chunk:
            self._after_cr = False
            chunk = chunk.removeprefix(b"\n")
        if b"\r" in chunk:
            self._after_cr = chunk.endswith(b"\r")
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        return chunk.split(b"\n")

    def _join_first(self, lines: list[bytes]) -> None:
        if self._pieces:
            lines[0] = b"".join([*self._pieces, lines[0]])
            self._pieces.clear()
            self._unended = 0
        if not self._started:
            self._started = True
            lines[0] = lines[0].removeprefix(_BOM)

    def _field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._add(value)
        elif name == b"event":
            self._name = value.decode("utf-8", "replace")

    def _add(self, value: bytes) -> None:
        self._size += len(value) + 1  # the line break behind it: lines of nothing are kept too
        self._data.append(value)
        self._check()

    def _keep(self, piece: bytes) -> None:
        self._unended += len(piece)
        self._pieces.append(piece)
        self._check()

    def _check(self) -> None:
        if self._size + self._unended > self._longest:
            raise EventTooLong(f"an event of more than {self._longest} bytes")

    def _taken(self) -> SseEvent:
        data = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
        self._data.clear()
        self._size = 0
        return SseEvent(self._name, data)
