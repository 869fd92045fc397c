"""Every tool for files, while a folder is swapped for a link out of the roots again and again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dragoman.agents.native.tools.edit import Edit
from dragoman.agents.native.tools.glob import Glob
from dragoman.agents.native.tools.grep import Grep
from dragoman.agents.native.tools.memory import Memory
from dragoman.agents.native.tools.notebook import NotebookEdit
from dragoman.agents.native.tools.read import Read
from dragoman.agents.native.tools.tool import Tool, ToolFailed
from dragoman.agents.native.tools.write import Write
from tests.agents.native.test_path_races import exchange, swapping

from .context import FakeTurn, run

CELLS = '{"cells": [{"cell_type": "code", "source": "%s"}]}'
PLACE = ".agent/x"
TOOLS: list[tuple[Tool, dict[str, Any]]] = [
    (Read(), {"file_path": f"{PLACE}/f.md"}),
    (Grep(), {"pattern": ".", "path": PLACE}),
    (Grep(), {"pattern": ".", "path": f"{PLACE}/f.md"}),
    (Grep(), {"pattern": ".", "path": ".agent"}),
    (Glob(), {"pattern": "**/*", "cwd": PLACE}),
    (Glob(), {"pattern": f"{PLACE}/**"}),
    (Write(), {"file_path": f"{PLACE}/f.md", "content": "inside"}),
    (Write(), {"file_path": f"{PLACE}/new/f.md", "content": "inside"}),
    (Edit(), {"file_path": f"{PLACE}/f.md", "old_string": "i", "new_string": "i"}),
    (NotebookEdit(), {"notebook_path": f"{PLACE}/n.ipynb", "cell_index": 0, "new_source": "inside"}),
    (Memory(), {"action": "read", "key": "f"}),
    (Memory(), {"action": "search", "query": "s"}),
    (Memory(), {"action": "write", "key": "f", "content": "inside"}),
]


@pytest.mark.parametrize(("tool", "given"), TOOLS, ids=lambda each: getattr(each, "name", "") or str(each))
async def test_no_tool_reaches_out_through_a_link_that_comes_and_goes(
    tmp_path: Path, tool: Tool, given: dict[str, Any]
) -> None:
    name = "memory" if tool.name == "memory" else "x"
    inside, outside = tmp_path / "root/.agent" / name, tmp_path / "outside"
    for folder, said in ((inside, "inside"), (outside, "secret")):
        folder.mkdir(parents=True)
        (folder / "f.md").write_text(said)
        (folder / "n.ipynb").write_text(CELLS % said)
        (folder / f"{said}.md").touch()
    before = {each: each.read_bytes() for each in outside.iterdir()}
    other = inside.with_name("y")
    other.symlink_to(outside)
    turn = FakeTurn(tmp_path / "root")
    seen: set[str] = set()
    with swapping(lambda: exchange(inside, other)):
        for _ in range(60 if tool.name == "grep" else 300):
            try:
                result = await run(tool, turn, **given)
                seen |= {str(result.output), str(result.text)}
            except ToolFailed as failure:
                seen.add(str(failure))
    assert not [text for text in seen if "secret" in text]
    assert {each: each.read_bytes() for each in outside.iterdir()} == before
