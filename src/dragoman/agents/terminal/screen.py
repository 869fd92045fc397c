"""The terminal model of one session: pyavt for the picture, a scanner of ours for all that it does not tell."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from dragoman.hub.ports import ScreenSnapshot, StyledRun

from .findings import Finding, Reply, Reset, Title, read_osc
from .limits import (
    CAPTURE_INTERVAL,
    DEFAULT_SCROLLBACK,
    MAX_REPLIES_PER_FEED,
    MAX_WORK_PER_FEED,
    SYNC_LIMIT,
    check_size,
)
from .model import Model
from .modes import Modes, update_effect
from .replies import Asked, answer_osc, answer_query, query_kind
from .scanner import Csi, Esc, Osc, Scanner, Token
from .utf8 import Piece, Utf8Reader
from .work import work

T = TypeVar("T")

_CANCEL = "\x18"


class PyavtScreen:
    """A ``Screen`` fed with the raw bytes of a PTY. Made for one thread; does no I/O.

    ``seq`` grows by one with every feed and real resize, and by one more when a feed ends inside a synchronized
    update that began in the middle of it: then two pictures came with it, the complete one and the one after. While
    the update is held back, ``snapshot`` shows the complete one; ``styled`` always shows what is drawn.

    A screen that follows another one on the same tape goes on from its ``seq`` and at ``tape_offset``. Raises
    ``InvalidSize`` for a size outside the limits.
    """

    def __init__(
        self,
        cols: int,
        rows: int,
        *,
        scrollback: int = DEFAULT_SCROLLBACK,
        clock: Callable[[], float] = time.monotonic,
        seq: int = 0,
        tape_offset: int = 0,
    ) -> None:
        check_size(cols, rows)
        self._clock = clock
        self._modes = Modes()
        self._model = Model(cols, rows, scrollback, self._modes.restore)
        self._utf8 = Utf8Reader()
        self._scanner = Scanner()
        self._title: str | None = None
        self._seq = seq
        self._end = tape_offset  # tape offset after the newest byte
        self._ended = False
        self._skipped = 0
        self._began = 0.0  # when the open synchronized update began
        self._captured = float("-inf")  # when the last capture was made
        self._complete: ScreenSnapshot | None = None  # the newest complete picture anyone took
        self._styled: tuple[int, tuple[tuple[StyledRun, ...], ...]] | None = None

    @property
    def cols(self) -> int:
        """Columns, as the program sees them."""
        return self._model.cols

    @property
    def rows(self) -> int:
        """Rows, as the program sees them."""
        return self._model.rows

    @property
    def seq(self) -> int:
        """Number of changes so far."""
        return self._seq

    @property
    def modes(self) -> Modes:
        """The modes the program has set; for reading."""
        return self._modes

    @property
    def bracketed_paste(self) -> bool:
        """Whether the program asked for pastes to be marked (mode 2004)."""
        return self._modes.bracketed_paste

    @property
    def panics(self) -> int:
        """How often the engine failed and was replaced; each time the picture began anew."""
        return self._model.panics

    @property
    def skipped(self) -> int:
        """How many sequences were not drawn, since a chunk asked for too much at once (``MAX_WORK_PER_FEED``)."""
        return self._skipped

    @property
    def held(self) -> bool:
        """Whether a synchronized update is open and younger than ``SYNC_LIMIT``: do not publish now."""
        return self._modes.synchronized and not self._ended and self._clock() - self._began < SYNC_LIMIT

    def feed(self, data: bytes, offset: int) -> list[Finding]:
        """Draw the program's next bytes, the first of which is at tape offset ``offset``.

        Returns what they say beside drawing, in stream order, each with the offset of its first byte.
        """
        if not data:
            return []
        self._expire_update()
        panics = self._model.panics
        self._end = offset + len(data)
        piece = self._utf8.read(data, offset)
        tokens = self._scanner.scan(piece.data, piece.locate)
        findings: list[Finding] = []
        if tokens:
            self._follow(tokens, piece, findings)
        else:
            self._model.feed(piece.text)
        self._seq += 1
        if self._model.panics != panics:
            self._resynchronize()
        return findings

    def resize(self, cols: int, rows: int) -> None:
        """Change the size; the same size is no change. Ends an open update: the program will draw anew anyway."""
        check_size(cols, rows)
        if (cols, rows) == (self.cols, self.rows):
            return
        panics = self._model.panics
        self._modes.end_update()
        self._model.resize(cols, rows)
        self._seq += 1
        if self._model.panics != panics:
            self._resynchronize()

    def end(self) -> None:
        """The program ended: nothing is held back any more, and nothing unfinished will be completed."""
        if self._ended:
            return
        self._ended = True
        self._utf8.drop()
        self._scanner.abandon()
        self._seq += 1

    def snapshot(self) -> ScreenSnapshot:
        """The picture now; while ``held``, the last complete one. Cheap while nothing changes."""
        if self._complete is not None and (self._complete.seq == self._seq or self.held):
            return self._complete
        self._complete = self._picture(self._tape_offset())
        return self._complete

    def styled(self) -> tuple[tuple[StyledRun, ...], ...]:
        """The lines as drawn now, with how they look; exactly ``rows`` of them."""
        if self._styled is None or self._styled[0] != self._seq:
            self._styled = (self._seq, self._model.styled())
        return self._styled[1]

    def _follow(self, tokens: list[Token], piece: Piece, findings: list[Finding]) -> None:
        """Carry out a chunk that holds more than drawing, cutting it only where the model must be asked."""
        brush = _Brush(self._model, piece)
        opening = self._opening(tokens)
        for token in tokens:
            if token is opening:
                self._open_update(opening, brush)
            if isinstance(token, Osc):
                answers = answer_osc(token.body, bel=token.bel)
                findings += [Reply(token.origin, *answer) for answer in brush.affordable(answers)]
                self._note(read_osc(token.body, token.origin), findings)
            elif not brush.can_do(work(token, self.cols, self.rows)):
                brush.skip(token)
                self._skipped += 1
            elif isinstance(token, Esc):
                if token.body == b"c":
                    self._modes.reset()
                    findings.append(Reset(token.origin))
            elif (kind := query_kind(token.body)) is None:
                self._modes.apply(token.body)
            elif brush.affordable([kind]):
                brush.draw_to(token.end)
                findings.append(Reply(token.origin, kind, self._answer(kind, token.body)))
        brush.finish()

    def _note(self, finding: Finding | None, findings: list[Finding]) -> None:
        if finding is None:
            return
        if isinstance(finding, Title):
            if finding.text == self._title:
                return
            self._title = finding.text
        findings.append(finding)

    def _answer(self, kind: str, body: bytes) -> bytes:
        cursor = self._model.cursor()
        asked = Asked(body, self._modes, self.cols, self.rows, cursor.row, cursor.col)
        return answer_query(kind, asked)

    def _opening(self, tokens: list[Token]) -> Csi | None:
        """The sequence that begins the update that is open after these; None if none is, or it began earlier.

        Updates that begin and end inside one chunk need no capture: nobody can look between.
        """
        opening: Csi | None = None
        is_open = self._modes.synchronized
        for token in tokens:
            if isinstance(token, Esc):
                if token.body == b"c":
                    opening, is_open = None, False
            elif isinstance(token, Csi) and (effect := update_effect(token.body)) is not None:
                if not effect:
                    opening = None
                elif not is_open:
                    opening = token
                is_open = effect
        return opening

    def _open_update(self, opening: Csi, brush: _Brush) -> None:
        """A synchronized update begins: keep the picture before it, unless one was kept a moment ago."""
        self._began = self._clock()
        if self._complete is not None and self._began - self._captured < CAPTURE_INTERVAL:
            return
        self._captured = self._began
        if opening.start > 0:
            brush.draw_to(opening.start)
            self._seq += 1
        if self._complete is None or self._complete.seq != self._seq:
            self._complete = self._picture(opening.origin)

    def _expire_update(self) -> None:
        if self._modes.synchronized and not self.held:
            self._modes.end_update()

    def _picture(self, tape_offset: int) -> ScreenSnapshot:
        return ScreenSnapshot(
            lines=self._model.lines(),
            cols=self.cols,
            rows=self.rows,
            alt_screen=self._modes.alt_screen,
            cursor=self._model.cursor(),
            cursor_visible=self._modes.cursor_visible,
            seq=self._seq,
            tape_offset=tape_offset,
            title=self._title,
        )

    def _tape_offset(self) -> int:
        unfinished = self._scanner.unfinished
        return self._end - self._utf8.pending if unfinished is None else unfinished

    def _resynchronize(self) -> None:
        """After a panic: the fresh model is in the middle of nothing, so neither must the scanner be."""
        self._scanner.abandon()
        self._model.feed(_CANCEL)


class _Brush:
    """One chunk on its way into the model, and what it may still ask for."""

    def __init__(self, model: Model, piece: Piece) -> None:
        self._model = model
        self._piece = piece
        self._drawn = 0  # position in the piece's data
        self._work = MAX_WORK_PER_FEED
        self._replies = MAX_REPLIES_PER_FEED

    def draw_to(self, position: int) -> None:
        """Draw what comes before ``position``."""
        if position > self._drawn:
            self._model.feed(self._piece.data[self._drawn : position].decode())
            self._drawn = position

    def skip(self, token: Csi | Esc) -> None:
        """Draw what comes before ``token``, but not that."""
        # It lies wholly in this chunk: one that began in the chunk before comes first, and one alone is never too much.
        self.draw_to(token.start)
        self._drawn = token.end

    def finish(self) -> None:
        """Draw the rest."""
        if self._drawn == 0:
            self._model.feed(self._piece.text)
        else:
            self.draw_to(len(self._piece.data))

    def can_do(self, nanoseconds: int) -> bool:
        """Whether so much work may still be done; if so it is spent."""
        if nanoseconds > self._work:
            return False
        self._work -= nanoseconds
        return True

    def affordable(self, replies: list[T]) -> list[T]:
        """As many of these as may still be sent; they are spent."""
        sent = replies[: self._replies]
        self._replies -= len(sent)
        return sent
