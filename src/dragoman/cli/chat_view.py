"""A session's facts as lines of text: what a person who talks with it reads. Pure; nothing here knows a terminal.

Text that streams comes out row by row as rows become full; the row that still grows, and the tools that still run, are
the ``tail``. No text comes out that was not cleaned.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .chat_summary import Usage, duration, input_summary, outcome_summary, result_lines
from .chat_text import PROMPT, Cleaner, Flow, Line, clean, one_line, wrap

Fact = dict[str, Any]

WORDS = 120
"""Columns of a notice."""

RUNNING = 4
"""Tools shown as running; of more the newest."""

_STYLES = {"text": "", "reasoning": "dim"}
_ROLES = {"assistant": "text", "reasoning": "reasoning"}
_LEVELS = {"info": "dim", "warning": "warn", "error": "bad"}
_TODOS = {
    "completed": ("dim", "\N{BALLOT BOX WITH CHECK}"),
    "in_progress": ("bold", "\N{BLACK RIGHT-POINTING SMALL TRIANGLE}"),
    "pending": ("", "\N{BALLOT BOX}"),
}
_STATUSES = {"ok": "good", "denied": "warn", "interrupted": "warn", "error": "bad"}
_OUR_TOOLS = ("tool> ", "tool< ")
"""Log lines that say of a tool what its own line says."""


class View:
    """See the module. ``columns`` tells how wide rows may be now, None for no limit; ``mine`` whether a client message
    id was given here, so that its prompt is not shown a second time."""

    def __init__(
        self, columns: Callable[[], int | None] = lambda: None, mine: Callable[[str], bool] = lambda _: False
    ) -> None:
        self._columns = columns
        self._mine = mine
        self._flow = Flow()
        self._cleaner = Cleaner()
        self._part: tuple[str, str] | None = None
        self._begun: set[str] = set()
        self._told: set[str] = set()
        self._calls: dict[str, tuple[str, str, int]] = {}
        self._usage = Usage()
        self.answer = ""
        """The newest whole message of the assistant, as it came."""

    def take(self, fact: Fact, at: int = 0) -> list[Line]:
        """The rows that a fact adds; ``at`` is its time in milliseconds."""
        name = "_on_" + fact["type"].replace(".", "_")
        handle: Callable[[Fact, int], list[Line]] | None = getattr(self, name, None)
        if handle is None:
            return []
        lines = handle(fact, at)
        if fact["type"] == "part.delta" or not lines:
            return lines
        before = self.settle()
        return before + [row for line in lines for row in wrap(line, self._columns())]

    def tail(self) -> list[Line]:
        """What may still change: tools that run, and the row that grows."""
        lines = [_call_line(tool, given, [("dim", " …")]) for tool, given, _ in list(self._calls.values())[-RUNNING:]]
        if self._part is not None and self._flow.row:
            lines.append([(_STYLES[self._part[1]], self._flow.row)])
        return lines

    # Turns

    def _on_prompt_submitted(self, fact: Fact, _: int) -> list[Line]:
        if self._mine(fact.get("client_message_id") or ""):
            return []
        via = one_line(f" (by {fact['by']} via {fact['via']})", WORDS)
        return [*prompt_lines(fact["text"]), [("dim", f"  {via.strip()}")]]

    def _on_prompt_taken(self, *_: Any) -> list[Line]:
        return [[("dim", "· the agent took it in")]]

    def _on_prompt_withdrawn(self, fact: Fact, _: int) -> list[Line]:
        return [[("dim", f"· a prompt will not run: {one_line(fact['reason'], WORDS)}")]]

    def _on_turn_started(self, *_: Any) -> list[Line]:
        self._usage = Usage()
        self._begun.clear()
        self._told.clear()
        self._calls.clear()
        self.answer = ""
        return []

    def _on_turn_ended(self, fact: Fact, _: int) -> list[Line]:
        self._calls.clear()
        problem = fact.get("problem") or {}
        words = self._usage.words()
        if fact.get("duration_ms") is not None:
            words.insert(0, duration(fact["duration_ms"]))
        last: Line = [("dim", f"  {' · '.join(words)}")] if words else [("dim", "  done")]
        match fact["outcome"]:
            case "failed":
                said = one_line(str(problem.get("message") or "no reason was given"), 4 * WORDS)
                return [[("bad", f"✗ the turn failed: {said}")], last]
            case "cancelled":
                return [[("warn", "✗ cancelled")], last]
            case "interrupted":
                return [[("warn", "✗ interrupted: the server was lost, or stopped, while it ran")], last]
        return [last]

    # What the model says

    def _on_part_started(self, fact: Fact, _: int) -> list[Line]:
        self._begun.add(fact["part"])
        return []

    def _on_part_delta(self, fact: Fact, _: int) -> list[Line]:
        kind, part = fact["kind"], fact["part"]
        if kind not in _STYLES or part not in self._begun:
            return []  # of a part that began before we came, the whole message will be shown
        before = self.settle() if self._part not in (None, (part, kind)) else []
        self._part = (part, kind)
        self._told.add(kind)
        rows = self._flow.feed(self._cleaner.feed(fact["text"]), self._columns())
        return before + [[(_STYLES[kind], row)] for row in rows]

    def _on_part_ended(self, fact: Fact, _: int) -> list[Line]:
        return self.settle() if self._part == (fact["part"], fact["kind"]) else []

    def _on_message_added(self, fact: Fact, _: int) -> list[Line]:
        role, text = fact["role"], str(fact["text"])
        if role == "assistant":
            self.answer = text
        kind = _ROLES.get(role)
        if kind is None:
            return [[("dim", f"· {role}: {one_line(text, WORDS)}")]]
        if kind in self._told:
            self._told.discard(kind)
            return []
        return [[(_STYLES[kind], line)] for line in clean(text).split("\n")]

    def settle(self) -> list[Line]:
        """Whatever streams is interrupted, or over: its last row, which will not change any more."""
        if self._part is None:
            return []
        style = _STYLES[self._part[1]]
        self._part = None
        rows = self._flow.feed(self._cleaner.end(), self._columns()) + self._flow.end()
        return [[(style, row)] for row in rows]

    def _on_usage_reported(self, fact: Fact, _: int) -> list[Line]:
        self._usage.report(fact)
        return []

    def _on_part_source(self, fact: Fact, _: int) -> list[Line]:
        source = fact.get("source") or {}
        url = source.get("url") if isinstance(source, dict) else None
        return [[("dim", f"· source: {one_line(str(url), WORDS)}")]] if url else []

    def _on_context_compacted(self, fact: Fact, _: int) -> list[Line]:
        match fact["phase"]:
            case "started":
                return [[("dim", "· the conversation is being summed up")]]
            case "failed":
                why = one_line(str(fact.get("problem") or ""), WORDS)
                return [[("warn", f"· the conversation could not be summed up: {why}")]]
        before, after = fact.get("tokens_before"), fact.get("tokens_after")
        much = f": {before:,} tokens became {after:,}" if before is not None and after is not None else ""
        return [[("dim", f"· the conversation was summed up{much}")]]

    # Tools

    def _on_tool_called(self, fact: Fact, at: int) -> list[Line]:
        self._calls[fact["call"]] = (fact["tool"], input_summary(fact.get("input")), at)
        return []

    def _on_tool_ended(self, fact: Fact, at: int) -> list[Line]:
        tool, given, began = self._calls.pop(fact["call"], (fact["tool"], input_summary(fact.get("input")), at))
        took = fact["duration_ms"] if fact.get("duration_ms") is not None else at - began
        style = _STATUSES.get(fact["status"], "dim")
        result: Line = [("dim", " … "), (style, outcome_summary(fact)), ("dim", f" {duration(took)}")]
        return [_call_line(tool, given, result), *([("dim", f"  {line}")] for line in result_lines(fact))]

    def _on_subagent_started(self, fact: Fact, _: int) -> list[Line]:
        task = one_line(str(fact.get("task") or ""), WORDS)
        return [[("dim", f"· sub-agent {one_line(str(fact.get('name') or ''), WORDS)} {task}".rstrip())]]

    def _on_subagent_ended(self, fact: Fact, _: int) -> list[Line]:
        return [[("dim", f"· sub-agent done {one_line(str(fact.get('status') or ''), WORDS)}".rstrip())]]

    # The work, and the session

    def _on_todos_changed(self, fact: Fact, _: int) -> list[Line]:
        lines: list[Line] = []
        for todo in fact["todos"]:
            style, sign = _TODOS.get(todo["status"], ("", "?"))
            label = todo["active_form"] if todo["status"] == "in_progress" else todo["content"]
            lines.append([(style, f"  {sign} {one_line(label, WORDS)}")])
        return lines

    def _on_log_written(self, fact: Fact, _: int) -> list[Line]:
        level = fact.get("level", "info")
        if level == "debug" or fact["line"].startswith(_OUR_TOOLS):
            return []
        return [[(_LEVELS.get(level, "dim"), f"· {one_line(fact['line'], 2 * WORDS)}")]]

    def _on_notified(self, fact: Fact, _: int) -> list[Line]:
        return [[("warn", f"! {one_line(fact['message'], 2 * WORDS)}")]]

    def _on_settings_changed(self, fact: Fact, _: int) -> list[Line]:
        told = [f"{name} {_setting(value)}" for name, value in fact["changes"].items()]
        return [[("dim", f"· {one_line(', '.join(told), WORDS)}")]]

    def _on_history_reset(self, *_: Any) -> list[Line]:
        return [[("dim", "· cleared: the agent remembers nothing from before")]]

    def _on_checkpoint_taken(self, fact: Fact, _: int) -> list[Line]:
        if fact.get("problem"):
            return [[("warn", f"· the folder could not be saved: {one_line(str(fact['problem']), 2 * WORDS)}")]]
        if fact["trigger"] != "manual":
            return []
        return [[("dim", f"· the folder is saved as {one_line(fact['checkpoint'], WORDS)}")]]

    def _on_checkpoint_restored(self, fact: Fact, _: int) -> list[Line]:
        return [[("dim", f"· the folder is again as checkpoint {one_line(fact['checkpoint'], WORDS)} has it")]]

    def _on_agent_exited(self, fact: Fact, _: int) -> list[Line]:
        return [[("dim", f"· the agent's program ended: {one_line(fact['cause'], WORDS)}")]]

    def _on_session_closed(self, fact: Fact, _: int) -> list[Line]:
        return [[("warn", f"· the session was closed: {one_line(fact['reason'], WORDS)}")]]


def prompt_lines(text: str) -> list[Line]:
    """What a person wrote, as it stands above the answer."""
    first, *rest = clean(text).rstrip("\n").split("\n")
    return [[("you", PROMPT + first)], *([("you", f"  {line}")] for line in rest)]


def _call_line(tool: str, given: str, result: Line) -> Line:
    name: Line = [("", "● "), ("bold", one_line(tool, WORDS))]
    return [*name, *([("", f" {given}")] if given else []), *result]


def _setting(value: Any) -> str:
    return "as the server has it" if value is None else str(value)
