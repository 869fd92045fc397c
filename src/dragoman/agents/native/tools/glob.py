"""``glob``: files by their names."""

from __future__ import annotations

import heapq
from typing import Annotated, ClassVar

from msgspec import Meta

from .files import failures
from .patterns import Pattern
from .settled import settled
from .showing import MOST_CHARS, shown_path
from .tool import Result, ToolContext, ToolFailed, ToolInput, in_thread
from .walk import Found, Patience, find

_MOST = 1000
"""Files that are shown, the newest."""

_NONE = "No files found."


class GlobInput(ToolInput, frozen=True):
    """Input of ``glob``."""

    pattern: Annotated[str, Meta(min_length=1, description="Such as **/*.py or src/*/test_?.c; relative to cwd")]
    cwd: Annotated[str, Meta(description="Folder to search; the working directory if not given")] | None = None


class Glob:
    """See the module."""

    name: ClassVar[str] = "glob"
    description: ClassVar[str] = (
        "List files whose paths match a pattern, newest first, as paths from the folder searched. * and ? stay within "
        "a name, ** goes through folders; braces are not expanded, so ask once for each ending. Links are not "
        "followed. Hidden names are left out unless a part of the pattern begins with a dot. For what is in files use "
        "grep."
    )
    input: ClassVar[type[ToolInput]] = GlobInput

    async def run(self, given: GlobInput, context: ToolContext) -> Result:
        """One path a line, or ``No files found.``"""
        pattern = Pattern(given.pattern)
        patience = Patience(context.settings.tools.search_seconds)
        return await settled(in_thread(_search, given, pattern, context, patience), on_cancel=patience.stop)


def _search(given: GlobInput, pattern: Pattern, context: ToolContext, patience: Patience) -> Result:
    folder = given.cwd or str(context.cwd)
    with failures("glob", folder), context.guard.open_folder("glob", folder) as fd:
        counted, place = _Counted(), context.guard.check("glob", folder).path
        shown = (found for found in find(fd, pattern, patience) if not context.guard.hides(place / found.path))
        newest = heapq.nsmallest(_MOST, map(counted, shown), key=lambda found: (-found.modified, found.path))
    return _result(newest, counted.count, _why_not_all(context) if patience.over else None, given.pattern)


class _Counted:
    def __init__(self) -> None:
        self.count = 0

    def __call__(self, found: Found) -> Found:
        self.count += 1
        return found


def _why_not_all(context: ToolContext) -> str:
    return f"the search was stopped after {context.settings.tools.search_seconds:g} s; narrow it"


def _result(newest: list[Found], count: int, stopped: str | None, pattern: str) -> Result:
    if not newest:
        if stopped:
            raise ToolFailed(f"glob: {stopped}")
        hint = " (Braces are not expanded: use one pattern for each choice.)" if "{" in pattern else ""
        return Result(_NONE, _NONE + hint if hint else None)
    lines: list[str] = []
    room = MOST_CHARS
    for found in newest:
        line = shown_path(found.path)
        room -= len(line) + 1
        if room < 0:
            break
        lines.append(line)
    if len(lines) < count:
        lines.append(f"... truncated to the newest {len(lines)} of {count} matches")
    if stopped:
        lines.append(f"... incomplete: {stopped}")
    return Result("\n".join(lines))
