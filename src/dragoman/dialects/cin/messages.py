"""What the bridge says, as on the wire (seed: Message Format, Server → Client Messages, Type Definitions).

Times are milliseconds since 1970 unless a name says otherwise. What is not known is left out, never null, but for the
``lastCommit…`` of a git status. Fields that the seed lacks are those that the clients in use read (spec §2).
"""

from __future__ import annotations

from typing import Literal

import msgspec

from dragoman.hub.events import Json

Status = Literal["idle", "working", "waiting", "offline"]

EventType = Literal[
    "pre_tool_use",
    "post_tool_use",
    "stop",
    "subagent_stop",
    "session_start",
    "session_end",
    "user_prompt_submit",
    "notification",
]


class Shape(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The base of all that goes out: names in camel case, what is not known left out."""


class Position(msgspec.Struct, frozen=True):
    """A cell of a dashboard's hexagonal grid."""

    q: int
    r: int


class Changes(Shape, frozen=True, kw_only=True, omit_defaults=False):
    """Files of a working tree by what happened to them."""

    added: int = 0
    modified: int = 0
    deleted: int = 0


class GitStatus(Shape, frozen=True, kw_only=True, omit_defaults=False):
    """What git says of a folder (spec §2.3). ``last_commit_time`` is in seconds since 1970, ``last_checked`` in
    milliseconds. Of a folder that is no repository all is zero, empty or null."""

    branch: str = ""
    ahead: int = 0
    behind: int = 0
    staged: Changes = Changes()
    unstaged: Changes = Changes()
    untracked: int = 0
    total_files: int = 0
    lines_added: int = 0
    lines_removed: int = 0
    last_commit_time: int | None = None
    last_commit_message: str | None = None
    is_repo: bool = False
    last_checked: int = 0


class Session(Shape, frozen=True, kw_only=True):
    """A session (seed: Session). ``waiting_for`` says why it waits: a permission, a question, or only a prompt."""

    id: str
    name: str
    type: Literal["internal", "external"]
    agent: str
    status: Status
    cwd: str
    created_at: int
    last_activity: int
    tmux_session: str | None = None
    agent_session_id: str | None = None
    current_tool: str | None = None
    claude_session_id: str | None = None
    codex_thread_id: str | None = None
    zone_position: Position | None = None
    suggestion: str | None = None
    auto_accept: bool | None = None
    git_status: GitStatus | None = None
    waiting_for: Literal["permission", "question", "prompt"] | None = None


class AgentEvent(Shape, frozen=True, kw_only=True, tag_field="type"):
    """What an agent did (seed: AgentEvent). ``id`` is the same whenever and to whomever it is told."""

    id: str
    timestamp: int
    session_id: str
    agent: str
    cwd: str
    agent_session_id: str | None = None
    codex_thread_id: str | None = None
    agent_id: str | None = msgspec.field(default=None, name="agent_id")
    """The sub-agent that did it."""


class PreToolUse(AgentEvent, frozen=True, kw_only=True, tag="pre_tool_use"):
    """A tool call begins."""

    tool: str
    tool_input: dict[str, Json]
    tool_use_id: str
    assistant_text: str | None = None


class PostToolUse(AgentEvent, frozen=True, kw_only=True, tag="post_tool_use"):
    """A tool call is over; ``duration`` in milliseconds."""

    tool: str
    tool_input: dict[str, Json]
    tool_response: dict[str, Json]
    tool_use_id: str
    success: bool
    duration: int | None = None


class Stop(AgentEvent, frozen=True, kw_only=True, tag="stop"):
    """The agent has done what it was asked."""

    stop_hook_active: bool
    response: str | None = None


class SubagentStop(AgentEvent, frozen=True, kw_only=True, tag="subagent_stop"):
    """A sub-agent has."""

    status: str | None = None


class SessionStart(AgentEvent, frozen=True, kw_only=True, tag="session_start"):
    """The agent's session begins, or goes on."""

    source: str


class SessionEnd(AgentEvent, frozen=True, kw_only=True, tag="session_end"):
    """The agent's session is over."""

    reason: str | None = None


class UserPromptSubmit(AgentEvent, frozen=True, kw_only=True, tag="user_prompt_submit"):
    """The agent was given a prompt."""

    prompt: str | None = None


class Notification(AgentEvent, frozen=True, kw_only=True, tag="notification"):
    """The agent wants to be noticed."""

    message: str | None = None
    level: str | None = None


Event = PreToolUse | PostToolUse | Stop | SubagentStop | SessionStart | SessionEnd | UserPromptSubmit | Notification
"""Each of the seed's eight."""


class TextTile(Shape, frozen=True, kw_only=True):
    """A note on a dashboard."""

    id: str
    text: str
    position: Position
    created_at: int
    color: str | None = None


class Choice(msgspec.Struct, frozen=True):
    """One row of a permission prompt. ``number`` is what is answered."""

    number: str
    label: str


class PermissionPrompt(Shape, frozen=True, kw_only=True):
    """A permission is wanted (``cin:permission_prompt``). An answer that names ``decision_id`` is to this one and to no
    other; without options it is answered where the agent runs."""

    session_id: str
    tool: str
    context: str
    options: tuple[Choice, ...]
    decision_id: str


class PermissionResolved(Shape, frozen=True, kw_only=True):
    """It is wanted no more (``cin:permission_resolved``). ``response`` is the number that was answered, if one was."""

    session_id: str
    decision_id: str
    response: str | None = None


class Tokens(Shape, frozen=True, kw_only=True):
    """Tokens of a session (``cin:tokens``): those of the newest report, and the sum of all."""

    session_id: str
    session: str
    current: int
    cumulative: int


class FolderStatus(Shape, frozen=True, kw_only=True):
    """``cin:git_status``."""

    session_id: str
    status: GitStatus
