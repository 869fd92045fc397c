"""The tools that Claude Code uses by itself: each call once, with one result; its task list, its sub-agents."""

from __future__ import annotations

from typing import Any

import msgspec

from dragoman.agents.common.fields import dict_of, dicts_of, joined_text, text_of
from dragoman.agents.native.history import MODEL_TEXT, as_text
from dragoman.agents.native.providers.error_answers import DEEPEST, nests_deeper
from dragoman.agents.native.settings import DelegateSettings
from dragoman.hub.events import (
    Json,
    Problem,
    SubagentEnded,
    SubagentStarted,
    TodosChanged,
    ToolCalled,
    ToolEnded,
)
from dragoman.hub.events.tools import Executor, ToolStatus
from dragoman.hub.events.workspace import Todo

from .port import Assignment

SUBAGENTS = frozenset({"Task", "Agent"})
"""Tools that start a sub-agent: it has had both names."""

_TODOS = "TodoWrite"
_BROKEN_OFF = "[Request interrupted by user"
_REFUSED = frozenset({"user-rejected", "permission-rule"})


class _Open(msgspec.Struct, frozen=True):
    """A call without a result: which tool, and when it began on the loop's clock."""

    tool: str
    began: float
    input: Json


class ClaudeCalls:
    """One round's."""

    def __init__(self, assignment: Assignment, limits: DelegateSettings) -> None:
        self._turn = assignment.turn
        self._taken = assignment.calls
        self._limits = limits
        self._ids: dict[str, str] = {}
        self._open: dict[str, _Open] = {}
        self._subagents: set[str] = set()

    def opening(self, given: str) -> str:
        """The id here of a call that the program begins: the same, unless something else was called so before."""
        ids = self._turn.session.ids
        taken = given in self._taken or given in self._ids
        call = (f"{given}-{ids()[:8]}" if taken else given) if given else ids()
        self._ids[given] = call
        return call

    def id_of(self, given: str) -> str:
        """The id here of the call that the program last called so."""
        return self._ids.get(given, given)

    def called(self, call: str, tool: str, given: Json, executor: Executor, parent: str | None = None) -> None:
        """A call is complete. ``parent`` is the call of the sub-agent that made it."""
        if call in self._open:
            return
        self._open[call] = _Open(tool, self._turn.session.clock.monotonic(), given)
        self._turn.record(
            ToolCalled(
                call=call,
                tool=tool,
                input=given,
                turn=self._turn.turn,
                executor=executor,
                parent=parent,
            )
        )
        if tool in SUBAGENTS and parent is None and isinstance(given, dict):
            self._subagent_started(call, given)

    def called_aside(self, block: dict[str, Any], parent: str) -> None:
        """A sub-agent's call."""
        call, tool, given = self.opening(text_of(block, "id") or ""), text_of(block, "name") or "", block.get("input")
        given = as_text(given) if nests_deeper(given, DEEPEST) else given
        self.called(call, tool, given, "agent", self.id_of(parent))

    def results(self, record: dict[str, Any]) -> None:
        """The results that a record of the user's side brings, each one once."""
        blocks = [block for block in dicts_of(dict_of(record, "message").get("content")) if _is_result(block)]
        details: Json = record.get("tool_use_result") if len(blocks) == 1 else None
        refused = {
            text_of(meta, "id")
            for meta in dicts_of(record.get("tool_result_meta"))
            if meta.get("non_execution_kind") in _REFUSED
            or dict_of(meta, "permission_decision").get("decision") == "reject"
        }
        for block in blocks:
            self.result(block, details, refused=text_of(block, "tool_use_id") in refused)

    def result(self, block: dict[str, Any], details: Json = None, *, refused: bool = False) -> None:
        """A call's result, if it has none yet. ``details`` is what the program keeps of it beside the model's text."""
        call = self.id_of(text_of(block, "tool_use_id") or "")
        opened = self._open.pop(call, None)
        if opened is None:
            return
        text = self._cut(joined_text(block.get("content")))
        status = _status(text, details, refused=refused, failed=block.get("is_error") is True)
        problem = None
        if status != "ok":
            problem = Problem("denied" if status == "denied" else "tool_failed", text or f"{opened.tool} failed")
        self._turn.record(
            ToolEnded(
                call=call,
                tool=opened.tool,
                status=status,
                output=self._output(details or (None if text else block.get("content")), text),
                problem=problem,
                turn=self._turn.turn,
                duration_ms=round((self._turn.session.clock.monotonic() - opened.began) * 1000),
                detail={MODEL_TEXT: text},
            )
        )
        if status == "ok" and opened.tool == _TODOS:
            self._listed(opened.input)
        if not (isinstance(details, dict) and details.get("status") == "async_launched"):
            self._end_subagent(call, "completed" if status == "ok" else "failed", text)

    def subagent_ended(self, record: dict[str, Any]) -> None:
        """The program says that a task of its own is over; those that are sub-agents are told of."""
        call = self.id_of(text_of(record, "tool_use_id") or "")
        self._end_subagent(call, text_of(record, "status") or "completed", text_of(record, "summary"))

    def break_off(self) -> None:
        """The round is over: its sub-agents are too. Calls that have no result get theirs with the turn's end."""
        for call in tuple(self._subagents):
            self._end_subagent(call, "cancelled", None)

    # Inside

    def _output(self, details: Json, text: str) -> Json:
        """What the tool gave: as an object where the program tells it so, and it is not too much."""
        if not isinstance(details, dict | list) or nests_deeper(details, DEEPEST):
            return text
        return details if len(msgspec.json.encode(details)) <= self._limits.result_chars else text

    def _cut(self, text: str) -> str:
        limit = self._limits.result_chars
        return text if len(text) <= limit else f"{text[:limit]}\n[{len(text) - limit} more characters are left out]"

    def _listed(self, given: Json) -> None:
        listed = given.get("todos") if isinstance(given, dict) else None
        try:
            todos = msgspec.convert([_todo(entry) for entry in dicts_of(listed)], tuple[Todo, ...])
        except msgspec.ValidationError:
            return  # no list that anybody else could show
        self._turn.record(TodosChanged(todos=todos, turn=self._turn.turn))

    def _subagent_started(self, call: str, given: dict[str, Any]) -> None:
        self._subagents.add(call)
        self._turn.record(
            SubagentStarted(
                subagent=call,
                name=text_of(given, "subagent_type"),
                task=text_of(given, "prompt", "description"),
                call=call,
                turn=self._turn.turn,
            )
        )

    def _end_subagent(self, call: str, status: str, result: str | None) -> None:
        if call in self._subagents:
            self._subagents.remove(call)
            self._turn.record(SubagentEnded(subagent=call, status=status, result=result, turn=self._turn.turn))


def _is_result(block: dict[str, Any]) -> bool:
    return block.get("type") == "tool_result"


def _status(text: str, details: Json, *, refused: bool, failed: bool) -> ToolStatus:
    if refused:
        return "denied"
    if text.startswith(_BROKEN_OFF) or (isinstance(details, dict) and details.get("interrupted") is True):
        return "interrupted"
    return "error" if failed else "ok"


def _todo(entry: dict[str, Any]) -> dict[str, Json]:
    content = entry.get("content")
    return {
        "content": content,
        "status": entry.get("status"),
        "active_form": entry.get("activeForm") or content,
    }
