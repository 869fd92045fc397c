"""The provider ``codex-cli``: each round is a turn of ``codex app-server``, which runs its own tools.

A process lives as long as its round. Codex keeps the conversation itself, by the id that it gave it (its thread), and
goes on with it in the next round. ``codex_round`` says how the session's mode holds.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from typing import Any

from dragoman.agents.common.fields import dict_of, text_of
from dragoman.agents.common.processes import ProcessTable
from dragoman.agents.common.start import Start, prepare
from dragoman.agents.native.providers.port import ProviderFailed
from dragoman.agents.native.settings import NativeSettings
from dragoman.hub.errors import InvalidRequest
from dragoman.hub.providers import Account

from .codex_round import PROVIDER, Round
from .codex_server import CLIENT, AppServer, Refused
from .environment import program_environment
from .port import Assignment, Report
from .program import running

_ARGUMENTS = ("app-server", "-c", "check_for_update_on_startup=false")
_KEY_IN_MEMORY = ("-c", 'cli_auth_credentials_store="ephemeral"')
"""Without it a key that is given to Codex would take the place of the person's own sign-in on the disk."""

_KEYS = ("CODEX_API_KEY", "CODEX_ACCESS_TOKEN")


class Codex:
    """See the module. ``processes`` is best shared by all of a server."""

    name = PROVIDER

    def __init__(
        self,
        settings: NativeSettings,
        *,
        environment: Mapping[str, str] | None = None,
        processes: ProcessTable | None = None,
    ) -> None:
        self._settings = settings
        self._environment = os.environ if environment is None else environment
        self._processes = processes or ProcessTable()

    async def run(self, assignment: Assignment) -> Report:
        """As the port says."""
        arguments = _KEY_IN_MEMORY if assignment.key else ()
        folder = os.fspath(assignment.place.cwd)
        given = await asyncio.to_thread(_startable, self._settings, self._environment, folder, arguments)
        given = given._replace(env=given.env | assignment.hooks.environment())
        session = assignment.turn.session.id
        async with running(
            given, session=session, processes=self._processes, settings=self._settings.delegates
        ) as program:
            return await Round(assignment, program, self._settings).run()


def codex_environment(settings: NativeSettings, ours: Mapping[str, str] | None = None) -> dict[str, str]:
    """What Codex gets of our environment: its own settings, but no key. It signs in by itself, or is told ours."""
    return program_environment(settings, own=("CODEX_",), without=_KEYS, ours=ours)


async def whose_account(
    settings: NativeSettings, environment: Mapping[str, str], processes: ProcessTable
) -> Account | None:
    """Who is signed in at Codex, as it says itself; None when nobody is. Raises ``ProviderFailed``."""
    given = await asyncio.to_thread(_startable, settings, environment, "/")
    limits = settings.delegates
    async with running(given, session="account", processes=processes, settings=limits) as program:
        server = AppServer(program)
        listening = asyncio.create_task(_passed_over(server))
        try:
            await server.request("initialize", CLIENT, seconds=limits.probe_seconds)
            server.tell("initialized")
            found = await server.request("account/read", {}, seconds=limits.probe_seconds)
        except Refused as refused:
            raise ProviderFailed(f"Codex does not say who is signed in: {refused}") from None
        finally:
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)
    return _account(found)


def _account(found: dict[str, Any]) -> Account | None:
    account = dict_of(found, "account")
    return Account(email=text_of(account, "email"), name=text_of(account, "name")) if account else None


async def _passed_over(server: AppServer) -> None:
    """Hear it out, and take nothing but answers from it."""
    try:
        async for _ in server.heard():
            continue
    except ProviderFailed as failure:
        server.give_up(failure)


def _startable(
    settings: NativeSettings, environment: Mapping[str, str], folder: str, more: tuple[str, ...] = ()
) -> Start:
    """What starts its app server. Raises ``ProviderFailed``."""
    words = (settings.delegates.codex, *_ARGUMENTS, *more)
    try:
        return prepare(words, cwd=folder, env=codex_environment(settings, environment))
    except InvalidRequest as problem:
        raise ProviderFailed(f"Codex cannot be started: {problem}") from problem
