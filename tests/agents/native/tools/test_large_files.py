"""Files that a hostile repository makes as large, or as odd, as limits let it: no tool takes many times their size."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dragoman.agents.native.settings import NativeSettings, ToolLimits
from dragoman.agents.native.tools.ask import Ask
from dragoman.agents.native.tools.memory import Memory
from dragoman.agents.native.tools.notebook import NotebookEdit
from dragoman.agents.native.tools.read import Read
from dragoman.agents.native.tools.schema import InvalidInput, decode
from dragoman.agents.native.tools.showing import MOST_CHARS, MOST_OF_FILE
from dragoman.agents.native.tools.skill import Skill
from dragoman.agents.native.tools.todos import TodoWrite
from dragoman.agents.native.tools.tool import Tool, ToolFailed
from tests.hub.workspaces import KnownSkills

from .context import FakeTurn, run

SIZE = 2_000_000


@contextmanager
def within(most: int) -> Iterator[None]:
    """At no time is more than this allocated."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < most
    finally:
        tracemalloc.stop()


def file(root: Path, name: str, content: str) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(content)


@pytest.mark.parametrize("offset", [1, 600_000, 10**30])
async def test_many_short_lines_are_read_without_a_list_of_them(root: Path, turn: FakeTurn, offset: int) -> None:
    file(root, "lines", "ab\n" * (SIZE // 3))
    with within(12 * SIZE):
        result = await run(Read(), turn, file_path="lines", offset=offset, limit=10)
    wanted = [f"{number}\tab" for number in range(offset, offset + 10)] if offset < SIZE else []
    assert result.output == "\n".join(wanted)


@pytest.mark.parametrize("name", ["AGENT.md", "memory/deep.md"])
async def test_a_memory_that_is_all_matches_is_searched_no_further_than_it_is_shown(
    root: Path, turn: FakeTurn, name: str
) -> None:
    file(root, f".agent/{name}", "ab\n" * (SIZE // 3))
    with within(12 * SIZE):
        result = await run(Memory(), turn, action="search", query="b")
    assert len(str(result.output)) <= MOST_CHARS


async def test_long_skills_and_notes_are_cut_and_say_so(root: Path, turn: FakeTurn) -> None:
    for name in ("memory/long.md", "AGENT.md"):
        file(root, f".agent/{name}", "x" * SIZE)
    skills = KnownSkills()
    skills.add("long", "x" * SIZE)
    results = [
        await run(Skill(skills), turn, skill_name="long"),
        await run(Memory(), turn, action="read", key="long"),
        await run(Memory(), turn, action="read"),
    ]
    for result in results:
        assert len(str(result.output)) == MOST_OF_FILE
        assert "(cut" in str(result.output)[-100:]


@pytest.mark.parametrize(
    "odd",
    [
        '{"cells": [], "x": ' + "[" * 100_000 + "]" * 100_000 + "}",
        '{\n "cells": [{}], "x": ' + "[" * 20_000 + "]" * 20_000 + "}",
        '{"cells": [], "x": ' + "9" * 100_000 + "}",
        '{"cells": ' * 50_000,
        '{"cells": {"0": {}}}',
        '{"cells": [1]}',
        "[]",
    ],
)
async def test_what_is_no_notebook_is_said_to_be_none(root: Path, turn: FakeTurn, odd: str) -> None:
    file(root, "n.ipynb", odd)
    with pytest.raises(ToolFailed, match="is no notebook"):
        await run(NotebookEdit(), turn, notebook_path="n.ipynb", cell_index=0, new_source="x")
    assert (root / "n.ipynb").read_text() == odd


async def test_a_notebook_that_would_grow_too_much_is_not_written_out_first(root: Path) -> None:
    turn = FakeTurn(root, settings=NativeSettings(tools=ToolLimits(read_bytes=SIZE)))
    odd = '{\n        "cells": [{}], "x": [' + ",".join("1" * (SIZE // 2 - 50)) + "]}"
    file(root, "n.ipynb", odd)
    with within(20 * SIZE), pytest.raises(ToolFailed, match="is the most"):
        await run(NotebookEdit(), turn, notebook_path="n.ipynb", cell_index=0, new_source="x")
    assert (root / "n.ipynb").read_text() == odd


@pytest.mark.parametrize(
    ("tool", "given", "most"),
    [
        (TodoWrite(), lambda count: {"todos": [{"content": "x", "status": "pending", "activeForm": "x"}] * count}, 500),
        (Ask(), lambda count: {"question": "?", "options": ["x"] * count}, 50),
    ],
)
def test_lists_for_people_have_an_end(tool: Tool, given: Callable[[int], object], most: int) -> None:
    decode(tool, json.dumps(given(most)))
    for count in (most + 1, 10_000):
        with pytest.raises(InvalidInput, match=f"length <= {most}"):
            decode(tool, json.dumps(given(count)))
