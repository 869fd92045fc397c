"""``read``: a part of a text file, with line numbers."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Annotated, ClassVar

from msgspec import Meta

from .files import failures, read_text
from .showing import MOST_OF_FILE, each_line, shown_line
from .tool import Result, ToolContext, ToolInput, in_thread


class ReadInput(ToolInput, frozen=True):
    """Input of ``read``."""

    file_path: Annotated[str, Meta(description="Path of the file; a relative one starts at the working directory")]
    offset: Annotated[int, Meta(ge=1, description="Line to start at, counted from 1")] = 1
    limit: Annotated[int, Meta(ge=1, le=20_000, description="How many lines")] = 2000


class Read:
    """See the module."""

    name: ClassVar[str] = "read"
    description: ClassVar[str] = (
        "Read a text file (UTF-8). Gives each line as its number, a tab and its text; lines over 2000 characters are "
        "cut. Reads 2000 lines unless told otherwise: use offset and limit for other parts of a long file. Folders and "
        "binary files cannot be read; glob lists files and grep searches them."
    )
    input: ClassVar[type[ToolInput]] = ReadInput

    async def run(self, given: ReadInput, context: ToolContext) -> Result:
        """The lines asked for."""
        return await in_thread(_read, given, context)


def _read(given: ReadInput, context: ToolContext) -> Result:
    with failures("read", given.file_path):
        content = read_text(context.guard, "read", given.file_path, context.settings.tools.read_bytes)
    text = content.text
    count = text.count("\n") + (text[-1:] not in ("", "\n"))  # the end of the last line begins no further one
    first = min(given.offset - 1, count)
    numbered = _numbered(islice(each_line(text), first, first + given.limit), given.offset)
    return Result("\n".join(numbered), _told(numbered, given.offset, count))


def _numbered(lines: Iterable[str], offset: int) -> list[str]:
    numbered: list[str] = []
    size = 0
    for number, line in enumerate(lines, offset):
        text = f"{number}\t{shown_line(line)}"
        size += len(text) + 1
        if size > MOST_OF_FILE:
            break
        numbered.append(text)
    return numbered


def _told(numbered: list[str], offset: int, count: int) -> str | None:
    """What the model gets, where that is more than the lines."""
    if not count:
        return "(The file is empty.)"
    if not numbered:
        return f"(There is no line {offset}: the file has {count}.)"
    rest = count - (offset - 1 + len(numbered))
    if not rest:
        return None
    return "\n".join(numbered) + f"\n\n({rest} more lines; go on with offset {count - rest + 1}.)"
