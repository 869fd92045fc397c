"""Settings of terminal sessions (``[terminal]``)."""

from __future__ import annotations

import msgspec

from dragoman.agents.common.ending import KillSchedule

from .drivers.settings import DriverSettings


class TerminalSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Sizes are bytes, times are seconds."""

    cols: int = 80
    """Width of a session that asks for none."""

    rows: int = 24
    """Height of a session that asks for none."""

    tape: int = 1024 * 1024
    """Raw output kept in memory per session."""

    model: bool = True
    """Whether sessions keep a screen model; without one there are no screens, and raw output is cheaper."""

    scrollback: int = 1000
    """Lines the screen model keeps above the screen."""

    screen_interval: float = 0.05
    """Shortest time between two published screens."""

    input_buffer: int = 1024 * 1024
    """Input kept for a program that does not read."""

    term: str = "xterm-256color"
    """TERM of the program."""

    record: bool = False
    """Whether every session is recorded as an asciicast v2 file in the data folder."""

    breath: float = 0.025
    """Seconds that a program waits for a reader three quarters of a tape behind, once until they have caught up."""

    live: int = 500
    """Programs that may run at once."""

    driver: DriverSettings = DriverSettings()
    """How an agent's TUI is watched and driven."""

    schedule: KillSchedule = KillSchedule()
    """When to become ruder to a program that is to end."""
