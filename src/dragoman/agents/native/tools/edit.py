"""``edit``: other text in the place of some in a file."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta

from .files import Text, change, read_text
from .replacing import NotOnce, replaced
from .tool import Result, ToolContext, ToolFailed, ToolInput


class EditInput(ToolInput, frozen=True):
    """Input of ``edit``."""

    file_path: Annotated[str, Meta(description="Path of the file; a relative one starts at the working directory")]
    old_string: Annotated[str, Meta(min_length=1, description="The text to replace, exactly as it stands in the file")]
    new_string: Annotated[str, Meta(description="What is to stand there instead, taken literally")]
    replace_all: Annotated[bool, Meta(description="Replace every occurrence, not the only one")] = False


class Edit:
    """See the module."""

    name: ClassVar[str] = "edit"
    description: ClassVar[str] = (
        "Replace text in a file. oldString must be exactly what is in the file, spaces and all but without the line "
        "numbers that read shows, and occur once: give enough of what surrounds it, or set replaceAll. The file's line "
        "ends are kept."
    )
    input: ClassVar[type[ToolInput]] = EditInput

    async def run(self, given: EditInput, context: ToolContext) -> Result:
        """``Edit applied.``"""
        if not given.old_string:
            raise ToolFailed("edit: oldString is empty; to create a file use write")
        if given.old_string == given.new_string:
            raise ToolFailed("edit: oldString and newString are the same")
        await change(context, "edit", given.file_path, given, lambda: _edited(given, context))
        return Result("Edit applied.")


def _edited(given: EditInput, context: ToolContext) -> bytes:
    most = context.settings.tools.read_bytes
    old = read_text(context.guard, "edit", given.file_path, most)
    try:
        text = replaced(old.text, given.old_string, given.new_string, every=given.replace_all, most=most)
        content = Text(text, old.bom).encoded()
    except NotOnce as error:
        raise ToolFailed(_complaint(given.file_path, error.count)) from None
    except UnicodeEncodeError:
        raise ToolFailed("edit: newString is not text: it holds half a character") from None
    except OverflowError:
        raise ToolFailed(f"edit: the result would have more than {most} bytes") from None
    if len(content) > most:
        raise ToolFailed(f"edit: the result would have {len(content)} bytes, and {most} is the most")
    return content


def _complaint(path: str, count: int) -> str:
    if not count:
        return f"oldString not found in {path}"
    return f"oldString found {count} times in {path}: give more of what surrounds it, or set replaceAll"
