"""How much a session's agent may do without asking: its mode. ``permits`` says what each one means."""

from __future__ import annotations

from typing import Literal

from dragoman.hub.log import SessionLog

Mode = Literal["ask", "accept_edits", "plan", "all"]
MODES: tuple[Mode, ...] = ("ask", "accept_edits", "plan", "all")


def mode_of(session: SessionLog, default: str) -> Mode:
    """The session's mode now: its setting, else ``default``. A word that is no mode permits as little as ``ask``."""
    wanted = session.state.settings.get("mode", default)
    return next((mode for mode in MODES if mode == wanted), "ask")
