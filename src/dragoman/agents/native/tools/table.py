"""The built-in tools, in the order in which a model is told of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from dragoman.agents.common.processes import ProcessTable
from dragoman.hub.skills import Skills

from .ask import Ask
from .bash import Bash
from .edit import Edit
from .glob import Glob
from .grep import Grep
from .memory import Memory
from .notebook import NotebookEdit
from .read import Read
from .skill import Skill
from .todos import TodoWrite
from .tool import Tool
from .web_fetch import WebFetch
from .web_search import WebSearch
from .write import Write


def built_in_tools(
    *,
    processes: ProcessTable,
    search_key: Callable[[str], str | None],
    skills: Skills | None = None,
    home: Path | None = None,
) -> list[Tool]:
    """All of them. ``processes`` is shared by all commands of a server; ``search_key`` gives a search service's key.

    ``skills`` are what the tool ``skill`` loads, ``home`` is the person's folder.
    """
    return [
        *(Bash(processes), Read(), Write(), Edit(), Glob(), Grep(), Ask(), TodoWrite()),
        *(Skill(skills), NotebookEdit(), Memory(home), WebFetch(), WebSearch(search_key)),
    ]
