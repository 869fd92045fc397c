"""The shapes in which hooks arrive, read as one: what an agent fires, and what scripts make of that (spec cin §4, §8).

A script may hand on the payload as it is, or an event that it has made of it (``type``, ``toolInput``…), or half of
each. Whatever says nothing, or of no session, is none.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from dragoman.agents.common.fields import dict_of, text_of
from dragoman.agents.common.hook_post import Post
from dragoman.agents.common.hooks import HOOK_CHARS, hook_kind
from dragoman.hub.events import Json
from dragoman.hub.ports import HookChannel, HookPost

NAME_CHARS = 200
"""Length of an agent's name for its session; a longer one is none."""

AGENT_CHARS = 64
"""Length of an agent's name."""

NOTIFY = "agent-turn-complete"
"""What Codex' ``notify`` calls the end of a turn."""

NOTIFY_EVENTS = {
    "tool_start": "PreToolUse",
    "tool_end": "PostToolUse",
    "response": "Stop",
    "session_start": "SessionStart",
    "session_end": "SessionEnd",
}
"""What a script for Codex' ``notify`` calls the kinds of ``event_type``, and what they are (spec §4)."""

EVENT_TYPES = frozenset(
    {
        *("pre_tool_use", "post_tool_use", "stop", "subagent_stop", "session_start", "session_end"),
        *("user_prompt_submit", "notification", "assistant_message"),
    }
)
"""What a made event calls itself."""

_SPELLINGS = {
    "toolInput": "tool_input",
    "toolResponse": "tool_response",
    "toolUseId": "tool_use_id",
    "assistantText": "assistant_text",
    "stopHookActive": "stop_hook_active",
    "duration": "duration_ms",
    "agentId": "agent_id",
    "transcriptPath": "transcript_path",
}
"""Names of the fields of made events, and the agents' own for the same."""

_NOTIFIED = {
    "thread-id": "session_id",
    "turn-id": "turn_id",
    "last-assistant-message": "last_assistant_message",
}
"""The same for Codex' ``notify``."""

_OURS = re.compile(r".*:\d+\Z", re.DOTALL)
"""How the ids look that we give to events: whoever posts has others."""

_SESSION_NAMES = (
    *("session_id", "thread_id", "claude_session_id", "agentSessionId", "claudeSessionId", "codexThreadId"),
    *("sessionId",),
)

_GEMINI_HOOKS = frozenset({"beforeagent", "afteragent", "beforetool", "aftertool", "precompress"})
_CODEX_HOOKS = frozenset({"execstart", "execend", "message", "error"})
_CLAUDE_HOOKS = frozenset(
    {
        *("pretooluse", "posttooluse", "posttoolusefailure", "posttoolbatch", "permissionrequest", "permissiondenied"),
        *("userpromptsubmit", "stop", "stopfailure", "subagentstart", "subagentstop", "sessionstart", "sessionend"),
        *("notification", "precompact", "postcompact"),
    }
)


class Told(NamedTuple):
    """One post, read. ``kind`` is the hook's name in small letters, ``session`` the agent's name for its session."""

    agent: str
    kind: str
    session: str
    cwd: str | None
    channel: HookChannel
    post: Post
    parents: tuple[tuple[int, int], ...] = ()
    turn: str | None = None
    """The agent's own name for the turn that it is of."""

    @property
    def own(self) -> bool:
        """Whether it came through the user's own socket, where nobody else can post."""
        return self.channel == "socket"


def read_form(given: HookPost) -> Told | None:
    """What was posted, in the agents' own terms; None for what cannot be understood."""
    payload: dict[str, Any] = given.payload
    event = given.event or text_of(payload, "hook_event_name", "hook_type", "type", "event_type")
    if event is None or len(event) > HOOK_CHARS:
        return None
    made = _is_made(payload)
    if event == "notify":
        event = NOTIFY_EVENTS.get(text_of(payload, "event_type") or "", "Notification")
    elif event == NOTIFY:
        payload = _respelt(payload, _NOTIFIED)
    elif made:
        payload = _respelt(payload, _SPELLINGS)
        event = _failed(payload) or event
    agent = _agent(given.agent, event, payload)
    session = None if agent is None else _session(agent, payload)
    if agent is None or session is None:
        return None
    event = "Stop" if event == NOTIFY else event
    if payload.get("session_id") != session:
        payload = {**payload, "session_id": session}
    if _OURS.match(str(payload.get("id"))):
        payload = {**payload, "id": None}
    source = "hook" if given.channel == "socket" else given.channel
    post = Post(agent, event, payload, given.at, f"{source}:event" if made else source)
    cwd = text_of(payload, "cwd")
    return Told(
        agent,
        hook_kind(event),
        session,
        cwd if cwd is not None and cwd.startswith("/") and "\0" not in cwd and _is_utf8(cwd) else None,
        given.channel,
        post,
        given.parents if given.channel == "socket" else (),
        text_of(payload, "prompt_id", "turn_id"),
    )


def _respelt(payload: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    """With the agents' own names. What has one already keeps it: a script may have made only half an event."""
    return {**{names.get(name, name): value for name, value in payload.items()}, **_own_names(payload, names)}


def _own_names(payload: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    return {name: payload[name] for name in names.values() if name in payload}


def _failed(payload: dict[str, Any]) -> str | None:
    """A made event has ``success`` where the agents have a hook of its own."""
    if payload.get("type") == "post_tool_use" and payload.get("success") is False:
        return "PostToolUseFailure"
    return None


def _agent(said: str | None, event: str, payload: dict[str, Any]) -> str | None:
    """Whose hook it is, in the originals' order (spec §4), with what tells Codex' and Gemini's hooks from Claude's."""
    named = said or text_of(payload, "agent")
    if named is not None and len(named) <= AGENT_CHARS and named.isprintable():
        return named
    kind = hook_kind(event)
    if kind in _GEMINI_HOOKS:
        return "gemini"
    if _is_codex(kind, event, payload):
        return "codex"
    claude = kind in _CLAUDE_HOOKS or _is_made(payload) or _has(payload, "tool_name", "tool_input")
    if claude or text_of(payload, "claude_session_id", "claudeSessionId") is not None:
        return "claude"
    return "codex" if _has(payload, "tool", "input") else None


def _is_codex(kind: str, event: str, payload: dict[str, Any]) -> bool:
    own = "codexThreadId" in payload or kind in _CODEX_HOOKS or event == NOTIFY
    return own or ("turn_id" in payload and text_of(payload, "claude_session_id") is None)


def _session(agent: str, payload: dict[str, Any]) -> str | None:
    for name in _SESSION_NAMES:
        value: Json = payload.get(name)
        if isinstance(value, str) and value.strip() and len(value) <= NAME_CHARS and _is_utf8(value):
            return value
    terminal = dict_of(payload, "terminal")
    pane = text_of(payload, "tmux_pane") or text_of(terminal, "tmuxPane")
    if agent == "codex" and pane is not None:
        return f"codex-{pane}"[:NAME_CHARS]
    tty = text_of(payload, "tty") or text_of(terminal, "tty")
    return f"{agent}-{tty}"[:NAME_CHARS] if tty is not None and tty.startswith("/") else None


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_made(payload: dict[str, Any]) -> bool:
    kind: Json = payload.get("type")
    return isinstance(kind, str) and kind in EVENT_TYPES


def _has(payload: dict[str, Any], *names: str) -> bool:
    return all(name in payload for name in names)
