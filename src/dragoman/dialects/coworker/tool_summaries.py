"""Our own tools in this protocol's words: their inputs with defaults, and what is said of a call and of a result."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from dragoman.hub.events import Json, ToolEnded

from .javascript import length

Fields = dict[str, Json]

_EXACT = 2**53
"""Up to here a float that is whole is exactly that integer."""

ABSENT: Final = object()
"""The default of a field that may be left out, and then is."""

REQUIRED: Final = object()
"""The default of a field that may not."""

INPUTS: dict[str, dict[str, object]] = {
    "bash": {"command": REQUIRED, "timeout": 120_000},
    "read": {"filePath": REQUIRED, "offset": ABSENT, "limit": 2000},
    "write": {"filePath": REQUIRED, "content": REQUIRED},
    "edit": {"filePath": REQUIRED, "oldString": REQUIRED, "newString": REQUIRED, "replaceAll": False},
    "glob": {"pattern": REQUIRED, "cwd": ABSENT},
    "grep": {"pattern": REQUIRED, "path": ABSENT, "fileGlob": ABSENT, "contextLines": ABSENT, "caseSensitive": True},
    "ask": {"question": REQUIRED, "options": ABSENT},
    "todoWrite": {"todos": REQUIRED},
    "spawnAgent": {"task": REQUIRED, "agentType": "general"},
    "notebookEdit": {
        "notebookPath": REQUIRED,
        "cellIndex": REQUIRED,
        "newSource": ABSENT,
        "cellType": ABSENT,
        "editMode": "replace",
    },
    "skill": {"skillName": REQUIRED},
    "memory": {"action": REQUIRED, "key": ABSENT, "content": ABSENT, "query": ABSENT},
    "webFetch": {"url": REQUIRED, "maxLength": 50_000},
    "webSearch": {"query": REQUIRED, "maxResults": 10},
    "presentPlan": {"plan": REQUIRED},
}
"""The fields of each tool's input in the order in which they are shown, with their defaults."""


def with_defaults(tool: str, given: Json) -> Json:
    """The input as the tool gets it: its own fields, in its order, with its defaults for those that are left out.

    What is no input of a tool of ours is given back as it is. Says nothing of the executor: see ``given_input``.
    """
    fields = INPUTS.get(tool)
    if fields is None or not isinstance(given, dict):
        return given
    if any(default is REQUIRED and name not in given for name, default in fields.items()):
        return given
    shown = {name: _whole(default if given.get(name) is None else given[name]) for name, default in fields.items()}
    return {name: value for name, value in shown.items() if value is not ABSENT and value is not REQUIRED}


def _whole(value: Json) -> Json:
    if isinstance(value, float) and value.is_integer() and abs(value) <= _EXACT:
        return int(value)
    return value


# What is said of a call


def _some(*names: str) -> Callable[[Fields], Fields]:
    """These fields, where they are given."""
    return lambda given: {name: given[name] for name in names if name in given}


def _written(given: Fields) -> Fields:
    return {**_some("filePath")(given), "chars": _chars(given.get("content"))}


def _remembered(given: Fields) -> Fields:
    has_content = bool(given.get("content"))
    return {**_some("action", "key")(given), "hasContent": has_content, **_some("query")(given)}


def _counted(given: Fields) -> Fields:
    todos = given.get("todos")
    return {"count": len(todos) if isinstance(todos, list | tuple) else 0}


GIVEN: dict[str, Callable[[Fields], Fields]] = {
    "bash": _some("command", "timeout"),
    "read": _some("filePath", "offset", "limit"),
    "write": _written,
    "edit": _some("filePath", "replaceAll"),
    "glob": _some("pattern", "cwd"),
    "grep": _some("pattern", "path", "fileGlob", "contextLines", "caseSensitive"),
    "ask": _some("question", "options"),
    "todoWrite": _counted,
    "spawnAgent": _some("agentType"),
    "notebookEdit": _some("notebookPath", "cellIndex", "cellType", "editMode"),
    "skill": _some("skillName"),
    "memory": _remembered,
    "webFetch": _some("url", "maxLength"),
    "webSearch": _some("query", "maxResults"),
    "presentPlan": lambda given: {"chars": _chars(given.get("plan"))},
}
"""What is said of a call, from its input with defaults."""


# What is said of a result

_CUT_LIST = re.compile(r"\.\.\. truncated to the newest \d+ of (\d+) matches")


def _chars(value: Json) -> int:
    return length(value) if isinstance(value, str) else 0


def _got_chars(_given: Fields, fact: ToolEnded) -> Fields:
    return {"chars": _chars(fact.output)}


def _got_done(_given: Fields, _fact: ToolEnded) -> Fields:
    return {"ok": True}


def _got_answer(_given: Fields, fact: ToolEnded) -> Fields:
    return {"answer": fact.output}


def _got_list(given: Fields, _fact: ToolEnded) -> Fields:
    return _counted(given)


def _got_command(_given: Fields, fact: ToolEnded) -> Fields:
    got = fact.output if isinstance(fact.output, dict) else {}
    return {name: got[name] for name in ("stdout", "stderr", "exitCode") if name in got}


def _got_files(_given: Fields, fact: ToolEnded) -> Fields:
    lines = fact.output.split("\n") if isinstance(fact.output, str) else []
    for line in lines[-2:]:  # behind it there may be a note that the search was stopped
        if match := _CUT_LIST.fullmatch(line):
            return {"count": int(match[1])}
    if lines == ["No files found."]:
        return {"count": 0}
    return {"count": len(lines) - (lines[-1:] != [] and lines[-1].startswith("... incomplete: "))}


def _got_memory(given: Fields, fact: ToolEnded) -> Fields:
    action: Fields = _some("action")(given)
    if "path" in fact.detail:
        return {**action, "path": fact.detail["path"]}
    if given.get("action") == "read" and fact.output == f'Memory key "{given.get("key")}" not found.':
        return {**action, "found": False}
    return {**action, "chars": _chars(fact.output)}


GOT: dict[str, Callable[[Fields, ToolEnded], Fields]] = {
    "bash": _got_command,
    "read": _got_chars,
    "write": _got_done,
    "edit": _got_done,
    "glob": _got_files,
    "grep": _got_chars,
    "ask": _got_answer,
    "todoWrite": _got_list,
    "spawnAgent": _got_chars,
    "notebookEdit": _got_done,
    "skill": _got_chars,
    "memory": _got_memory,
    "webFetch": _got_chars,
    "webSearch": _got_chars,
    "presentPlan": _got_answer,
}
"""What is said of a result, from the input with defaults and the fact."""
