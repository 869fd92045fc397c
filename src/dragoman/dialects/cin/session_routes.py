"""``/sessions``: the list, and what becomes of one session as a whole (spec §3.2).

Sessions that are made here are programs on a terminal of ours. What is said to a session that runs is in
``session_commands``.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import UNSET, UnsetType
from starlette.responses import Response
from starlette.routing import Route

from dragoman.hub.errors import Gone, HubError, NotPermitted, StorageUnavailable, UnknownSession
from dragoman.hub.events import Json
from dragoman.hub.permissions import Principal, Right
from dragoman.hub.session import Session

from . import messages as wire
from .calls import Call, Problem, checked_text, ok, resource
from .host import Host
from .launching import DEFAULT_AGENT, Flag, folder_of, launch_of, tmux_of
from .session_commands import command_routes

log = logging.getLogger("dragoman.http")

KIND = "terminal"
"""Of the sessions that are made here."""

NAME_CHARS = 200

ONLY_SESSION = "This server has one session, which it was started with"
NO_EXTERNAL_RESTART = "Cannot restart external sessions"
NO_EXTERNAL_TERMINAL = "Cannot open a terminal for external sessions"
USE_TERMINAL = "Use /terminal endpoint for internal sessions"
NO_TERMINAL = "No terminal info available for this session"

Coordinate = Annotated[int, msgspec.Meta(ge=-1_000_000, le=1_000_000)]


class Zone(msgspec.Struct, frozen=True):
    """A cell of the dashboard's grid."""

    q: Coordinate
    r: Coordinate


class CreateBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What ``POST /sessions`` takes. With ``tmux_session`` that one is attached to, and nothing is started."""

    name: str | None = None
    cwd: str | None = None
    agent: str | None = None
    flags: Flag | None = None
    zone_position: Zone | None = None
    tmux_session: str | None = None


class ChangeBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What ``PATCH /sessions/:id`` takes; what it does not know it leaves unread."""

    name: str | None = None
    zone_position: Zone | UnsetType | None = UNSET
    auto_accept: bool | None = None


class LinkBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What ``POST /sessions/:id/link`` takes."""

    claude_session_id: str | None = None


def session_routes(host: Host) -> list[Route]:
    """All routes that speak of sessions but those of their folders."""
    return [
        resource(host, "/sessions", GET=listed, POST=created),
        resource(host, "/sessions/refresh", POST=listed),
        resource(host, "/sessions/cleanup", DELETE=cleaned_up),
        resource(host, "/sessions/{id}", GET=one, PATCH=changed, DELETE=deleted),
        resource(host, "/sessions/{id}/restart", POST=restarted),
        resource(host, "/sessions/{id}/link", POST=linked),
        resource(host, "/sessions/{id}/terminal", POST=terminal),
        resource(host, "/sessions/{id}/focus", POST=focused),
        *command_routes(host),
    ]


async def listed(call: Call) -> Response:
    """All sessions that are not closed, the oldest first."""
    rows = call.host.registry.rows(call.principal)
    return ok(sessions=[call.host.show(row) for row in rows if row.status != "closed"])


async def one(call: Call) -> Response:
    return ok(session=call.host.show(call.row()))


async def created(call: Call) -> Response:
    """Make a session and start its program. Whatever stands in the way, no session is left behind."""
    _check_may_create(call.principal)
    if not call.host.makes_sessions:
        raise Problem(409, ONLY_SESSION)
    body = await call.read(CreateBody)
    agent = body.agent or DEFAULT_AGENT
    launch = launch_of(agent, body.flags or {})
    if launch.widens:
        call.check(Right.APPROVE)
    options: dict[str, Json] = {"command": list(launch.command)}
    if body.tmux_session is not None:
        options = {"attach": tmux_of(body.tmux_session)}
        if body.flags:
            raise Problem(400, "flags are for a program that is started, not for tmuxSession")
    cwd = await folder_of(body.cwd, call.host.folder)
    session = await call.host.registry.create(
        call.principal,
        kind=KIND,
        cwd=cwd,
        agent=agent,
        title=_name(body.name) or Path(cwd).name or "session",
        options=options,
        settings={} if body.zone_position is None else {"zone": _plain_zone(body.zone_position)},
    )
    await _started(call, session)
    await _used(call, cwd)
    return ok(201, session=_shown(call, session))


async def changed(call: Call) -> Response:
    """An empty name changes nothing."""
    row = call.row()
    call.check(Right.WRITE)
    body = await call.read(ChangeBody)
    changes: dict[str, Json] = {}
    if name := _name(body.name):
        changes["title"] = name
    if body.zone_position is not UNSET:
        changes["zone"] = None if body.zone_position is None else _plain_zone(body.zone_position)
    if body.auto_accept is not None:
        changes["auto_accept"] = body.auto_accept
    session = await call.host.registry.get(call.principal, row.session)
    if changes:
        await session.change_settings(call.principal, changes)
    return ok(session=_shown(call, session))


async def deleted(call: Call) -> Response:
    """Its program ends. Of somebody's tmux only our part does."""
    await call.host.registry.delete(call.principal, call.row().session)
    return ok()


async def cleaned_up(call: Call) -> Response:
    """Delete sessions that are offline; with ``phantom`` those of agents elsewhere of which no process is known."""
    call.check(Right.WRITE)
    max_age, phantom, kind = call.number("maxAge", 0), call.switch("phantom"), call.query("type")
    if kind not in (None, "internal", "external"):
        raise Problem(400, "type must be internal or external")
    now, count = call.host.registry.clock.now(), 0
    for row in call.host.registry.rows(call.principal):
        wanted = kind in (None, call.host.show(row).type) and now - row.active_at >= max_age
        if row.status != "closed" and wanted:
            count += await _removed(call, row.session, phantom=phantom)
    return ok(deleted=count)


async def restarted(call: Call) -> Response:
    """Start the program again, as it was started."""
    row = call.row()
    call.check(Right.WRITE)
    if call.host.show(row).type == "external":
        raise Problem(400, NO_EXTERNAL_RESTART)
    session = await call.host.registry.get(call.principal, row.session)
    await folder_of(session.state.cwd, call.host.folder)
    await session.start(call.principal)
    return ok(session=_shown(call, session))


async def linked(call: Call) -> Response:
    """A dashboard guesses which agent is in which session. Here the agents' own hooks say so."""
    call.row()
    await call.read(LinkBody)
    return ok()


async def terminal(call: Call) -> Response:
    """The program is on a terminal of ours: there is no window to open."""
    if call.host.show(call.row()).type == "external":
        raise Problem(400, NO_EXTERNAL_TERMINAL)
    return ok()


async def focused(call: Call) -> Response:
    """Nobody can say in which window an agent elsewhere runs."""
    external = call.host.show(call.row()).type == "external"
    raise Problem(400, NO_TERMINAL if external else USE_TERMINAL)


def _check_may_create(principal: Principal) -> None:
    """Before anything is looked at: what is in which folder is nothing to tell to everybody."""
    if Right.WRITE not in principal.rights or principal.only is not None:
        raise NotPermitted(Right.WRITE)


async def _started(call: Call, session: Session) -> None:
    try:
        await session.start(call.principal)
    except HubError:
        try:
            await call.host.registry.delete(call.principal, session.id)
        except HubError as problem:
            log.warning("session %s, which cannot be started, is left behind: %s", session.id, problem)
        raise


async def _used(call: Call, folder: str) -> None:
    try:
        await call.host.projects.used(folder)
    except StorageUnavailable as problem:  # the session runs, and that is what was asked for
        log.warning("%s is not remembered as a project: %s", folder, problem)


async def _removed(call: Call, name: str, *, phantom: bool) -> bool:
    """Delete this session if it still is what is cleaned up: it may have been started, or be gone, by now."""
    registry = call.host.registry
    try:
        session = await registry.get(call.principal, name)
        if not _is_litter(session, _shown(call, session), phantom=phantom):
            return False
        await registry.delete(call.principal, name)
    except (UnknownSession, Gone):
        return False
    return True


def _is_litter(session: Session, shown: wire.Session, *, phantom: bool) -> bool:
    external, executor = shown.type == "external", session.state.executor
    if phantom:
        return external and (executor is None or executor.pid is None)
    return shown.status == "offline" and (external or not session.live)


def _shown(call: Call, session: Session) -> wire.Session:
    return call.host.show(session.row())


def _name(name: str | None) -> str:
    return checked_text((name or "").strip(), "name", NAME_CHARS)


def _plain_zone(zone: Zone) -> dict[str, Json]:
    return {"q": zone.q, "r": zone.r}
