"""The cin dialect as the server mounts it: one bridge, all sessions, every client."""

from __future__ import annotations

import logging
from collections.abc import Container, Iterator, Sequence
from pathlib import Path

from starlette.requests import Request
from starlette.types import ASGIApp, Scope

from dragoman.dialects.base import Refusal, TokenCheck, Upgrade, Wire
from dragoman.dialects.bearer import bearer_of
from dragoman.hub.permissions import HOLDER, LOCAL, Principal, Right
from dragoman.hub.ports import HookIntake
from dragoman.hub.registry import Registry
from dragoman.hub.tasks import TaskOwner
from dragoman.services.git import GitSettings

from . import messages as wire
from .answers import answer_of, question_of
from .asking import prompt_of
from .cards import card, meant_by
from .disk import Disk
from .feed import Feed
from .feedback import FeedbackStore
from .folders import Folders
from .frames import Frames
from .history import History
from .host import Host
from .known_folders import KnownFolders
from .link import CinLink
from .projects import Projects
from .routes import make_routes
from .settings import CinSettings
from .tiles import Tiles

log = logging.getLogger("dragoman.cin")


class EveryPath:
    """The bridge's socket is at any path (spec §1)."""

    def __contains__(self, path: object) -> bool:
        return isinstance(path, str)


class CinDialect:
    """``token`` checks a client's token in constant time; None when the server has none.

    ``folder`` is the server's workplace, ``state`` where the dialect keeps what it writes, ``private`` what else is the
    server's own and never shown to clients. ``intake`` takes the hooks of agents elsewhere.
    """

    name = "cin"
    websocket = "/"
    more_websockets: Container[str] = EveryPath()

    def __init__(
        self,
        registry: Registry,
        *,
        token: TokenCheck | None,
        settings: CinSettings,
        git: GitSettings,
        intake: HookIntake,
        folder: Path,
        state: Path,
        private: Sequence[Path] = (),
        makes_sessions: bool = True,
    ) -> None:
        self.registry = registry
        self.settings = settings
        self.message_limit = settings.message_limit
        self.tasks = TaskOwner("cin")
        self.frames = Frames(twins="legacy" in settings.tolerate)
        self.history = History(registry, settings)
        self.disk = Disk()
        self.tiles = Tiles(self.disk, state / "tiles.json", settings, self._tiles_changed)
        self.folders = Folders(git, lambda session: self.feed.refreshed(session))  # noqa: PLW0108  there is none yet
        self.feed = Feed(registry, self.frames, settings, git_of=self.folders.status, told=self.history.told)
        self._token = token
        self._links: set[CinLink] = set()
        now = registry.clock.now
        projects = Projects(self.disk, state / "projects.json", settings, now)
        private = (state, *private)
        self.host = Host(
            registry=registry,
            settings=settings,
            intake=intake,
            folder=folder,
            makes_sessions=makes_sessions,
            disk=self.disk,
            known=KnownFolders(registry, settings, projects, self.disk, folder=folder, private=private),
            projects=projects,
            tiles=self.tiles,
            feedback=FeedbackStore(self.disk, state / "feedback", settings),
            principal=self._principal,
            may_post=self._may_post,
            show=lambda row: card(row, lambda _folder: self.folders.asked(row)),
            clients=lambda: len(self._links),
        )
        self.http: ASGIApp = make_routes(self.host)
        registry.watch(self.folders.row_changed)

    # Links

    async def open(self, upgrade: Upgrade, wire_: Wire) -> CinLink | Refusal:
        """A link with all that it begins with (seed: ``init``; spec §1.1: what dashboards in use need behind it)."""
        principal = self._admit(upgrade.bearer if upgrade.bearer is not None else upgrade.query.get("token"))
        if principal is None:
            return Refusal(401, "unauthorized")
        if not self.feed.running:
            self.feed.run()
            self.folders.begin(self.feed.rows.values())
        if not self.history.begun:
            await self.history.begin()
        await self.tiles.begin()
        link = CinLink(self, principal, wire_, self._first())
        self._links.add(link)
        return link

    async def close(self, budget: float) -> None:
        await self.folders.close()
        await self.tasks.close(budget)
        self.disk.close()

    def left(self, link: CinLink) -> None:
        """The link is gone."""
        self._links.discard(link)
        if not self._links:
            self.feed.rest()
            self.history.end()
            self.folders.end()

    def _first(self) -> list[bytes]:
        cards = self.feed.cards()
        frames = [self.frames.init(cards)]
        if self.frames.twins:
            newest = self.feed.newest or "unknown"
            events = self.history.at_hand(self.settings.burst_events, self.feed.rows)
            frames += [
                self.frames.legacy("connected", {"sessionId": newest}),
                self.frames.plain("sessions", b"[%b]" % b",".join(cards)),
                self.frames.legacy("text_tiles", self.tiles.all()),
                self.frames.plain("history", b"[%b]" % b",".join(events)),
            ]
        return frames

    def _tiles_changed(self, tiles: list[wire.TextTile]) -> None:
        if self.feed.running:
            self.feed.announce("text_tiles", tiles)

    # For links

    def session_named(self, principal: Principal, name: str) -> str | None:
        """The session of that id, ours or the agent's own; None where there is none that it may see."""
        if name in self.feed.rows:
            return name if principal.may_see(name) else None
        rows = self.feed.rows.values() if self.feed.running else self.registry.rows(principal)
        row = meant_by((row for row in rows if principal.may_see(row.session)), name)
        return row.session if row is not None else None

    def names_of(self, session: str) -> frozenset[str]:
        """The ids by which a subscription may mean it."""
        row = self.feed.rows.get(session)
        own = row.agent_session if row is not None else None
        return frozenset({session} if own is None else {session, own})

    def open_prompts(self) -> Iterator[tuple[str, wire.PermissionPrompt]]:
        """What is asked now, as clients are shown it."""
        for session in self.registry.live():
            opened = session.shown.decisions.get(self.feed.asked.get(session.id, ""))
            if opened is not None:
                yield session.id, prompt_of(session.id, opened)

    async def answer(self, principal: Principal, session: str, decision: str, response: str) -> None:
        """Answer a decision by the number of a choice. Raises the hub's errors."""
        found = await self.registry.get(principal, session)
        opened = found.state.decisions.get(decision)
        if opened is None:
            principal.check(session, Right.WRITE)
            raise await found.no_longer_open(decision)
        given = answer_of(opened, response)
        await found.answer(principal, decision, given, via=self.name, question=question_of(opened))

    # Inside

    def _admit(self, token: str | None) -> Principal | None:
        if self._token is None:
            return LOCAL
        return HOLDER if self._token(token) else None

    def _principal(self, request: Request) -> Principal | None:
        """Whose request it is; None for one without the server's token, where there is one."""
        shown = bearer_of(request.headers.raw)
        return self._admit(shown if shown is not None else request.query_params.get("token"))

    def _may_post(self, scope: Scope) -> bool:
        """Whether hooks are taken from whoever sends this request."""
        return self._token is None or self._principal(Request(scope)) is not None
