"""Our server in the world of a recording: the original's keys, its callers, its agent, and the time it was then."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from dragoman.agents.native.providers import keys
from dragoman.agents.native.providers.directory import ProviderDirectory
from dragoman.agents.native.providers.keys import KeyStore
from dragoman.dialects.onion import OnionDialect
from dragoman.dialects.onion.settings import OnionSettings, Tolerance
from dragoman.hub.permissions import LOCAL
from dragoman.hub.registry import Registry
from dragoman.hub.sqlite import SqliteJournal
from dragoman.server.app import Application
from dragoman.server.guard import Guard
from dragoman.server.listener import Listener
from dragoman.server.pump import PumpLimits
from dragoman.server.settings import Settings
from dragoman.server.sockets import listening_socket
from dragoman.server.surroundings import Surroundings
from dragoman.services.identity import Identity
from dragoman.services.trust import Trust, TrustSettings
from dragoman.services.uploads import UploadSettings
from tests.dialects.onion.scripted_host import KIND, FakeHostFactory, Stage

HOST = Identity.from_seed(bytes([1]) * 32)

LIMIT = 20.0
"""Seconds any single condition may take to come true."""

_A, _B, _D, _WHITELISTED = (Identity.from_seed(bytes([seed]) * 32).address for seed in (2, 3, 5, 4))

_POLICY = """---
allow: [whitelisted, contact]
deny: [blocked]
onboard:
  invite_code: [{codes}]
  payment: 10
default: {default}
---
"""


class RecordedClock:
    """It is as late as the recording is: a slow machine makes nothing late that was in time."""

    def __init__(self, began: float) -> None:
        self._began = began
        self._at = 0.0

    def monotonic(self) -> float:
        """Seconds since the recording began."""
        return self._at

    def now(self) -> int:
        return round((self._began + self._at) * 1000)

    def reach(self, at: float) -> None:
        """It is at least so many seconds later than the beginning."""
        self._at = max(self._at, at)


class RecordedHost:
    """One server for one scenario. ``folder`` is empty, ``tolerate`` is what it says beyond the seed."""

    def __init__(self, name: str, began: float, folder: Path, *, tolerate: tuple[Tolerance, ...] = ()) -> None:
        self.clock = RecordedClock(began)
        self.stage = Stage(free=False)
        self._work, data, lists = folder / "work", folder / "data", folder / "trust"
        for place in (self._work, data, lists):
            place.mkdir()
        _list_callers(name, lists)
        settings = Settings()
        providers = ProviderDirectory(settings.native, KeyStore(data / keys.FILE))
        self._around = Surroundings(settings, data, providers.ids)
        agents = FakeHostFactory(self.stage, thinks=name == "thinking")
        self._registry = Registry(
            SqliteJournal(data / "journal.db"), [agents], clock=self.clock, artifacts=self._around.artifacts
        )
        self._trust = Trust(
            trust_settings(name), folder=lists, host=HOST, loopback=True, clock=self.clock, environment={}
        )
        self.dialect = OnionDialect(
            self._registry,
            token=None,
            settings=OnionSettings(kind=KIND, name="scripted", tolerate=tolerate, ping_seconds=_ping(name)),
            trust=self._trust,
            uploads=UploadSettings(),
            providers=providers,
            configs=self._around.configs,
            folder=self._work,
            state=data / "onion",
        )
        self._application = Application([self.dialect], root="onion", limits=PumpLimits())
        guarded = Guard(self._application, bound="127.0.0.1", max_body=200 * 1024 * 1024)
        self._listener = Listener(guarded, listening_socket("127.0.0.1", 0), max_connections=100)

    @property
    def port(self) -> int:
        """Where it listens, on 127.0.0.1."""
        return self._listener.port

    @property
    def console(self) -> tuple[str, ...]:
        """Its lines, oldest first."""
        return self.dialect.console.lines

    def reach(self, at: float) -> None:
        """It is now so many seconds after the recording began, at least."""
        self.clock.reach(at)

    async def idle(self) -> None:
        """Wait until no turn runs in any session."""
        async with asyncio.timeout(LIMIT):
            while any([await self._runs(row.session) for row in self._registry.rows(LOCAL)]):
                await asyncio.sleep(0.005)

    async def _runs(self, session: str) -> bool:
        found = await self._registry.get(LOCAL, session)
        return found.shown.turn is not None or bool(found.shown.queue)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[RecordedHost]:
        """Start it, and stop it in the end."""
        await self._registry.open()
        await self._listener.start()
        try:
            yield self
        finally:
            self._listener.refuse_new()
            await self._registry.stop_sessions(2.0)
            await self.dialect.close(1.0)
            self._application.close_links()
            await self._listener.close(1.0)
            await self._registry.close(1.0)
            await self._around.close(1.0)


def trust_settings(name: str) -> TrustSettings:
    """Whom the original's host trusted in this scenario."""
    whitelist = (_B,) if name == "strict" else ()
    return TrustSettings(policy=_policy(name), whitelist=whitelist, blacklist=(_D,))


def _policy(name: str) -> str:
    if "careful" not in name:
        return "strict" if name == "strict" else "open"
    # What the original came with (ours comes without a code), and a file that somebody wrote.
    written = name.startswith("careful_code_") and name != "careful_code_in_connect"
    codes, default = ("CODE1, CODE2", "deny") if written else ("OpenOnion", "ask")
    return _POLICY.format(codes=codes, default=default)


def _list_callers(name: str, folder: Path) -> None:
    """Who was on the original's lists by then."""
    if name.endswith("contact_returns"):
        (folder / "contacts.txt").write_text(f"{_A}\n")
    if name == "strict":
        (folder / "whitelist.txt").write_text(f"{_WHITELISTED}\n")


def _ping(name: str) -> float:
    """The recorded client waited for two of them, half a minute each."""
    return 0.5 if name == "ping_pong" else 30.0
