"""The border to pyavt (imported as ``avt``): the only file that touches it.

The engine has no type information and reports its own faults as panics, which derive from BaseException; here they
become a fresh model that goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import avt

from dragoman.hub.ports import CursorPosition, Style, StyledRun

from .limits import MAX_CELLS_PER_CALL, MODEL_MIN_COLS, MODEL_MIN_ROWS

_engine: Any = avt  # the package does not say what it exports
_DEFAULT = Style()

T = TypeVar("T")


class Model:
    """A grid of cells that text is fed into, shown at its true size however small.

    ``revive`` is asked after a panic for the text that brings a fresh model into the modes that are set.
    """

    def __init__(self, cols: int, rows: int, scrollback: int, revive: Callable[[], str]) -> None:
        self.cols = cols
        self.rows = rows
        self.panics = 0
        self._scrollback = scrollback
        self._revive = revive
        self._vt: Any = self._fresh()

    def feed(self, text: str) -> None:
        """Draw ``text``. After a panic all that was drawn before is gone, with this text."""
        # The engine would draw DEL as a character; terminals ignore it.
        if "\x7f" in text:
            text = text.replace("\x7f", "")
        try:
            if len(text) * self.cols <= MAX_CELLS_PER_CALL:
                self._vt.feed_str(text)
            else:
                self._feed_slices(text)
        except BaseException as error:
            if not _is_panic(error):
                raise
            self._recover()

    def _feed_slices(self, text: str) -> None:
        # Every character may push out a line, and the engine lets go of lines only when it returns.
        length = max(MAX_CELLS_PER_CALL // self.cols, 1)
        for start in range(0, len(text), length):
            self._vt.feed_str(text[start : start + length])

    def resize(self, cols: int, rows: int) -> None:
        """Change the size; the engine reflows what was wrapped."""
        self.cols, self.rows = cols, rows
        self._guarded(lambda vt: vt.resize(*self._inner_size()), None)

    def cursor(self) -> CursorPosition:
        """Where the cursor is, always inside the true size."""
        row, col = self._guarded(lambda vt: (vt.cursor.row, vt.cursor.col), (0, 0))
        # After writing the last column the engine's cursor is one beyond it, waiting to wrap.
        return CursorPosition(row - self._top(row), min(col, self.cols - 1))

    def lines(self) -> tuple[str, ...]:
        """The text of each line, trailing blanks trimmed; a wide character is one character."""
        return self._guarded(self._read_lines, ("",) * self.rows)

    def styled(self) -> tuple[tuple[StyledRun, ...], ...]:
        """The lines as stretches of equal style; trailing blanks that look like nothing are trimmed."""
        return self._guarded(self._read_styled, ((),) * self.rows)

    def _inner_size(self) -> tuple[int, int]:
        return max(self.cols, MODEL_MIN_COLS), max(self.rows, MODEL_MIN_ROWS)

    def _fresh(self) -> Any:
        return _engine.Vt(*self._inner_size(), self._scrollback)

    def _top(self, cursor_row: int) -> int:
        """First row that is shown: 0, unless the screen is lower than the model and the cursor is further down."""
        return max(0, cursor_row - self.rows + 1)

    def _window(self, vt: Any) -> list[Any]:
        top = self._top(vt.cursor.row)
        lines: list[Any] = vt.view()[top : top + self.rows]
        return lines

    def _read_lines(self, vt: Any) -> tuple[str, ...]:
        if self.cols >= MODEL_MIN_COLS:
            return tuple(line.text.rstrip(" ") for line in self._window(vt))
        return tuple("".join(cell.char for cell in _shown(line, self.cols)).rstrip(" ") for line in self._window(vt))

    def _read_styled(self, vt: Any) -> tuple[tuple[StyledRun, ...], ...]:
        styles: dict[str, Style] = {}
        return tuple(_runs(_shown(line, self.cols), styles) for line in self._window(vt))

    def _guarded(self, action: Callable[[Any], T], otherwise: T) -> T:
        try:
            return action(self._vt)
        except BaseException as error:
            if not _is_panic(error):
                raise
            self._recover()
            return otherwise

    def _recover(self) -> None:
        self.panics += 1
        self._vt = self._fresh()
        self._vt.feed_str(self._revive())


def _is_panic(error: BaseException) -> bool:
    return type(error).__name__ == "PanicException"  # its module cannot be imported


def _shown(line: Any, cols: int) -> Iterator[Any]:
    """The cells of a line that lie wholly in its first ``cols`` columns, without the second halves of wide ones."""
    for at, cell in enumerate(line.cells[:cols]):
        if cell.width and at + cell.width <= cols:
            yield cell


def _runs(cells: Iterator[Any], styles: dict[str, Style]) -> tuple[StyledRun, ...]:
    runs: list[tuple[list[str], Style]] = []
    for cell in cells:
        style = _style(cell, styles)
        if runs and runs[-1][1] is style:
            runs[-1][0].append(cell.char)
        else:
            runs.append(([cell.char], style))
    joined = [("".join(chars), style) for chars, style in runs]
    if joined and joined[-1][1] is _DEFAULT:
        joined[-1] = (joined[-1][0].rstrip(" "), _DEFAULT)
    return tuple(StyledRun(text, style) for text, style in joined if text)


def _style(cell: Any, styles: dict[str, Style]) -> Style:
    """The cell's style, one object for equal ones. The engine's pens do not compare, but their names do."""
    pen = cell.pen
    name = repr(pen)
    style = styles.get(name)
    if style is None:
        style = styles[name] = _read_pen(pen)
    return style


def _read_pen(pen: Any) -> Style:
    style = Style(
        fg=_colour(pen.foreground),
        bg=_colour(pen.background),
        bold=pen.bold,
        faint=pen.faint,
        italic=pen.italic,
        underline=pen.underline,
        strikethrough=pen.strikethrough,
        blink=pen.blink,
        inverse=pen.inverse,
    )
    return _DEFAULT if style == _DEFAULT else style


def _colour(colour: Any) -> str | int | None:
    if colour is None:
        return None
    if isinstance(colour, _engine.Color.RGB):
        return f"#{colour[0]:02x}{colour[1]:02x}{colour[2]:02x}"
    return int(colour[0])
