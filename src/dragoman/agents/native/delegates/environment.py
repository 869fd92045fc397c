"""The environment of a program that runs whole turns: a plain one, and what the program itself is set up with.

The server's keys stay with the server. A program signs in by itself; only where it cannot, it is given the one key that
is meant for it.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping

from dragoman.agents.native.settings import NativeSettings
from dragoman.agents.native.tools.environment import command_environment

_NETWORK = (
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "ALL_PROXY",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
)
"""How the machine reaches the world: a program that talks to its own service needs it as we do."""


def program_environment(
    settings: NativeSettings,
    *,
    own: Collection[str],
    without: Collection[str] = (),
    ours: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """What a program gets of our environment.

    ``own`` are the beginnings of the names of variables that set the program itself up, its own sign-in among them;
    ``without`` are names that it is not to get. ``native.delegates.pass_environment`` adds others by name.
    """
    ours = os.environ if ours is None else ours
    keys = {provider.key_env for provider in settings.providers.values()}
    added = set(settings.delegates.pass_environment)
    passed = {
        name: value
        for name, value in ours.items()
        if name in added or name.upper() in _NETWORK or name.startswith(tuple(own))
    }
    plain = command_environment(ours, secret=keys)
    return {name: value for name, value in (plain | passed).items() if name not in without or name in added}
