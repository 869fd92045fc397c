"""What a program says to its terminal beside drawing: one small union, each with the tape offset it stands at."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable
from typing import Literal

import msgspec

from .limits import MAX_NOTE, MAX_TITLE


class Reply(msgspec.Struct, frozen=True, tag=True):
    """A query was asked: ``data`` must be written to the program. ``kind`` is the group name in ``replies.ANSWER``."""

    offset: int
    kind: str
    data: bytes


class Title(msgspec.Struct, frozen=True, tag=True):
    """The window has a new title (OSC 0 or 2)."""

    offset: int
    text: str


class Directory(msgspec.Struct, frozen=True, tag=True):
    """The working directory, as the program wrote it: a ``file:`` URL (OSC 7)."""

    offset: int
    url: str


class Notification(msgspec.Struct, frozen=True, tag=True):
    """Something for the user's eyes (OSC 9, 99, 777), or a progress bar (OSC 9;4: ``text`` is ``state;percent``)."""

    offset: int
    kind: Literal["message", "progress"]
    text: str
    title: str = ""


class Clipboard(msgspec.Struct, frozen=True, tag=True):
    """The program set or asked for a clipboard (OSC 52). What it set is not kept; nothing is ever answered."""

    offset: int
    selection: str
    query: bool


class Mark(msgspec.Struct, frozen=True, tag=True):
    """A shell's mark (OSC 133 A, B, C, D): where its prompt, the user's input and the output begin, and the end."""

    offset: int
    kind: Literal["prompt", "input", "output", "finished"]
    exit_code: int | None = None


class ProgramStatus(msgspec.Struct, frozen=True, tag=True):
    """A program status report (OSC 7501), not yet read: see ``program_status.parse_report``."""

    offset: int
    payload: str


class Reset(msgspec.Struct, frozen=True, tag=True):
    """A full reset (``ESC c``): whatever the program reported before is void."""

    offset: int


Finding = Reply | Title | Directory | Notification | Clipboard | Mark | ProgramStatus | Reset

_CONTROLS = dict.fromkeys((*range(0x20), *range(0x7F, 0xA0)))
_CONEMU = re.compile(r"[0-9]{1,2}(?:;|$)")
_MARKS: dict[str, Literal["prompt", "input", "output", "finished"]] = {
    "A": "prompt",
    "B": "input",
    "C": "output",
    "D": "finished",
}


def read_osc(body: bytes, offset: int) -> Finding | None:
    """What an OSC string (without ``ESC ]`` and its end) tells; None if nothing that anyone wants to know."""
    number, _, rest = body.partition(b";")
    read = _READERS.get(number)
    return read(_plain(rest), offset) if read is not None else None


def _plain(text: bytes) -> str:
    return text.decode(errors="ignore").translate(_CONTROLS)


def _title(text: str, offset: int) -> Finding:
    return Title(offset, text[:MAX_TITLE])


def _directory(text: str, offset: int) -> Finding | None:
    return Directory(offset, text) if len(text) <= MAX_NOTE else None


def _message(text: str, offset: int) -> Finding | None:
    """OSC 9: a message, except that ConEmu gave a leading number other meanings, of which 4 is progress."""
    if text.startswith("4;"):
        return Notification(offset, "progress", text[2 : MAX_NOTE + 2])
    if not text or _CONEMU.match(text):
        return None
    return Notification(offset, "message", text[:MAX_NOTE])


def _kitty_message(text: str, offset: int) -> Finding | None:
    """OSC 99: ``key=value:...;payload``. Only what is to be read by people is reported."""
    metadata, _, payload = text.partition(";")
    keys = dict(pair.split("=", 1) for pair in metadata.split(":") if "=" in pair)
    part = keys.get("p", "title")
    if part not in {"title", "body"}:
        return None
    if keys.get("e") == "1":
        payload = _from_base64(payload)
    payload = payload[:MAX_NOTE]
    if not payload:
        return None
    if part == "title":
        return Notification(offset, "message", "", title=payload)
    return Notification(offset, "message", payload)


def _urxvt_message(text: str, offset: int) -> Finding | None:
    """OSC 777: ``notify;title;body``."""
    verb, _, rest = text.partition(";")
    if verb != "notify":
        return None
    title, _, message = rest.partition(";")
    return Notification(offset, "message", message[:MAX_NOTE], title[:MAX_TITLE])


def _clipboard(text: str, offset: int) -> Finding:
    selection, _, value = text.partition(";")
    return Clipboard(offset, selection[:16], value == "?")


def _mark(text: str, offset: int) -> Finding | None:
    letter, *parameters = text.split(";")
    kind = _MARKS.get(letter)
    if kind is None:
        return None
    code = parameters[0] if kind == "finished" and parameters else ""
    return Mark(offset, kind, int(code) if re.fullmatch(r"-?[0-9]{1,9}", code) else None)


def _program_status(text: str, offset: int) -> Finding | None:
    if len(text) > MAX_NOTE or text.lstrip().startswith("?"):
        return None
    return ProgramStatus(offset, text)


def _from_base64(text: str) -> str:
    try:
        return _plain(b64decode(text, validate=True))
    except ValueError:
        return ""


_READERS: dict[bytes, Callable[[str, int], Finding | None]] = {
    b"0": _title,
    b"2": _title,
    b"7": _directory,
    b"9": _message,
    b"52": _clipboard,
    b"99": _kitty_message,
    b"133": _mark,
    b"777": _urxvt_message,
    b"7501": _program_status,
}
