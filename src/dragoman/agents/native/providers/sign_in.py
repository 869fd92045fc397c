"""Signing in: with a key, or at a provider's own program (``codex-cli``, ``claude-code``).

What a program's sign-in says goes to who asked for it, line by line, and nowhere else: it holds codes and addresses
(invariant 10). What came of it is kept beside the keys. The credentials themselves stay with the program.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping

import msgspec

from dragoman.agents.native.settings import NativeSettings
from dragoman.hub.errors import AlreadyRunning, InvalidRequest, Unsupported
from dragoman.hub.providers import Account, AuthChallenge, AuthMethod, AuthMode, AuthResult

from .keys import KeyStore
from .programs import claude_signed_in, codex_signed_in
from .sign_in_program import CannotTell, MakeProgram, ShownProgram, SignedIn, SignInFailed, SignInProgram, Tell

API_KEY = AuthMethod(id="api_key", type="api", label="API key")
"""How every provider can be signed in to that takes a key at all."""

_OAUTH = "oauth_cli"


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """How a program stands: what is kept of it here, whether it is signed in, and whether it said so itself.

    ``message`` is for people, in the words that the coworker seed's clients know.
    """

    mode: AuthMode
    signed_in: bool
    verified: bool
    message: str
    account: Account | None = None


class SignIns:
    """Those of one server. ``programs`` are the providers that are signed in to by a program, by id."""

    def __init__(
        self,
        settings: NativeSettings,
        store: KeyStore,
        environment: Mapping[str, str],
        programs: Mapping[str, ShownProgram] | None = None,
    ) -> None:
        self._settings = settings
        self._store = store
        self._environment = environment
        self._shown = PROGRAMS if programs is None else programs
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._running: set[asyncio.Task[SignedIn]] = set()

    def methods(self, provider: str) -> tuple[AuthMethod, ...]:
        """The ways to sign in to this provider, the best first."""
        shown = self._shown.get(provider)
        if shown is None:
            return (API_KEY,)
        return (AuthMethod(id=_OAUTH, type="oauth", label=shown.label, oauth_mode="auto"), API_KEY)

    def begin(self, provider: str, method: str) -> AuthChallenge:
        """What a person is to do. Keeps nothing. Raises ``InvalidRequest``; ``Unsupported`` for a key."""
        if self._method(provider, method).type == "api":
            raise Unsupported(f'Auth method "{method}" does not support authorization.')
        shown = self._shown[provider]
        return AuthChallenge(method="auto", instructions=shown.instructions, command=shown.command)

    async def finish(self, provider: str, method: str, tell: Tell) -> AuthResult:
        """Sign in at the program, and keep what came of it. ``tell`` is given what the program says, line by line.

        Raises ``InvalidRequest``; ``AlreadyRunning`` while somebody signs in there; ``StorageUnavailable``.
        """
        if self._method(provider, method).type == "api":
            return AuthResult(ok=False, mode="error", message=f'Method "{method}" is not an OAuth method.')
        turn = self._turns[provider]
        if turn.locked():
            raise AlreadyRunning("Connection flow already running")
        async with turn:
            program = await self._program(provider)
            try:
                done = await self._signed_in(program, tell)
            except SignInFailed as failed:
                return AuthResult(ok=False, mode="error", message=f"OAuth sign-in failed: {failed}")
            await asyncio.to_thread(self._store.sign_in, provider, done.mode)
            return AuthResult(ok=True, mode=done.mode, message=done.message)

    async def close(self) -> None:
        """Break off who is just signing in, and wait until their programs have ended."""
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    async def standing(self, provider: str, *, verify: bool) -> Standing | None:
        """How a program stands; ``verify`` asks it. None for a provider that has none."""
        shown = self._shown.get(provider)
        if shown is None:
            return None
        signed_in = await asyncio.to_thread(shown.signed_in, self._environment)
        mode = await asyncio.to_thread(self._store.mode, provider)
        if signed_in and mode != "api_key":
            mode = "oauth"
        account: Account | None = None
        if verify:
            try:
                account = await (await self._program(provider)).probe()
            except CannotTell as problem:
                message = shown.unverified.format(problem)
                return Standing(mode=mode, signed_in=signed_in, verified=False, message=message)
            signed_in = account is not None
        if account is not None:
            mode = mode if mode == "api_key" else "oauth"
            known = account if account != Account() else None
            return Standing(mode=mode, signed_in=True, verified=True, message=shown.verified, account=known)
        return Standing(mode=mode, signed_in=signed_in, verified=False, message=_message(mode, signed_in, shown))

    async def _signed_in(self, program: SignInProgram, tell: Tell) -> SignedIn:
        task = asyncio.create_task(program.sign_in(tell), name="sign-in")
        self._running.add(task)
        try:
            return await task
        except asyncio.CancelledError:
            asking = asyncio.current_task()
            if asking is not None and asking.cancelling():
                raise
            raise SignInFailed("the server stops") from None
        finally:
            self._running.discard(task)

    def _method(self, provider: str, method: str) -> AuthMethod:
        found = next((known for known in self.methods(provider) if known.id == method), None)
        if found is None:
            raise InvalidRequest("unknown methodId")
        return found

    async def _program(self, provider: str) -> SignInProgram:
        make = await asyncio.to_thread(self._shown[provider].load)
        return make(self._settings, self._environment, kept=self._store.path)


def _message(mode: AuthMode, signed_in: bool, shown: ShownProgram) -> str:
    if mode == "api_key":
        return "API key saved."
    if signed_in:
        return "OAuth connected."
    return "Pending connection (no credentials)." if mode == "oauth_pending" else shown.signed_out


def _codex() -> MakeProgram:
    from .sign_in_codex import CodexSignIn  # noqa: PLC0415  runs a program, which few ever need

    return CodexSignIn


def _claude() -> MakeProgram:
    from .sign_in_claude import ClaudeSignIn  # noqa: PLC0415

    return ClaudeSignIn


PROGRAMS: Mapping[str, ShownProgram] = {
    "codex-cli": ShownProgram(
        label="Sign in with Codex CLI",
        instructions="Run Codex CLI sign-in, then continue.",
        command="codex login",
        signed_out="Not logged in to Codex CLI. Run codex login.",
        verified="Verified by Codex CLI.",
        unverified="Not authorized. Codex CLI verify failed: {}",
        signed_in=codex_signed_in,
        load=_codex,
    ),
    "claude-code": ShownProgram(
        label="Sign in with Claude Code",
        instructions="Run Claude Code sign-in in a terminal, then continue.",
        command="claude setup-token",
        signed_out="Not authorized. Run claude setup-token.",
        verified="Verified by Claude CLI.",
        unverified="Not authorized. Claude CLI verify failed: {}",
        signed_in=claude_signed_in,
        load=_claude,
    ),
}
"""By the provider's id; the words are those that the coworker seed's clients know."""
