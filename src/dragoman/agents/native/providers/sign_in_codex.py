"""Signing in at Codex: ``codex login`` opens a page of its maker's, and waits until somebody has signed in there."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

from dragoman.agents.common.processes import ProcessTable
from dragoman.agents.native.delegates.codex import codex_environment, whose_account
from dragoman.agents.native.settings import NativeSettings
from dragoman.hub.providers import Account

from .port import ProviderFailed
from .programs import codex_signed_in
from .sign_in_program import CannotTell, SignedIn, SignInFailed, Tell
from .sign_in_running import START_PROBLEMS, Supervised


class CodexSignIn:
    """A ``SignInProgram``."""

    def __init__(self, settings: NativeSettings, environment: Mapping[str, str], *, kept: Path) -> None:
        self._settings = settings
        self._environment = environment
        self._supervised = Supervised(settings, codex_environment(settings, environment), kept)

    async def sign_in(self, tell: Tell) -> SignedIn:
        if await asyncio.to_thread(codex_signed_in, self._environment):
            return SignedIn("oauth", "Existing OAuth credentials detected.")
        tell("[auth] running: codex login")
        seconds = self._settings.delegates.sign_in_seconds
        try:
            words = (self._settings.delegates.codex, "login")
            finished = await self._supervised.run(words, lambda line: tell(f"[auth] {line}"), seconds=seconds)
        except START_PROBLEMS as problem:
            tell(f"[auth] {problem}")
            raise SignInFailed(str(problem)) from problem
        if finished.cause == "timeout":
            raise SignInFailed(f"nobody signed in within {seconds:g} s (native.delegates.sign_in_seconds)")
        if finished.cause == "flood" or finished.code != 0:
            how = f"exited with code {finished.code}" if finished.code is not None else "was ended"
            raise SignInFailed(f"codex login {how}.")
        return SignedIn("oauth", "OAuth sign-in completed.")

    async def probe(self) -> Account | None:
        try:
            return await whose_account(self._settings, self._environment, ProcessTable())
        except ProviderFailed as problem:
            raise CannotTell(str(problem)) from problem
