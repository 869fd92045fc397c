"""Finds the control sequences that matter beside the terminal model, in bytes cut anywhere.

A state machine without I/O. It follows the same rules as the model (a VT500 parser): controls inside a sequence do
not end it, CAN and SUB abort, ESC begins anew, nothing inside a string counts. One compiled expression jumps over
everything that is only drawing, so a chunk of plain or coloured text costs one search.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec

from .limits import MAX_CONTROL_SEQUENCE, MAX_CONTROL_STRING

_ESC, _BEL, _CAN, _SUB = 0x1B, 0x07, 0x18, 0x1A

# C0 controls are carried out in the middle of a sequence and DEL is ignored: neither is part of it.
_IGNORED = bytes(code for code in range(0x20) if code not in (_CAN, _SUB, _ESC)) + b"\x7f"
_I = rb"\x00-\x17\x19\x1c-\x1f\x7f"

# Any ESC but the start of a complete sequence that only draws, moves or switches a character set at little cost, and
# one that is aborted at once. The group is the body of a CSI sequence if that is complete and undisturbed.
_INTERESTING = re.compile(
    rb"\x1b(?!\[[0-9:;]*+[@-IKN-RU-`ad-gi-kmo-su-~]"  # CSI without marker, except J L M S T b c h l n t
    rb"|[0-OQ-WYZ\\`abd-~\x18\x1a\x1b]"  # ESC, except P X [ ] ^ _ c
    rb"|(?!#8)[ -/]++[0-~])"  # ESC with intermediates
    rb"(?:\[([0-?]*+[ -/]*+[@-~]))?"
)
_ESCAPE = re.compile(rb"\x1b[" + _I + rb"]*+([ -/][" + _I + rb" -/]*+)?")
_CSI_BODY = re.compile(rb"[" + _I + rb" -?]*+")
_OSC_END = re.compile(rb"[\x07\x18\x1a\x1b]")
_STRING_END = re.compile(rb"[\x18\x1a\x1b]")

# What an over-long sequence is replaced by: it still ends where it ends, but means nothing.
_MEANINGLESS_CSI = b"\x1b[<?"
_MEANINGLESS_ESCAPE = b"\x1b "


class Csi(msgspec.Struct, frozen=True, gc=False):
    """A control sequence: ``body`` is all after ``ESC [``, final byte included.

    ``origin`` is the tape offset of its first byte; ``start`` and ``end`` are where it begins (0 if earlier) and ends
    in the data of this scan.
    """

    origin: int
    body: bytes
    start: int
    end: int


class Osc(msgspec.Struct, frozen=True, gc=False):
    """A complete operating system command: all between ``ESC ]`` and its end, which was BEL or ST."""

    origin: int
    body: bytes
    bel: bool


class Esc(msgspec.Struct, frozen=True, gc=False):
    """A full reset (``body`` is ``c``) or an alignment pattern (``#8``); the rest as in ``Csi``."""

    origin: int
    body: bytes
    start: int
    end: int


Token = Csi | Osc | Esc


class Scanner:
    """One stream's scanner. ``scan`` costs what its chunk is long, whatever came before."""

    def __init__(self) -> None:
        self._held = b""  # an unfinished ESC or CSI sequence
        self._osc: bytearray | None = None  # an unfinished OSC string
        self._until: re.Pattern[bytes] | None = None  # skipping a string: what ends it
        self._origin = 0  # tape offset of what is unfinished
        self._escape = 0  # tape offset of an ESC that may be the end of the OSC string
        self._shift = 0  # of this scan: how many bytes of its data came earlier
        self._locate: Callable[[int], int] = int
        self._tokens: list[Token] = []

    @property
    def unfinished(self) -> int | None:
        """Tape offset of the first byte of a sequence that is read but not complete; None if there is none."""
        return self._origin if self._held or self._osc is not None else None

    def abandon(self) -> None:
        """Forget an unfinished sequence or string, as CAN does."""
        self._held, self._osc, self._until = b"", None, None

    def scan(self, data: bytes, locate: Callable[[int], int]) -> list[Token]:
        """The sequences that are complete with ``data``, in order.

        ``data`` is valid UTF-8 with C1 controls in ESC form; ``locate`` gives the tape offset of a position in it.
        """
        self._tokens, self._locate, self._shift = [], locate, len(self._held)
        if self._held:
            data, self._held = self._held + data, b""
        position = 0
        while position < len(data):
            if self._osc is not None:
                position = self._collect(data, position, self._osc)
            elif self._until is not None:
                position = self._skip(data, position, self._until)
            else:
                position = self._ground(data, position)
        return self._tokens

    def _began(self, start: int) -> int:
        return self._origin if start < self._shift else self._locate(start - self._shift)

    def _hold(self, start: int, sequence: bytes, meaningless: bytes) -> None:
        self._origin = self._began(start)
        kept = sequence.translate(None, _IGNORED)
        self._held = kept if len(kept) <= MAX_CONTROL_SEQUENCE else meaningless

    def _ground(self, data: bytes, position: int) -> int:
        """Read on outside of any sequence; returns where to go on."""
        for found in _INTERESTING.finditer(data, position):
            start = found.start()
            if found[1] is None:
                return self._sequence(data, start)
            self._add(Csi, start, found[1], found.end())
        return len(data)

    def _add(self, kind: type[Csi | Esc], start: int, body: bytes, end: int) -> None:
        shift = self._shift
        self._tokens.append(kind(self._began(start), body, max(start - shift, 0), end - shift))

    def _sequence(self, data: bytes, start: int) -> int:
        """Read the escape sequence at ``start``; returns where to go on."""
        head = _ESCAPE.match(data, start)
        assert head is not None
        at = head.end()
        if at == len(data):
            self._hold(start, head[0], _MEANINGLESS_ESCAPE)
            return at
        kind = data[at]
        if kind == _ESC:
            return at
        if head[1]:
            if kind == 0x38 and head[1].translate(None, _IGNORED) == b"#":  # 8
                self._add(Esc, start, b"#8", at + 1)
            return at + 1
        if kind == 0x5B:  # [
            return self._csi(data, start, at + 1)
        if kind == 0x5D:  # ]
            self._origin, self._osc = self._began(start), bytearray()
        elif kind in b"PX^_":
            self._until = _STRING_END
        elif kind == 0x63:  # c
            self._add(Esc, start, b"c", at + 1)
        return at + 1

    def _csi(self, data: bytes, start: int, at: int) -> int:
        body = _CSI_BODY.match(data, at)
        assert body is not None
        end = body.end()
        if end == len(data):
            self._hold(start, data[start:], _MEANINGLESS_CSI)
            return end
        final = data[end]
        if final == _ESC:
            return end
        end += 1
        if 0x40 <= final <= 0x7E:
            sequence = b"\x1b[" + data[at:end].translate(None, _IGNORED)
            if _INTERESTING.match(sequence):
                self._add(Csi, start, sequence[2:], end)
        return end

    def _collect(self, data: bytes, position: int, body: bytearray) -> int:
        """Read on in an OSC string; returns where to go on."""
        found = _OSC_END.search(data, position)
        stop = len(data) if found is None else found.start()
        if len(body) + stop - position > MAX_CONTROL_STRING:
            self._osc, self._until = None, _OSC_END
            return stop
        body += data[position:stop]
        if found is None:
            return stop
        if data[stop] != _ESC:
            self._end_osc(body if data[stop] == _BEL else None, bel=True)
            return stop + 1
        if stop + 1 == len(data):
            self._escape, self._held = self._began(stop), b"\x1b"
            return stop + 1
        if data[stop + 1] == 0x5C:  # the second half of ST
            self._end_osc(body, bel=False)
            return stop + 2
        # Another sequence begins: the string is dropped, as terminals do.
        if stop < self._shift:
            self._origin = self._escape
        self._osc = None
        return stop

    def _end_osc(self, body: bytearray | None, *, bel: bool) -> None:
        if body is not None:
            self._tokens.append(Osc(self._origin, bytes(body), bel))
        self._osc = None

    def _skip(self, data: bytes, position: int, until: re.Pattern[bytes]) -> int:
        """Skip the rest of a string that nobody reads; returns where to go on."""
        found = until.search(data, position)
        if found is None:
            return len(data)
        self._until = None
        return found.start() if data[found.start()] == _ESC else found.end()
