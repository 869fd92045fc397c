"""Composition: settings -> journal and hub -> dialects -> listener. The only place that knows every part."""

from __future__ import annotations

import asyncio
import hmac
import logging
import os
import signal
from collections.abc import Iterable, Sequence
from pathlib import Path
from socket import socket

import msgspec
from starlette.types import ASGIApp

from dragoman.agents.hooked.factory import HookedFactory
from dragoman.agents.hooked.hearing import Hearing
from dragoman.agents.native.factory import NativeFactory
from dragoman.agents.native.providers import keys
from dragoman.agents.native.providers.directory import ProviderDirectory
from dragoman.agents.native.providers.keys import KeyStore
from dragoman.agents.scripted import ScriptedFactory
from dragoman.agents.terminal import TerminalFactory
from dragoman.dialects.base import Dialect, TokenCheck, is_loopback
from dragoman.dialects.cin.dialect import CinDialect
from dragoman.dialects.cin.origins import passes as passes_cin
from dragoman.dialects.coop import CoopDialect
from dragoman.dialects.coworker import CoworkerDialect
from dragoman.dialects.hub import HubDialect
from dragoman.dialects.onion import OnionDialect
from dragoman.dialects.windie.dialect import WindieDialect
from dragoman.hub.errors import DataFolderError, InvalidRequest
from dragoman.hub.folder import DataFolder
from dragoman.hub.ports import AgentFactory
from dragoman.hub.registry import Registry
from dragoman.hub.sqlite import SqliteJournal
from dragoman.services.identity import Identity, IdentityProblem, KeyNotKept, load_or_create
from dragoman.services.installs import AccessProblem
from dragoman.services.observability import Telemetry
from dragoman.services.observability.figures import Family
from dragoman.services.runs import RunsUnavailable
from dragoman.services.trust import PolicyProblem, Trust

from .app import Application
from .guard import Guard, local
from .health import Metrics, Readiness, hub_families, pages
from .listener import Listener
from .settings import ServerSettings, Settings, config_folder, config_places, secrets_of
from .sockets import listening_socket, unix_socket
from .surroundings import Surroundings
from .use import UseError
from .windie_services import WindieServices
from .workplace import make_folders

log = logging.getLogger("dragoman.server")

_REACHABLE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104  names, not addresses to bind
"""Where a server that listens everywhere is reached from this machine."""

DIALECTS = tuple(
    each.name for each in (CoopDialect, HubDialect, CoworkerDialect, OnionDialect, CinDialect, WindieDialect)
)

FRONT = CoworkerDialect.name
"""The dialect whose WebSocket has the short address, and which the ready line is written for."""

JOURNAL_CLOSE = 0.4
"""Seconds that a hung disk may hold up the end of the server."""

QUICK_BUDGET = 0.3
"""Seconds that remain for everything after a second stop request."""

LAST_WORK = 0.1
"""Seconds that a checkpoint or a restore gets to undo what it was at, when everything else has used up its time."""

LAST_SPANS = 0.05
"""Seconds that spans get to leave when everything else has used up its time."""


class Server:
    """One running server. ``start``, then ``stopped.wait()``, then ``stop``.

    ``workplace`` is the folder of sessions for which no client names one: the current one by default.
    """

    def __init__(self, settings: Settings, *, only_session: bool = False, workplace: Path | None = None) -> None:
        self.settings = settings
        self.workplace = workplace if workplace is not None else Path.cwd()
        self.stop_requested = asyncio.Event()
        self._folder = DataFolder(settings.data.path())
        self._only_session = only_session
        self._registry: Registry | None = None
        self._dialects: list[Dialect] = []
        self._application: Application | None = None
        self._listener: Listener | None = None
        self._others: list[Listener] = []
        self._terminals: TerminalFactory | None = None
        self._native: NativeFactory | None = None
        self._hearing: Hearing | None = None
        self._providers: ProviderDirectory | None = None
        self._around: Surroundings | None = None
        self._trust: Trust | None = None
        self._windie: WindieServices | None = None
        self._telemetry = Telemetry(settings.observability)
        self.listening = False
        self.hurried = asyncio.Event()
        """Set by a second stop request."""

    @property
    def registry(self) -> Registry:
        """The hub, once started."""
        assert self._registry is not None
        return self._registry

    @property
    def codes(self) -> tuple[str, ...]:
        """Invite codes, once started: what no log line may show."""
        return self._trust.secrets if self._trust is not None else ()

    @property
    def port(self) -> int:
        """The port that is really bound."""
        assert self._listener is not None
        return self._listener.port

    async def start(self) -> None:
        """Bind, take the data folder over and restore; ``listen`` follows. Raises ``UseError``."""
        server = self.settings.server
        if server.dialect is not None and server.dialect not in DIALECTS:
            raise UseError(f"unknown dialect {server.dialect!r}; known: {', '.join(DIALECTS)}")
        sockets = _bind(server)
        try:
            self._folder.acquire()
            await self._open_hub(sockets.main.getsockname()[1])
            self._trust = await self._trusted()
            self._windie = await self._open_windie()
        except (
            DataFolderError,
            InvalidRequest,
            IdentityProblem,
            PolicyProblem,
            AccessProblem,
            RunsUnavailable,
        ) as problem:
            sockets.close()
            raise UseError(str(problem)) from problem
        coop = self._mount()
        self._telemetry.start()
        assert self._application is not None
        served = self._guarded(self._application)
        self._listener = Listener(served, sockets.main, max_connections=server.max_connections)
        if sockets.unix is not None:
            self._others.append(Listener(local(served), sockets.unix, max_connections=server.max_connections))
        if sockets.health is not None:
            health = Listener(self._guarded(coop.health), sockets.health, max_connections=server.max_connections)
            self._others.append(health)
            log.info("health on port %d", health.port)

    def _guarded(self, app: ASGIApp) -> Guard:
        server = self.settings.server
        return Guard(
            app,
            bound=server.host,
            allow_host=server.allow_host,
            allow_origin=server.allow_origin,
            origin_rule=self._passes,
            max_body=server.max_body,
        )

    async def listen(self) -> None:
        """Begin to accept."""
        for listener in self._listeners:
            await listener.start()
        self.listening = True
        self._folder.announce(self.http_url)

    async def make_folders(self) -> None:
        """Make what agent-coworker made in the workplace unasked (spec #21). Raises ``UseError``."""
        assert self._around is not None
        await make_folders(self.workplace, self._around.configs)

    async def _open_hub(self, port: int) -> None:
        settings = self.settings
        base = self._url(port)

        def url(session: str) -> str:
            return base if self._only_session else f"{base}/coop/session/{session}"

        self._terminals = TerminalFactory(settings.terminal, folder=self._folder.terminals, url=url)
        self._providers = ProviderDirectory(settings.native, KeyStore(self._folder.keys / keys.FILE))
        around = self._around = Surroundings(settings, self._folder.path, self._providers.ids)
        native = self._native = NativeFactory(
            self._providers,
            settings.native,
            search_key=self._providers.search_key,
            private=self._private(),
            skills=around.skills,
            configs=around.configs,
            home=around.home,
            consents=self._folder.keys / "mcp.json",
        )
        journal = SqliteJournal(self._folder.journal, epoch=self._folder.epoch, close_limit=JOURNAL_CLOSE)
        hooked = HookedFactory(settings.hooked)
        factories: list[AgentFactory] = [ScriptedFactory(), self._terminals, native, hooked]
        self._registry = Registry(
            journal,
            factories,
            limits=settings.hub,
            checkpoints=around.checkpoints,
            taps=[self._telemetry],
            artifacts=around.artifacts,
        )
        await self._registry.open()
        programs = config_folder(os.environ) / "hooks"
        self._hearing = Hearing(self._registry, hooked, self._folder.path, programs, listens=not self._only_session)
        await self._hearing.open()
        around.start()

    async def _trusted(self) -> Trust:
        """Who is let in by signature. Raises ``IdentityProblem``, ``PolicyProblem``."""
        settings, config = self.settings.trust, config_folder(os.environ)
        try:
            host = await asyncio.to_thread(load_or_create, settings.host_key(config))
        except KeyNotKept as problem:  # nobody knows this server by an address yet, and most clients need none
            host = Identity.passing()
            log.warning("%s; until the server stops it is %s, and another one after that", problem, host.address)
        return Trust(
            settings,
            folder=settings.lists_folder(config),
            host=host,
            loopback=is_loopback(self.settings.server.host),
            clock=self.registry.clock,
            has_token=self.settings.server.token is not None,
        )

    @property
    def _listeners(self) -> list[Listener]:
        assert self._listener is not None
        return [self._listener, *self._others]

    def _mount(self) -> CoopDialect:
        settings, registry = self.settings, self.registry
        token = settings.server.token
        check = _token_check(token) if token is not None else None
        assert self._around is not None
        coop = CoopDialect(
            registry,
            token=check,
            settings=settings.dialects.coop,
            # Asked for twice by clients it is no hurry: the agent is being brought to rest.
            shutdown=self.stop_requested.set if self._only_session else None,
            loopback=is_loopback(settings.server.host),
        )
        self._dialects = [
            coop,
            HubDialect(
                registry,
                token=check,
                settings=settings.dialects.hub,
                providers=self._providers,
                skills=self._around.skills,
            ),
            self._coworker(check),
            self._onion(check),
            self._cin(check),
            self._windie_dialect(),
        ]
        self._application = Application(
            self._dialects,
            root=settings.server.dialect,
            front=FRONT,
            limits=settings.links,
            pages=self._pages(check),
        )
        return coop

    def _coworker(self, check: TokenCheck | None) -> CoworkerDialect:
        assert self._providers is not None
        assert self._around is not None
        return CoworkerDialect(
            self.registry,
            token=check,
            settings=self.settings.dialects.coworker,
            providers=self._providers,
            skills=self._around.skills,
            configs=self._around.configs,
            observability=self.settings.observability,
            folder=self.workplace,
            makes_sessions=not self._only_session,
        )

    def _onion(self, check: TokenCheck | None) -> OnionDialect:
        trust, around = self._trust, self._around
        assert trust is not None
        assert around is not None
        assert self._providers is not None
        assert self._native is not None
        return OnionDialect(
            self.registry,
            token=check,
            settings=self.settings.dialects.onion,
            trust=trust,
            uploads=self.settings.uploads,
            providers=self._providers,
            configs=around.configs,
            folder=self.workplace,
            state=self._folder.path / "onion",
            secrets=lambda: (*secrets_of(self.settings), *trust.secrets),
            skills=around.skills,
            tools=self._native.tool_names,
            makes_sessions=not self._only_session,
        )

    def _private(self) -> tuple[Path, ...]:
        """Files and folders that are the server's own, wherever they lie: no client and no agent is shown them."""
        assert self._around is not None
        return (
            self._folder.path,
            self._around.kept,
            *config_places(os.environ),
            *self.settings.trust.places(config_folder(os.environ)),
        )

    def _cin(self, check: TokenCheck | None) -> CinDialect:
        assert self._hearing is not None
        return CinDialect(
            self.registry,
            token=check,
            settings=self.settings.dialects.cin,
            git=self.settings.git,
            intake=self._hearing.intake,
            folder=self.workplace,
            state=self._folder.path / "cin",
            private=self._private(),
            makes_sessions=not self._only_session,
        )

    async def _open_windie(self) -> WindieServices:
        """What surrounds windie's conversations. Raises ``AccessProblem``, ``RunsUnavailable``."""
        token = self.settings.server.token
        return await WindieServices.start(
            self.settings,
            self._folder.path,
            clock=self.registry.clock,
            token=_token_check(token) if token is not None else None,
        )

    def _windie_dialect(self) -> WindieDialect:
        services, native, providers = self._windie, self._native, self._providers
        assert services is not None
        assert native is not None
        assert providers is not None
        return WindieDialect(
            self.registry,
            settings=self.settings.dialects.windie,
            access=services.access,
            installs=services.installs,
            artifacts=services.artifacts,
            runs=services.runs,
            users=services.users,
            providers=providers,
            previews=native.previews(self.registry.clock),
            folder=self.workplace,
            makes_sessions=not self._only_session,
            search_problem=providers.search_problem,
        )

    def _passes(self, path: str, origin: str) -> bool:
        """Whether the dialect that the path belongs to lets pages of this origin in by its own rule."""
        assert self._application is not None
        dialect, _ = self._application.mounts.find(path)
        return isinstance(dialect, CinDialect) and passes_cin(origin)

    def _pages(self, check: TokenCheck | None) -> dict[str, ASGIApp]:
        settings = self.settings.observability
        metrics = Metrics(self._families, readers=settings.metrics_readers, token=check) if settings.metrics else None
        return pages(Readiness(self.registry, stopping=self.stop_requested.is_set), metrics)

    def _families(self) -> Iterable[Family]:
        """Everything that is counted in this server."""
        assert self._application is not None
        yield from self._telemetry.families()
        yield from self._application.traffic.families()
        yield from hub_families(self.registry)

    def request_stop(self) -> None:
        """Ask the server to stop, as the first signal does; a second time is quicker."""
        if self.stop_requested.is_set():
            self.hurried.set()
        self.stop_requested.set()

    async def stop(self) -> None:
        """Refuse new links, end programs on schedule, say goodbye to links, flush the journal."""
        assert self._application is not None
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.settings.server.stop_budget
        if self._hearing is not None:
            await self._hearing.close()
        await self.end_sessions()
        budget = QUICK_BUDGET if self.hurried.is_set() else self.settings.server.stop_budget
        for dialect in self._dialects:
            await dialect.close(budget * 0.1)
        if self._windie is not None:
            await self._windie.end_polls()
        self._application.close_links()
        await asyncio.gather(*(listener.close(budget * 0.15) for listener in self._listeners))
        if self.settings.server.socket is not None:
            Path(self.settings.server.socket).unlink(missing_ok=True)
        await self.registry.close(budget * 0.15)
        await self._telemetry.close(min(budget * 0.15, max(LAST_SPANS, deadline - loop.time())))
        if self._around is not None:
            await self._around.close(max(LAST_WORK, min(budget, deadline - loop.time())))
        if self._windie is not None:
            await self._windie.close(max(LAST_WORK, min(budget, deadline - loop.time())))
        if self._providers is not None:
            await self._providers.close()
        self._folder.release()

    async def end_sessions(self) -> None:
        """Take no new links and end what runs; a second stop request ends it at once."""
        for listener in self._listeners:
            listener.refuse_new()
        budget = self.settings.server.stop_budget * 0.6
        ending = asyncio.ensure_future(self.registry.stop_sessions(budget))
        hurry = asyncio.ensure_future(self.hurried.wait())
        await asyncio.wait({ending, hurry}, return_when=asyncio.FIRST_COMPLETED)
        hurry.cancel()
        if not ending.done():
            await asyncio.wait({ending}, timeout=QUICK_BUDGET)
            ending.cancel()

    async def links_gone(self, limit: float) -> None:
        """Wait until no link is open, ``limit`` seconds at most."""
        deadline = asyncio.get_running_loop().time() + limit
        while self._application is not None and self._application.links:
            if self.stop_requested.is_set() or asyncio.get_running_loop().time() > deadline:
                return
            await asyncio.sleep(0.02)

    # Addresses

    @property
    def http_url(self) -> str:
        """Where the server is reached from this machine."""
        return self._url(self.port)

    def _url(self, port: int) -> str:
        host = _REACHABLE.get(self.settings.server.host, self.settings.server.host)
        return f"http://{f'[{host}]' if ':' in host else host}:{port}"

    def addresses(self) -> dict[str, str]:
        """Dialect name -> URL of its WebSocket, the short one where it has one."""
        assert self._application is not None
        base = self.http_url.replace("http", "ws", 1)
        return {name: base + path for name, path in self._application.mounts.websockets().items()}

    def ready_line(self) -> dict[str, object]:
        """What ``--json`` prints once: the seed's four keys first (Desktop / Wrapper Integration).

        ``url`` is where coworker clients connect to, whatever is at the root; where one session is run, it is the root.
        """
        addresses = self.addresses()
        first = self.settings.server.dialect if self._only_session else None
        url = addresses[first or FRONT]
        return {
            "type": "server_listening",
            "url": url,
            "port": self.port,
            "cwd": str(self.workplace),
            "dialects": addresses,
        }


class _Sockets(msgspec.Struct):
    """What is bound: the server's own port, its unix socket, its health port."""

    main: socket
    unix: socket | None = None
    health: socket | None = None

    def close(self) -> None:
        if self.unix is not None:
            Path(self.unix.getsockname()).unlink(missing_ok=True)
        for bound in (self.main, self.unix, self.health):
            if bound is not None:
                bound.close()


def _bind(server: ServerSettings) -> _Sockets:
    """Everything that the settings ask for, or nothing. Raises ``UseError``."""
    where, other = f"{server.host}:{server.port}", "--port N chooses another"
    sockets: _Sockets | None = None
    try:
        sockets = _Sockets(listening_socket(server.host, server.port))
        if server.health_port is not None:
            where, other = f"{server.host}:{server.health_port}", "--port-health N chooses another"
            sockets.health = listening_socket(server.host, server.health_port)
        if server.socket is not None:
            where, other = server.socket, "--socket PATH chooses another"
            sockets.unix = unix_socket(server.socket)
    except OSError as problem:
        if sockets is not None:
            sockets.close()
        raise UseError(f"cannot listen on {where}: {problem.strerror or problem} ({other})") from None
    return sockets


def _token_check(token: str) -> TokenCheck:
    """Compares in constant time; nothing given is never right."""
    secret = token.encode()

    def matches(given: str | None) -> bool:
        return given is not None and hmac.compare_digest(given.encode("utf-8", "surrogatepass"), secret)

    return matches


STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""What asks the server to stop; a terminal that closes is one of them."""


def handle_signals(server: Server, numbers: Sequence[signal.Signals] = STOP_SIGNALS) -> None:
    """Stop on the first signal, quicker on the second."""
    loop = asyncio.get_running_loop()
    for number in numbers:
        loop.add_signal_handler(number, server.request_stop)
