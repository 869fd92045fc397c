"""Which session a CONNECT means, and for how long one counts as connected (seed: Session Lifecycle; spec §7).

A client's string is an alias of a hub session, per caller: whoever names a session that is another's gets one of their
own under that name, and cannot tell that there is another (invariant 12).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from weakref import WeakValueDictionary

import msgspec

from dragoman.hub.errors import Gone, HubError, UnknownSession
from dragoman.hub.permissions import LOCAL, Principal, Right
from dragoman.hub.registry import Registry
from dragoman.hub.session import Session
from dragoman.hub.tasks import TaskOwner
from dragoman.services.trust import Caller, Trust

from .merging import Claim, server_newer, taken_in
from .messages import Status
from .settings import OnionSettings
from .view import SessionView

log = logging.getLogger("dragoman.links")

DIALECT = "onion"
KEY_OWNER = f"{DIALECT}:0x"
"""How the owner of a session begins that belongs to a key."""

ANONYMOUS = f"{DIALECT}:anonymous"

SWEEP_SHARE = 10
"""A stuck turn is noticed within this part of the time after which it counts as stuck."""

SOONEST_SWEEP = 0.05
"""Seconds between two looks at least, however short those times are."""

MakeSession = Callable[[Principal], Awaitable[Session]]


class _Life(msgspec.Struct, weakref=True):
    """A session that clients of this dialect know. ``touched`` is the last sign of them (monotonic seconds)."""

    view: SessionView
    wire_ids: set[str]
    touched: float
    using: int = 0


class Joined(msgspec.Struct):
    """What a CONNECT came to. ``principal`` may see this session alone; what they may do there can change.

    While it is held so is what is known of the session: nobody else makes a second ``view`` of it meanwhile.
    """

    session: Session
    wire_id: str
    status: Status
    principal: Principal
    view: SessionView
    server_newer: bool
    life: _Life


class Sessions:
    """See the module."""

    def __init__(
        self, registry: Registry, trust: Trust, settings: OnionSettings, make: MakeSession, tasks: TaskOwner
    ) -> None:
        self._registry = registry
        self._trust = trust
        self._settings = settings
        self._make = make
        self._lives: dict[str, _Life] = {}
        self._held: WeakValueDictionary[str, _Life] = WeakValueDictionary()
        """Those of ``_lives``, and those that were let go of and somebody holds still."""
        self._naming: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()
        tasks.start(self._sweep(), "sweep")

    @property
    def alive(self) -> int:
        """Sessions that are running or connected."""
        return sum(self._status(life) != "new" for life in self._lives.values())

    # For links and requests

    def principal(self, caller: Caller, joined: Joined | None = None) -> Principal:
        """Who the caller is to the hub: for the session they have joined, else before they are narrowed to one."""
        rights = {Right.READ, Right.WRITE}
        if self._trust.may_approve(caller):
            rights.add(Right.APPROVE)
        name = ANONYMOUS if caller.identity is None else f"{DIALECT}:{caller.identity}"
        return Principal(name, frozenset(rights), frozenset({joined.session.id}) if joined is not None else None)

    async def join(self, caller: Caller, wire_id: str | None, claim: Claim | None) -> Joined:
        """The session that a caller means, made when there is none. A claimed history is taken in where it is newer.

        Raises what the hub refuses: no room, no disk, no folder to work in.
        """
        principal = self.principal(caller)
        if wire_id is None or not _keeps(caller):
            session = await self._make(principal)
            return await self._joined(session, wire_id or session.id, principal, "new", claim)
        async with self._naming.setdefault((principal.id, wire_id), asyncio.Lock()):
            found = await self._find(caller, principal, wire_id)
            if found is not None:
                return await self._joined(found, wire_id, principal, None, claim)
            session = await self._make(principal)
            await self._registry.bind_alias(DIALECT, principal, wire_id, session.id)
            return await self._joined(session, wire_id, principal, "new", claim)

    async def state(self, caller: Caller, wire_id: str) -> str:
        """``running``, ``connected``, or ``not_found`` for whatever this caller may not see."""
        session = await self._find(caller, self.principal(caller), wire_id)
        if session is None:
            return "not_found"
        status = self._status_of(session)
        return "not_found" if status == "new" else status

    def touched(self, session: Session) -> None:
        """A client of this session gave a sign of life."""
        life = self._lives.get(session.id)
        if life is not None:
            life.touched = self._registry.clock.monotonic()

    def entered(self, view: SessionView) -> None:
        """A link shows this session."""
        view.links += 1
        self._life(view.session).using += 1
        self.touched(view.session)

    def left(self, view: SessionView) -> None:
        """A link shows it no more; the clock of its idle time begins."""
        view.links -= 1
        self._life(view.session).using -= 1
        self.touched(view.session)

    def view(self, session: Session) -> SessionView:
        """How the session looks to clients; ``catch_up`` before it is used."""
        return self._life(session).view

    def wire_id(self, session: Session) -> str | None:
        """What its clients call the session; None where nobody has named it since the server began."""
        life = self._lives.get(session.id)
        names = life.wire_ids if life is not None else set[str]()
        return min(names - {session.id}, default=session.id) if names else None

    # Inside

    def _life(self, session: Session) -> _Life:
        """What is known of a session, begun if nothing is."""
        life = self._lives.get(session.id)
        if life is None:
            self._trim()
            life = self._held.get(session.id)
            if life is None:
                life = _Life(SessionView(session, self._settings), set(), self._registry.clock.monotonic())
            self._lives[session.id] = self._held[session.id] = life
        return life

    async def _joined(
        self, session: Session, wire_id: str, principal: Principal, status: Status | None, claim: Claim | None
    ) -> Joined:
        status = status or self._status_of(session)
        life = self._life(session)
        view = life.view
        life.wire_ids.add(wire_id)
        self.touched(session)
        await view.catch_up()
        narrowed = msgspec.structs.replace(principal, only=frozenset({session.id}))
        if claim is not None:
            await self.take_in(view, narrowed, claim)
        # Of a turn that runs everything is told anyway: what counts is whether they know what was before it.
        newer = server_newer(view.conversation.before_turn if view.running else view.conversation, claim)
        # What is said must be true of the place in the log from which on the rest is told.
        if view.running:
            status = "running"
        elif status == "running":
            status = "connected"
        return Joined(session, wire_id, status, narrowed, view, newer, life)

    async def take_in(self, view: SessionView, principal: Principal, claim: Claim) -> None:
        """Add what a client remembers to the end of what is known, where it is more and nobody works on that."""
        session = view.session
        messages = taken_in(view.conversation, claim, limit=self._settings.claim_messages)
        if session.busy or not messages:
            return
        try:
            await session.merge_history(principal, messages, replace=False, via=DIALECT, detail=claim.detail())
        except HubError as problem:
            log.warning("the history that a client gave for session %s is not taken: %s", session.id, problem)
        await view.catch_up()

    async def _find(self, caller: Caller, principal: Principal, wire_id: str) -> Session | None:
        """The open session that this caller knows by that name."""
        if not _keeps(caller):
            return None
        named = await self._registry.alias(DIALECT, principal, wire_id)
        if named is None and await self._may_name(caller, principal, wire_id):
            named = wire_id
        if named is None:
            return None
        try:
            session = await self._registry.get(LOCAL, named)
        except (Gone, UnknownSession):
            return None
        return session if session.state.closed is None else None

    async def _may_name(self, caller: Caller, principal: Principal, wire_id: str) -> bool:
        """Whether the name is the UUID of a session that is the caller's, or may be seen by them."""
        try:
            row = self._registry.row(LOCAL, wire_id)
        except (Gone, UnknownSession):
            return False
        if row.owner == principal.id:
            return True
        if not self._trust.sees_all(caller):
            return False
        return caller.identity is not None or not row.owner.startswith(KEY_OWNER)

    def _status_of(self, session: Session) -> Status:
        life = self._lives.get(session.id)
        if life is not None:
            return self._status(life)
        if session.shown.turn is not None:
            return "running"
        idle = (self._registry.clock.now() - session.state.changed_at) / 1000
        return "connected" if idle <= self._settings.idle_seconds else "new"

    def _status(self, life: _Life) -> Status:
        session, clock = life.view.session, self._registry.clock
        if session.shown.turn is not None:
            return "running"
        idle = min(clock.monotonic() - life.touched, (clock.now() - session.state.changed_at) / 1000)
        return "connected" if life.using or idle <= self._settings.idle_seconds else "new"

    def _trim(self) -> None:
        """Let views go that nobody uses, down to the named limit; the longest untouched first.

        Those of turns that run stay: their clock does.
        """
        unused = [name for name, life in self._lives.items() if not life.using and life.view.session.state.turn is None]
        unused.sort(key=lambda name: self._lives[name].touched)
        for name in unused[: max(0, len(unused) - self._settings.kept_views)]:
            del self._lives[name]

    async def _sweep(self) -> None:
        """End turns that are stuck (seed: 1h idle), and forget sessions that have been idle for long."""
        shortest = min(self._settings.idle_seconds, self._settings.stuck_seconds)
        every = min(60.0, max(SOONEST_SWEEP, shortest / SWEEP_SHARE))
        while True:
            await asyncio.sleep(every)
            for name, life in list(self._lives.items()):
                if self._is_stuck(life):
                    await self._unstick(life.view.session)
                elif not life.using and self._status(life) == "new":
                    self._lives.pop(name, None)

    def _is_stuck(self, life: _Life) -> bool:
        state, clock = life.view.session.state, self._registry.clock
        if state.turn is None or state.decisions:
            return False
        quiet = min(clock.monotonic() - life.touched, (clock.now() - state.changed_at) / 1000)
        return quiet > self._settings.stuck_seconds

    async def _unstick(self, session: Session) -> None:
        log.warning("the turn of session %s is stuck and is cancelled", session.id)
        try:
            await session.cancel(LOCAL, via=DIALECT)
        except HubError as problem:
            log.warning("the turn of session %s could not be cancelled: %s", session.id, problem)


def _keeps(caller: Caller) -> bool:
    """Whether what this caller makes is theirs when they come back: an unsigned one from elsewhere may be anybody."""
    return caller.identity is not None or caller.loopback or caller.token
