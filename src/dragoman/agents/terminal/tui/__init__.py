"""Readers of agents' screens: given a picture, what is on it. No I/O, no clock, and no state.

Nothing here raises, whatever the screen shows. Text in the conversation that looks like a dialog is none: a dialog
stands at its place at the bottom of the screen, in the frame that the agent draws for it.
"""

from __future__ import annotations

from collections.abc import Callable

from dragoman.hub.ports import ScreenSnapshot, StyledRun

from .boxed import read_gemini, read_qwen
from .claude import read_claude
from .codex import read_codex
from .opencode import read_opencode
from .reading import Row, ScreenDialog, ScreenReading, Tab
from .screen import Picture

__all__ = ["AGENTS", "Row", "ScreenDialog", "ScreenReading", "Tab", "read_screen"]

_READERS: dict[str, Callable[[Picture], ScreenReading]] = {
    "claude": read_claude,
    "codex": read_codex,
    "gemini": read_gemini,
    "qwen": read_qwen,
    "opencode": read_opencode,
}

AGENTS = frozenset(_READERS)
"""The agents whose screens can be read."""


def read_screen(
    agent: str,
    snapshot: ScreenSnapshot,
    styled: Callable[[], tuple[tuple[StyledRun, ...], ...]] | None = None,
) -> ScreenReading:
    """What is on the agent's screen; nothing for an agent that is not known.

    ``styled`` gives the styled lines of the same picture; it is called only where text alone does not tell.
    """
    reader = _READERS.get(agent)
    return reader(Picture(snapshot, styled)) if reader is not None else ScreenReading()
