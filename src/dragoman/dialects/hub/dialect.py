"""The hub dialect as the server mounts it: who may come in, and what all its links share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container

from starlette.types import ASGIApp

from dragoman.dialects.base import Refusal, TokenCheck, Upgrade, Wire
from dragoman.dialects.frame_cache import FrameCache
from dragoman.hub.errors import HubError
from dragoman.hub.journal import SessionRow
from dragoman.hub.permissions import HOLDER, LOCAL, Principal
from dragoman.hub.providers import Providers
from dragoman.hub.registry import Registry
from dragoman.hub.skills import Skills
from dragoman.hub.tasks import TaskOwner

from .commands import Commands
from .errors import ErrorBody, Unauthorized, problem_of, status_of
from .frames import encode, frame
from .link import HubLink
from .replies import Heartbeat
from .routes import make_app
from .rows import RowFrames
from .settings import HubDialectSettings
from .streams import Feeds


class HubDialect:
    """``token`` checks a client's token in constant time; None when the server has none, and then anyone is local.

    Without ``providers`` or ``skills`` what is asked of them is ``unsupported``.
    """

    name = "hub"
    websocket = "/ws"
    more_websockets: Container[str] = ()

    def __init__(
        self,
        registry: Registry,
        *,
        token: TokenCheck | None,
        settings: HubDialectSettings,
        providers: Providers | None = None,
        skills: Skills | None = None,
    ) -> None:
        self.registry = registry
        self.settings = settings
        self.message_limit = settings.stranger_message_limit
        self.commands = Commands(registry, settings, providers, skills)
        self.tasks = TaskOwner("hub-links")
        self.event_frames: FrameCache[int] = FrameCache(settings.shared_frames, settings.shared_bytes)
        self.row_frames = RowFrames(settings.shared_frames, settings.shared_bytes)
        self.feeds = Feeds(settings)
        self.http: ASGIApp = make_app(self)
        self._token = token
        self.closing = False
        self._links: set[HubLink] = set()
        self._unwatch: Callable[[], None] | None = None
        self._beat: asyncio.TimerHandle | None = None

    def principal(self, token: str | None) -> Principal | None:
        """Who shows this token; None for nobody we let in."""
        if self._token is None:
            return LOCAL
        return HOLDER if self._token(token) else None

    async def open(self, upgrade: Upgrade, wire: Wire) -> HubLink | Refusal:
        """A link for whoever may use the server; 401 for anyone else."""
        given = upgrade.bearer if upgrade.bearer is not None else upgrade.query.get("token")
        principal = self.principal(given)
        if principal is None:
            return _refusal(Unauthorized())
        wire.set_message_limit(self.settings.message_limit)
        link = HubLink(self, principal, wire)
        self._links.add(link)
        if self._unwatch is None:
            self._unwatch = self.registry.watch(self._row_changed)
            self._beat_later()
        return link

    def forget(self, link: HubLink) -> None:
        """The link is gone. Without links nothing of ours is called any more."""
        self._links.discard(link)
        if not self._links:
            self._stop()

    async def close(self, budget: float) -> None:
        self.closing = True
        self._stop()
        await self.tasks.close(budget)

    def _stop(self) -> None:
        if self._unwatch is not None:
            self._unwatch()
            self._unwatch = None
        if self._beat is not None:
            self._beat.cancel()
            self._beat = None

    def _row_changed(self, row: SessionRow) -> None:
        for link in tuple(self._links):
            link.row_changed(row)
        if row.dropped_at is not None:
            self.feeds.forget(row.session)

    def _beat_later(self) -> None:
        self._beat = asyncio.get_running_loop().call_later(self.settings.heartbeat, self._beat_now)

    def _beat_now(self) -> None:
        said = frame(Heartbeat(self.registry.clock.now()))
        for link in tuple(self._links):
            link.beat(said)
        self._beat_later()


def _refusal(error: HubError) -> Refusal:
    problem = problem_of(error)
    return Refusal(status_of(problem), encode(ErrorBody(problem)).decode(), "application/json")
