"""The log as the seed's events (seed: AgentEvent): a fold that makes at most one of each fact.

What an event tells beside its own fact (the input of the call that ends, the last words before a stop) is kept by
``Story``; one that starts from the state before an event, and one that has read the log up to it, tell the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from dragoman.hub.events import (
    AgentExited,
    AgentStarted,
    AnyFact,
    Compacted,
    Event,
    HistoryReset,
    HookAnswered,
    Json,
    MessageAdded,
    Notified,
    PromptSubmitted,
    PromptTaken,
    PromptWithdrawn,
    SettingsChanged,
    SubagentEnded,
    SubagentStarted,
    ToolCalled,
    ToolEnded,
    TurnEnded,
    TurnStarted,
    tag_of,
)
from dragoman.hub.journal import SessionRow
from dragoman.hub.state import SessionState

from . import messages as wire

KEPT_CALLS = 1000
"""Open calls, and waiting prompts, whose content is kept."""

SELF_TOLD = frozenset({"terminal", "hooked"})
"""Kinds whose own hooks or logs tell of a start."""


class Call(msgspec.Struct, frozen=True):
    """An open tool call."""

    input: Json
    at: int


class Story(msgspec.Struct):
    """What events lean on, of one session."""

    session: str
    kind: str
    agent: str
    cwd: str
    agent_session: str | None = None
    calls: dict[str, Call] = {}
    prompts: dict[str, str] = {}
    text: str | None = None
    """The agent's last words."""
    preamble: str | None = None
    """Its words before the calls that it makes now."""
    stopped: bool = False
    """Whether a stop was told of since work began."""
    turn_at: int = 0
    """When the open turn, or the newest one, began."""
    ended: bool = False
    """Whether the end of the agent's session was told of since it started."""

    def tell(self, event: Event) -> wire.Event | None:
        """The event that this one is on the wire, if any. Events must come in order."""
        teller = _TELLERS.get(type(event.fact))
        return None if teller is None else teller(self, event.fact, event)

    def about(self, fact: AnyFact, event: Event) -> dict[str, Any]:
        """What all events say."""
        origin = fact.origin
        if origin is None:
            return {
                "id": f"{self.session}:{event.seq}",
                "timestamp": event.at,
                "session_id": self.session,
                "agent": self.agent,
                "cwd": self.cwd,
                "agent_session_id": self.agent_session,
                "codex_thread_id": self.agent_session if self.agent == "codex" else None,
            }
        own = origin.agent_session or self.agent_session
        return {
            "id": origin.id or f"{self.session}:{event.seq}",
            "timestamp": origin.at or event.at,
            "session_id": self.session,
            "agent": self.agent,
            "cwd": origin.cwd or self.cwd,
            "agent_session_id": own,
            "codex_thread_id": own if self.agent == "codex" else None,
            "agent_id": origin.subagent,
        }


def story_of_state(state: SessionState) -> Story:
    """From what is true now: what comes next can be told."""
    return Story(
        session=state.session,
        kind=state.kind,
        agent=state.agent,
        cwd=state.cwd,
        agent_session=state.agent_session,
        calls={name: Call(call.input, call.at) for name, call in state.calls.items()},
        prompts={prompt.prompt: prompt.text for prompt in state.queue},
        text=state.status.last_message,
        stopped=state.rests,
        turn_at=state.turn.started_at if state.turn is not None else 0,
        ended=state.executor is None,
    )


def story_of_row(row: SessionRow) -> Story:
    """From a row: of what was before the events that are read nothing is known but the names."""
    return Story(session=row.session, kind=row.kind, agent=row.agent, cwd=row.cwd, agent_session=row.agent_session)


def as_object(value: Json) -> dict[str, Json]:
    """The seed has objects where agents may have anything (spec §9.1)."""
    if isinstance(value, dict):
        return value
    return {} if value is None else {"content": value}


# One function per fact


def _submitted(story: Story, fact: PromptSubmitted, event: Event) -> None:  # noqa: ARG001
    _keep(story.prompts, fact.prompt, fact.text)


def _withdrawn(story: Story, fact: PromptWithdrawn, event: Event) -> None:  # noqa: ARG001
    story.prompts.pop(fact.prompt, None)


def _given(story: Story, fact: TurnStarted | PromptTaken, event: Event) -> wire.Event:
    if isinstance(fact, TurnStarted):
        story.stopped, story.turn_at = False, event.at
    story.preamble = story.text = None
    return wire.UserPromptSubmit(**story.about(fact, event), prompt=story.prompts.pop(fact.prompt, None))


def _said(story: Story, fact: MessageAdded, event: Event) -> wire.Event | None:
    if fact.role == "assistant" and fact.text.strip():
        story.preamble = fact.text
        if fact.origin is None or fact.origin.subagent is None:
            story.text = fact.text
    if fact.role != "user" or fact.turn is not None:
        return None
    story.preamble, story.text, story.stopped = None, None, False
    return wire.UserPromptSubmit(**story.about(fact, event), prompt=fact.text)


def _called(story: Story, fact: ToolCalled, event: Event) -> wire.Event:
    _keep(story.calls, fact.call, Call(fact.input, when(fact, event)))
    return wire.PreToolUse(
        **story.about(fact, event),
        tool=fact.tool,
        tool_input=as_object(fact.input),
        tool_use_id=fact.call,
        assistant_text=story.preamble,
    )


def _ended(story: Story, fact: ToolEnded, event: Event) -> wire.Event:
    call = story.calls.pop(fact.call, None)
    story.preamble = None
    given = fact.input if fact.input is not None or call is None else call.input
    duration = fact.duration_ms
    if duration is None and call is not None:
        duration = max(0, when(fact, event) - call.at)
    response = as_object(fact.output)
    if fact.problem is not None and "error" not in response:
        response = {**response, "error": fact.problem.message}
    return wire.PostToolUse(
        **story.about(fact, event),
        tool=fact.tool,
        tool_input=as_object(given),
        tool_response=response,
        tool_use_id=fact.call,
        success=fact.status == "ok",
        duration=duration,
    )


def _hooked(story: Story, fact: HookAnswered, event: Event) -> wire.Event | None:
    about = story.about(fact, event)
    if fact.hook == "start":
        story.ended = False
        story.agent_session = fact.agent_session or story.agent_session
        return wire.SessionStart(**about, source=fact.source or "unknown")
    if fact.hook == "end":
        story.ended = True
        return wire.SessionEnd(**about, reason=fact.reason)
    if fact.verdict == "blocked" or _told_by_turn(story, fact):
        return None
    story.stopped = True
    return wire.Stop(**about, stop_hook_active=fact.stop_hook_active, response=story.text)


def _told_by_turn(story: Story, fact: HookAnswered) -> bool:
    """A program that we drive has turns of ours: what its log says of an end, and is read later, is told already."""
    origin = fact.origin
    if story.kind == "hooked" or origin is None or origin.source != "log":
        return False
    return story.stopped or (origin.at is not None and origin.at < story.turn_at)


def _turn_ended(story: Story, fact: TurnEnded, event: Event) -> wire.Event | None:
    if story.stopped:
        return None
    story.stopped = True
    return wire.Stop(**story.about(fact, event), stop_hook_active=False, response=fact.result or story.text)


def _started(story: Story, fact: AgentStarted, event: Event) -> wire.Event | None:
    story.ended = False
    story.agent_session = fact.agent_session or story.agent_session
    if story.kind in SELF_TOLD:
        return None
    return wire.SessionStart(**story.about(fact, event), source="startup" if fact.run == 1 else "resume")


def _exited(story: Story, fact: AgentExited, event: Event) -> wire.Event | None:
    if story.ended:
        return None
    story.ended = True
    return wire.SessionEnd(**story.about(fact, event), reason=fact.reason or fact.cause)


def _subagent_started(story: Story, fact: SubagentStarted, event: Event) -> wire.Event:
    return wire.Notification(
        **story.about(fact, event), message=f"Sub-agent started: {fact.name or fact.subagent}", level="subagent_start"
    )


def _subagent_ended(story: Story, fact: SubagentEnded, event: Event) -> wire.Event:
    return wire.SubagentStop(**story.about(fact, event), status=fact.status)


def _notified(story: Story, fact: Notified, event: Event) -> wire.Event:
    return wire.Notification(**story.about(fact, event), message=fact.message, level=fact.level or fact.kind)


def _compacted(story: Story, fact: Compacted, event: Event) -> wire.Event:
    why = f" ({fact.reason})" if fact.reason else ""
    message = f"The context is being shortened{why}" if fact.phase == "started" else f"The context was shortened{why}"
    return wire.Notification(**story.about(fact, event), message=message, level="compact")


def _settings(story: Story, fact: SettingsChanged, event: Event) -> None:  # noqa: ARG001
    cwd = fact.changes.get("cwd")
    story.cwd = cwd if isinstance(cwd, str) else story.cwd


def _reset(story: Story, fact: HistoryReset, event: Event) -> None:  # noqa: ARG001
    story.text = story.preamble = None


def when(fact: AnyFact, event: Event) -> int:
    """When it happened: by the poster's own clock, where it has one."""
    return event.at if fact.origin is None else fact.origin.at or event.at


def _keep(kept: dict[str, Any], name: str, value: object) -> None:
    kept[name] = value
    if len(kept) > KEPT_CALLS:
        del kept[next(iter(kept))]


_TELLERS: dict[type, Callable[[Story, Any, Event], wire.Event | None]] = {
    PromptSubmitted: _submitted,
    PromptWithdrawn: _withdrawn,
    PromptTaken: _given,
    TurnStarted: _given,
    MessageAdded: _said,
    ToolCalled: _called,
    ToolEnded: _ended,
    HookAnswered: _hooked,
    TurnEnded: _turn_ended,
    AgentStarted: _started,
    AgentExited: _exited,
    SubagentStarted: _subagent_started,
    SubagentEnded: _subagent_ended,
    Notified: _notified,
    Compacted: _compacted,
    SettingsChanged: _settings,
    HistoryReset: _reset,
}

TOLD_TAGS = frozenset(tag_of(kind) for kind in _TELLERS)
"""Facts that an event is made of, or leans on."""
