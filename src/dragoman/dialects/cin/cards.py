"""A session as lists show it, made of its row alone, so that a list reads no log (seed: Session)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal

import msgspec

from dragoman.hub.events import Json
from dragoman.hub.journal import SessionRow
from dragoman.services.git import FolderStatus

from . import messages as wire

GitOf = Callable[[str], FolderStatus | None]
"""What is known of a folder's working tree; None while nothing is, or where nobody looks."""

_NEED_EXECUTOR = frozenset({"terminal"})
"""Kinds of agents that are a program we start: without it they are offline."""


def card(row: SessionRow, git_of: GitOf = lambda _folder: None) -> wire.Session:
    """The session that the row is of."""
    status = status_of(row)
    known = git_of(row.cwd)
    return wire.Session(
        id=row.session,
        name=row.title,
        type="external" if row.kind == "hooked" else "internal",
        agent=row.agent,
        status=status,
        cwd=row.cwd,
        created_at=row.created_at,
        last_activity=row.active_at or row.created_at,
        tmux_session=_tmux(row.detail.get("attach")),
        agent_session_id=row.agent_session,
        current_tool=_tool(row),
        claude_session_id=row.agent_session,
        codex_thread_id=row.agent_session if row.agent == "codex" else None,
        zone_position=_position(row.detail.get("zone")),
        suggestion=_text(row.detail.get("suggestion")),
        auto_accept=_flag(row.detail.get("auto_accept")),
        git_status=None if known is None else git_status(known),
        waiting_for=waiting_for(row),
    )


def status_of(row: SessionRow) -> wire.Status:
    """Offline without what runs it; waiting when something is asked, or when it has done what it was asked."""
    if row.status in ("waiting", "working"):
        return row.status  # type: ignore[return-value]
    if row.status == "exited" or (row.kind in _NEED_EXECUTOR and not row.unsettled):
        return "offline"
    if row.kind == "hooked" and not row.unsettled:
        return "working"  # it has just been heard of for the first time
    return "waiting" if row.rests else "idle"


def meant_by(rows: Iterable[SessionRow], agent_session: str) -> SessionRow | None:
    """Which of these sessions an agent's own id means: one that runs before one that does not, ours before one of an
    agent elsewhere (anybody may post one of any id), the person's own before others, the one that was active last."""
    named = [row for row in rows if row.agent_session == agent_session and row.status != "closed"]
    return max(named, key=_rank, default=None)


def _rank(row: SessionRow) -> tuple[bool, bool, bool, int]:
    return status_of(row) != "offline", row.kind != "hooked", bool(row.detail.get("vouched")), row.active_at


def git_status(known: FolderStatus) -> wire.GitStatus:
    """On the wire."""
    return msgspec.convert(known, wire.GitStatus, from_attributes=True)


def differs(before: SessionRow, after: SessionRow) -> bool:
    """Whether a card tells more than a later time."""
    return (
        before.title != after.title
        or before.cwd != after.cwd
        or _tool(before) != _tool(after)
        or before.agent_session != after.agent_session
        or before.agent != after.agent
        or before.detail != after.detail
        or waiting_for(before) != waiting_for(after)
    )


def _tool(row: SessionRow) -> str | None:
    """What it is at: also while it asks for leave to go on with it."""
    return row.tool if row.status in ("working", "waiting") else None


def waiting_for(row: SessionRow) -> Literal["permission", "question", "prompt"] | None:
    """Why it waits; None when it does not."""
    if status_of(row) != "waiting":
        return None
    if row.asks is None and (row.rests or row.status == "idle"):
        return "prompt"
    return "question" if row.asks in ("question", "form") else "permission"


def _tmux(attach: Json) -> str | None:
    return attach.removeprefix("tmux:") if isinstance(attach, str) else None


def _position(zone: Json) -> wire.Position | None:
    try:
        return msgspec.convert(zone, wire.Position)
    except msgspec.ValidationError:
        return None


def _text(value: Json) -> str | None:
    return value if isinstance(value, str) else None


def _flag(value: Json) -> bool | None:
    return value if isinstance(value, bool) else None
