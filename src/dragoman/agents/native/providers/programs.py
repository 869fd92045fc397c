"""Providers that are programs of this machine: whether they are there, whose key they may be given, and the delegate.

What runs them is imported when a session first needs it: nothing of it is needed to say whether they are there.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import msgspec

from dragoman.agents.common.fields import dict_of, text_of
from dragoman.agents.common.program import resolve_program
from dragoman.agents.native.settings import DelegateSettings, NativeSettings
from dragoman.hub.errors import NOT_JSON, InvalidRequest

if TYPE_CHECKING:
    from dragoman.agents.native.delegates.port import Delegate


class MakeDelegate(Protocol):
    """Makes a delegate; starts nothing yet."""

    def __call__(self, settings: NativeSettings, *, environment: Mapping[str, str]) -> Delegate: ...


class Program(msgspec.Struct, frozen=True, kw_only=True):
    """One of them. ``command`` says what it is called here, ``install`` how to come by it.

    ``fallback`` is the provider whose key does for it, where none is kept for itself and it is not ``signed_in`` (asked
    of the environment; looks at files).
    """

    command: Callable[[DelegateSettings], str]
    install: str
    fallback: str
    signed_in: Callable[[Mapping[str, str]], bool]
    load: Callable[[], MakeDelegate]


class Programs:
    """Those of one server."""

    def __init__(
        self, settings: NativeSettings, environment: Mapping[str, str], table: Mapping[str, Program] | None = None
    ) -> None:
        self._settings = settings
        self._environment = environment
        self._table = PROGRAMS if table is None else table
        self._made: dict[str, Delegate] = {}

    def problem(self, name: str) -> str | None:
        """Why it cannot be run here, for people; None when it can. Looks for its file."""
        program = self._table.get(name)
        if program is None:
            return "nothing here can run it"
        path = {"PATH": self._environment.get("PATH", os.defpath)}
        try:
            resolve_program(program.command(self._settings.delegates), folder="/", env=path)
        except InvalidRequest as missing:
            return f"{missing}; {program.install}"
        return None

    async def load(self, name: str) -> None:
        """Import what runs it, beside the loop, so that ``get`` takes no time."""
        if name not in self._made:
            make = await asyncio.to_thread(self._table[name].load)
            self._made[name] = make(self._settings, environment=self._environment)

    def get(self, name: str) -> Delegate:
        """What runs it, once it was loaded."""
        return self._made[name]

    def fallback(self, name: str) -> str | None:
        """The provider whose key it may be given; None where it is signed in by itself."""
        program = self._table.get(name)
        return None if program is None or program.signed_in(self._environment) else program.fallback


def _claude_code() -> MakeDelegate:
    from dragoman.agents.native.delegates.claude import ClaudeCode  # noqa: PLC0415

    return ClaudeCode


def claude_signed_in(environment: Mapping[str, str]) -> bool:
    """Whether Claude Code has a sign-in of its own, as far as its files and variables say. Reads nothing of them."""
    if environment.get("CLAUDE_CODE_OAUTH_TOKEN") or environment.get("ANTHROPIC_AUTH_TOKEN"):
        return True
    home = environment.get("CLAUDE_CONFIG_DIR") or f"{environment.get('HOME', '')}/.claude"
    return Path(home, ".credentials.json").is_file()


def _codex() -> MakeDelegate:
    from dragoman.agents.native.delegates.codex import Codex  # noqa: PLC0415

    return Codex


def codex_signed_in(environment: Mapping[str, str]) -> bool:
    """Whether Codex has a sign-in of its own in its file of credentials. An API key in there is none."""
    home = environment.get("CODEX_HOME") or f"{environment.get('HOME', '')}/.codex"
    try:
        with Path(home, "auth.json").open("rb") as file:
            found = msgspec.json.decode(file.read(_CREDENTIALS))
    except (OSError, *NOT_JSON):
        return False
    return isinstance(found, dict) and text_of(dict_of(found, "tokens"), "refresh_token", "access_token") is not None


_CREDENTIALS = 1024 * 1024
"""Bytes of a file of credentials; what is larger is none."""

PROGRAMS: Mapping[str, Program] = {
    "codex-cli": Program(
        command=lambda settings: settings.codex,
        install="'npm install -g @openai/codex' brings it, native.delegates.codex says where it is",
        fallback="openai",
        signed_in=codex_signed_in,
        load=_codex,
    ),
    "claude-code": Program(
        command=lambda settings: settings.claude,
        install="'npm install -g @anthropic-ai/claude-code' brings it, native.delegates.claude says where it is",
        fallback="anthropic",
        signed_in=claude_signed_in,
        load=_claude_code,
    ),
}
"""By the provider's id."""
