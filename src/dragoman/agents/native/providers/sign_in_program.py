"""The port to a program that a provider is signed in to by, and what people are shown of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal, Protocol

import msgspec

from dragoman.agents.native.settings import NativeSettings
from dragoman.hub.providers import Account

Tell = Callable[[str], None]
"""Is given a line of what a program says while somebody signs in; must return at once."""


class SignInFailed(Exception):
    """Nobody is signed in now. The text is for people."""


class CannotTell(Exception):
    """The program could not be asked. The text is for people."""


class SignedIn(msgspec.Struct, frozen=True):
    """How a sign-in came out."""

    mode: Literal["oauth", "oauth_pending"]
    message: str


class SignInProgram(Protocol):
    """One program, to be run. Stateless."""

    async def sign_in(self, tell: Tell) -> SignedIn:
        """Sign in, who is not signed in yet. Raises ``SignInFailed``."""

    async def probe(self) -> Account | None:
        """Ask it who is signed in; None when nobody is. Raises ``CannotTell``."""


class MakeProgram(Protocol):
    """Makes one; starts nothing yet. ``kept`` is the file of the keys."""

    def __call__(self, settings: NativeSettings, environment: Mapping[str, str], *, kept: Path) -> SignInProgram: ...


class ShownProgram(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a program without it. ``signed_in`` says whether it has credentials of its own, as far as its
    files and variables say: it looks at files. ``load`` imports what runs it.

    ``signed_out`` and ``unverified`` (with the trouble in its place) are what people are told where it has none, or
    could not be asked.
    """

    label: str
    instructions: str
    command: str
    signed_out: str
    verified: str
    unverified: str
    signed_in: Callable[[Mapping[str, str]], bool]
    load: Callable[[], MakeProgram]
