"""Looking into the folders of sessions, and into known ones (spec §3.3, ``/browse``).

A path is that of the session's folder unless it is absolute. Wherever it is said to lie, only what does lie in that
folder is looked at (``services.workspace.inside``).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import msgspec
from starlette.responses import Response
from starlette.routing import Route

from dragoman.services.workspace.inside import Inside, OutsideError

from . import folder_lists
from .calls import Call, Problem, ok, resource
from .folder_lists import Budget
from .host import Host

T = TypeVar("T")

DEFAULT_DEPTH = 3
DEEPEST = 5

PATH_CHARS = 4096

OUTSIDE = "Access denied: path outside session directory"
UNKNOWN_FOLDER = (
    "Access denied: this session was started elsewhere, and its folder is in no known one (dialects.cin.projects)"
)
NOT_BROWSED = "Access denied: path outside the known projects (dialects.cin.projects)"

_BINARY = re.compile(
    r"\.(7z|a|avi|bin|bmp|bz2|class|dll|dmg|docx?|dylib|eot|exe|flac|gif|gz|ico|iso|jar|jpe?g|lib|mkv|mov|mp3|mp4|o|obj"
    r"|odt|ogg|otf|pdf|png|pptx?|pyc|pyo|rar|so|sqlite3?|tar|tgz|tiff?|ttf|wasm|wav|webm|webp|woff2?|xlsx?|xz|zip|zst)",
    re.IGNORECASE,
)
"""Endings of files that nobody reads as text."""


class Item(msgspec.Struct, frozen=True, rename="camel"):
    """One name of ``/browse``."""

    name: str
    path: str
    is_directory: bool


class Text(msgspec.Struct, frozen=True):
    """A file's text; ``modified`` in milliseconds since 1970."""

    size: int
    modified: int
    content: str


def file_routes(host: Host) -> list[Route]:
    """See the module."""
    return [
        resource(host, "/sessions/{id}/files", GET=files),
        resource(host, "/sessions/{id}/file", GET=file),
        resource(host, "/sessions/{id}/files/tree", GET=tree),
        resource(host, "/browse", GET=browse),
    ]


async def files(call: Call) -> Response:
    """What is in a folder."""
    inside, cwd, path = await _asked(call)
    budget = Budget(call.host.settings.folder_entries)
    found = await _look(call, lambda: folder_lists.listed(inside, path, budget), "Path")
    return _listed(budget, path=str(path), cwd=cwd, files=found)


async def tree(call: Call) -> Response:
    """What is in a folder and below it."""
    depth, hidden = min(max(call.number("depth", DEFAULT_DEPTH), 1), DEEPEST), call.switch("hidden")
    inside, cwd, path = await _asked(call)
    budget = Budget(call.host.settings.folder_entries)
    found = await _look(call, lambda: folder_lists.tree(inside, path, depth, budget, hidden=hidden), "Path")
    return _listed(budget, path=str(path), cwd=cwd, tree=found)


async def file(call: Call) -> Response:
    """A text file."""
    if not call.query("path"):
        raise Problem(400, "Missing path parameter")
    inside, _, path = await _asked(call)
    most = call.host.settings.file_bytes
    text = await _look(call, lambda: _read(inside, path, most), "File")
    return ok(path=str(path), name=path.name, size=text.size, modified=text.modified, content=text.content)


async def browse(call: Call) -> Response:
    """What is in a known folder; without a path, which folders are known."""
    asked, known = call.query("path"), await call.host.known.all(call.principal)
    if not asked:
        return ok(path="", parent=None, items=[Item(each.name or str(each), str(each), True) for each in known])
    path = _path(Path("/"), asked)
    inside = await call.host.known.inside(known)
    budget = Budget(call.host.settings.folder_entries)

    def look() -> tuple[list[Item], str | None]:
        found = folder_lists.listed(inside, path, budget)
        return [Item(each.name, each.path, each.type == "directory") for each in found], _parent(inside, path)

    items, parent = await _look(call, look, "Path", outside=NOT_BROWSED)
    return _listed(budget, path=str(path), parent=parent, items=items)


async def _asked(call: Call) -> tuple[Inside, str, Path]:
    """What opens things in the session's folder, that folder, and the path that is asked for. Raises ``Problem``."""
    row = call.row()
    path = _path(Path(row.cwd), call.query("path") or ".")
    inside = await call.host.known.inside_of(call.principal, row)
    if inside is None:
        raise Problem(403, UNKNOWN_FOLDER)
    return inside, row.cwd, path


def _path(folder: Path, asked: str) -> Path:
    """The path that is meant, ``..`` taken as it is written. Raises ``Problem`` (400)."""
    if "\0" in asked:
        raise Problem(400, "path holds a NUL")
    if len(asked) > PATH_CHARS:
        raise Problem(400, f"path is longer than {PATH_CHARS} characters")
    return Path("/" + os.path.normpath(folder / asked).lstrip("/"))


async def _look(call: Call, look: Callable[[], T], what: str, *, outside: str = OUTSIDE) -> T:
    """What was found, looked for in a thread. Raises ``Problem``."""
    try:
        return await call.host.disk.run(look)
    except OutsideError:
        raise Problem(403, outside) from None
    except IsADirectoryError:
        raise Problem(400, "Path is a directory") from None
    except NotADirectoryError:
        raise Problem(400, "Path is not a directory") from None
    except PermissionError:
        raise Problem(403, f"{what} cannot be read") from None
    except FileNotFoundError:
        raise Problem(404, f"{what} not found") from None
    except (OSError, ValueError):  # a name that no system takes; a pipe, a device
        raise Problem(400, f"{what} cannot be used") from None


def _read(inside: Inside, path: Path, most: int) -> Text:
    with inside.file(path) as opened:
        status = os.fstat(opened)
        if status.st_size > most:
            raise Problem(400, f"File too large: it is larger than {most} bytes")
        if _BINARY.fullmatch(path.suffix):
            raise Problem(400, "Cannot read binary file")
        data = _bytes(opened, most + 1)
    if len(data) > most:  # it grows
        raise Problem(400, f"File too large: it is larger than {most} bytes")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise Problem(400, "Cannot read binary file") from None
    if "\0" in text:
        raise Problem(400, "Cannot read binary file")
    return Text(len(data), status.st_mtime_ns // 1_000_000, text)


def _bytes(opened: int, most: int) -> bytes:
    parts = []
    while most > 0 and (part := os.read(opened, min(most, 1 << 20))):
        parts.append(part)
        most -= len(part)
    return b"".join(parts)


def _parent(inside: Inside, path: Path) -> str | None:
    """The folder above, where that may be browsed too."""
    above = path.parent
    try:
        inside.status(above)
    except (OutsideError, OSError, ValueError):
        return None
    return None if above == path else str(above)


def _listed(budget: Budget, **found: object) -> Response:
    return ok(**found, truncated=True) if budget.spent else ok(**found)
