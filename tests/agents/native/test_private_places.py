"""No tool but a command touches what is the server's, wherever a session works: keys, lists of trust, logs, results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dragoman.agents.common.processes import ProcessTable
from dragoman.agents.native.providers.conversation import ToolMessage
from dragoman.agents.native.tools.table import built_in_tools
from dragoman.hub.events import ToolEnded

from .native_rig import Recording, native_hub, of, script

SECRET = "the-host-key"
NOTEBOOK = json.dumps({"cells": [{"cell_type": "code", "source": [SECRET], "metadata": {}, "outputs": []}]})

TRIES: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "read": [("read", {"filePath": "{to}/key"})],
    "write": [
        ("write", {"filePath": "{to}/key", "content": "mine"}),
        ("write", {"filePath": "{to}/new", "content": ""}),
    ],
    "edit": [("edit", {"filePath": "{to}/key", "oldString": "host", "newString": "my"})],
    "glob": [("glob", {"pattern": "**/*"}), ("glob", {"pattern": "*", "cwd": "{to}"})],
    "grep": [("grep", {"pattern": "the-"}), ("grep", {"pattern": "the-", "path": "{to}"})],
    "notebookEdit": [
        (
            "notebookEdit",
            {"notebookPath": "{to}/book.ipynb", "cellIndex": 0, "newSource": "mine", "editMode": "replace"},
        )
    ],
}
"""Calls of each tool that touches files: in the server's folder, at ``{to}``, or in all of the session's."""


@pytest.mark.parametrize("to", ["own", "link", "./sub/../own"])
@pytest.mark.parametrize("tool", TRIES)
async def test_a_tool_does_not_touch_what_is_the_servers(tmp_path: Path, tool: str, to: str) -> None:
    """A session may work in the person's home, where the configuration lies, and its mode may permit everything."""
    folder = tmp_path / "home"
    own = folder / "own"
    own.mkdir(parents=True)
    (folder / "sub").mkdir()
    (folder / "link").symlink_to("own")
    (folder / "mine.txt").write_text("the-persons own")
    (own / "key").write_text(SECRET)
    (own / "book.ipynb").write_text(NOTEBOOK)
    lines = [f"call {name} {json.dumps(given).replace('{to}', to)}" for name, given in TRIES[tool]]
    model = Recording()
    async with native_hub(folder, provider=model, private=[own]) as hub:
        facts = await hub.turn(await hub.session(mode="all"), script("\n".join(lines), "say ok"))
    told = [message.text for message in model.last if isinstance(message, ToolMessage)]
    assert len(told) == len(of(facts, ToolEnded)) == len(lines)
    assert not [text for text in told if "blocked" not in text and (SECRET in text or "book.ipynb" in text)]
    assert not [text for text in told if SECRET in text]
    blocked = [fact for fact in of(facts, ToolEnded) if fact.problem is not None and fact.problem.code == "blocked"]
    assert blocked, "whoever names it is told that it is out of reach"
    assert sorted(path.name for path in own.iterdir()) == ["book.ipynb", "key"]
    assert ((own / "key").read_text(), (own / "book.ipynb").read_text()) == (SECRET, NOTEBOOK)


def test_every_tool_that_touches_files_is_tried() -> None:
    """The others touch none, or such that no call names; what a command may do, the session's mode says."""
    beside = {"bash", "ask", "todoWrite", "skill", "memory", "webFetch", "webSearch"}
    tools = built_in_tools(processes=ProcessTable(), search_key=lambda _service: None)
    assert {tool.name for tool in tools} == TRIES.keys() | beside
