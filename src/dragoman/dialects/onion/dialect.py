"""The onion dialect as the server mounts it: its links, its sessions, whom it trusts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Container, Iterable
from pathlib import Path
from typing import TypeVar

from msgspec import Raw
from starlette.types import ASGIApp

from dragoman.dialects.base import Refusal, TokenCheck, Upgrade, Wire
from dragoman.dialects.frame_cache import FrameCache
from dragoman.hub.errors import UnknownSession
from dragoman.hub.permissions import LOCAL, Principal
from dragoman.hub.providers import Providers
from dragoman.hub.registry import Registry
from dragoman.hub.session import Session
from dragoman.hub.skills import Skills
from dragoman.hub.tasks import TaskOwner
from dragoman.hub.workspace_config import WorkspaceConfigs
from dragoman.services.trust import Trust
from dragoman.services.uploads import UploadSettings

from .console import Console
from .forwarder import Forwarder
from .host import About, Host, Skill
from .link import OnionLink
from .results import Results, Shown
from .routes import make_routes
from .sessions import Joined, Sessions
from .settings import OnionSettings
from .view import Place, named

ABOUT_SECONDS = 5.0
"""For so long what ``/info`` says of the agent is not looked up again."""

Given = TypeVar("Given")
T = TypeVar("T")


class OnionDialect:
    """``token`` checks a client's token in constant time; None when the server has none.

    ``folder`` is where the sessions work that CONNECT makes, ``state`` where the dialect keeps what it writes;
    ``secrets`` are what no console line may show. ``skills`` and ``tools`` are for whoever asks what the agent can do.
    Where CONNECT makes no sessions (``makes_sessions``), it shows the one there is.
    """

    name = "onion"
    websocket = "/ws"
    more_websockets: Container[str] = ("/ws/input",)

    def __init__(
        self,
        registry: Registry,
        *,
        token: TokenCheck | None,
        settings: OnionSettings,
        trust: Trust,
        uploads: UploadSettings,
        providers: Providers,
        configs: WorkspaceConfigs,
        folder: Path,
        state: Path,
        makes_sessions: bool = True,
        skills: Skills | None = None,
        tools: Callable[[], Collection[str]] = tuple,
        secrets: Callable[[], Iterable[str]] = tuple,
    ) -> None:
        self.registry = registry
        self.settings = settings
        self.trust = trust
        self.uploads = uploads
        self.state = state
        self.message_limit = settings.stranger_message_limit
        self.tasks = TaskOwner("onion")
        self.sessions = Sessions(registry, trust, settings, self._make, self.tasks)
        self.console = Console(
            lambda: self.sessions.alive, secrets=secrets, recommends_signature=trust.recommends_signature
        )
        self._taking_apart = asyncio.Lock()
        self._token = token
        self._providers = providers
        self._configs = configs
        self._folder = folder
        self._makes_sessions = makes_sessions
        self._links: set[OnionLink] = set()
        self._shared: FrameCache[None] = FrameCache(settings.shared_frames, settings.shared_bytes)
        self._skills = skills
        self._tools = tools
        self._known_about: tuple[float, About] | None = None
        self.results = Results(
            registry,
            state,
            name=self.sessions.wire_id,
            show=self._shown,
            seconds=settings.result_seconds,
            most=settings.results_bytes,
        )
        self.results.start()
        self.http: ASGIApp = make_routes(self._host())

    async def open(self, upgrade: Upgrade, wire_: Wire) -> OnionLink | Refusal:
        """A link that nobody is let in on yet: that is what CONNECT is for."""
        given = upgrade.bearer if upgrade.bearer is not None else upgrade.query.get("token")
        holds = self._token is not None and self._token(given)
        if given is not None and self._token is not None and not holds:
            return Refusal(401, "unauthorized")
        # Being on this machine means nothing where a token is asked of everybody (design: Trust).
        near = upgrade.loopback and (self._token is None or holds)
        link = OnionLink(self, upgrade, wire_, loopback=near, token=holds)
        if near or holds:
            # CONNECT brings the whole conversation along, and that grows.
            link.let_in()
        self._links.add(link)
        self.console.opened(upgrade.peer)
        return link

    async def close(self, budget: float) -> None:
        await self.results.close(budget * 0.5)
        await self.tasks.close(budget * 0.5)

    def _host(self) -> Host:
        """What the routes speak for."""
        return Host(
            settings=self.settings,
            clock=self.registry.clock,
            trust=self.trust,
            sessions=self.sessions,
            results=self.results,
            console=self.console,
            uploads=self.uploads,
            address=self.trust.address,
            token=self._token,
            about=self._about,
            started=self.registry.clock.monotonic(),
            recheck=self.recheck,
        )

    # For links

    async def apart(self, read: Callable[[Given], T], given: Given) -> T:
        """Take something large apart in a thread, one at a time: each holds the interpreter, and many together would
        leave nobody else a turn."""
        async with self._taking_apart:
            return await asyncio.to_thread(read, given)

    def forwarder(self, link: OnionLink, joined: Joined, start: Place) -> Forwarder:
        """A reading of this session for this link."""
        return Forwarder(
            joined.view,
            joined.wire_id,
            start,
            joined.principal,
            tolerate=self.settings.tolerate,
            tasks=self.tasks,
            shared=self._shared,
            wake=link.wake,
        )

    def recheck(self) -> None:
        """The lists changed: whoever is not let in any more is shown nothing more."""
        for link in tuple(self._links):
            link.recheck()

    def failed(self, link: OnionLink, why: str) -> None:
        """A link tells of a failed turn; the console has one line of it."""
        if link.shown is None:
            return
        view = link.shown.joined.view
        turn = view.last.turn if view.last is not None else ""
        if view.told_of != turn:
            view.told_of = turn
            self.console.agent_error(why)

    def left(self, link: OnionLink) -> None:
        """The link is gone."""
        if link in self._links:
            self._links.discard(link)
            self.console.closed()

    # Inside

    async def _about(self) -> About:
        """What the agent of a new session is like. Anybody may ask, so that is looked up now and then only."""
        now = self.registry.clock.monotonic()
        if self._known_about is None or now - self._known_about[0] > ABOUT_SECONDS:
            self._known_about = (now, await self._about_now())
        return self._known_about[1]

    async def _about_now(self) -> About:
        config = await self._configs.read(self._folder)
        skills = await self._skills.in_use(self._folder) if self._skills is not None else ()
        named = tuple(Skill(skill.name, skill.description) for skill in skills if skill.source in _SHOWN_SKILLS)
        if self.settings.kind != "native":
            return About((), self.settings.kind, named)
        chosen = await self._providers.usual(config.provider, config.model)
        tools = await asyncio.to_thread(self._tools)  # they are imported with the first who asks
        return About(tuple(tools), chosen.model or chosen.provider if chosen is not None else "", named)

    async def _shown(self, session: Session, wire_id: str) -> Shown:
        """A session as its clients see it. As it was when its newest turn ended it is at hand already."""
        view = self.sessions.view(session)
        await view.catch_up()
        if view.last is None or view.last.end is None:
            return Shown(Raw(view.session_object(wire_id)), "")
        outcome = view.outcome(view.last.end)
        return Shown(Raw(named(outcome.session, wire_id)), outcome.ended.result)

    async def _make(self, principal: Principal) -> Session:
        """A session in the server's folder. Who answers it is not ours to say: this protocol has no word for that."""
        if not self._makes_sessions:
            return await self._only()
        return await self.registry.create(principal, kind=self.settings.kind, cwd=str(self._folder))

    async def _only(self) -> Session:
        """The session that there is."""
        rows = self.registry.rows(LOCAL)
        if not rows:
            raise UnknownSession("")
        return await self.registry.get(LOCAL, rows[0].session)


_SHOWN_SKILLS = frozenset({"project", "built-in"})
"""Where skills come from that anybody may know of: a person's own are nobody else's business."""
