"""A Claude and a Codex session serve every event type that cin's clients know.

``SERVED_BY`` is docs/mapping.md's table of cin events as data, and is held against that page. Sessions are what hooks
or logs told, through the ledger, with what others record: who answers a hook, and who runs the program.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dragoman.agents.common.hooks import read_hook
from dragoman.agents.common.ledger import Ledger
from dragoman.agents.common.logs import read_codex_line
from dragoman.hub.events import (
    AgentExited,
    AgentStarted,
    AnyFact,
    HookAnswered,
    MessageAdded,
    Notified,
    ToolCalled,
    ToolEnded,
)

from .recorded import SAMPLES, hooks, log, sample

MAPPING = Path(__file__).parents[3] / "docs" / "mapping.md"

SERVED_BY: dict[str, tuple[str, ...]] = {
    "pre_tool_use": ("tool.called",),
    "post_tool_use": ("tool.ended", "tool.called"),
    "stop": ("hook.answered (stop)", "turn.ended"),
    "subagent_stop": ("subagent.ended",),
    "session_start": ("hook.answered (start)", "agent.started"),
    "session_end": ("hook.answered (end)", "agent.exited"),
    "user_prompt_submit": ("turn.started", "prompt.taken", "message.added (user)"),
    "notification": ("notified", "subagent.started", "context.compacted"),
}
"""Each event type of cin's seed, and the facts that serve it: any one of them does."""

ONLY_FOR_THE_INPUT = {"post_tool_use": "tool.called"}
"""But this one alone makes no event."""

CANNOT: dict[tuple[str, str], dict[str, str]] = {
    ("codex", "log"): {
        "subagent_stop": "a sub-agent's rollout is a file of its own; the main one knows only a tool call",
    },
}
"""What an agent does not tell through this source, and why. Nothing else may be missing."""


# Claude by its hooks: what was recorded, then what a short session has none of

CLAUDE_HOOKS = [
    *(("claude", event, payload) for event, payload in hooks("permission")),
    *(("claude", event, payload) for event, payload in hooks("question")),
    sample("claude", "PreToolUse:Agent"),
    sample("claude", "SubagentStart"),
    sample("claude", "SubagentStop"),
    sample("claude", "PostToolUse:Agent"),
    sample("claude", "Notification:permission_prompt"),
    ("claude", "PreCompact", {"session_id": "s", "trigger": "auto", "custom_instructions": ""}),
    sample("claude", "Stop"),
    sample("claude", "SessionEnd"),
]

_CODEX = {name: SAMPLES["codex"]["Stop"][name] for name in ("session_id", "turn_id", "cwd", "transcript_path")}

# Codex by its hooks: what was recorded, and by the shape of these those that only a longer session fires

CODEX_HOOKS = [
    sample("codex", "SessionStart"),
    sample("codex", "UserPromptSubmit"),
    sample("codex", "PreToolUse:Bash"),
    ("codex", "PermissionRequest", {**_CODEX, "tool_name": "Bash", "tool_input": {"command": "echo hi"}}),
    sample("codex", "PostToolUse:Bash"),
    ("codex", "SubagentStart", {**_CODEX, "agent_id": "a1", "agent_type": "explorer"}),
    ("codex", "SubagentStop", {**_CODEX, "agent_id": "a1", "last_assistant_message": "Found."}),
    ("codex", "PreCompact", {**_CODEX, "trigger": "auto"}),
    sample("codex", "Stop"),
    sample("codex", "SessionEnd"),
]


def answered(event: str, payload: dict[str, Any]) -> list[AnyFact]:
    """Who answers a hook records that it did: the driver, or the dialect that it was posted to."""
    match event:
        case "SessionStart":
            return [HookAnswered(hook="start", source=payload["source"], agent_session=payload["session_id"])]
        case "Stop":
            return [HookAnswered(hook="stop", stop_hook_active=payload["stop_hook_active"])]
        case "SessionEnd":
            return [HookAnswered(hook="end", reason=payload["reason"])]
        case _:
            return []


def by_hooks(posts: Iterable[tuple[str, str, dict[str, Any]]], ledger: Ledger | None = None) -> list[AnyFact]:
    ledger = ledger or Ledger()
    facts: list[AnyFact] = []
    for agent, event, payload in posts:
        facts += ledger.admit(read_hook(agent, event, payload).facts)
        facts += answered(event, payload)
    return facts


def claude_by_hooks_and_log() -> list[AnyFact]:
    """As the terminal agent sees it: what its log says of the calls that the hooks tell of comes after them.

    Both were recorded of one scenario, though not in one run: the log's calls get the hooks' ids.
    """
    ledger = Ledger()
    facts = by_hooks(CLAUDE_HOOKS, ledger)
    logged = [fact for seen in log("claude", "permission") for fact in seen.facts]
    begun = [payload["tool_use_id"] for event, payload in hooks("permission") if event == "PreToolUse"]
    names = dict(zip([fact.call for fact in logged if isinstance(fact, ToolCalled)], begun, strict=True))
    of_calls = [fact for fact in logged if isinstance(fact, (ToolCalled, ToolEnded))]
    return facts + ledger.admit(msgspec.structs.replace(fact, call=names[fact.call]) for fact in of_calls)


def codex_by_log() -> list[AnyFact]:
    """As the terminal agent sees it: no hooks, but it knows when the program starts and ends."""
    ledger = Ledger()
    observations = [*log("codex", "permission"), read_codex_line({"type": "compacted", "payload": {"message": ""}})]
    told = [fact for observation in observations for fact in ledger.admit(observation.facts)]
    return [AgentStarted(), *told, AgentExited(cause="exit", code=0)]


SESSIONS: dict[tuple[str, str], Callable[[], list[AnyFact]]] = {
    ("claude", "hooks"): lambda: by_hooks(CLAUDE_HOOKS),
    ("claude", "hooks and log"): claude_by_hooks_and_log,
    ("codex", "hooks"): lambda: by_hooks(CODEX_HOOKS),
    ("codex", "log"): codex_by_log,
}


def tags(fact: AnyFact) -> set[str]:
    """A fact's names in the map: its tag, and with what the map puts behind it."""
    tag = str(fact.__struct_config__.tag)
    kind = fact.hook if isinstance(fact, HookAnswered) else fact.role if isinstance(fact, MessageAdded) else None
    return {tag, f"{tag} ({kind})"}


def projected(facts: list[AnyFact]) -> list[str]:
    """The cin events of a log, in order."""
    return [
        event
        for fact in facts
        for event, served_by in SERVED_BY.items()
        if tags(fact) & (set(served_by) - {ONLY_FOR_THE_INPUT.get(event)})
    ]


def test_the_table_is_the_maps() -> None:
    rows = re.findall(r"^\| `event` `(\w+)` \| ([^|]*) \|", MAPPING.read_text(), re.MULTILINE)
    assert {event: tuple(cell.replace("`", "").split(", ")) for event, cell in rows} == SERVED_BY


@pytest.mark.parametrize("session", SESSIONS, ids="-by-".join)
def test_every_event_type_is_served(session: tuple[str, str]) -> None:
    missing = set(SERVED_BY) - set(projected(SESSIONS[session]()))
    assert missing == set(CANNOT.get(session, {}))


@pytest.mark.parametrize("session", SESSIONS, ids="-by-".join)
def test_every_call_has_a_before_and_an_after(session: tuple[str, str]) -> None:
    facts = SESSIONS[session]()
    events = projected(facts)
    calls = [fact for fact in facts if isinstance(fact, ToolCalled)]
    assert events.count("pre_tool_use") == len(calls) == len({fact.call for fact in calls})
    # the one that a person refused has an end in the log only
    assert events.count("post_tool_use") == len(calls) - (session == ("claude", "hooks"))


def test_a_call_that_a_person_refused_ends_once_and_as_that() -> None:
    ended = [fact for fact in claude_by_hooks_and_log() if isinstance(fact, ToolEnded)]
    (denied,) = [fact for fact in ended if fact.status == "denied"]
    assert denied.problem is not None
    assert [fact.call for fact in ended].count(denied.call) == 1


def test_a_codex_turn_reads_as_cin_expects() -> None:
    facts = by_hooks([post for post in CODEX_HOOKS if post[1] not in ("SubagentStart", "SubagentStop", "PreCompact")])
    assert projected(facts) == [
        "session_start",
        "user_prompt_submit",
        "pre_tool_use",
        "post_tool_use",
        "stop",
        "session_end",
    ]


def test_the_event_carries_what_cin_shows() -> None:
    """toolUseId, response, message and level, agentSessionId and cwd: from the facts and their origin."""
    facts = by_hooks(CLAUDE_HOOKS)
    call = next(fact for fact in facts if isinstance(fact, ToolCalled))
    assert call.call.startswith("toolu_")
    assert isinstance(call.input, dict)
    assert call.origin.cwd == "/tmp/project"
    assert call.origin.agent_session
    note = next(fact for fact in facts if isinstance(fact, Notified))
    assert (note.message, note.kind) == ("Claude needs your permission", "permission_prompt")
    at = next(index for index, fact in enumerate(facts) if isinstance(fact, HookAnswered) and fact.hook == "stop")
    assert isinstance(facts[at - 1], MessageAdded), "the last words come before the stop that they belong to"
