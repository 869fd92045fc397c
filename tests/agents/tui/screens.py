"""The recorded screens of the real agents, as the readers get them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

import msgspec

from dragoman.agents.terminal.tui import ScreenDialog, ScreenReading, read_screen
from dragoman.hub.ports import CursorPosition, ScreenSnapshot, StyledRun

DATA = Path(__file__).parents[2] / "data" / "agents"
AGENTS = ("claude", "codex", "gemini", "qwen", "opencode")

StyledLines = tuple[tuple[StyledRun, ...], ...]


def moments(agent: str) -> list[str]:
    """The names of all recorded screens of an agent."""
    return sorted(path.stem for path in (DATA / agent).glob("*.json"))


@cache
def recorded(agent: str, moment: str) -> tuple[ScreenSnapshot, Callable[[], StyledLines] | None]:
    """One screen, and its styled lines where they were recorded."""
    fixture = json.loads((DATA / agent / f"{moment}.json").read_text())
    row, col = fixture["cursor"]
    shown = screen(fixture["lines"], cols=fixture["cols"], row=row, col=col, title=fixture["title"])
    if "styled" not in fixture:
        return shown, None
    styled = msgspec.convert(fixture["styled"], StyledLines)
    return shown, lambda: styled


def screen(lines: Iterable[str], *, cols: int = 120, row: int = 0, col: int = 0, title: str | None = None):
    """A screen with these lines."""
    given = tuple(lines)
    return ScreenSnapshot(
        lines=given,
        cols=cols,
        rows=len(given),
        alt_screen=False,
        cursor=CursorPosition(row, col),
        cursor_visible=True,
        seq=1,
        tape_offset=0,
        title=title,
    )


def read(agent: str, moment: str) -> ScreenReading:
    """What a recorded screen says."""
    return read_screen(agent, *recorded(agent, moment))


def dialog(agent: str, moment: str) -> ScreenDialog:
    """The dialog on a recorded screen."""
    found = read(agent, moment).dialog
    assert found is not None, f"no dialog seen on {agent}/{moment}"
    return found


def labels(shown: ScreenDialog) -> list[str]:
    return [row.label for row in shown.rows]


def marked(shown: ScreenDialog) -> str:
    """The label under the marker, of which there is exactly one."""
    (label,) = [row.label for row in shown.rows if row.selected]
    return label
