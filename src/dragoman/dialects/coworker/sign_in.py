"""What a link asks of model providers: how they stand, keys, signing in (seed: Provider Auth; spec 3).

Keys and codes go to the providers and nowhere else (invariant 10); what a program says while somebody signs in comes to
the link that asked, as log lines.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from functools import partial
from typing import Literal

from msgspec import UNSET

from dragoman.hub.errors import AlreadyRunning, HubError
from dragoman.hub.providers import AuthChallenge, AuthResult, Providers

from . import providers as told
from .client_messages import ProviderAuthAuthorize, ProviderAuthCallback, ProviderAuthSetApiKey
from .javascript import trimmed
from .messages import PROVIDERS, Error, ErrorCode, ErrorSource, Log, ServerMessage
from .provider_messages import Challenge, ProviderAuthChallenge, ProviderAuthResult, ProviderStatus

Say = Callable[[ServerMessage], None]

RUNNING = "Connection flow already running"

_MODES: dict[str, Literal["api_key", "oauth", "oauth_pending"]] = {
    "api_key": "api_key",
    "oauth": "oauth",
    "oauth_pending": "oauth_pending",
}

_Flow = ProviderAuthCallback | ProviderAuthSetApiKey


class ProviderRequests:
    """Those of one link, for its session. ``say`` takes each reply; a method returns when all of its replies are said.

    Whether the link may ask, and whether its session is busy, has been checked before. Nothing is raised for what a
    provider or a client does.
    """

    def __init__(self, providers: Providers, session: str, say: Say) -> None:
        self._providers = providers
        self._session = session
        self._say = say
        self._connecting = False
        self._refreshing = False

    def show_methods(self) -> None:
        """``provider_auth_methods``, at once."""
        self._say(told.auth_methods(self._session, self._providers.auth_methods()))

    async def show_catalog(self) -> None:
        """``provider_catalog``."""
        entries = await self._providers.catalogue(among=PROVIDERS)
        standing = await self._providers.status(among=PROVIDERS)
        self._say(told.catalog(self._session, entries, standing))

    async def greet(self) -> None:
        """``provider_catalog``, then ``provider_status`` without asking anybody: what a link is shown at its start."""
        await self.show_catalog()
        self._say(await self._standing(()))

    async def refresh(self) -> None:
        """``provider_status``, after asking the programs that are signed in to. Silence while that goes on already."""
        if self._refreshing:
            return
        self._refreshing = True
        try:
            self._say(await self._standing(self._programs()))
        finally:
            self._refreshing = False

    async def authorize(self, asked: ProviderAuthAuthorize) -> None:
        """``provider_auth_challenge``, or why there is none."""
        try:
            challenge = await self._providers.begin_sign_in(asked.provider, asked.method_id)
        except HubError as problem:
            self._fail(str(problem), "provider_error", "provider")
            return
        self._say(
            ProviderAuthChallenge(
                session_id=self._session,
                provider=asked.provider,
                method_id=asked.method_id,
                challenge=_challenge(challenge),
            )
        )

    async def callback(self, asked: ProviderAuthCallback) -> None:
        """Sign in, which may wait for a person: log lines, then ``provider_auth_result``, and if that went well how all
        stand now; the program is asked who it was."""
        await self._flow(
            asked, partial(self._sign_in, asked), "Provider auth callback failed", verify=(asked.provider,)
        )

    async def set_api_key(self, asked: ProviderAuthSetApiKey) -> None:
        """Keep a key: ``provider_auth_result``, and if that went well how all stand now."""
        await self._flow(asked, partial(self._keep, asked), "Setting provider API key failed", verify=())

    async def _flow(
        self, asked: _Flow, work: Callable[[], Awaitable[AuthResult]], failed: str, *, verify: Collection[str]
    ) -> None:
        """One at a time."""
        if self._connecting:
            self._fail(RUNNING, "busy", "session")
            return
        self._connecting = True
        try:
            result = await work()
            self._show_result(asked, result)
            if result.ok:
                self._say(await self._standing(verify))
                await self.show_catalog()
        except AlreadyRunning:
            self._fail(RUNNING, "busy", "session")
        except HubError as problem:
            self._fail(f"{failed}: {problem}", "provider_error", "provider")
        finally:
            self._connecting = False

    async def _sign_in(self, asked: ProviderAuthCallback) -> AuthResult:
        def tell(line: str) -> None:
            self._say(Log(session_id=self._session, line=f"[connect {asked.provider}] {line}"))

        code = trimmed(asked.code or "") or None
        return await self._providers.finish_sign_in(asked.provider, asked.method_id, code, tell=tell)

    async def _keep(self, asked: ProviderAuthSetApiKey) -> AuthResult:
        methods = self._providers.auth_methods().get(asked.provider, ())
        if not any(method.id == asked.method_id and method.type == "api" for method in methods):
            return AuthResult(ok=False, mode="error", message=f'Method "{asked.method_id}" is not an API key method.')
        await self._providers.set_key(asked.provider, trimmed(asked.api_key))
        return AuthResult(ok=True, mode="api_key", message="Provider key saved.")

    def _show_result(self, asked: _Flow, result: AuthResult) -> None:
        self._say(
            ProviderAuthResult(
                session_id=self._session,
                provider=asked.provider,
                method_id=asked.method_id,
                ok=result.ok,
                mode=_MODES.get(result.mode, UNSET) if result.ok else UNSET,
                message=result.message,
            )
        )

    async def _standing(self, verify: Collection[str]) -> ProviderStatus:
        """How all stand; those are asked."""
        async with asyncio.TaskGroup() as group:
            asked = group.create_task(self._providers.status(verify=True, among=verify), name="verify")
            others = [name for name in PROVIDERS if name not in verify]
            unasked = group.create_task(self._providers.status(among=others), name="standing")
        return told.status(self._session, (*asked.result(), *unasked.result()))

    def _programs(self) -> tuple[str, ...]:
        """Who is signed in to, and not only given a key."""
        methods = self._providers.auth_methods()
        return tuple(name for name in PROVIDERS if any(way.type == "oauth" for way in methods.get(name, ())))

    def _fail(self, message: str, code: ErrorCode, source: ErrorSource) -> None:
        self._say(Error(session_id=self._session, message=message, code=code, source=source))


def _challenge(challenge: AuthChallenge) -> Challenge:
    return Challenge(
        method=challenge.method,
        instructions=challenge.instructions,
        command=UNSET if challenge.command is None else challenge.command,
        url=UNSET if challenge.url is None else challenge.url,
    )
