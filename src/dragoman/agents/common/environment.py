"""What no program that we start is to inherit from the terminal that the server was started in."""

from __future__ import annotations

OF_ANOTHER_TERMINAL = frozenset(
    {
        "COLUMNS",
        "LINES",
        "TERM_PROGRAM",
        "TERM_PROGRAM_VERSION",
        "TERM_SESSION_ID",
        "TMUX",
        "TMUX_PANE",
        "STY",
        "WINDOW",
    }
)
"""Variables that describe the server's own terminal, not the one that a program gets, if any."""
