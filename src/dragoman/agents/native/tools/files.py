"""Reading and changing text files for tools: through the guard, within limits, with failures in words for the model.

All but ``change`` blocks; call it in a thread.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from dragoman.agents.native.path_guard import PathBlocked, PathGuard, PathInvalid

from .settled import settled
from .showing import shown_path
from .tool import ToolContext, ToolFailed, ToolInput, in_thread

_BOM = "\N{ZERO WIDTH NO-BREAK SPACE}"

_LOCKS = tuple(threading.Lock() for _ in range(64))
"""One for every so many files: calls of one step run at once, and two edits of a file must both be in it."""


class Text(NamedTuple):
    """A text file's content; ``bom`` says that a byte order mark stood before it."""

    text: str
    bom: bool

    def encoded(self) -> bytes:
        """As it is stored. Raises ``UnicodeEncodeError`` for half a character."""
        return ((_BOM if self.bom else "") + self.text).encode()


@contextlib.contextmanager
def failures(tool: str, path: str) -> Iterator[None]:
    """Turns what the guard and the system say into ``ToolFailed``."""
    try:
        yield
    except (PathBlocked, PathInvalid) as error:
        raise ToolFailed(str(error)) from error
    except OSError as error:
        raise ToolFailed(f"{tool}: {_in_words(error)}: {path}") from None


def read_bytes(guard: PathGuard, tool: str, path: str, most: int) -> bytes:
    """A file of at most ``most`` bytes. Raises ``ToolFailed`` if it is larger, and as ``PathGuard.open_file`` does."""
    with guard.open_file(tool, path) as file:
        content = file.read(most + 1)
        size = max(len(content), os.fstat(file.fileno()).st_size)
    if len(content) > most:
        raise ToolFailed(f"{tool}: {path} has {size} bytes, and {most} is the most; grep finds a part of it")
    return content


def read_text(guard: PathGuard, tool: str, path: str, most: int) -> Text:
    """A text file. Raises ``ToolFailed`` if it is none, and as ``read_bytes`` does."""
    content = read_bytes(guard, tool, path, most)
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise ToolFailed(f"{tool}: {path} is not UTF-8 text: byte {error.start} is no part of a character") from None
    if "\0" in text:
        raise ToolFailed(f"{tool}: {path} is a binary file, not text")
    return Text(text.removeprefix(_BOM), text.startswith(_BOM))


async def change(context: ToolContext, tool: str, path: str, given: ToolInput, content: Callable[[], bytes]) -> Path:
    """Create or replace a file, once the change is permitted. Gives its canonical path; raises ``ToolFailed`` or
    ``ToolDenied``.

    ``content`` is called before anyone is asked, so that nobody is asked about what cannot be done, and again for what
    is written: the file may have changed in the meantime.
    """
    target = await settled(in_thread(_rehearse, context.guard, tool, path, content))
    await context.permit_edit(shown_path(str(target)), msgspec.to_builtins(given))
    await settled(in_thread(_write, context.guard, tool, path, target, content))
    return target


def _rehearse(guard: PathGuard, tool: str, path: str, content: Callable[[], bytes]) -> Path:
    with failures(tool, path):
        target = guard.check(tool, path).path
        if target.is_dir() or path.endswith("/"):
            raise IsADirectoryError
        if target.exists() and not target.is_file():
            raise ToolFailed(f"{tool} blocked: not a regular file: {path}")
        content()
    return target


def _write(guard: PathGuard, tool: str, path: str, target: Path, content: Callable[[], bytes]) -> None:
    with _LOCKS[hash(target) % len(_LOCKS)], failures(tool, path):
        if guard.check(tool, path).path != target:
            raise ToolFailed(f"{tool}: {path} has come to lead elsewhere since the change was permitted")
        guard.write_file(tool, str(target), content())


def _in_words(error: OSError) -> str:
    match error:
        case FileNotFoundError():
            return "no such file or directory"
        case IsADirectoryError():
            return "it is a folder, not a file"
        case NotADirectoryError():
            return "a file stands where the path needs a folder"
        case PermissionError():
            return "permission denied"
        case _:
            return os.strerror(error.errno) if error.errno else "it cannot be used"
