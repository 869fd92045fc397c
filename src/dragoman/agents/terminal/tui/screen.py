"""The picture that a reader is given, prepared once."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from dragoman.hub.ports import ScreenSnapshot, StyledRun

from .lines import Line, clean, numbered_lines, typed_part, unwrapped

Styled = Callable[[], tuple[tuple[StyledRun, ...], ...]]


class Picture:
    """One snapshot, with the styled lines at hand for what text alone does not tell."""

    def __init__(self, snapshot: ScreenSnapshot, styled: Styled | None = None) -> None:
        self.cols = snapshot.cols
        self.cursor = snapshot.cursor
        self.lines = numbered_lines(snapshot.lines)
        self._styled = styled

    @cached_property
    def looks(self) -> tuple[tuple[StyledRun, ...], ...] | None:
        """The styled lines, if there are any to be had."""
        return self._styled() if self._styled is not None else None

    @cached_property
    def bottom(self) -> int:
        """The last line with text; -1 if there is none."""
        return next((line.at for line in reversed(self.lines) if line.text), -1)

    def look(self, at: int) -> tuple[StyledRun, ...]:
        """How line ``at`` looks; nothing when that is not known, or no longer the same picture."""
        if self.looks is None or at >= len(self.looks):
            return ()
        runs = self.looks[at]
        same = clean("".join(run.text for run in runs)) == self.lines[at].text
        return runs if same else ()

    def background(self, at: int, column: int) -> str | int | None:
        """The colour behind one cell of a line without wide characters."""
        start = 0
        for run in self.look(at):
            start += len(run.text)
            if column < start:
                return run.style.bg
        return None

    def draft(self, first: int, last: int, column: int, invitations: tuple[str, ...] = (), width: int = 0) -> str:
        """What is typed into an input box on these lines from this column on.

        What the agent suggests there is told by its looks, else by the cursor in front of it; ``invitations`` are how
        suggestions begin that look like typed text. ``width``: columns for text, unless it fills the line.
        """
        lines = self.lines[first : last + 1]
        if not any(line.text[column:].strip() for line in lines):
            return ""
        shown = lines[0].text[column:].strip()
        # The cursor stands in front of a suggestion, or is hidden and anywhere.
        if shown.startswith(invitations) and invitations:
            return ""
        if self.looks is None and len(lines) == 1 and (self.cursor.row, self.cursor.col) == (first, column):
            return ""
        typed = [typed_part(runs) if (runs := self.look(line.at)) else line.text for line in lines]
        texts = [text[column:].rstrip() for text in typed]
        while texts and not texts[-1]:
            texts.pop()
        return unwrapped(texts, width or self.cols - column - 1)


def newest_block(lines: list[Line], starts: Callable[[Line], bool]) -> list[Line]:
    """The last thing in a conversation, whose first line is one that ``starts`` one."""
    said = list(lines)
    while said and not said[-1].text:
        said.pop()
    for at in range(len(said) - 1, -1, -1):
        if starts(said[at]):
            return said[at:]
    return []
