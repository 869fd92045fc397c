"""Composition: settings -> journal and hub -> dialects -> listener. The only place that knows every part."""

from __future__ import annotations

import asyncio
import hmac
import logging
import signal
from collections.abc import Callable, Sequence
from pathlib import Path

from dragoman.agents.scripted import ScriptedFactory
from dragoman.agents.terminal import TerminalFactory
from dragoman.dialects.base import Dialect, is_loopback
from dragoman.dialects.coop import CoopDialect
from dragoman.dialects.hub import HubDialect
from dragoman.hub.errors import DataFolderError
from dragoman.hub.folder import DataFolder
from dragoman.hub.registry import Registry
from dragoman.hub.sqlite import SqliteJournal

from .app import Application
from .guard import Guard
from .listener import Listener
from .settings import Settings
from .sockets import listening_socket

log = logging.getLogger("dragoman.server")


_REACHABLE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104  names, not addresses to bind
"""Where a server that listens everywhere is reached from this machine."""

JOURNAL_CLOSE = 0.4
"""Seconds that a hung disk may hold up the end of the server."""

QUICK_BUDGET = 0.3
"""Seconds that remain for everything after a second stop request."""


class UseError(Exception):
    """The server cannot start as asked: one line that says what to do (exit code 2)."""


class Server:
    """One running server. ``start``, then ``stopped.wait()``, then ``stop``."""

    def __init__(self, settings: Settings, *, only_session: bool = False) -> None:
        self.settings = settings
        self.stop_requested = asyncio.Event()
        self._folder = DataFolder(settings.data.path())
        self._only_session = only_session
        self._registry: Registry | None = None
        self._dialects: list[Dialect] = []
        self._application: Application | None = None
        self._listener: Listener | None = None
        self._terminals: TerminalFactory | None = None
        self.listening = False
        self._hurried = asyncio.Event()

    @property
    def registry(self) -> Registry:
        """The hub, once started."""
        assert self._registry is not None
        return self._registry

    @property
    def port(self) -> int:
        """The port that is really bound."""
        assert self._listener is not None
        return self._listener.port

    async def start(self) -> None:
        """Bind, take the data folder over and restore; ``listen`` follows. Raises ``UseError``."""
        settings = self.settings
        try:
            bound = listening_socket(settings.server.host, settings.server.port)
        except OSError as problem:
            where = f"{settings.server.host}:{settings.server.port}"
            raise UseError(
                f"cannot listen on {where}: {problem.strerror or problem} (--port N chooses another)"
            ) from None
        try:
            self._folder.acquire()
            await self._open_hub(bound.getsockname()[1])
        except DataFolderError as problem:
            bound.close()
            raise UseError(str(problem)) from problem
        self._mount()
        assert self._application is not None
        guarded = Guard(
            self._application,
            bound=settings.server.host,
            allow_host=settings.server.allow_host,
            allow_origin=settings.server.allow_origin,
            max_body=settings.server.max_body,
        )
        self._listener = Listener(guarded, bound, max_connections=settings.server.max_connections)

    async def listen(self) -> None:
        """Begin to accept."""
        assert self._listener is not None
        await self._listener.start()
        self.listening = True
        self._folder.announce(self.http_url)

    async def _open_hub(self, port: int) -> None:
        settings = self.settings
        base = self._url(port)

        def url(session: str) -> str:
            return base if self._only_session else f"{base}/coop/session/{session}"

        self._terminals = TerminalFactory(settings.terminal, folder=self._folder.terminals, url=url)
        journal = SqliteJournal(self._folder.journal, epoch=self._folder.epoch, close_limit=JOURNAL_CLOSE)
        self._registry = Registry(journal, [ScriptedFactory(), self._terminals], limits=settings.hub)
        await self._registry.open()

    def _mount(self) -> None:
        settings, registry = self.settings, self.registry
        token = settings.server.token
        check = _token_check(token) if token is not None else None
        self._dialects = [
            CoopDialect(
                registry,
                token=check,
                settings=settings.dialects.coop,
                shutdown=self.request_stop if self._only_session else None,
                loopback=is_loopback(settings.server.host),
            ),
            HubDialect(registry, token=check, settings=settings.dialects.hub),
        ]
        names = [dialect.name for dialect in self._dialects]
        root = settings.server.dialect
        if root is not None and root not in names:
            raise UseError(f"unknown dialect {root!r}; known: {', '.join(names)}")
        self._application = Application(self._dialects, root=root, limits=settings.links)

    def request_stop(self) -> None:
        """Ask the server to stop, as the first signal does; a second time is quicker."""
        if self.stop_requested.is_set():
            self._hurried.set()
        self.stop_requested.set()

    async def stop(self) -> None:
        """Refuse new links, end programs on schedule, say goodbye to links, flush the journal."""
        assert self._listener is not None
        assert self._application is not None
        await self.end_sessions()
        budget = QUICK_BUDGET if self._hurried.is_set() else self.settings.server.stop_budget
        for dialect in self._dialects:
            await dialect.close(budget * 0.1)
        self._application.close_links()
        await self._listener.close(budget * 0.15)
        await self.registry.close(budget * 0.15)
        self._folder.release()

    async def end_sessions(self) -> None:
        """Take no new links and end what runs; a second stop request ends it at once."""
        assert self._listener is not None
        self._listener.refuse_new()
        budget = self.settings.server.stop_budget * 0.6
        ending = asyncio.ensure_future(self.registry.stop_sessions(budget))
        hurry = asyncio.ensure_future(self._hurried.wait())
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
        """Dialect name -> URL of its WebSocket; the root dialect's is the short one."""
        base = self.http_url.replace("http", "ws", 1)
        root = self.settings.server.dialect
        return {
            dialect.name: base + ("" if dialect.name == root else f"/{dialect.name}") + dialect.websocket
            for dialect in self._dialects
        }

    def ready_line(self) -> dict[str, object]:
        """What ``--json`` prints once: the seed's four keys first."""
        addresses = self.addresses()
        url = addresses[self.settings.server.dialect or "hub"]
        return {
            "type": "server_listening",
            "url": url,
            "port": self.port,
            "cwd": str(Path.cwd()),
            "dialects": addresses,
        }


def _token_check(token: str) -> Callable[[str | None], bool]:
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
