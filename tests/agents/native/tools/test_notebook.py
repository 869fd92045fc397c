"""``notebookEdit``: one cell, and the rest of the notebook as it was."""

import json
from pathlib import Path
from typing import Any

import pytest

from dragoman.agents.native.tools.notebook import NotebookEdit
from dragoman.agents.native.tools.tool import ToolDenied, ToolFailed

from .context import FakeTurn, run

CODE = {
    "cell_type": "code",
    "execution_count": 3,
    "id": "aa",
    "metadata": {"tags": ["x"]},
    "outputs": [{"data": {"x": float("nan")}, "text": "\ud83d"}],
    "source": ["a = 1\n", "b"],
}
TEXT = {"cell_type": "markdown", "id": "bb", "metadata": {}, "source": "# Tïtle"}


def notebook(*cells: dict[str, Any], minor: int = 5) -> dict[str, Any]:
    return {"cells": list(cells), "metadata": {"k": 1e5}, "nbformat": 4, "nbformat_minor": minor}


def stored(path: Path) -> list[dict[str, Any]]:
    return json.loads(path.read_text())["cells"]


@pytest.fixture
def file(root: Path) -> Path:
    path = root / "n.ipynb"
    path.write_text(json.dumps(notebook(CODE, TEXT), indent=1) + "\n")
    return path


async def test_a_code_cell_is_replaced_and_loses_outputs_that_are_not_its_own(file: Path, turn: FakeTurn) -> None:
    result = await run(NotebookEdit(), turn, notebook_path="n.ipynb", cell_index=0, new_source="c\nd\n")
    assert result.output == "Notebook updated: replace cell 0"
    assert stored(file) == [{**CODE, "source": ["c\n", "d\n"], "outputs": [], "execution_count": None}, TEXT]


async def test_a_source_that_is_one_string_stays_one(file: Path, turn: FakeTurn) -> None:
    await run(NotebookEdit(), turn, notebook_path="n.ipynb", cell_index=1, new_source="c\nd")
    assert stored(file)[1] == {**TEXT, "source": "c\nd"}


async def test_a_cell_changes_its_kind(file: Path, turn: FakeTurn) -> None:
    await run(NotebookEdit(), turn, notebook_path="n.ipynb", cell_index=0, new_source="c", cell_type="markdown")
    await run(NotebookEdit(), turn, notebook_path="n.ipynb", cell_index=1, new_source="d", cell_type="code")
    first, second = stored(file)
    assert first == {"cell_type": "markdown", "id": "aa", "metadata": {"tags": ["x"]}, "source": ["c"]}
    assert second == {**TEXT, "cell_type": "code", "source": "d", "outputs": [], "execution_count": None}


@pytest.mark.parametrize("index", [0, 1, 2])
async def test_a_cell_is_inserted_anywhere(file: Path, turn: FakeTurn, index: int) -> None:
    await run(NotebookEdit(), turn, notebook_path="n.ipynb", cell_index=index, new_source="x", edit_mode="insert")
    cells = stored(file)
    new = cells.pop(index)
    assert [cell["id"] for cell in cells] == ["aa", "bb"]
    assert len(new.pop("id")) == 8
    assert new == {"cell_type": "code", "metadata": {}, "source": ["x"], "outputs": [], "execution_count": None}


async def test_a_notebook_of_an_older_format_gets_no_ids(root: Path, turn: FakeTurn) -> None:
    (root / "n.ipynb").write_text(json.dumps(notebook(minor=4)))
    await run(
        NotebookEdit(),
        turn,
        notebook_path="n.ipynb",
        cell_index=0,
        new_source="x",
        cell_type="markdown",
        edit_mode="insert",
    )
    assert stored(root / "n.ipynb") == [{"cell_type": "markdown", "metadata": {}, "source": ["x"]}]


async def test_a_cell_is_deleted(file: Path, turn: FakeTurn) -> None:
    result = await run(NotebookEdit(), turn, notebook_path="n.ipynb", cell_index=0, edit_mode="delete")
    assert result.output == "Notebook updated: delete cell 0"
    assert stored(file) == [TEXT]


@pytest.mark.parametrize("indent", [None, 1, 2, 4, "\t"])
@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
async def test_all_else_is_spelled_as_before(root: Path, turn: FakeTurn, indent: int | None, end: str) -> None:
    other = notebook({**CODE, "outputs": [float("nan"), 10**30, "ü"]}, TEXT)
    before = json.dumps(other, indent=indent, ensure_ascii=False)
    before = before.replace("\n", end or "\n") + end
    (root / "n.ipynb").write_bytes(before.encode())
    await run(NotebookEdit(), turn, notebook_path="n.ipynb", cell_index=1, new_source="# Other")
    assert (root / "n.ipynb").read_bytes() == before.replace("# Tïtle", "# Other").encode()


@pytest.mark.parametrize(
    ("content", "given", "said"),
    [
        (None, {"cell_index": 2}, "Cell 2 out of range (2)"),
        (None, {"cell_index": 2, "edit_mode": "delete"}, "Cell 2 out of range (2)"),
        (None, {"cell_index": 3, "edit_mode": "insert"}, "Cell 3 out of range (2)"),
        (None, {"new_source": None}, "notebookEdit: newSource is required to replace a cell"),
        (None, {"new_source": None, "edit_mode": "insert"}, "notebookEdit: newSource is required to insert a cell"),
        (None, {"notebook_path": "n.py"}, "notebookEdit: not a .ipynb file: n.py"),
        (None, {"notebook_path": "absent.ipynb"}, "notebookEdit: no such file or directory: absent.ipynb"),
        (None, {"notebook_path": "../n.ipynb"}, "notebookEdit blocked: path is outside"),
        ("", {}, "notebookEdit: n.ipynb is no notebook: "),
        ("[]", {}, "notebookEdit: n.ipynb is no notebook: it has no list of cells"),
        ('{"cells": {}}', {}, "notebookEdit: n.ipynb is no notebook: it has no list of cells"),
        ('{"cells": [1]}', {}, "notebookEdit: n.ipynb is no notebook: it has no list of cells"),
        ("[" * 100_000, {}, "notebookEdit: n.ipynb is no notebook: "),
        ("\0", {}, "notebookEdit: n.ipynb is a binary file, not text"),
    ],
)
async def test_what_cannot_be_done_is_refused_before_anyone_is_asked(
    file: Path, turn: FakeTurn, content: str | None, given: dict[str, Any], said: str
) -> None:
    if content is not None:
        file.write_text(content)
    before = file.read_bytes()
    with pytest.raises(ToolFailed) as failed:
        await run(NotebookEdit(), turn, **{"notebook_path": "n.ipynb", "cell_index": 0, "new_source": "x", **given})
    assert str(failed.value).startswith(said)
    assert (file.read_bytes(), turn.edits) == (before, [])


async def test_a_denied_edit_changes_nothing(file: Path, root: Path) -> None:
    before = file.read_bytes()
    with pytest.raises(ToolDenied):
        await run(
            NotebookEdit(),
            FakeTurn(root, denied={str(file): "no"}),
            notebook_path="n.ipynb",
            cell_index=0,
            new_source="x",
        )
    assert file.read_bytes() == before
