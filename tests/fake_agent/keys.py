"""What a person or a host sends to the terminal, as keys. No I/O."""

from __future__ import annotations

import re
from typing import NamedTuple

PASTE_START, PASTE_END = b"\x1b[200~", b"\x1b[201~"

CONTROL = {
    0x03: "ctrl-c",
    0x04: "ctrl-d",
    0x09: "tab",
    0x0A: "newline",
    0x0D: "enter",
    0x15: "ctrl-u",
    0x08: "backspace",
    0x7F: "backspace",
}
SEQUENCES = {
    b"\x1b[A": "up",
    b"\x1b[B": "down",
    b"\x1b[C": "right",
    b"\x1b[D": "left",
    b"\x1bOA": "up",
    b"\x1bOB": "down",
    b"\x1bOC": "right",
    b"\x1bOD": "left",
    b"\x1b[Z": "backtab",
    b"\x1b\r": "newline",
}
CSI = re.compile(rb"\x1b\[[0-?]*[ -/]*[@-~]")
STRING = re.compile(rb"\x1b[\]P_^X].*?(?:\x07|\x1b\\)", re.DOTALL)
UNFINISHED = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*|O|[\]P_^X].*)?\Z", re.DOTALL)


class Key(NamedTuple):
    """One key: a name, and for ``text`` and ``paste`` what was typed."""

    name: str
    text: str = ""


class Keys:
    """Bytes in, keys out. A sequence may be cut anywhere; ``flush`` says that nothing more comes soon."""

    def __init__(self) -> None:
        self._buffer = b""

    @property
    def pending(self) -> bool:
        """Whether the start of a sequence waits for its rest."""
        return bool(self._buffer)

    def feed(self, data: bytes) -> list[Key]:
        """The keys of one read."""
        self._buffer += data
        return self._take()

    def flush(self) -> list[Key]:
        """What waited is what it is: a lone ESC is the Escape key."""
        if not self._buffer.startswith(b"\x1b") or self._buffer.startswith(PASTE_START):
            return []
        self._buffer = self._buffer[1:]
        return [Key("esc"), *self._take()]

    def _take(self) -> list[Key]:
        keys: list[Key] = []
        while self._buffer:
            size, key = self._first(self._buffer)
            if not size:
                break
            self._buffer = self._buffer[size:]
            if key is None:
                continue
            if key.name == "text" and keys and keys[-1].name == "text":
                key = Key("text", keys.pop().text + key.text)
            keys.append(key)
        return keys

    def _first(self, data: bytes) -> tuple[int, Key | None]:
        if data[0] != 0x1B:
            return self._plain(data)
        if data.startswith(PASTE_START):
            end = data.find(PASTE_END)
            if end < 0:
                return 0, None
            text = data[len(PASTE_START) : end].decode(errors="replace")
            return end + len(PASTE_END), Key("paste", text.replace("\r\n", "\n").replace("\r", "\n"))
        if len(data) > 1 and data[1:2] in b"]P_^X" and (found := STRING.match(data)):
            named = "status-reply" if data.startswith(b"\x1b]7501;") else None
            return found.end(), Key(named) if named else None
        for sequence, name in SEQUENCES.items():
            if data.startswith(sequence):
                return len(sequence), Key(name)
        if found := CSI.match(data):
            whole = found.group()
            return found.end(), Key("attributes-reply") if whole.startswith(b"\x1b[?") and whole.endswith(
                b"c"
            ) else None
        if UNFINISHED.match(data):
            return 0, None
        return 1, Key("esc")

    @staticmethod
    def _plain(data: bytes) -> tuple[int, Key | None]:
        if data[0] < 0x20 or data[0] == 0x7F:
            name = CONTROL.get(data[0])
            return 1, Key(name) if name else None
        lead = data[0]
        size = 1 if lead < 0xC0 else 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
        if len(data) < size:
            return 0, None
        return size, Key("text", data[:size].decode(errors="replace"))
