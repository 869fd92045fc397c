"""The terminal model as the rest of the server sees it."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.agents.terminal import model as model_module
from dragoman.agents.terminal.findings import Reply
from dragoman.agents.terminal.limits import (
    MAX_COLS,
    MAX_CONTROL_STRING,
    MAX_REPLIES_PER_FEED,
    MAX_ROWS,
    SYNC_LIMIT,
    check_size,
)
from dragoman.agents.terminal.screen import PyavtScreen
from dragoman.hub.errors import InvalidSize
from dragoman.hub.ports import CursorPosition, Screen, ScreenSnapshot, Style, StyledRun

from .fed_screen import BEGIN, FedScreen
from .terminal_streams import pieces


@pytest.fixture
def tape() -> FedScreen:
    return FedScreen()


def test_it_is_a_screen() -> None:
    screen: Screen = PyavtScreen(80, 24)
    assert screen.snapshot() == ScreenSnapshot(
        lines=("",) * 24,
        cols=80,
        rows=24,
        alt_screen=False,
        cursor=CursorPosition(0, 0),
        cursor_visible=True,
        seq=0,
        tape_offset=0,
        title=None,
    )


def test_lines_are_trimmed_and_wide_characters_are_one_character(tape: FedScreen) -> None:
    tape.feed("héllo 世界   \r\n  x  ".encode())
    assert tape.lines() == ("héllo 世界", "  x", "", "", "", "")
    assert tape.screen.snapshot().cursor == CursorPosition(1, 5)


def test_the_cursor_stays_inside_when_a_line_is_full(tape: FedScreen) -> None:
    tape.feed(b"x" * 20)
    assert tape.screen.snapshot().cursor == CursorPosition(0, 19)


class TestBytes:
    def test_characters_may_be_cut_anywhere(self) -> None:
        text = "aé世🙂\u0301ñ"
        data = text.encode()
        for cut in range(1, len(data)):
            tape = FedScreen()
            tape.feed(data[:cut], data[cut:])
            assert tape.first() == text, f"cut at {cut}"
        tape = FedScreen()
        tape.feed(*(bytes((byte,)) for byte in data))
        assert tape.first() == text

    def test_bytes_that_are_not_text_are_dropped(self, tape: FedScreen) -> None:
        tape.feed(b"a\xffb\xe4\xb8c\xed\xa0\x80d\xc0\xafe\x80f")
        assert tape.first() == "abcdef"

    def test_a_replacement_character_that_the_program_wrote_is_shown(self, tape: FedScreen) -> None:
        data = "a\ufffdb".encode()
        tape.feed(data[:2], data[2:])
        assert tape.first() == "a\ufffdb"

    def test_an_unfinished_character_is_not_in_the_picture(self, tape: FedScreen) -> None:
        tape.feed(b"ab\xe4\xb8")
        assert tape.screen.snapshot().tape_offset == 2
        tape.feed(b"\x96")
        assert tape.screen.snapshot().tape_offset == 5
        assert tape.first() == "ab世"

    def test_an_unfinished_sequence_is_not_in_the_picture(self, tape: FedScreen) -> None:
        tape.feed(b"ab\x1b[?10")
        assert tape.screen.snapshot().tape_offset == 2
        tape.feed(b"49hc\x1b]0;tit")
        assert tape.screen.snapshot().tape_offset == 11
        tape.screen.end()
        assert tape.screen.snapshot().tape_offset == tape.end


class TestSeq:
    def test_it_counts_feeds_and_real_resizes(self, tape: FedScreen) -> None:
        screen = tape.screen
        tape.feed(b"a", b"", b"b")
        assert screen.seq == 2
        screen.resize(20, 6)
        assert screen.seq == 2
        screen.resize(21, 6)
        assert screen.seq == screen.snapshot().seq == 3
        assert (screen.cols, screen.rows) == (21, 6)

    def test_an_unchanged_picture_is_not_made_twice(self, tape: FedScreen) -> None:
        tape.feed(b"a")
        snapshot, styled = tape.screen.snapshot(), tape.screen.styled()
        assert tape.screen.snapshot() is snapshot
        assert tape.screen.styled() is styled
        tape.feed(b"b")
        assert tape.screen.snapshot() is not snapshot
        assert tape.screen.styled() is not styled

    def test_the_picture_carries_the_offset_it_reaches_to(self) -> None:
        screen = PyavtScreen(20, 6)
        screen.feed(b"abc", 1_000_000)
        assert screen.snapshot().tape_offset == 1_000_003

    def test_a_later_screen_of_the_same_tape_goes_on_counting(self) -> None:
        screen = PyavtScreen(20, 6, seq=7, tape_offset=100)
        assert (screen.snapshot().seq, screen.snapshot().tape_offset) == (7, 100)
        screen.feed(b"x", 100)
        assert (screen.snapshot().seq, screen.snapshot().tape_offset) == (8, 101)


class TestSize:
    @pytest.mark.parametrize(("cols", "rows"), [(0, 5), (5, 0), (-1, 5), (5, -3)])
    def test_it_must_be_positive(self, cols: int, rows: int) -> None:
        with pytest.raises(InvalidSize, match=r"^cols and rows must be positive$"):
            check_size(cols, rows)

    @pytest.mark.parametrize(
        ("cols", "rows", "limit"),
        [(MAX_COLS + 1, 5, "1000"), (5, MAX_ROWS + 1, "500"), (401, 500, "200000"), (10**9, 10**9, "1000")],
    )
    def test_the_limit_is_named(self, cols: int, rows: int, limit: str) -> None:
        with pytest.raises(InvalidSize, match=limit):
            check_size(cols, rows)

    @pytest.mark.parametrize(("cols", "rows"), [(1, 1), (MAX_COLS, 200), (400, MAX_ROWS)])
    def test_sizes_up_to_the_limits_work(self, cols: int, rows: int) -> None:
        screen = PyavtScreen(cols, rows)
        screen.feed(b"\x1b[2J\x1b[999;999Hx", 0)
        assert len(screen.snapshot().lines) == rows
        assert screen.snapshot().cursor == CursorPosition(rows - 1, cols - 1)

    def test_nothing_is_touched_by_a_bad_resize(self, tape: FedScreen) -> None:
        tape.feed(b"abc")
        before = tape.screen.snapshot()
        with pytest.raises(InvalidSize):
            tape.screen.resize(0, 5)
        assert tape.screen.snapshot() is before
        assert (tape.screen.cols, tape.screen.rows) == (20, 6)

    def test_a_program_cannot_change_the_size(self, tape: FedScreen) -> None:
        tape.feed(b"\x1b[8;50;100t\x1b[?40h\x1b[?3hx")
        assert (tape.screen.cols, len(tape.lines())) == (20, 6)
        assert tape.feed(b"\x1b[18t")[0].data == b"\x1b[8;6;20t"

    def test_a_very_small_screen_is_cropped_to_its_true_size(self) -> None:
        tape = FedScreen(4, 3)
        tape.feed("ab\r\nabc世\r\nxyzuvw".encode())
        assert tape.lines() == ("ab", "abc", "xyzu")
        assert tape.screen.snapshot().cursor == CursorPosition(2, 3)
        assert ["".join(run.text for run in line) for line in tape.screen.styled()] == ["ab", "abc", "xyzu"]

    def test_a_very_low_screen_follows_its_cursor(self) -> None:
        tape = FedScreen(10, 2)
        tape.feed(b"1\r\n2\r\n3\r\n4\r\n5\r\n6")
        assert tape.lines() == ("5", "6")
        assert tape.screen.snapshot().cursor == CursorPosition(1, 1)

    def test_a_storm_of_resizes_ends_at_the_last_size(self, tape: FedScreen) -> None:
        tape.feed("some text that is wrapped 世界 over lines\r\n".encode() * 5)
        for step in range(200):
            tape.screen.resize(1 + step * 37 % 90, 1 + step * 23 % 40)
            assert len(tape.lines()) == tape.screen.rows
        tape.screen.resize(30, 8)
        tape.feed(b"\x1b[2J\x1b[Hdone")
        assert tape.lines() == ("done", *("",) * 7)
        assert tape.screen.panics == 0


class TestStyle:
    def test_attributes_and_colours(self, tape: FedScreen) -> None:
        tape.feed(b"a\x1b[1;31mb\x1b[0;2;3;4mc\x1b[0;5;7;9md\x1b[0;38;5;208;48;2;1;2;255me\x1b[0;97;41mf")
        assert tape.screen.styled()[0] == (
            StyledRun("a", Style()),
            StyledRun("b", Style(fg=1, bold=True)),
            StyledRun("c", Style(faint=True, italic=True, underline=True)),
            StyledRun("d", Style(blink=True, inverse=True, strikethrough=True)),
            StyledRun("e", Style(fg=208, bg="#0102ff")),
            StyledRun("f", Style(fg=15, bg=1)),
        )

    def test_blanks_are_trimmed_only_if_they_look_like_nothing(self, tape: FedScreen) -> None:
        tape.feed("世\x1b[44m  \x1b[0m   \r\n\x1b[7m ".encode())
        assert tape.screen.styled()[:3] == (
            (StyledRun("世", Style()), StyledRun("  ", Style(bg=4))),
            (StyledRun(" ", Style(inverse=True)),),
            (),
        )

    def test_the_lines_read_like_the_snapshot(self, tape: FedScreen) -> None:
        tape.feed("ab \x1b[1m世 c\x1b[0m\r\n\r\n  \x1b[31mé".encode())
        styled = tape.screen.styled()
        assert tuple("".join(run.text for run in line).rstrip(" ") for line in styled) == tape.lines()


class TestEngineFaults:
    """The engine panics on grids narrower than we let it have; here it is let."""

    @pytest.fixture
    def narrow(self, monkeypatch: pytest.MonkeyPatch) -> FedScreen:
        monkeypatch.setattr(model_module, "MODEL_MIN_COLS", 1)
        monkeypatch.setattr(model_module, "MODEL_MIN_ROWS", 1)
        return FedScreen(2, 1)

    def test_a_panic_leaves_a_fresh_picture_that_goes_on(self, narrow: FedScreen) -> None:
        narrow.feed("\x1b[?1049h\x1b[?25l世\x1b]0;unfinished".encode())
        narrow.screen.resize(1, 1)
        assert narrow.screen.panics == 1
        snapshot = narrow.screen.snapshot()
        assert (snapshot.lines, snapshot.cols, snapshot.rows) == (("",), 1, 1)
        assert (snapshot.alt_screen, snapshot.cursor_visible) == (True, False)
        narrow.screen.resize(20, 6)
        narrow.feed(b"\x1b[Hgoes on\x1b[?25h")
        assert narrow.first() == "goes on"
        narrow.feed(b"\x1b[?1049l")
        assert not narrow.screen.snapshot().alt_screen
        assert narrow.first() == ""

    @pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, RuntimeError])
    def test_nothing_else_is_caught(self, tape: FedScreen, error: type[BaseException]) -> None:
        class Engine:
            def feed_str(self, text: str) -> None:
                raise error

            def resize(self, cols: int, rows: int) -> None:
                raise error

        tape.screen._model._vt = Engine()
        with pytest.raises(error):
            tape.feed(b"x")
        with pytest.raises(error):
            tape.screen.resize(30, 10)
        assert tape.screen.panics == 0


def check_invariants(screen: PyavtScreen) -> ScreenSnapshot:
    snapshot = screen.snapshot()
    assert len(snapshot.lines) == snapshot.rows
    assert all(line == line.rstrip(" ") for line in snapshot.lines)
    assert 0 <= snapshot.cursor.row < snapshot.rows
    assert 0 <= snapshot.cursor.col < snapshot.cols
    assert snapshot.seq <= screen.seq
    assert len(screen.styled()) == screen.rows
    if not screen.held:
        assert snapshot.seq == screen.seq
        assert (snapshot.cols, snapshot.rows) == (screen.cols, screen.rows)
    return snapshot


sizes = st.tuples(st.integers(1, 40), st.integers(1, 15))


@settings(max_examples=250, deadline=None, derandomize=True, database=None)
@given(
    st.lists(st.one_of(pieces, sizes, st.sampled_from([0.01, 0.03, 1.0])), max_size=12),
    sizes,
)
def test_nothing_a_program_writes_breaks_it(steps: list[object], size: tuple[int, int]) -> None:
    tape = FedScreen(*size)
    seen: dict[int, ScreenSnapshot] = {}
    newest = 0
    for step in steps:
        if isinstance(step, tuple):
            tape.screen.resize(*step)
        elif isinstance(step, float):
            tape.clock.now += step
        else:
            before = tape.end
            findings = tape.feed(b"".join(step))
            assert all(finding.offset < tape.end for finding in findings)
            assert sum(isinstance(finding, Reply) for finding in findings) <= MAX_REPLIES_PER_FEED
            assert tape.screen.snapshot().tape_offset <= tape.end
            assert before <= tape.end
        snapshot = check_invariants(tape.screen)
        assert snapshot.seq >= newest, "a picture was taken back"
        assert seen.setdefault(snapshot.seq, snapshot) == snapshot, "two pictures under one number"
        newest = snapshot.seq
    tape.screen.end()
    snapshot = check_invariants(tape.screen)
    assert snapshot.tape_offset == tape.end
    assert tape.screen.panics == 0


@settings(max_examples=250, deadline=None, derandomize=True, database=None)
@given(pieces)
def test_cuts_make_no_difference(chunks: list[bytes]) -> None:
    whole, cut = FedScreen(), FedScreen()
    findings = whole.feed(b"".join(chunks))
    assert cut.feed(*chunks) == findings
    for tape in (whole, cut):
        tape.screen.end()
    first, second = whole.screen.snapshot(), cut.screen.snapshot()
    assert first.lines == second.lines
    assert first.cursor == second.cursor
    assert (first.alt_screen, first.cursor_visible, first.title) == (
        second.alt_screen,
        second.cursor_visible,
        second.title,
    )
    assert whole.screen.styled() == cut.screen.styled()
    assert "\ufffd" not in "".join(first.lines)


def test_megabytes_of_anything_leave_it_working(tape: FedScreen) -> None:
    for flood in (
        b"\x1b",
        b"\x1b]",
        b"\x1b[?2026h\x1b[?2026l",
        b"\xff",
        b"\x1b[9999999999;",
        b"\x1bP",
        b"\xc2",
        b"\x1b[?1049h",
        b"\x00",
        b"x\x1b[65535b",
        b"\x1b[65535S",
        b"\x1b#8",
        b"\x1bc",
        b"\n",
    ):
        for _ in range(3):
            tape.feed(flood * (MAX_CONTROL_STRING // len(flood)))
        tape.feed(b"\x18\x1bcalive")
        tape.clock.now += SYNC_LIMIT
        assert tape.first() == "alive", flood


def test_the_default_clock_is_monotonic() -> None:
    screen = PyavtScreen(20, 6)
    screen.feed(BEGIN, 0)
    assert screen.held
    assert screen._began <= time.monotonic()
