"""The coop dialect as the server mounts it: who gets which session, with which rights."""

from __future__ import annotations

from collections.abc import Callable, Container

from starlette.types import ASGIApp

from dragoman.dialects.base import Refusal, TokenCheck, Upgrade, Wire
from dragoman.hub.errors import UnknownSession
from dragoman.hub.permissions import HOLDER, LOCAL, STRANGER, Principal, Right
from dragoman.hub.ports import Terminal
from dragoman.hub.registry import Registry
from dragoman.hub.session import Session
from dragoman.hub.tasks import TaskOwner

from . import messages as wire
from .link import CoopLink
from .projection import status_now
from .routes import make_health_routes, make_routes
from .settings import CoopSettings
from .shared import SharedFrames


class NoTerminal(UnknownSession):
    """There is no terminal session at all."""

    def __init__(self) -> None:
        super().__init__("")
        self.args = ("no terminal session was made yet",)


_MODES = ("raw", "screen", "state", "all")
_UNAUTHORIZED = Refusal(401, "unauthorized")


class CoopDialect:
    """``token`` is None when the server has none. ``shutdown`` is what ``shutdown`` does under ``run``.

    ``loopback`` says that the server listens on this machine only.
    """

    name = "coop"
    websocket = "/ws"
    more_websockets: Container[str] = ()

    def __init__(
        self,
        registry: Registry,
        *,
        token: TokenCheck | None,
        settings: CoopSettings,
        shutdown: Callable[[], None] | None,
        loopback: bool,
    ) -> None:
        self.registry = registry
        self.settings = settings
        self.tasks = TaskOwner("coop")
        self.message_limit = settings.stranger_message_limit
        self._token = token
        self._shutdown = shutdown
        self._loopback = loopback
        self._links: dict[str, set[CoopLink]] = {}
        self._frames: dict[str, SharedFrames] = {}
        self.http: ASGIApp = make_routes(self)
        self.health: ASGIApp = make_health_routes(self)
        """For a port of its own."""

    async def open(self, upgrade: Upgrade, wire_: Wire) -> CoopLink | Refusal:
        """Seed: Authentication and Subscription Modes."""
        mode = upgrade.query.get("mode", "all")
        if mode not in _MODES:
            return Refusal(400, f"unknown mode: {mode}; known: {', '.join(_MODES)}")
        principal = self._admit(upgrade)
        if principal is None:
            return _UNAUTHORIZED
        session, terminal = await self.find(principal, upgrade.query.get("session"))
        if Right.WRITE in principal.rights:
            wire_.set_message_limit(self.settings.message_limit)
        link = CoopLink(self, session, terminal, mode, principal, wire_)
        self._links.setdefault(session.id, set()).add(link)
        return link

    async def close(self, budget: float) -> None:
        await self.tasks.close(budget)

    # Who

    def authenticate(self, token: str | None) -> Principal | None:
        """Who holds this token; without a server token anyone is local."""
        if self._token is None:
            return LOCAL
        return HOLDER if self._token(token) else None

    def reads_open(self, loopback: bool) -> bool:
        """Whether someone without the token may read."""
        if self.settings.open_reads is not None:
            return self.settings.open_reads
        return loopback and self._loopback

    def _admit(self, upgrade: Upgrade) -> Principal | None:
        given = upgrade.query.get("token", upgrade.bearer)
        if given is not None or self._token is None:
            return self.authenticate(given)
        return STRANGER if self.reads_open(upgrade.loopback) else None

    # Which session

    async def find(self, principal: Principal, session: str | None) -> tuple[Session, Terminal]:
        """The named session, else the oldest live terminal session, else the newest that ended.

        Raises ``UnknownSession`` when there is none, or when it has no terminal.
        """
        found = await self.registry.get(principal, session or self._default(principal))
        if found.terminal is None:
            raise UnknownSession(found.id)
        return found, found.terminal

    def _default(self, principal: Principal) -> str:
        rows = [row for row in self.registry.rows(principal) if row.kind == "terminal"]
        # Idle is also said of a program that was never started; what runs is unsettled.
        ended = [row for row in rows if row.status in ("exited", "closed")]
        live = [row for row in rows if row.unsettled and row not in ended]
        if not rows:
            raise NoTerminal
        return (live[:1] or ended[-1:] or rows[-1:])[0].session

    # For links and routes

    def frames(self, session: str) -> SharedFrames:
        """The frames that all links of a session share."""
        return self._frames.setdefault(session, SharedFrames())

    def link_count(self, session: str) -> int:
        return len(self._links.get(session, ()))

    def link_lost(self, session: str, link: CoopLink) -> None:
        links = self._links.get(session, set())
        links.discard(link)
        if not links:
            self._links.pop(session, None)
            self._frames.pop(session, None)

    def status(self, session: Session, terminal: Terminal) -> wire.Status:
        now = self.registry.clock.now()
        return status_now(session.shown, terminal, now=now, links=self.link_count(session.id))

    def shut_down(self, session: Session) -> None:
        """Under ``run`` the server stops; under ``serve`` the session's program ends and its coop links close."""
        if self._shutdown is not None:
            self._shutdown()
            return
        self.tasks.start(self._end(session), f"shutdown:{session.id}")

    async def _end(self, session: Session) -> None:
        await session.end_executor()
        for link in tuple(self._links.get(session.id, ())):
            link.end()
