"""What a client may ask of model providers. A key goes in and never comes out, and what a sign-in says comes to who
signs in, and to nobody else (invariant 10)."""

from __future__ import annotations

from collections.abc import Callable

from dragoman.hub.errors import NotPermitted, Unsupported
from dragoman.hub.permissions import Principal, Right
from dragoman.hub.providers import AuthChallenge, AuthResult, Providers

from .replies import AuthMethods, Empty, KeyForgotten, ProviderList, ProviderStatuses


class ProviderCommands:
    """One function per wish, as in ``commands``. Without providers each raises ``Unsupported``."""

    def __init__(self, providers: Providers | None) -> None:
        self._providers = providers

    async def catalogue(self, principal: Principal) -> ProviderList:
        return ProviderList(await self._for(principal, Right.READ).catalogue())

    async def status(self, principal: Principal, *, verify: bool) -> ProviderStatuses:
        """To verify costs every provider a question, so it needs more than to look."""
        providers = self._for(principal, Right.WRITE if verify else Right.READ)
        return ProviderStatuses(await providers.status(verify=verify))

    async def set_key(self, principal: Principal, provider: str, key: str) -> Empty:
        await self._for(principal, Right.ADMIN).set_key(provider, key)
        return Empty()

    async def forget_key(self, principal: Principal, provider: str) -> KeyForgotten:
        return KeyForgotten(await self._for(principal, Right.ADMIN).forget_key(provider))

    async def auth_methods(self, principal: Principal) -> AuthMethods:
        return AuthMethods(dict(self._for(principal, Right.READ).auth_methods()))

    async def begin_sign_in(self, principal: Principal, provider: str, method: str) -> AuthChallenge:
        return await self._for(principal, Right.ADMIN).begin_sign_in(provider, method)

    async def finish_sign_in(
        self, principal: Principal, provider: str, method: str, code: str | None, tell: Callable[[str], None]
    ) -> AuthResult:
        """``tell`` is given what the provider's program says, line by line."""
        return await self._for(principal, Right.ADMIN).finish_sign_in(provider, method, code, tell=tell)

    def _for(self, principal: Principal, right: Right) -> Providers:
        """The providers, for whoever may do this to the server as a whole. Raises ``NotPermitted``, ``Unsupported``."""
        if right not in principal.rights or (principal.only is not None and right is not Right.READ):
            raise NotPermitted(right)
        if self._providers is None:
            raise Unsupported("this server has no agent of its own that asks model providers")
        return self._providers
