"""The one table of signals that a client may send by name or number."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from types import MappingProxyType

from dragoman.hub.errors import InvalidRequest

SIGNALS: Mapping[str, int] = MappingProxyType(
    {
        "HUP": signal.SIGHUP.value,
        "INT": signal.SIGINT.value,
        "QUIT": signal.SIGQUIT.value,
        "KILL": signal.SIGKILL.value,
        "USR1": signal.SIGUSR1.value,
        "USR2": signal.SIGUSR2.value,
        "TERM": signal.SIGTERM.value,
        "CONT": signal.SIGCONT.value,
        "STOP": signal.SIGSTOP.value,
        "TSTP": signal.SIGTSTP.value,
        "WINCH": signal.SIGWINCH.value,
    }
)
"""Name without ``SIG`` -> this system's number. The set is coop's."""

_NUMBERS = frozenset(SIGNALS.values())


def parse_signal(name: str) -> int:
    """The number of a signal given as ``INT``, ``sigint`` or ``2``: any case, ``SIG`` optional, or a number as text.

    Raises ``InvalidRequest`` ``unknown signal: NAME`` for anything that is not in the table.
    """
    if name.isascii() and name.isdigit():
        number = int(name) if len(name) <= 3 else -1
        if number in _NUMBERS:
            return number
        raise InvalidRequest(f"unknown signal: {name}")
    number = SIGNALS.get(name.upper().removeprefix("SIG"), -1) if name.isascii() else -1
    if number < 0:
        raise InvalidRequest(f"unknown signal: {name}")
    return number
