"""What Claude Code says while it works, as facts of the turn, in the order in which a native turn has them.

One record a line. Those of sub-agents carry ``parent_tool_use_id``: their calls are told of, their words are not.
"""

from __future__ import annotations

from typing import Any

import msgspec

from dragoman.agents.common.errors import categorise
from dragoman.agents.common.fields import count_of, dict_of, dicts_of, text_of
from dragoman.agents.native.providers.port import Cause, ProviderFailed
from dragoman.agents.native.settings import DelegateSettings
from dragoman.agents.native.step import problem_of
from dragoman.hub.events import Compacted, Json, LogWritten, Problem

from .claude_calls import ClaudeCalls
from .claude_step import ClaudeStep, usage_report
from .port import Assignment

COST = "cost_usd"
"""In the metadata of a step: what the whole of the program's conversation has cost so far."""

_CAUSES: dict[str, Cause] = {
    "unauthorized": "unauthorized",
    "rate_limited": "rate_limited",
    "no_internet": "network",
    "server_error": "overloaded",
}


class Result(msgspec.Struct, frozen=True):
    """How the program says that a round came out. ``failed`` has its words, where it did not come out well."""

    text: str | None
    failed: str | None = None


class ClaudeFacts:
    """One round's. ``take`` every record; ``result`` is there once the program has given one."""

    def __init__(self, assignment: Assignment, provider: str, limits: DelegateSettings) -> None:
        self._turn = assignment.turn
        self._answers = assignment.place.settings.turn
        self._provider = provider
        self._hooks = assignment.hooks
        self._number = assignment.step - 1
        self._began_at = self._number
        self._metadata: dict[str, Json] = {}
        self._paid = _number(assignment.remembered.get(COST)) if assignment.agent_session else 0.0
        self._cost: float | None = None
        self._model: str | None = None
        self._step: ClaudeStep | None = None
        self._asides: set[str] = set()
        self._text: str | None = None
        self.calls = ClaudeCalls(assignment, limits)
        """The tools that it uses."""
        self.result: Result | None = None

    @property
    def step(self) -> int:
        """The number of the last step that was recorded."""
        return self._number

    @property
    def began(self) -> bool:
        """Whether any step was recorded."""
        return self._number > self._began_at

    @property
    def text(self) -> str | None:
        """The last answer's text."""
        return self._text

    def take(self, record: dict[str, Any]) -> None:
        """Tell what one record says; what it says that nobody knows is left out."""
        parent = text_of(record, "parent_tool_use_id")
        match record.get("type"):
            case "stream_event" if parent is None:
                self._stream(dict_of(record, "event"))
            case "assistant" if parent is None:
                self._assistant(record)
            case "assistant" if parent is not None:
                self._aside(record, parent)
            case "user":
                self.calls.results(record)
            case "system":
                self._system(record)
            case "result":
                self._result(record)
            case _:
                pass

    def break_off(self) -> None:
        """End what is open: the round was cut off."""
        self.calls.break_off()
        self._end_step()

    def fail(self, failure: ProviderFailed) -> None:
        """End the step with what went wrong; one that never began is told of all the same."""
        self.calls.break_off()
        if self._step is None:
            self._begin("", None)
        self._end_step(problem_of(failure))

    # The model's messages

    def _stream(self, event: dict[str, Any]) -> None:
        if event.get("type") == "message_start":
            message = dict_of(event, "message")
            self._begin(text_of(message, "id") or "", text_of(message, "model"))
        if self._step is not None:
            self._step.stream(event)

    def _assistant(self, record: dict[str, Any]) -> None:
        message = dict_of(record, "message")
        if _is_error(record, message):
            return  # the API's error in the model's place; the result says it too
        name = text_of(message, "id") or ""
        if self._step is None or self._step.message != name:
            self._begin(name, text_of(message, "model"))
        assert self._step is not None
        for block in dicts_of(message.get("content")):
            if str(block.get("type")).endswith("_tool_result"):
                self.calls.result(block)  # of a tool that the provider ran
            self._step.whole(message, block, aborted=record.get("aborted") is True)

    def _aside(self, record: dict[str, Any], parent: str) -> None:
        """A sub-agent's message: what it calls, and what it cost."""
        message = dict_of(record, "message")
        for block in dicts_of(message.get("content")):
            if block.get("type") == "tool_use":
                self.calls.called_aside(block, parent)
        name = text_of(message, "id")
        if name is None or name in self._asides:
            return
        self._asides.add(name)
        turn = self._turn.turn
        usage = usage_report(
            f"{turn}:{name}", dict_of(message, "usage"), turn=turn, model=text_of(message, "model"), aside=True
        )
        if usage is not None:
            self._turn.record(usage)

    def _begin(self, message: str, model: str | None) -> None:
        self._end_step()
        self._number += 1
        self._step = ClaudeStep(
            self._turn,
            self._number,
            message or f"{self._turn.turn}:{self._number}",
            model or self._model,
            provider=self._provider,
            limits=self._answers,
            opening=self.calls.opening,
            id_of=self.calls.id_of,
            on_call=self.calls.called,
        )

    def _end_step(self, problem: Problem | None = None) -> None:
        step, self._step = self._step, None
        if step is None:
            return
        cost, self._cost = self._cost, None
        step.end(dict(self._metadata), cost=cost, problem=problem)
        self._text = step.text or None

    # The program's own

    def _system(self, record: dict[str, Any]) -> None:
        match record.get("subtype"):
            case "init":
                self._model = text_of(record, "model") or self._model
                self._know(record)
            case "api_retry":
                self._say(_retry(record))
            case "compact_boundary":
                self._compacted(dict_of(record, "compact_metadata") or dict_of(record, "compactMetadata"))
            case "task_notification":
                self.calls.subagent_ended(record)
            case _:
                pass

    def _know(self, record: dict[str, Any]) -> None:
        """The id of its conversation, from here on part of each step's end."""
        name = text_of(record, "session_id")
        if name is not None:
            self._hooks.named(name)
            self._metadata["agent_session"] = name
            if self._paid:
                self._metadata[COST] = self._paid

    def _compacted(self, details: dict[str, Any]) -> None:
        self._turn.record(
            Compacted(
                compaction=self._turn.session.ids(),
                phase="done",
                turn=self._turn.turn,
                reason=text_of(details, "trigger"),
                tokens_before=count_of(details, "pre_tokens") or count_of(details, "preTokens"),
                tokens_after=count_of(details, "post_tokens") or count_of(details, "postTokens"),
            )
        )

    def _result(self, record: dict[str, Any]) -> None:
        failed = _failure(record)
        self._know(record)
        self._cost = self._cost_of(record.get("total_cost_usd"))
        if failed is not None:
            self.result = Result(None, failed)
            return
        if self._step is None and self._cost:
            self._begin("", None)  # nothing of what it paid for was said aloud
        self._end_step()
        self.result = Result(self._text or text_of(record, "result"))

    def _cost_of(self, told: Json) -> float | None:
        """What this round added to the conversation's cost, which the program counts from its beginning on.

        A version that counts anew each time tells less than was paid before, mostly.
        """
        if isinstance(told, bool) or not isinstance(told, int | float) or told < 0:
            return None
        paid = told - self._paid if told >= self._paid else float(told)
        self._paid = self._metadata[COST] = float(told)
        return round(paid, 9)

    def _say(self, line: str) -> None:
        self._turn.record(LogWritten(line=line, level="warning", turn=self._turn.turn))


def failure_of(words: str) -> ProviderFailed:
    """A failure in the program's own words; what to do about one that is not signed in is said too."""
    cause = _CAUSES.get(categorise(words), "failed")
    if "not logged in" in words.lower() or cause == "unauthorized":
        hint = "run 'claude' once and sign in, or give a key with 'dragoman providers key claude-code'"
        return ProviderFailed(f"{words} ({hint})", cause="unauthorized")
    return ProviderFailed(words, cause=cause)


def _failure(record: dict[str, Any]) -> str | None:
    """The words of a result that did not come out well, or None."""
    if record.get("is_error") is not True and record.get("subtype") in (None, "success"):
        return None
    listed = record.get("errors")
    errors = [error for error in listed if isinstance(error, str)] if isinstance(listed, list) else []
    return text_of(record, "result") or "; ".join(errors) or f"it ended with {record.get('subtype')}"


def _is_error(record: dict[str, Any], message: dict[str, Any]) -> bool:
    told = record.get("error") or record.get("is_api_error_message") or record.get("isApiErrorMessage")
    return bool(told) or message.get("model") == "<synthetic>"


def _retry(record: dict[str, Any]) -> str:
    what = text_of(record, "error") or "it failed"
    status = count_of(record, "error_status")
    delay = (count_of(record, "retry_delay_ms") or 0) / 1000
    shown = f"{what}, {status}" if status is not None else what
    return f"model call failed ({shown}); the program tries again in {delay:g} s"


def _number(value: Json) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else 0.0
