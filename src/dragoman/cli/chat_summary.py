"""Short words for what tools were given, how long things took, and what they cost."""

from __future__ import annotations

import json
from typing import Any

from .chat_text import clean, fit, one_line

INPUT_COLUMNS = 60
"""How much of a tool's input is shown in its line."""

PROBLEM_COLUMNS = 100

RESULT_LINES = 3
"""Lines that are shown of what a tool gave; of more it is said how many."""

RESULT_COLUMNS = 100

_SHOWN_OTHERWISE = frozenset(
    (
        *("ask", "askuserquestion", "presentplan", "exitplanmode", "todowrite"),
        *("edit", "multiedit", "write", "notebookedit"),
    )
)
"""Tools, in small letters, whose result says nothing that is not on the screen: a decision, the tasks, an edit."""

_TELLING = (
    "command",
    "filePath",
    "file_path",
    "notebookPath",
    "path",
    "pattern",
    "query",
    "url",
    "question",
    "task",
    "skillName",
    "key",
    "description",
)
"""Fields of a tool's input that say most about it, the best first."""


def input_summary(given: Any) -> str:
    """What a tool was given, in one short line."""
    if given is None or given in ({}, []):
        return ""
    if isinstance(given, str):
        return one_line(given, INPUT_COLUMNS)
    if isinstance(given, dict):
        for name in _TELLING:
            if isinstance(told := given.get(name), str) and told.strip():
                return one_line(told, INPUT_COLUMNS)
        if isinstance(todos := given.get("todos"), list):
            return f"{len(todos)} tasks"
    return one_line(json.dumps(given, ensure_ascii=False), INPUT_COLUMNS)


def outcome_summary(ended: dict[str, Any]) -> str:
    """How a tool call ended: its status, and what went wrong."""
    status = str(ended["status"])
    problem = (ended.get("problem") or {}).get("message")
    if problem and status == "error":
        return f"error: {one_line(str(problem), PROBLEM_COLUMNS)}"
    if problem and status == "denied":
        # What follows its first sentence is for the model.
        return f"denied: {one_line(str(problem).partition('. ')[0], PROBLEM_COLUMNS).rstrip('.')}"
    code = (ended.get("output") or {}).get("exitCode") if isinstance(ended.get("output"), dict) else None
    return f"{status}, exit code {code}" if status == "ok" and isinstance(code, int) and code != 0 else status


def result_lines(ended: dict[str, Any]) -> list[str]:
    """The first lines of what a tool gave, where that is text and its own line does not say it."""
    status, output = str(ended["status"]), ended.get("output")
    if status not in ("ok", "error") or (status == "ok" and str(ended["tool"]).lower() in _SHOWN_OTHERWISE):
        return []
    problem = str((ended.get("problem") or {}).get("message") or "") if status == "error" else ""
    text = clean(_text_of(output) or problem).strip("\n")
    if problem and outcome_summary(ended) == f"error: {' '.join(text.split())}":
        return []
    lines = [line.rstrip() for line in text.rstrip().split("\n")] if text.strip() else []
    left = len(lines) - RESULT_LINES
    shown = [fit(line, RESULT_COLUMNS) for line in lines[:RESULT_LINES]]
    return [*shown, f"… {left} more {'line' if left == 1 else 'lines'}"] if left > 0 else shown


def _text_of(output: Any) -> str:
    """What a tool gave, if it is text or what a command printed."""
    if isinstance(output, dict):
        printed = (output.get("stdout"), output.get("stderr"))
        return "\n".join(part.strip("\n") for part in printed if isinstance(part, str) and part.strip())
    return output if isinstance(output, str) else ""


def duration(milliseconds: float) -> str:
    """``35 ms``, ``1.2 s``, ``3 min 5 s``."""
    if milliseconds < 1000:
        return f"{round(milliseconds)} ms"
    seconds = milliseconds / 1000
    if seconds < 60:
        return f"{seconds:.1f} s"
    return f"{int(seconds // 60)} min {int(seconds % 60)} s"


class Usage:
    """Tokens and cost of one turn. The last report of a message counts."""

    def __init__(self) -> None:
        self._reports: dict[str, dict[str, Any]] = {}

    def report(self, fact: dict[str, Any]) -> None:
        """Take in a ``usage.reported``."""
        self._reports[fact["message"]] = fact

    def words(self) -> list[str]:
        """``1,200 in (800 cached)``, ``56 out``, ``$0.0123``, the model; only what is known."""
        words = []
        if given := self._sum("input_tokens"):
            cached = self._sum("cached_tokens")
            words.append(f"{given:,} in" + (f" ({cached:,} cached)" if cached else ""))
        if made := self._sum("output_tokens"):
            words.append(f"{made:,} out")
        if cost := self._sum("cost_usd"):
            about = "about " if any(report.get("estimated") for report in self._reports.values()) else ""
            words.append(f"{about}${cost:.4f}")
        models = [report["model"] for report in self._reports.values() if report.get("model")]
        if models:
            words.append(one_line(str(models[-1]), INPUT_COLUMNS))
        return words

    def _sum(self, field: str) -> Any:
        known = [report[field] for report in self._reports.values() if report.get(field) is not None]
        return sum(known) if known else None
