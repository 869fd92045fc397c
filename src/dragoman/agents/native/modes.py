"""How much a session's agent may do without asking: its mode. ``permits`` says what each one means."""

from __future__ import annotations

from typing import Literal

from dragoman.hub.events import Json
from dragoman.hub.log import SessionLog

Mode = Literal["ask", "accept_edits", "plan", "all"]
MODES: tuple[Mode, ...] = ("ask", "accept_edits", "plan", "all")

_BY_FREEDOM: tuple[Mode, ...] = ("plan", "ask", "accept_edits", "all")
"""Each one permits what those before it permit, and more."""


def mode_of(session: SessionLog, default: str) -> Mode:
    """The session's mode now: its setting, else ``default``. A word that is no mode permits as little as ``ask``."""
    return meant_mode(session.state.settings.get("mode"), default)


def meant_mode(wanted: Json, default: str) -> Mode:
    """The mode that a session with this setting has; null stands for the default."""
    return _meant(default if wanted is None else wanted)


def loosens(before: Json, after: Json, default: str) -> bool:
    """Whether the setting ``after`` permits more than ``before``; null stands for the default. No mode: it does."""
    wanted = default if after is None else after
    if wanted not in MODES:
        return True
    now = _meant(default if before is None else before)
    return _BY_FREEDOM.index(_meant(wanted)) > _BY_FREEDOM.index(now)


def _meant(word: Json) -> Mode:
    return next((mode for mode in MODES if mode == word), "ask")
