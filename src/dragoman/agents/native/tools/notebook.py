"""``notebookEdit``: one cell of a Jupyter notebook."""

from __future__ import annotations

import io
import json
import secrets
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta

from .files import Text, change, read_text
from .tool import Result, ToolContext, ToolFailed, ToolInput

_NAME = "notebookEdit"


class NotebookEditInput(ToolInput, frozen=True):
    """Input of ``notebookEdit``."""

    notebook_path: Annotated[str, Meta(description="Path of the .ipynb file")]
    cell_index: Annotated[int, Meta(ge=0, description="Which cell, counted from 0; insert puts the new one there")]
    new_source: Annotated[str, Meta(description="The cell's source; delete needs none")] | None = None
    cell_type: (
        Annotated[
            Literal["code", "markdown"], Meta(description="Kind of the cell; without it replace keeps it, insert: code")
        ]
        | None
    ) = None
    edit_mode: Annotated[Literal["replace", "insert", "delete"], Meta(description="What to do")] = "replace"


class NotebookEdit:
    """See the module."""

    name: ClassVar[str] = _NAME
    description: ClassVar[str] = (
        "Replace, insert or delete one cell of a Jupyter notebook (.ipynb). A code cell whose source is replaced loses "
        "its outputs, for they are no longer its own. grep and read show a notebook's cells as JSON."
    )
    input: ClassVar[type[ToolInput]] = NotebookEditInput

    async def run(self, given: NotebookEditInput, context: ToolContext) -> Result:
        """``Notebook updated: MODE cell INDEX``."""
        path = given.notebook_path
        if not path.lower().endswith(".ipynb"):
            raise ToolFailed(f"{_NAME}: not a .ipynb file: {path}")
        if given.new_source is None and given.edit_mode != "delete":
            raise ToolFailed(f"{_NAME}: newSource is required to {given.edit_mode} a cell")
        await change(context, _NAME, path, given, lambda: _edited(given, context))
        return Result(f"Notebook updated: {given.edit_mode} cell {given.cell_index}")


def _edited(given: NotebookEditInput, context: ToolContext) -> bytes:
    most = context.settings.tools.read_bytes
    old = read_text(context.guard, _NAME, given.notebook_path, most)
    try:
        notebook = json.loads(old.text)  # not msgspec: notebooks hold NaN, and must keep it
        _edit(notebook, given)
        content = Text(_spelled(notebook, old.text, most), old.bom).encoded()
    except (ValueError, RecursionError) as error:
        raise ToolFailed(f"{_NAME}: {given.notebook_path} is no notebook: {error}") from None
    if len(content) > most:
        raise ToolFailed(f"{_NAME}: the result would have {len(content)} bytes, and {most} is the most")
    return content


def _edit(notebook: Any, given: NotebookEditInput) -> None:
    cells = notebook.get("cells") if isinstance(notebook, dict) else None
    if not isinstance(cells, list) or not all(isinstance(cell, dict) for cell in cells):
        raise ValueError("it has no list of cells")
    index = given.cell_index
    if index >= len(cells) + (given.edit_mode == "insert"):
        raise ToolFailed(f"Cell {index} out of range ({len(cells)})")
    match given.edit_mode:
        case "delete":
            del cells[index]
        case "insert":
            cells.insert(index, _new_cell(notebook, given.cell_type or "code", given.new_source or ""))
        case "replace":
            _replace(cells[index], given.cell_type, given.new_source or "")


def _new_cell(notebook: dict[str, Any], kind: str, source: str) -> dict[str, Any]:
    cell: dict[str, Any] = {"cell_type": kind}
    if _has_ids(notebook):
        cell["id"] = secrets.token_hex(4)
    return cell | {"metadata": {}, "source": source.splitlines(keepends=True)} | _results(kind)


def _replace(cell: dict[str, Any], kind: str | None, source: str) -> None:
    cell["source"] = source if isinstance(cell.get("source"), str) else source.splitlines(keepends=True)
    cell["cell_type"] = kind or cell.get("cell_type", "code")
    for stale in ("outputs", "execution_count"):
        cell.pop(stale, None)
    if cell["cell_type"] == "code":
        cell.pop("attachments", None)
    cell.update(_results(cell["cell_type"]))


def _results(kind: str) -> dict[str, Any]:
    return {"outputs": [], "execution_count": None} if kind == "code" else {}


def _has_ids(notebook: dict[str, Any]) -> bool:
    """Cells have ids from format 4.5 on, and before that may have none."""
    version = notebook.get("nbformat"), notebook.get("nbformat_minor")
    return all(isinstance(each, int) for each in version) and version >= (4, 5)


def _spelled(notebook: Any, old: str, most: int) -> str:
    """JSON with the indentation, the line ends and the end of the old text."""
    second = old.lstrip().partition("\n")[2]
    indent = second[: len(second) - len(second.lstrip(" \t"))] if second else None
    try:
        text = _dumped(notebook, most, ensure_ascii=False, indent=indent)
        text.encode()
    except UnicodeEncodeError:  # half a character in an output is JSON as long as it is spelled `\ud83d`
        text = _dumped(notebook, most, indent=indent)
    text += old[len(old.rstrip()) :].replace("\r\n", "\n")
    return text.replace("\n", "\r\n") if "\r\n" in old else text


def _dumped(notebook: Any, most: int, **spelling: Any) -> str:
    """Piece by piece, for all pieces at once take far more than the text. Raises ``ToolFailed`` beyond ``most``."""
    if spelling["indent"] is None:
        return json.dumps(notebook, **spelling)  # made as one, and ten times as fast
    text, size = io.StringIO(), 0
    for piece in json.JSONEncoder(**spelling).iterencode(notebook):
        size += text.write(piece)
        if size > most:
            raise ToolFailed(f"{_NAME}: the result would have more than {most} bytes, and that is the most")
    return text.getvalue()
