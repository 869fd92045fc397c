"""``write``: a whole file."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta

from .files import Text, change
from .showing import shown_path
from .tool import Result, ToolContext, ToolFailed, ToolInput


class WriteInput(ToolInput, frozen=True):
    """Input of ``write``."""

    file_path: Annotated[str, Meta(description="Path of the file; a relative one starts at the working directory")]
    content: Annotated[str, Meta(max_length=2_000_000, description="All that the file is to hold")]


class Write:
    """See the module."""

    name: ClassVar[str] = "write"
    description: ClassVar[str] = (
        "Create a file, with the folders above it, or replace all of one that exists. Up to 2,000,000 characters. To "
        "change a part of an existing file use edit."
    )
    input: ClassVar[type[ToolInput]] = WriteInput

    async def run(self, given: WriteInput, context: ToolContext) -> Result:
        """``Wrote N chars to PATH``."""
        content = encoded("write", given.content)
        path = await change(context, "write", given.file_path, given, lambda: content)
        return Result(f"Wrote {len(given.content)} chars to {shown_path(str(path))}")


def encoded(tool: str, text: str) -> bytes:
    """The text as it is stored. Raises ``ToolFailed`` where it is none."""
    try:
        return Text(text, bom=False).encoded()
    except UnicodeEncodeError as error:
        raise ToolFailed(f"{tool}: the content is not text: character {error.start} is half of one") from None
