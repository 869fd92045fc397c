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
        "CLAUDECODE",
        "CLAUDE_CODE_ENTRYPOINT",
        "CLAUDE_CODE_SESSION_ID",
        "CLAUDE_CODE_SSE_PORT",
        "CLAUDE_PID",
    }
)
"""Variables that describe the server's own terminal, not the one that a program gets, if any; and those that an agent
sets in its commands, for a server that was started by one: a program with them takes itself for a part of that agent,
and Claude Code refuses to start."""
