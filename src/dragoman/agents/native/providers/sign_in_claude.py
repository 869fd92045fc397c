"""Signing in at Claude Code: it wants a terminal for that, so it is left to the person, and looked for afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

import msgspec

from dragoman.agents.common.fields import text_of
from dragoman.agents.native.delegates.environment import program_environment
from dragoman.agents.native.settings import NativeSettings
from dragoman.hub.errors import NOT_JSON
from dragoman.hub.providers import Account

from .programs import claude_signed_in
from .sign_in_program import CannotTell, SignedIn, Tell
from .sign_in_running import START_PROBLEMS, Supervised

_OWN = ("CLAUDE_", "ANTHROPIC_")

_NEEDS_TERMINAL = (
    "Claude Code OAuth requires a terminal TTY. Run `claude setup-token` in a terminal to authenticate, "
    "then retry /connect."
)


class ClaudeSignIn:
    """A ``SignInProgram``."""

    def __init__(self, settings: NativeSettings, environment: Mapping[str, str], *, kept: Path) -> None:
        self._settings = settings
        self._environment = environment
        own = program_environment(settings, own=_OWN, without=("ANTHROPIC_API_KEY",), ours=environment)
        self._supervised = Supervised(settings, own, kept)

    async def sign_in(self, tell: Tell) -> SignedIn:  # noqa: ARG002  it says nothing
        if await asyncio.to_thread(claude_signed_in, self._environment):
            return SignedIn("oauth", "Existing OAuth credentials detected.")
        return SignedIn("oauth_pending", _NEEDS_TERMINAL)

    async def probe(self) -> Account | None:
        words = (self._settings.delegates.claude, "auth", "status")
        seconds = self._settings.delegates.probe_seconds
        try:
            finished = await self._supervised.run(words, lambda _: None, seconds=seconds)
        except START_PROBLEMS as problem:
            raise CannotTell(f"Error: {problem}") from problem
        if finished.cause != "ended":
            raise CannotTell(f"Error: it did not answer within {seconds:g} s (native.delegates.probe_seconds)")
        try:
            status = msgspec.json.decode(finished.stdout.text())
        except NOT_JSON:
            raise CannotTell(f"Error: claude auth status exited with code {finished.code}") from None
        if not isinstance(status, dict) or status.get("loggedIn") is not True:
            return None
        return Account(email=text_of(status, "email"), name=text_of(status, "name", "orgName"))
