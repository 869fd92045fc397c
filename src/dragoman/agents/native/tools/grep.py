"""``grep``: lines by what is in them, with ripgrep."""

from __future__ import annotations

import asyncio
import contextlib
from asyncio.subprocess import Process
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Annotated, ClassVar, NamedTuple

from msgspec import Meta

from .files import failures
from .matches import Matches
from .ripgrep import find_ripgrep, head, kill, running
from .settled import settled
from .showing import cut
from .tool import Result, ToolContext, ToolFailed, ToolInput, in_thread

_CHUNK = 64 * 1024
_MOST_COMPLAINT = 2000

_OPTIONS = ("--json", "--no-config", "--no-messages", "--no-follow", "--no-ignore-global", "--sort=path")

_NONE = "No matches found."
_CUT = "... (cut; narrow the search with path, fileGlob or a rarer pattern)"


class GrepInput(ToolInput, frozen=True):
    """Input of ``grep``."""

    pattern: Annotated[str, Meta(min_length=1, description="Regular expression, in ripgrep's syntax")]
    path: Annotated[str, Meta(description="File or folder to search; the working directory if not given")] | None = None
    file_glob: Annotated[str, Meta(description="Only files like this: *.ts, !*.min.js")] | None = None
    context_lines: Annotated[int, Meta(ge=0, le=50, description="Lines to show around each match")] | None = None
    case_sensitive: Annotated[bool, Meta(description="Whether case matters")] = True


class Grep:
    """See the module."""

    name: ClassVar[str] = "grep"
    description: ClassVar[str] = (
        "Search file contents for a regular expression. Gives path:number:line for each line that matches (number:line "
        "when one file is searched), up to 30000 characters. Hidden and binary files and what .gitignore names are "
        "left out, links are not followed. For names of files use glob."
    )
    input: ClassVar[type[ToolInput]] = GrepInput

    async def run(self, given: GrepInput, context: ToolContext) -> Result:
        """The lines, or ``No matches found.``"""
        path = given.path or str(context.cwd)
        program = await in_thread(find_ripgrep)
        with failures("grep", path), contextlib.ExitStack() as held:
            place = await settled(in_thread(held.enter_context, _opened(path, context)))
            matches = Matches(context.guard, place.folder, grouped=bool(given.context_lines))
            held.callback(matches.close)
            try:
                async with asyncio.timeout(context.settings.tools.search_seconds):
                    complaint = await _search([program, *_arguments(given, place)], place, matches)
            except TimeoutError:
                return _unfinished(matches, context.settings.tools.search_seconds)
        return _result(matches, complaint)


class _Place(NamedTuple):
    """What is searched, as the guard opened it: a folder that ``rg`` runs in, or a file that it is given to read."""

    cwd: str
    folder: Path | None = None
    file: IO[bytes] | None = None


@contextlib.contextmanager
def _opened(path: str, context: ToolContext) -> Iterator[_Place]:
    """Raises as the guard does."""
    target = context.guard.check("grep", path).path
    if not target.is_dir():
        with context.guard.open_file("grep", path) as file:
            yield _Place("/", file=file)
        return
    with context.guard.open_folder("grep", path) as fd:
        yield _Place(f"/proc/self/fd/{fd}", folder=target)


def _arguments(given: GrepInput, place: _Place) -> list[str]:
    options = [*_OPTIONS, "--case-sensitive" if given.case_sensitive else "--ignore-case"]
    if given.file_glob:
        options.append(f"--glob={given.file_glob}")
    if given.context_lines:
        options.append(f"--context={given.context_lines}")
    return [*options, "--", given.pattern, "-" if place.file else "."]


async def _search(arguments: list[str], place: _Place, matches: Matches) -> str | None:
    """Runs it; gives what it complained of, if it found nothing because of that."""
    async with running(arguments, place.cwd, place.file) as process, asyncio.TaskGroup() as group:
        assert process.stderr is not None
        complaint = group.create_task(head(process.stderr, _MOST_COMPLAINT))
        await _read(process, matches)
        if matches.full:
            return None  # it has been killed, and what it had still to say is not wanted
        code = await process.wait()
    if code in (0, 1) or matches.text:
        return None
    said = complaint.result().decode("utf-8", "replace").strip()
    return said or (None if code == 2 else f"it ended with {code}")  # 2 without a word: a file could not be read


async def _read(process: Process, matches: Matches) -> None:
    assert process.stdout is not None
    while chunk := await process.stdout.read(_CHUNK):
        if await settled(in_thread(matches.feed, chunk)):
            kill(process)
            return


def _result(matches: Matches, complaint: str | None) -> Result:
    if complaint:
        raise ToolFailed(f"rg failed: {complaint}")
    left_out = f"({matches.left_out} matches in very long lines are not shown.)" if matches.left_out else ""
    if not matches.text:
        return Result(left_out or _NONE)
    return Result(cut("\n".join(filter(None, (matches.text, left_out))), _CUT))


def _unfinished(matches: Matches, seconds: float) -> Result:
    note = f"... (stopped after {seconds:g} s; narrow the search)"
    if not matches.text:
        raise ToolFailed(f"grep: nothing found in {seconds:g} s; narrow the search")
    return Result(cut(f"{matches.text}\n{note}", note))
