"""``memory``: what the agent keeps for later sessions of this project.

Hot memory is ``.agent/AGENT.md`` of the project, which every session is given, or where there is none, of the person;
deep memory is ``.agent/memory`` of the project, one file for each key. Only the project's is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from dragoman.agents.native.path_guard import PathGuard

from .files import change, failures, read_text
from .patterns import Pattern
from .settled import settled
from .showing import MOST_CHARS, MOST_OF_FILE, cut, each_line, shown_line, shown_path
from .tool import Result, ToolContext, ToolFailed, ToolInput, in_thread
from .walk import Patience, find
from .write import encoded

_HOT = (None, "", "hot", "AGENT.md")
"""Keys of hot memory."""

_MOST_HOT_LINES = 50

_CUT_NOTE = "... (cut: this note is too long to be shown)"
_CUT = "... (cut; ask for something rarer)"


class MemoryInput(ToolInput, frozen=True):
    """Input of ``memory``."""

    action: Annotated[Literal["read", "write", "search"], Meta(description="What to do")]
    key: (
        Annotated[str, Meta(description="What to read or write: glossary, people/sam; hot memory if not given")] | None
    ) = None
    content: Annotated[str, Meta(max_length=2_000_000, description="All that is to be kept; write needs it")] | None = (
        None
    )
    query: Annotated[str, Meta(description="Text to find, in any case; search needs it")] | None = None


class Memory:
    """See the module. ``home`` is the person's folder; None for nobody's."""

    name: ClassVar[str] = "memory"
    description: ClassVar[str] = (
        "Read, write or search what you keep about this project for later sessions. Without a key: hot memory, which "
        "you are shown at the start of every session, so keep it short. With a key: notes that you read when you need "
        "them. Writing replaces the whole note: read it first."
    )
    input: ClassVar[type[ToolInput]] = MemoryInput

    def __init__(self, home: Path | None = None) -> None:
        self._home = home

    async def run(self, given: MemoryInput, context: ToolContext) -> Result:
        """The note, what was written, or the lines found; with the ``path`` of the one note that it is about."""
        match given.action:
            case "read":
                return await in_thread(_read, given.key, self._home, context)
            case "write":
                return await _write(given, context)
            case "search":
                return Result(await _search(given.query, self._home, context))


def _read(key: str | None, home: Path | None, context: ToolContext) -> Result:
    if key in _HOT:
        content, absent, detail = _hot(home, context), "No hot cache found.", {}
    else:
        path = _path(key, context)
        content, absent, detail = (
            _content(path, context),
            f'Memory key "{key}" not found.',
            {"path": shown_path(str(path))},
        )
    if content is None:
        return Result(absent)
    return Result(cut(content, _CUT_NOTE, MOST_OF_FILE), detail=detail)


def _hot(home: Path | None, context: ToolContext) -> str | None:
    """Hot memory: the project's, or else the person's, which is guarded by a folder of its own."""
    content = _content(_path(None, context), context)
    if content is not None or home is None:
        return content
    folder = home / ".agent"
    return _text(PathGuard(folder, [folder]), folder / "AGENT.md", context)


async def _write(given: MemoryInput, context: ToolContext) -> Result:
    if not given.content:
        raise ToolFailed("content is required for write action")
    content, path = encoded("memory", given.content), str(_path(given.key, context))
    await change(context, "memory", path, given, lambda: content)
    said = "Hot cache updated." if given.key in _HOT else f"Memory written: {given.key}"
    return Result(said, detail={"path": shown_path(path)})


async def _search(query: str | None, home: Path | None, context: ToolContext) -> str:
    if not query:
        raise ToolFailed("query is required for search action")
    patience = Patience(context.settings.tools.search_seconds)
    return await settled(in_thread(_found, query, home, context, patience), on_cancel=patience.stop)


def _found(query: str, home: Path | None, context: ToolContext, patience: Patience) -> str:
    hot = [line for _, line in islice(_lines(query, lambda: _hot(home, context)), _MOST_HOT_LINES)]
    parts = ["\n".join(["[AGENT.md]", *hot])] if hot else []
    if deep := _found_deep(query, context, patience):
        parts.append("\n".join(deep))
    return cut("\n\n".join(parts), _CUT) if parts else f'No memory found for "{query}".'


def _found_deep(query: str, context: ToolContext, patience: Patience) -> list[str]:
    folder = _folder(context) / "memory"
    try:
        with failures("memory", str(folder)), context.guard.open_folder("memory", str(folder)) as fd:
            names = sorted(found.path for found in find(fd, Pattern("**/*.md"), patience))
    except ToolFailed:
        if folder.exists():
            raise
        return []
    shown: list[str] = []
    size = 0
    for name in names:
        key = shown_path(name.removesuffix(".md"))
        for number, line in _lines(query, partial(_content, folder / name, context)):
            shown.append(f"{key}:{number}:{line}")
            size += len(shown[-1]) + 1
            if size > MOST_CHARS + 1 or patience.over:
                return shown
    return shown


def _lines(query: str, read: Callable[[], str | None]) -> Iterator[tuple[int, str]]:
    """The lines with the query in them, numbered; none of a file that cannot be read."""
    try:
        content = read() or ""
    except ToolFailed:
        return
    wanted = query.casefold()
    for number, line in enumerate(each_line(content), 1):
        if wanted in line.casefold():
            yield number, shown_line(line)


def _content(path: Path, context: ToolContext) -> str | None:
    return _text(context.guard, path, context)


def _text(guard: PathGuard, path: Path, context: ToolContext) -> str | None:
    with failures("memory", str(path)):
        try:
            return read_text(guard, "memory", str(path), context.settings.tools.read_bytes).text
        except (FileNotFoundError, NotADirectoryError):
            return None


def _folder(context: ToolContext) -> Path:
    return context.roots[0] / ".agent"


def _path(key: str | None, context: ToolContext) -> Path:
    """Where a key's note is. Raises ``ToolFailed`` for a key that names no place in the memory folder."""
    if key is None or key in _HOT:
        return _folder(context) / "AGENT.md"
    parts = key.removesuffix(".md").split("/")
    if any(not part or part.startswith(".") or set(part) & {"\\", "\0"} for part in parts):
        raise ToolFailed(f"Memory key resolves outside memory directory: {key}")
    return (_folder(context) / "memory").joinpath(*parts[:-1], f"{parts[-1]}.md")
