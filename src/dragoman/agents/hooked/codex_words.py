"""A Codex tool call as its hooks tell of it: ``Bash``, ``Edit``, ``Write``, where its log has names of its own."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec

from dragoman.agents.common.fields import text_of
from dragoman.hub.events import Json, ToolCalled

_CHANGED = re.compile(r"^\*\*\* (Add|Update|Delete) File: (.+?)\s*$", re.MULTILINE)

_FILES_TOLD = 100
"""Files of a patch that are named beside it."""


def in_words_of_hooks(fact: ToolCalled) -> ToolCalled:
    """The call, named as hooks name it; unchanged where they have no other name."""
    teller = _TELLERS.get(fact.tool)
    if teller is None:
        return fact
    tool, given = teller(fact.input)
    return msgspec.structs.replace(fact, tool=tool, input=given)


def _command(given: Json) -> tuple[str, Json]:
    """One line, where Codex may have the words of one."""
    about: dict[str, Any] = given if isinstance(given, dict) else {}
    words: Json = about.get("cmd", about.get("command"))
    if isinstance(words, list):
        told = [str(word) for word in words]
        runs = len(told) == 3 and told[0].rpartition("/")[2] in ("bash", "sh", "zsh") and told[1] in ("-c", "-lc")
        words = told[2] if runs else " ".join(told)
    rest = {name: value for name, value in about.items() if name not in ("cmd", "command")}
    return "Bash", {"command": words if isinstance(words, str) else "", **rest}


def _action(given: Json) -> tuple[str, Json]:
    return _command(given.get("action", given) if isinstance(given, dict) else given)


def _patch(given: Json) -> tuple[str, Json]:
    """A patch that only adds files writes them; any other edits."""
    text: Json = (
        given if isinstance(given, str) else text_of(given, "input", "patch") if isinstance(given, dict) else ""
    )
    changes = _CHANGED.findall(text) if isinstance(text, str) else []
    tool = "Write" if changes and all(how == "Add" for how, _ in changes) else "Edit"
    told: dict[str, Json] = {"patch": text}
    if changes:
        told["file_path"] = changes[0][1]
    if len(changes) > 1:
        told["files"] = [path for _, path in changes[:_FILES_TOLD]]
    return tool, told


def _renamed(name: str) -> Callable[[Json], tuple[str, Json]]:
    return lambda given: (name, given)


def _searched(given: Json) -> tuple[str, Json]:
    query = text_of(given, "query") if isinstance(given, dict) else None
    return "WebSearch", {"query": query} if query is not None else given


_TELLERS: dict[str, Callable[[Json], tuple[str, Json]]] = {
    "exec_command": _command,
    "shell": _command,
    "shell_command": _command,
    "container.exec": _command,
    "local_shell": _action,
    "apply_patch": _patch,
    "web_search": _searched,
    "read_file": _renamed("Read"),
    "write_file": _renamed("Write"),
    "edit_file": _renamed("Edit"),
    "list_dir": _renamed("Glob"),
    "list_directory": _renamed("Glob"),
    "grep_files": _renamed("Grep"),
    "search_files": _renamed("Grep"),
}
