"""Who may come in by an install's token: one policy, which HTTP and the socket both ask (windie, spec §2; design §7).

Where install auth is off, a token that is somebody's still says whose it is; any other is as good as none.
"""

from __future__ import annotations

from collections.abc import Callable

from .installs import Installs
from .problems import InstallsUnavailable
from .records import Install
from .settings import InstallSettings

TokenCheck = Callable[[str | None], bool]
"""Whether this is the server's own token, in constant time; None never is."""


class AccessProblem(Exception):
    """The server must not be started like this. The message names the setting and says what to do."""


class MissingToken(Exception):
    """No install's token was shown, and one must be."""


class InvalidToken(Exception):
    """What was shown is no install's token, or no longer."""


class Access:
    """Decides who must show what. ``token`` checks the server's own token, None where it has none.

    Raises ``AccessProblem`` for what would let anybody in from other machines.
    """

    def __init__(
        self, settings: InstallSettings, installs: Installs, *, loopback: bool, token: TokenCheck | None
    ) -> None:
        """``loopback``: whether the server listens on this machine only."""
        if not loopback and settings.auth == "off":
            raise AccessProblem(
                "refusing to listen beyond loopback with installs.auth off: anyone there could be any user "
                '(set it to "auto", or listen on 127.0.0.1)'
            )
        if not loopback and token is None:
            raise AccessProblem(
                "refusing to listen beyond loopback without a token: anyone there could register (--token sets one)"
            )
        self._installs = installs
        self._token = token
        self._on = settings.auth == "on" or (settings.auth == "auto" and (not loopback or token is not None))

    @property
    def required(self) -> bool:
        """Whether install auth is on."""
        return self._on

    @property
    def needs_server_token(self) -> bool:
        """Whether who registers must show the server's own token: wherever it has one."""
        return self._token is not None

    def may_register(self, shown: str | None) -> bool:
        """Whether somebody who shows this, as bearer or in the query, may register an install."""
        return self._opens(shown)

    async def identify(self, token: str | None) -> Install | None:
        """Who this bearer token's install is. None: nobody in particular, who may come in, for install auth is off.

        Raises ``MissingToken``, ``InvalidToken``, and ``InstallsUnavailable`` where it cannot be told; the last only
        while install auth is on. Off, a server that has a token of its own still wants that one, or an install's.
        """
        try:
            install = await self._installs.identify(token) if token is not None else None
        except InstallsUnavailable:
            if self._on:
                raise
            install = None
        if install is not None or (not self._on and self._opens(token)):
            return install
        raise MissingToken if token is None else InvalidToken

    def _opens(self, shown: str | None) -> bool:
        """Whether this is the server's own token, where it has one."""
        return self._token is None or self._token(shown)
