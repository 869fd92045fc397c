"""The coworker dialect as the server mounts it: who may come in, and which session a link sees."""

from __future__ import annotations

from collections.abc import Container
from pathlib import Path

from starlette.types import ASGIApp

from dragoman.dialects.base import Refusal, TokenCheck, Upgrade, Wire
from dragoman.dialects.frame_cache import FrameCache
from dragoman.hub.errors import InvalidRequest, UnknownSession
from dragoman.hub.events import Event, Json
from dragoman.hub.permissions import HOLDER, LOCAL, Principal, Right
from dragoman.hub.providers import Providers
from dragoman.hub.registry import Registry
from dragoman.hub.session import Session
from dragoman.hub.skills import Skills
from dragoman.hub.tasks import TaskOwner
from dragoman.hub.workspace_config import WorkspaceConfig, WorkspaceConfigs
from dragoman.services.observability import ObservabilitySettings, QueryProxy

from . import messages as wire
from .commands import Around
from .features import Features
from .joining import projection_at
from .link import CoworkerLink, frames_of
from .lives import OF_LINKS, Lives
from .observability_view import observability_status
from .projection import Projection, Usual, closed
from .providers import auth_methods, method_ids, preferred
from .replies import Replies
from .routes import make_routes
from .settings import CoworkerSettings


class CoworkerDialect:
    """``token`` checks a client's token in constant time; None when the server has none, and then anyone is local.

    ``folder`` is where the sessions work that its links make; where they make none (``makes_sessions``), a link that
    names no session views the one there is.
    """

    name = "coworker"
    websocket = "/ws"
    more_websockets: Container[str] = ()

    def __init__(
        self,
        registry: Registry,
        *,
        token: TokenCheck | None,
        settings: CoworkerSettings,
        providers: Providers,
        skills: Skills,
        configs: WorkspaceConfigs,
        observability: ObservabilitySettings,
        folder: Path,
        makes_sessions: bool = True,
    ) -> None:
        self.registry = registry
        self.settings = settings
        self.message_limit = settings.stranger_message_limit
        self.tasks = TaskOwner("coworker")
        self.closing = False
        self.http: ASGIApp = make_routes()
        self._token = token
        self._providers = providers
        self._folder = folder
        self._makes_sessions = makes_sessions
        self._queries = QueryProxy(
            seconds=observability.query_seconds,
            most_bytes=observability.query_bytes,
            connections=observability.checks,
        )
        self.around = Around(
            providers=providers,
            skills=skills,
            configs=configs,
            queries=self._queries,
            clock=registry.clock,
            checks=observability.checks,
            methods=method_ids(providers.auth_methods()),
        )
        self._lives = Lives(self.tasks, grace=settings.resume_seconds)
        self.tasks.start(self._lives.end_left_open(registry), "left open")
        self._links: dict[str, set[CoworkerLink]] = {}
        self._shared: FrameCache[None] = FrameCache(settings.shared_frames, settings.shared_bytes)

    async def open(self, upgrade: Upgrade, wire_: Wire) -> CoworkerLink | Refusal:
        """A session of its own for a link (seed: Session = connection), or the one that it names.

        Raises what the hub refuses: an unknown session, a cursor that is none, no room for one more.
        """
        given = upgrade.bearer if upgrade.bearer is not None else upgrade.query.get("token")
        principal = self._principal(given)
        if principal is None:
            return Refusal(401, "unauthorized")
        named, cursor = upgrade.query.get("session"), _cursor(upgrade.query.get("after"))
        if named is None and not self._makes_sessions:
            named = self._only(principal)
        if named is None and cursor is not None:
            raise InvalidRequest("after is a place in the log of the session that session= names: it names none")
        features = Features.of(upgrade.query.get("features", "").split(","), joined=named is not None)
        config: WorkspaceConfig | None = None
        if named is None:
            try:
                session, config = await self._make(principal)
            except InvalidRequest as problem:  # not by the client, which asks for nothing: our folder is gone, say
                return Refusal(503, str(problem))
        else:
            session = await self.registry.get(principal, named)
        # From here on it does not end: not in the middle of being joined, nor without its link's having been there.
        self._lives.joined(session, self.settings.resume_seconds if features.resume else 0.0)
        try:
            config = config or await self.around.configs.read(Path(session.state.cwd))
            projection = await projection_at(session, cursor, await self._usual(config))
        except BaseException:
            self._lives.left(session)
            raise
        wire_.set_message_limit(self.settings.message_limit)
        opening = self._opening(projection, config, features, session)
        link = CoworkerLink(self, session, projection, principal, wire_, features, opening)
        self._links.setdefault(session.id, set()).add(link)
        link.begin()
        return link

    async def close(self, budget: float) -> None:
        self.closing = True
        await self._lives.close(budget)
        await self.tasks.close(budget)
        await self._queries.close()

    # For links

    def replies(self) -> Replies:
        """Room for one link's replies."""
        return Replies(self.settings.reply_backlog)

    def frames(self, link: CoworkerLink, event: Event, projection: Projection) -> bytes:
        """What an event says to this link; made once for all links of the session that have the same features."""
        if len(self._links.get(link.session.id, ())) < 2:
            return frames_of(projection, event, link.features)
        features = link.features
        key = (link.session.id, event.seq, features.resume, features.void)
        known = self._shared.get(key)
        if known is not None:
            projection.project(event)
            return known[1]
        made = frames_of(projection, event, features)
        self._shared.put(key, None, made)
        return made

    def granted(self, link: CoworkerLink) -> None:
        """The link has more features than it came with."""
        if link.features.resume:
            self._lives.wants(link.session, self.settings.resume_seconds)

    def left(self, link: CoworkerLink) -> None:
        """The link is gone, and the view of its session with it."""
        links = self._links.get(link.session.id, set())
        if link in links:
            links.discard(link)
            if not links:
                self._links.pop(link.session.id, None)
            self._lives.left(link.session)

    # Inside

    def _principal(self, token: str | None) -> Principal | None:
        if self._token is None:
            return LOCAL
        return HOLDER if self._token(token) else None

    def _only(self, principal: Principal) -> str:
        rows = self.registry.rows(principal)
        if not rows:
            raise UnknownSession("")
        return rows[0].session

    async def _make(self, principal: Principal) -> tuple[Session, WorkspaceConfig]:
        """A session in the server's folder. What its configuration says is left to that, so that it stays so."""
        config = await self.around.configs.read(self._folder)
        settings: dict[str, Json] = {OF_LINKS: True, "checkpoints": True, "raw_parts": self.settings.raw_parts}
        if config.provider is None:
            chosen = await preferred(self._providers, config)
            settings |= {"provider": chosen.provider, "model": chosen.model}
        if Right.APPROVE in principal.rights:
            settings["mode"] = "all" if self.settings.yolo else self.settings.mode
            settings["output_directory"] = str(config.output_directory)
        session = await self.registry.create(principal, kind="native", cwd=str(self._folder), settings=settings)
        self._lives.made(session)
        return session, config

    async def _usual(self, config: WorkspaceConfig) -> Usual:
        chosen = await preferred(self._providers, config)
        return Usual(chosen.provider, chosen.model, str(config.output_directory), config.enable_mcp)

    def _opening(
        self, projection: Projection, config: WorkspaceConfig, features: Features, session: Session
    ) -> list[wire.ServerMessage]:
        """What a link is told at once, in the order of spec §1.1; one that joins also of what goes on."""
        hello = wire.ServerHello(session_id=session.id, config=projection.config())
        if features.resume:
            hello = wire.ServerHello(
                session_id=session.id,
                capabilities=wire.Capabilities(resume="v1"),
                config=hello.config,
                cursor=projection.state.seq,
            )
        opening: list[wire.ServerMessage] = [
            hello,
            projection.settings(),
            observability_status(session.id, config.observability),
            auth_methods(session.id, self._providers.auth_methods()),
        ]
        if projection.busy:
            opening.append(wire.SessionBusy(session_id=session.id, busy=True))
        if (reason := projection.state.closed) is not None:
            opening.append(closed(session.id, reason))
        still = session.shown.decisions
        opening += [message for message in projection.pending() if message.request_id.partition("#")[0] in still]
        return opening


def _cursor(given: str | None) -> int | None:
    if given is None:
        return None
    if not given.isascii() or not given.isdigit() or len(given) > 18:
        raise InvalidRequest("after is the cursor of the last message that was handled: a number")
    return int(given)
