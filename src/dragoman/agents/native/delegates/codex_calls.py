"""The tools that Codex runs itself: each one a ``tool.called`` and a ``tool.ended`` with executor ``agent``."""

from __future__ import annotations

import shlex
from typing import Any

import msgspec

from dragoman.agents.common.fields import count_of, dict_of, dicts_of, text_of
from dragoman.agents.native.providers.error_answers import DEEPEST, nests_deeper
from dragoman.agents.native.tools.command import STDOUT
from dragoman.agents.native.tools.command_output import SHOWN, Output
from dragoman.hub.events import Json, Problem, SubagentEnded, SubagentStarted, ToolCalled, ToolEnded, ToolProgressed
from dragoman.hub.events.tools import ToolStatus
from dragoman.hub.turns import TurnContext

Fields = dict[str, Any]

COMMAND, PATCH = "exec_command", "apply_patch"
"""Codex' own names for its shell and for what changes files."""

_NAMES = {
    "commandExecution": COMMAND,
    "fileChange": PATCH,
    "webSearch": "web_search",
    "imageView": "view_image",
    "imageGeneration": "image_generation",
}
_NAMED = frozenset({"mcpToolCall", "dynamicToolCall", "collabAgentToolCall"})

_STATUS: dict[str, ToolStatus] = {"declined": "denied", "failed": "error", "interrupted": "interrupted"}
_SPAWN = "spawnAgent"
_SHELLS = frozenset({"sh", "bash", "zsh", "dash"})


class _Call(msgspec.Struct):
    """A call under way; ``shown`` is when its output was shown last."""

    id: str
    tool: str
    input: Json
    began: float
    output: Output
    shown: float


class Calls:
    """The calls of one round. ``progress``: shortest time between two looks at a command's output, in seconds."""

    def __init__(self, turn: TurnContext, *, progress: float) -> None:
        self._turn = turn
        self._progress = progress
        self._calls: dict[str, _Call] = {}
        self._over: set[str] = set()
        self._subagents: dict[str, str] = {}
        self.made = False
        """Whether a call was made since somebody last set this back."""

    @property
    def running(self) -> bool:
        """Whether a call has no result yet."""
        return bool(self._calls)

    @staticmethod
    def is_call(kind: str) -> bool:
        """Whether an item of this type is a tool's call."""
        return kind in _NAMES or kind in _NAMED

    def knows(self, item: str) -> bool:
        """Whether this call was recorded."""
        return item in self._calls or item in self._over

    def of(self, item: str | None) -> tuple[str | None, Json]:
        """Our id of a running call, and what it was given."""
        call = self._calls.get(item or "")
        return (None, None) if call is None else (call.id, call.input)

    def called(self, item: str, fields: Fields) -> None:
        """A call begins."""
        self.made = True
        tool, now = _name(fields), self._turn.session.clock.monotonic()
        call = self._calls[item] = _Call(self._turn.session.ids(), tool, _input(fields), now, Output(STDOUT), now)
        self._turn.record(
            ToolCalled(
                call=call.id,
                tool=tool,
                input=call.input,
                turn=self._turn.turn,
                executor="agent",
                dynamic=fields.get("type") in ("mcpToolCall", "dynamicToolCall"),
            )
        )

    def grew(self, item: str | None, text: object) -> None:
        """A running command said more."""
        call = self._calls.get(item or "")
        if call is None or not isinstance(text, str):
            return
        call.output.feed(text.encode())
        now = self._turn.session.clock.monotonic()
        if now - call.shown >= self._progress:
            call.shown = now
            shown = {"stdout": call.output.unseen(), "stderr": ""}
            self._turn.record(ToolProgressed(call=call.id, output=shown, turn=self._turn.turn))

    def ended(self, item: str, fields: Fields) -> None:
        """A call has its result; one that had it already keeps that."""
        call = self._calls.pop(item, None)
        if call is None:
            return
        self._over.add(item)
        status: ToolStatus = _STATUS.get(str(fields.get("status")), "ok")
        if dict_of(fields, "error") or fields.get("success") is False:
            status = "error"
        turn, now = self._turn.turn, self._turn.session.clock.monotonic()
        if fields.get("tool") == _SPAWN:
            self._spawned(call, fields)
        self._turn.record(
            ToolEnded(
                call=call.id,
                tool=call.tool,
                status=status,
                output=_output(fields, call),
                problem=_problem(status, fields),
                turn=turn,
                duration_ms=round((now - call.began) * 1000),
            )
        )

    def subagent_ended(self, thread: str | None, status: str) -> None:
        """The conversation of a sub-agent is over."""
        subagent = self._subagents.pop(thread or "", None)
        if subagent is not None:
            self._turn.record(SubagentEnded(subagent=subagent, status=status, turn=self._turn.turn))

    def close(self) -> None:
        """No sub-agent outlives the program."""
        for thread in tuple(self._subagents):
            self.subagent_ended(thread, "interrupted")

    def _spawned(self, call: _Call, fields: Fields) -> None:
        threads, task = fields.get("receiverThreadIds"), text_of(fields, "prompt")
        for thread in threads if isinstance(threads, list) else ():
            if isinstance(thread, str) and thread not in self._subagents:
                subagent = self._subagents[thread] = self._turn.session.ids()
                told = None if task is None else bounded_text(task)
                self._turn.record(
                    SubagentStarted(subagent=subagent, name=call.tool, task=told, call=call.id, turn=self._turn.turn)
                )


def plain_command(command: str) -> str:
    """The command that Codex' shell is given: ``/bin/bash -lc 'touch x'`` is ``touch x``."""
    try:
        words = shlex.split(command)
    except ValueError:
        return command
    if len(words) == 3 and words[0].rpartition("/")[2] in _SHELLS and words[1] in ("-c", "-lc"):
        return words[2]
    return command


def changed_paths(given: Json) -> list[str]:
    """The paths that a recorded patch changes, and those that it moves a file to."""
    listed = list(dicts_of(given.get("changes"))) if isinstance(given, dict) else []
    return [path for entry in listed for name in ("path", "move_path") if (path := text_of(entry, name)) is not None]


def bounded_text(text: str) -> str:
    """At most as much as a command may say; of more the beginning and the end."""
    output = Output(STDOUT)
    output.feed(text.encode())
    output.finish()
    return output.text()


def bounded(value: Json) -> Json:
    """A value that the log can hold: as text, without its middle, where it is deep or large."""
    if isinstance(value, str):
        return bounded_text(value)
    if nests_deeper(value, DEEPEST):
        return "[nested too deeply to be kept]"
    text = msgspec.json.encode(value).decode()
    return value if len(text) <= STDOUT else bounded_text(text)


def _name(fields: Fields) -> str:
    kind = str(fields.get("type"))
    if kind in _NAMES:
        return _NAMES[kind]
    tool = (text_of(fields, "tool") or kind)[:_NAME_CHARS]
    server = text_of(fields, "server", "namespace")
    return f"mcp__{server[:_NAME_CHARS]}__{tool}" if server is not None else tool


def _input(fields: Fields) -> Json:
    kind = fields.get("type")
    if kind == "commandExecution":
        return {"command": bounded_text(plain_command(str(fields.get("command")))), "cwd": text_of(fields, "cwd")}
    if kind == "fileChange":
        return {"changes": [_change(entry) for entry in list(dicts_of(fields.get("changes")))[:_CHANGES]]}
    if kind == "collabAgentToolCall":
        return {"prompt": bounded(fields.get("prompt")), "agents": bounded(fields.get("receiverThreadIds"))}
    if kind in ("mcpToolCall", "dynamicToolCall"):
        return bounded(fields.get("arguments"))
    return {name: bounded(fields[name]) for name in ("query", "action", "path", "revisedPrompt") if fields.get(name)}


def _change(entry: Fields) -> Json:
    kind = dict_of(entry, "kind")
    change: dict[str, Json] = {
        "path": bounded(entry.get("path")),
        "kind": text_of(kind, "type"),
        "diff": bounded(entry.get("diff")),
    }
    moved = text_of(kind, "move_path")
    return change if moved is None else {**change, "move_path": moved}


def _output(fields: Fields, call: _Call) -> Json:
    kind = fields.get("type")
    if kind == "commandExecution":
        said = fields.get("aggregatedOutput")
        call.output.finish()
        text = bounded_text(said) if isinstance(said, str) and said else call.output.text()
        return {"stdout": text, "stderr": "", "exitCode": count_of(fields, "exitCode")}
    if kind == "fileChange":
        return None
    found = {name: bounded(fields[name]) for name in _RESULTS if fields.get(name) is not None}
    return next(iter(found.values())) if len(found) == 1 else found or None


def _problem(status: ToolStatus, fields: Fields) -> Problem | None:
    if status == "denied":
        return Problem(code="denied", message="It was not permitted.", source="permissions")
    if status != "error":
        return None
    code = count_of(fields, "exitCode")
    said = text_of(dict_of(fields, "error"), "message")
    return Problem(code="tool_failed", message=(said or (f"exit code {code}" if code else "it failed"))[:SHOWN])


_NAME_CHARS = 96
_CHANGES = 500
"""Files of one patch that are named."""
_RESULTS = ("result", "contentItems", "results", "savedPath", "agentsStates")
