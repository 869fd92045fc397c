"""What was done to whose file, so that it can be undone to the last byte: ``installed.json`` beside the program.

Holds what we put in and, of what was there, only what we took out: none of the person's own settings.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec

from .edits import Edit
from .replacing import replace_file

FILE = "installed.json"


class Change(msgspec.Struct, frozen=True, omit_defaults=True):
    """``after`` is the hash of what the file was left with; ``edits`` lead there from what it was without us.

    ``created``: it was not there. ``empty`` are lists and objects of it that were there with nothing in them.
    ``trusted`` are hashes that were written for Codex, by their keys. ``left_out`` are hooks the agent did not know.
    """

    after: str
    edits: tuple[Edit, ...] = ()
    created: bool = False
    empty: tuple[tuple[str, ...], ...] = ()
    trusted: dict[str, str] = {}
    left_out: tuple[str, ...] = ()


class Record(msgspec.Struct, omit_defaults=True):
    """By the file's path as the agent has it. ``folders`` were made for them."""

    version: int = 1
    files: dict[str, Change] = {}
    folders: list[str] = []


def read_record(folder: Path) -> Record:
    """What is known; nothing where that cannot be read: then hooks are taken out by what they look like."""
    try:
        return msgspec.json.decode((folder / FILE).read_bytes(), type=Record)
    except (OSError, msgspec.MsgspecError, UnicodeError, RecursionError):
        return Record()


def write_record(folder: Path, record: Record) -> None:
    """Keep it; an empty one is no file. Raises ``CannotInstall``, ``OSError``."""
    if record.files or record.folders:
        replace_file(folder / FILE, msgspec.json.format(msgspec.json.encode(record)) + b"\n", folders=0o700)
    else:
        (folder / FILE).unlink(missing_ok=True)


def hash_of_text(text: str) -> str:
    """How a text is known again."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
