"""The providers of this server: which there are, how they stand, and the one that a session gets.

Implements ``Providers`` for dialects. For the agent: ``choose`` says who answers a session, ``provider`` gives the
adapter, ``cost`` and ``context_window`` what is known of a model.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from dragoman.agents.native.settings import NativeSettings
from dragoman.hub.clock import Clock, SystemClock
from dragoman.hub.errors import InvalidRequest
from dragoman.hub.providers import AuthChallenge, AuthMethod, AuthResult, Preferred, ProviderEntry, ProviderStatus

from .adapters import Adapters
from .catalogue import SEARCH_SERVICES, Api, CatalogueEntry, catalogue, is_this_machine
from .keys import FoundKey, KeyRing, KeyStore
from .local_servers import LocalServers
from .model_lists import ModelLists
from .port import Provider, ProviderFailed, Spent
from .prices import Prices
from .programs import Programs
from .running import Running, placed_port, running
from .sign_in import SignIns, Standing
from .table import ADAPTERS, Adapter
from .telling import message_of, no_key, not_running, shown
from .verifying import Verification, Verifier

if TYPE_CHECKING:
    from dragoman.agents.native.delegates.port import Delegate

log = logging.getLogger("dragoman.providers")


def _no_key_needed() -> str | None:
    return None


class Chosen(msgspec.Struct, frozen=True):
    """Who answers. ``make`` gives the adapter with the key of the moment: call it for each model call.

    Where a program runs the whole turn, ``delegate`` gives it, and ``find_key`` the key that it is to be given, if any.
    """

    provider_id: str
    model: str
    make: Callable[[], Provider]
    delegate: Callable[[], Delegate] | None = None
    find_key: Callable[[], str | None] = _no_key_needed


class ProviderDirectory:
    """See the module. Raises ``InvalidRequest`` for settings that cannot be; asks and reads nothing yet.

    ``store`` holds the keys that were given to this server; ``environment`` may hold others, and base URLs.
    """

    def __init__(
        self,
        settings: NativeSettings,
        store: KeyStore,
        *,
        environment: Mapping[str, str] | None = None,
        adapters: Mapping[Api, Adapter] = ADAPTERS,
        clock: Clock | None = None,
    ) -> None:
        environment = os.environ if environment is None else environment
        self._settings = settings
        self._clock = clock or SystemClock()
        self._catalogue = catalogue(settings, environment)
        self._keys = KeyRing(store, environment)
        self._servers = LocalServers(
            self._places(),
            seconds=settings.local_seconds,
            cache_seconds=settings.local_cache_seconds,
            key=self._key_at,
        )
        self._lists = ModelLists(seconds=settings.verify_seconds)
        self._verifier = Verifier(seconds=settings.verify_seconds, now=self._clock.now)
        self._adapters = Adapters(adapters, settings)
        self._programs = Programs(settings, environment)
        self._sign_ins = SignIns(settings, store, environment)
        self._prices = Prices()
        self._now = running(self._catalogue, ())

    @property
    def ids(self) -> frozenset[str]:
        """The providers that can be named, but for servers on this machine that are yet to be found."""
        return frozenset(entry.id for entry in self._catalogue)

    # For dialects

    async def catalogue(self, *, among: Collection[str] | None = None) -> tuple[ProviderEntry, ...]:
        entries = await self._among(among)
        models = await asyncio.gather(*map(self._models, entries))
        return tuple(map(shown, entries, models))

    async def status(self, *, verify: bool = False, among: Collection[str] | None = None) -> tuple[ProviderStatus, ...]:
        entries = await self._among(among)
        return tuple(await asyncio.gather(*(self._status(entry, verify=verify) for entry in entries)))

    async def preferred(self, among: Sequence[str], provider: str | None = None, model: str | None = None) -> Preferred:
        named = provider or self._settings.provider
        entry = self._now.find(named) if named else await self._connected(among, model or self._settings.model)
        if entry is None:
            return Preferred(named or among[0], model or "")
        usual = model or self._usual_model(entry, named) or next(iter(entry.models), "")
        return Preferred(named or entry.id, usual)

    async def usual(self, provider: str | None = None, model: str | None = None) -> Preferred | None:
        try:
            entry, wanted = await self._entry((provider or "").strip(), (model or "").strip())
        except (InvalidRequest, ProviderFailed):
            return None
        if self._problem(entry) is not None:
            return None
        return Preferred(entry.id, wanted or next(iter(await self._models(entry)), ""))

    async def set_key(self, provider: str, key: str) -> None:
        self._check_has_key(provider)
        await asyncio.to_thread(self._keys.store.set, provider, key)

    async def forget_key(self, provider: str) -> bool:
        self._check_has_key(provider)
        return await asyncio.to_thread(self._keys.store.forget, provider)

    def auth_methods(self) -> Mapping[str, tuple[AuthMethod, ...]]:
        entries = (entry for entry in self._now.entries if not entry.demonstration)
        return {entry.id: self._sign_ins.methods(entry.id) for entry in entries}

    async def begin_sign_in(self, provider: str, method: str) -> AuthChallenge:
        self._check_signs_in(provider, method)
        return self._sign_ins.begin(provider, method)

    async def finish_sign_in(
        self,
        provider: str,
        method: str,
        code: str | None = None,  # noqa: ARG002  none of the programs wants one
        *,
        tell: Callable[[str], None],
    ) -> AuthResult:
        self._check_signs_in(provider, method)
        return await self._sign_ins.finish(provider, method, tell)

    # For the agent

    async def choose(self, provider: str | None = None, model: str | None = None) -> Chosen:
        """Who answers a session: whoever it names, else the settings', else the first that can.

        Raises ``InvalidRequest`` for a name that nobody has, ``ProviderFailed`` for one that cannot be used as it is.
        """
        entry, wanted = await self._entry((provider or "").strip(), (model or "").strip())
        problem = self._problem(entry)
        if problem is not None:
            raise problem
        wanted = wanted or next(iter(await self._models(entry)), "")
        if not wanted:
            raise InvalidRequest(f"{entry.name} lists no models: say which one")
        make = partial(self.provider, entry.id)
        if entry.delegate:
            await self._programs.load(entry.id)
            return Chosen(entry.id, wanted, make, partial(self._programs.get, entry.id), partial(self._key_of, entry))
        await self._adapters.load(entry.api)
        return Chosen(entry.id, wanted, make)

    async def _entry(self, named: str, wanted: str) -> tuple[CatalogueEntry, str]:
        """Who is meant, and the model so far as anybody says it. Raises as ``choose``."""
        if named or self._settings.provider:
            entry = await self._named(named or self._settings.provider)
            return entry, wanted or self._usual_model(entry, named)
        entry = await self._first(wanted or self._settings.model, insist=bool(wanted))
        return entry, wanted or ("" if entry.demonstration else self._settings.model)

    def provider(self, name: str) -> Provider:
        """The adapter of a provider, the same one as long as its key is. Raises as ``choose``."""
        entry = self._now.find(name)
        if entry is None:
            raise self._unknown(name)
        if entry.delegate:
            raise ProviderFailed(f"{entry.name} answers whole turns only")
        found = self._key(entry)
        if found.source == "missing":
            raise no_key(entry)
        return self._adapters.get(entry, found.key)

    def search_key(self, variable: str) -> str | None:
        """The key of a service that searches the web, by the environment's name for it (``BRAVE_API_KEY``)."""
        service = next((name for name, known in SEARCH_SERVICES.items() if known == variable), variable)
        return self._keys.find(service, (variable,)).key

    def search_problem(self) -> str | None:
        """Why the web cannot be searched, for people; None when there is a key of a service that does."""
        if any(self.search_key(variable) for variable in SEARCH_SERVICES.values()):
            return None
        return f"no key of a search service is set ({' or '.join(SEARCH_SERVICES.values())})"

    async def cost(self, provider: str, model: str, spent: Spent) -> float | None:
        """US dollars of a model call; None where that is not known."""
        return await self._prices.cost(self._price_id(provider), model, spent)

    async def context_window(self, provider: str, model: str) -> int | None:
        """Tokens that a model takes: as settings, its server or the price list say; else None."""
        entry = self._now.find(provider)
        told = (entry.context_window if entry is not None else 0) or self._now.window(provider, model)
        return told or await self._prices.context_window(self._price_id(provider), model)

    async def close(self) -> None:
        """Give up every connection, and break off who is just signing in."""
        await self._sign_ins.close()
        await self._adapters.close()

    # Inside

    def _places(self) -> tuple[str, ...]:
        """Where to look for local servers: nowhere, if settings say so, but at what they name themselves."""
        added = [entry.base_url for entry in self._catalogue if entry.local and entry.id in self._settings.providers]
        if not self._settings.local_servers:
            return tuple(added)
        usual = [entry.base_url for entry in self._catalogue if entry.id == "ollama" and entry.local]
        return (*added, *self._settings.local_servers, *usual)

    def _key_at(self, url: str) -> str | None:
        entries = (entry for entry in self._catalogue if entry.local and entry.base_url == url)
        return next((found.key for entry in entries if (found := self._key(entry)).key is not None), None)

    async def _among(self, wanted: Collection[str] | None) -> Sequence[CatalogueEntry]:
        """All providers, or those; nobody looks for local servers that are not wanted."""
        if wanted is not None:
            known = [entry for entry in self._catalogue if entry.id in wanted and not entry.local]
            if len(known) == len(set(wanted)):
                return known
        entries = (await self._look()).entries
        return entries if wanted is None else [entry for entry in entries if entry.id in wanted]

    async def _connected(self, among: Sequence[str], model: str) -> CatalogueEntry | None:
        """The first that has a key or a sign-in, and can be used; of those that have ``model``, if any has."""
        entries = [entry for entry in map(self._now.find, among) if entry is not None]
        usable = [entry for entry in entries if self._problem(entry) is None and await self._has_credentials(entry)]
        having = next((entry for entry in usable if model in entry.models), None)
        return having or next(iter(usable), next(iter(entries), None))

    async def _has_credentials(self, entry: CatalogueEntry) -> bool:
        if self._key(entry).key is not None:
            return True
        standing = await self._sign_ins.standing(entry.id, verify=False)
        return standing is not None and (standing.signed_in or standing.mode == "oauth")

    async def _look(self) -> Running:
        self._now = running(self._catalogue, await self._servers.find())
        return self._now

    def _key(self, entry: CatalogueEntry) -> FoundKey:
        if entry.demonstration:
            return FoundKey("none_needed")
        found = self._keys.find(entry.id, entry.key_env)
        return found if found.key is not None or entry.needs_key else FoundKey("none_needed")

    def _key_of(self, program: CatalogueEntry) -> str | None:
        """What a program is given: the key that is kept for it, else that of its maker, if it has no sign-in."""
        if self._keys.store.mode(program.id) == "oauth":
            return None
        kept = self._keys.find(program.id, program.key_env).key
        maker = self._now.find(self._programs.fallback(program.id) or "") if kept is None else None
        return self._keys.find(maker.id, maker.key_env).key if maker is not None else kept

    async def _models(self, entry: CatalogueEntry) -> tuple[str, ...]:
        found = self._key(entry)
        if entry.models or entry.local or found.source == "missing":
            return entry.models
        return tuple(model.id for model in await self._lists.models(entry, found.key))

    async def _named(self, name: str) -> CatalogueEntry:
        """The provider of that name. Looks at this machine only for one that may be there."""
        entry = next((entry for entry in self._catalogue if entry.id == name and not entry.local), None)
        entry = entry or (await self._look()).find(name)
        if entry is not None:
            return entry
        port = placed_port(name)
        if port in self._servers.ports:
            raise not_running(name, f"port {port}")
        raise self._unknown(name)

    def _unknown(self, name: str) -> InvalidRequest:
        known = ", ".join(entry.id for entry in self._now.entries)
        return InvalidRequest(f"unknown provider {name[:64]!r}; known: {known}")

    def _usual_model(self, entry: CatalogueEntry, named: str) -> str:
        """The settings' model, if it is meant for this provider, which a session named or else the settings."""
        model, of = self._settings.model, self._settings.provider
        return model if named in ("", of) or (not of and model in entry.models) else ""

    async def _first(self, model: str, *, insist: bool) -> CatalogueEntry:
        """The first that can be used; of those that have ``model``, if any has. A program is never taken unasked.

        Looks at this machine only where nobody else will do: who has a key should not wait for a port that hangs.
        """
        away = [entry for entry in self._catalogue if not (entry.local or entry.demonstration or entry.delegate)]
        found = await self._having(away, model)
        if found is not None:
            return found
        entries = [entry for entry in (await self._look()).entries if not entry.delegate]
        found = await self._having(entries, model) or next((entry for entry in entries if model in entry.models), None)
        found = found or await self._having(entries, "")
        if found is None or (insist and found.demonstration):
            raise ProviderFailed("no provider has a key, and no model server runs here", cause="unauthorized")
        return found

    async def _having(self, entries: Sequence[CatalogueEntry], model: str) -> CatalogueEntry | None:
        """The first that can be used, and has that model if one is given."""
        for entry in entries:
            if self._problem(entry) is None and (not model or model in await self._models(entry)):
                return entry
        return None

    def _problem(self, entry: CatalogueEntry) -> ProviderFailed | None:
        """Why this one cannot be used now."""
        if self._key(entry).source == "missing":
            return no_key(entry)
        if entry.local and entry.id not in self._now.servers:
            return not_running(entry.name, entry.base_url)
        if entry.local and not entry.models:
            return ProviderFailed(f"{entry.name} has no models", cause="failed")
        problem = self._programs.problem(entry.id) if entry.delegate else self._adapters.problem(entry.api)
        return ProviderFailed(f"{entry.name}: {problem}") if problem is not None else None

    async def _status(self, entry: CatalogueEntry, *, verify: bool) -> ProviderStatus:
        found = self._key(entry)
        problem = self._problem(entry)
        standing = await self._sign_ins.standing(entry.id, verify=verify)
        if standing is not None:
            return self._program_status(entry, found, problem, standing, verified=verify)
        checked: Verification | None = None
        if found.key is not None and not entry.local:
            asked = self._verifier.verify(entry, found.key) if verify else None
            checked = await asked if asked is not None else self._verifier.last(entry, found.key)
        refused = checked is not None and checked.verdict == "refused"
        return ProviderStatus(
            id=entry.id,
            ready=problem is None and not refused,
            verified=checked.verdict == "taken" if checked is not None else entry.id in self._now.servers,
            key=found.source,
            message=message_of(entry, found, problem, checked),
            checked_at=checked.at if checked is not None else self._clock.now(),
            mode=self._keys.store.mode(entry.id),
        )

    def _program_status(
        self,
        entry: CatalogueEntry,
        found: FoundKey,
        problem: ProviderFailed | None,
        standing: Standing,
        *,
        verified: bool,
    ) -> ProviderStatus:
        """How a provider stands that is signed in to by a program: ``verified`` says that the program was asked."""
        has_key = self._key_of(entry) is not None
        message = standing.message
        if problem is not None and not verified:
            message = str(problem)
        elif has_key and found.key is None:
            end = "" if message.endswith(".") else "."  # some end with a program's own words
            message = f"{message}{end} The key of {self._programs.fallback(entry.id)} is used."
        return ProviderStatus(
            id=entry.id,
            ready=problem is None and (standing.signed_in or has_key),
            verified=standing.verified,
            key=found.source,
            message=message,
            checked_at=self._clock.now(),
            mode=standing.mode,
            account=standing.account,
        )

    def _check_signs_in(self, provider: str, method: str) -> None:
        """Raise ``InvalidRequest`` for a provider that nobody can sign in to, and for no method at all."""
        if provider not in self.auth_methods():
            raise InvalidRequest("missing/invalid provider")
        if not method:
            raise InvalidRequest("missing/invalid methodId")

    def _check_has_key(self, name: str) -> None:
        entry = self._now.find(name)
        if entry is not None and entry.demonstration:
            raise InvalidRequest(f"{name} needs no key")
        if entry is None and name not in SEARCH_SERVICES:
            raise self._unknown(name)

    def _price_id(self, provider: str) -> str | None:
        entry = self._now.find(provider)
        return None if entry is None or is_this_machine(entry.base_url) else entry.price_id
