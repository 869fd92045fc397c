"""The terminal model as the rest of the server sees it."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.agents.terminal import model as model_module
from dragoman.agents.terminal.findings import (
    Clipboard,
    Directory,
    Finding,
    Mark,
    Notification,
    ProgramStatus,
    Reply,
    Reset,
    Title,
)
from dragoman.agents.terminal.limits import (
    CAPTURE_INTERVAL,
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

from .terminal_streams import pieces

BEGIN, END = b"\x1b[?2026h", b"\x1b[?2026l"


class Clock:
    """Time that passes only when told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Tape:
    """A screen that is fed like from a tape: offsets follow one another."""

    def __init__(self, cols: int = 20, rows: int = 6) -> None:
        self.clock = Clock()
        self.screen = PyavtScreen(cols, rows, clock=self.clock)
        self.end = 0

    def feed(self, *chunks: bytes) -> list[Finding]:
        findings = []
        for chunk in chunks:
            findings += self.screen.feed(chunk, self.end)
            self.end += len(chunk)
        return findings

    def lines(self) -> tuple[str, ...]:
        return self.screen.snapshot().lines

    def first(self) -> str:
        return self.lines()[0]


@pytest.fixture
def tape() -> Tape:
    return Tape()


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


def test_lines_are_trimmed_and_wide_characters_are_one_character(tape: Tape) -> None:
    tape.feed("héllo 世界   \r\n  x  ".encode())
    assert tape.lines() == ("héllo 世界", "  x", "", "", "", "")
    assert tape.screen.snapshot().cursor == CursorPosition(1, 5)


def test_the_cursor_stays_inside_when_a_line_is_full(tape: Tape) -> None:
    tape.feed(b"x" * 20)
    assert tape.screen.snapshot().cursor == CursorPosition(0, 19)


class TestBytes:
    def test_characters_may_be_cut_anywhere(self) -> None:
        text = "aé世🙂\u0301ñ"
        data = text.encode()
        for cut in range(1, len(data)):
            tape = Tape()
            tape.feed(data[:cut], data[cut:])
            assert tape.first() == text, f"cut at {cut}"
        tape = Tape()
        tape.feed(*(bytes((byte,)) for byte in data))
        assert tape.first() == text

    def test_bytes_that_are_not_text_are_dropped(self, tape: Tape) -> None:
        tape.feed(b"a\xffb\xe4\xb8c\xed\xa0\x80d\xc0\xafe\x80f")
        assert tape.first() == "abcdef"

    def test_a_replacement_character_that_the_program_wrote_is_shown(self, tape: Tape) -> None:
        data = "a\ufffdb".encode()
        tape.feed(data[:2], data[2:])
        assert tape.first() == "a\ufffdb"

    def test_an_unfinished_character_is_not_in_the_picture(self, tape: Tape) -> None:
        tape.feed(b"ab\xe4\xb8")
        assert tape.screen.snapshot().tape_offset == 2
        tape.feed(b"\x96")
        assert tape.screen.snapshot().tape_offset == 5
        assert tape.first() == "ab世"

    def test_an_unfinished_sequence_is_not_in_the_picture(self, tape: Tape) -> None:
        tape.feed(b"ab\x1b[?10")
        assert tape.screen.snapshot().tape_offset == 2
        tape.feed(b"49hc\x1b]0;tit")
        assert tape.screen.snapshot().tape_offset == 11
        tape.screen.end()
        assert tape.screen.snapshot().tape_offset == tape.end


class TestSeq:
    def test_it_counts_feeds_and_real_resizes(self, tape: Tape) -> None:
        screen = tape.screen
        tape.feed(b"a", b"", b"b")
        assert screen.seq == 2
        screen.resize(20, 6)
        assert screen.seq == 2
        screen.resize(21, 6)
        assert screen.seq == screen.snapshot().seq == 3
        assert (screen.cols, screen.rows) == (21, 6)

    def test_an_unchanged_picture_is_not_made_twice(self, tape: Tape) -> None:
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

    def test_nothing_is_touched_by_a_bad_resize(self, tape: Tape) -> None:
        tape.feed(b"abc")
        before = tape.screen.snapshot()
        with pytest.raises(InvalidSize):
            tape.screen.resize(0, 5)
        assert tape.screen.snapshot() is before
        assert (tape.screen.cols, tape.screen.rows) == (20, 6)

    def test_a_program_cannot_change_the_size(self, tape: Tape) -> None:
        tape.feed(b"\x1b[8;50;100t\x1b[?40h\x1b[?3hx")
        assert (tape.screen.cols, len(tape.lines())) == (20, 6)
        assert tape.feed(b"\x1b[18t")[0].data == b"\x1b[8;6;20t"

    def test_a_very_small_screen_is_cropped_to_its_true_size(self) -> None:
        tape = Tape(4, 3)
        tape.feed("ab\r\nabc世\r\nxyzuvw".encode())
        assert tape.lines() == ("ab", "abc", "xyzu")
        assert tape.screen.snapshot().cursor == CursorPosition(2, 3)
        assert ["".join(run.text for run in line) for line in tape.screen.styled()] == ["ab", "abc", "xyzu"]

    def test_a_very_low_screen_follows_its_cursor(self) -> None:
        tape = Tape(10, 2)
        tape.feed(b"1\r\n2\r\n3\r\n4\r\n5\r\n6")
        assert tape.lines() == ("5", "6")
        assert tape.screen.snapshot().cursor == CursorPosition(1, 1)

    def test_a_storm_of_resizes_ends_at_the_last_size(self, tape: Tape) -> None:
        tape.feed("some text that is wrapped 世界 over lines\r\n".encode() * 5)
        for step in range(200):
            tape.screen.resize(1 + step * 37 % 90, 1 + step * 23 % 40)
            assert len(tape.lines()) == tape.screen.rows
        tape.screen.resize(30, 8)
        tape.feed(b"\x1b[2J\x1b[Hdone")
        assert tape.lines() == ("done", *("",) * 7)
        assert tape.screen.panics == 0


QUERIES = {
    "da1": (b"\x1b[c", b"\x1b[?62;22c"),
    "da1 with a zero": (b"\x1b[0c", b"\x1b[?62;22c"),
    "da2": (b"\x1b[>c", b"\x1b[>0;100;0c"),
    "status": (b"\x1b[5n", b"\x1b[0n"),
    "cpr": (b"\x1b[6n", b"\x1b[2;3R"),
    "dec_cpr": (b"\x1b[?6n", b"\x1b[?2;3R"),
    "kitty": (b"\x1b[?u", b"\x1b[?0u"),
    "version": (b"\x1b[>q", b"\x1bP>|dragoman\x1b\\"),
    "version with a zero": (b"\x1b[>0q", b"\x1bP>|dragoman\x1b\\"),
    "mode, reset": (b"\x1b[?2026$p", b"\x1b[?2026;2$y"),
    "mode, set": (b"\x1b[?25$p", b"\x1b[?25;1$y"),
    "mode, unknown": (b"\x1b[?2027$p", b"\x1b[?2027;0$y"),
    "mode, ansi": (b"\x1b[4$p", b"\x1b[4;2$y"),
    "mode, ansi unknown": (b"\x1b[2$p", b"\x1b[2;0$y"),
    "window_cells": (b"\x1b[18t", b"\x1b[8;6;20t"),
    "window_pixels": (b"\x1b[14t", b"\x1b[4;96;160t"),
    "cell_pixels": (b"\x1b[16t", b"\x1b[6;16;8t"),
    "colour, foreground": (b"\x1b]10;?\x07", b"\x1b]10;rgb:e5e5/e5e5/e5e5\x07"),
    "colour, background": (b"\x1b]11;?\x1b\\", b"\x1b]11;rgb:0000/0000/0000\x1b\\"),
    "colour, cursor": (b"\x1b]12;?\x07", b"\x1b]12;rgb:e5e5/e5e5/e5e5\x07"),
    "colour, palette": (b"\x1b]4;1;?\x07", b"\x1b]4;1;rgb:cdcd/0000/0000\x07"),
    "colour, cube": (b"\x1b]4;208;?\x07", b"\x1b]4;208;rgb:ffff/8787/0000\x07"),
    "colour, grey": (b"\x1b]4;255;?\x07", b"\x1b]4;255;rgb:eeee/eeee/eeee\x07"),
    "program_status": (b"\x1b]7501;?\x1b\\", b"\x1b]7501;?\x1b\\"),
}


class TestReplies:
    @pytest.mark.parametrize(("name", "query", "reply"), [(name, *pair) for name, pair in QUERIES.items()])
    def test_each_query_has_its_answer_wherever_it_is_cut(self, name: str, query: bytes, reply: bytes) -> None:
        kind = name.partition(",")[0].partition(" ")[0]
        for cut in range(len(query)):
            tape = Tape()
            tape.feed(b"\r\nab")
            assert tape.feed(query[:cut], query[cut:]) == [Reply(4, kind, reply)]

    def test_the_cursor_is_reported_as_it_is_at_that_point_of_the_stream(self, tape: Tape) -> None:
        findings = tape.feed("a\x1b[6n世\x1b[6n\r\n\x1b[6n\x1b[5;7H\x1b[6nend".encode())
        assert [finding.data for finding in findings] == [
            b"\x1b[1;2R",
            b"\x1b[1;4R",
            b"\x1b[2;1R",
            b"\x1b[5;7R",
        ]
        assert tape.lines() == ("a世", "", "", "", "      end", "")

    def test_a_control_inside_the_question_moves_the_cursor_first(self, tape: Tape) -> None:
        assert tape.feed(b"ab\x1b[6\nn")[0].data == b"\x1b[2;3R"

    def test_answers_keep_the_order_of_the_questions(self, tape: Tape) -> None:
        findings = tape.feed(b"\x1b]7501;?\x1b\\\x1b[>q\x1b[?u\x1b[c")
        assert [finding.kind for finding in findings] == ["program_status", "version", "kitty", "da1"]

    def test_several_colours_in_one_question(self, tape: Tape) -> None:
        findings = tape.feed(b"\x1b]10;?;?\x07\x1b]4;0;?;1;#fff;15;?;999;?;x;?\x07")
        assert [finding.data.split(b";rgb:")[0] for finding in findings] == [
            b"\x1b]10",
            b"\x1b]11",
            b"\x1b]4;0",
            b"\x1b]4;15",
        ]

    def test_answers_and_settings_are_no_questions(self, tape: Tape) -> None:
        assert tape.feed(b"\x1b]11;#000000\x07\x1b]4;1;rgb:00/00/00\x07\x1b[?62;22c\x1b[1;1R\x1b[?1u\x1b[0n") == []

    def test_a_storm_of_questions_is_bounded(self, tape: Tape) -> None:
        storm = b"\x1b[6n\x1b]4;" + b";".join(b"%d;?" % n for n in range(256)) + b"\x07"
        assert len(tape.feed(storm * 20)) == MAX_REPLIES_PER_FEED
        assert len(tape.feed(b"\x1b[6n" * 100_000)) == MAX_REPLIES_PER_FEED
        assert len(tape.feed(b"\x1b[6n")) == 1

    def test_the_keyboard_flags_are_those_the_program_set(self, tape: Tape) -> None:
        def flags() -> bytes:
            return tape.feed(b"\x1b[?u")[0].data

        tape.feed(b"\x1b[>1u\x1b[>5u")
        assert flags() == b"\x1b[?5u"
        tape.feed(b"\x1b[=2;2u")
        assert flags() == b"\x1b[?7u"
        tape.feed(b"\x1b[=1;3u")
        assert flags() == b"\x1b[?6u"
        tape.feed(b"\x1b[?1049h")
        assert flags() == b"\x1b[?0u"
        tape.feed(b"\x1b[?1049l\x1b[<u")
        assert flags() == b"\x1b[?1u"
        tape.feed(b"\x1b[<99u")
        assert flags() == b"\x1b[?0u"
        tape.feed(b"\x1b[>3u" * 1000 + b"\x1b[<16u")
        assert flags() == b"\x1b[?0u"


class TestModes:
    def test_the_alternate_screen_is_followed_in_stream_order(self, tape: Tape) -> None:
        for data, alternate in [
            (b"\x1b[?1049h", True),
            (b"\x1b[?1049l", False),
            (b"\x1b[?1049h\x1b[?1049l\x1b[?1049h", True),
            (b"\x1b[?1047l", False),
            (b"\x1b[?47h", True),
            (b"\x1b[?25;47;1l", False),
            (b"\x1b[?1;1047;25h", True),
            (b"\x1bc", False),
            (b"\x1b]0;\x1b[?1049h", True),
            (b"\x1b[?1049l\x1b]0;[?1049h\x07", False),
        ]:
            tape.feed(data)
            assert tape.screen.snapshot().alt_screen is alternate, data

    def test_a_switch_may_be_cut_anywhere(self) -> None:
        data = b"main\x1b[?1049halt"
        for cut in range(1, len(data)):
            tape = Tape()
            tape.feed(data[:cut], data[cut:])
            assert tape.screen.snapshot().alt_screen
            assert tape.first() == "    alt"

    def test_what_the_program_wants_of_input(self, tape: Tape) -> None:
        modes = tape.screen.modes
        tape.feed(b"\x1b[?2004;1;1004h\x1b[?1000h\x1b[?1003;1006h")
        assert tape.screen.bracketed_paste
        assert (modes.application_cursor_keys, modes.focus_reporting) == (True, True)
        assert (modes.mouse, modes.mouse_encoding) == (1003, 1006)
        tape.feed(b"\x1b[?1000l\x1b[?1006l\x1b[?2004;1;1004l")
        assert (modes.mouse, modes.mouse_encoding) == (None, None)
        assert not tape.screen.bracketed_paste
        assert not modes.application_cursor_keys
        assert not modes.focus_reporting

    def test_a_full_reset_resets_all(self, tape: Tape) -> None:
        tape.feed(b"\x1b[?1049;2004;1;1002;1006;2026h\x1b[?25l\x1b[>1u")
        assert tape.feed(b"x\x1bc") == [Reset(tape.end - 2)]
        snapshot = tape.screen.snapshot()
        assert (snapshot.alt_screen, snapshot.cursor_visible) == (False, True)
        assert not tape.screen.bracketed_paste
        assert not tape.screen.held
        assert tape.screen.modes.mouse is None
        assert tape.screen.modes.kitty_flags == 0

    def test_a_soft_reset_keeps_the_screen_and_the_mouse(self, tape: Tape) -> None:
        tape.feed(b"\x1b[?1049;2004;1;1002h\x1b[?25;7l\x1b[4h\x1b[!p")
        snapshot = tape.screen.snapshot()
        assert (snapshot.alt_screen, snapshot.cursor_visible) == (True, True)
        assert tape.screen.bracketed_paste
        assert tape.screen.modes.mouse == 1002
        assert not tape.screen.modes.application_cursor_keys
        assert [reply.data[-3:-2] for reply in tape.feed(b"\x1b[?7$p\x1b[4$p")] == [b"1", b"2"]

    def test_the_cursor_can_be_hidden(self, tape: Tape) -> None:
        tape.feed(b"\x1b[?25l")
        assert not tape.screen.snapshot().cursor_visible
        tape.feed(b"\x1b[?25h")
        assert tape.screen.snapshot().cursor_visible


class TestFindings:
    def test_the_title_is_told_when_it_changes(self, tape: Tape) -> None:
        assert tape.feed(b"ab\x1b]0;one\x07\x1b]0;one\x07\x1b]1;icon\x07", "\x1b]2;zwei 世\x1b\\".encode()) == [
            Title(2, "one"),
            Title(27, "zwei 世"),
        ]
        assert tape.screen.snapshot().title == "zwei 世"

    def test_titles_are_bounded_and_plain(self, tape: Tape) -> None:
        tape.feed(b"\x1b]2;a\x00b\nc\x7fd" + b"x" * 5000 + b"\x07")
        title = tape.screen.snapshot().title
        assert title is not None
        assert title.startswith("abcdx")
        assert len(title) == 1024

    @pytest.mark.parametrize(
        ("text", "finding"),
        [
            ("7;file://host/a/b", Directory(1, "file://host/a/b")),
            ("9;done: 3 files", Notification(1, "message", "done: 3 files")),
            ("9;4;1;50", Notification(1, "progress", "1;50")),
            ("777;notify;Title;Body; more", Notification(1, "message", "Body; more", "Title")),
            ("99;;Hello", Notification(1, "message", "", "Hello")),
            ("99;i=1:p=body;Hello", Notification(1, "message", "Hello")),
            ("99;e=1:p=body;SGVsbG8=", Notification(1, "message", "Hello")),
            ("52;c;SGVsbG8=", Clipboard(1, "c", query=False)),
            ("52;p;?", Clipboard(1, "p", query=True)),
            ("133;A;k=i", Mark(1, "prompt")),
            ("133;B", Mark(1, "input")),
            ("133;C", Mark(1, "output")),
            ("133;D;130", Mark(1, "finished", 130)),
            ("133;D", Mark(1, "finished")),
            ("133;D;x", Mark(1, "finished")),
            ("7501;state=blocked:kind=permission", ProgramStatus(1, "state=blocked:kind=permission")),
        ],
    )
    def test_what_a_program_tells(self, tape: Tape, text: str, finding: Finding) -> None:
        assert tape.feed(b".", b"\x1b]" + text.encode() + b"\x07") == [finding]
        assert tape.first() == "."

    @pytest.mark.parametrize(
        "text",
        [
            "8;;http://x",
            "9;9;/a/path",
            "9;",
            "777;other;x;y",
            "99;p=?;",
            "99;p=body:e=1;!!",
            "133;Z",
            "1337;File=x",
            "7;" + "x" * 5000,
            "7501;" + "x" * 5000,
            "7501;?x",
            "",
            ";",
            "abc",
        ],
    )
    def test_what_nobody_wants_to_know(self, tape: Tape, text: str) -> None:
        assert tape.feed(b"\x1b]" + text.encode() + b"\x07") == []

    def test_they_come_in_stream_order(self, tape: Tape) -> None:
        findings = tape.feed(b"\x1b[c\x1b]2;t\x07\x1b[6n\x1bc\x1b]133;A\x07")
        assert [type(finding) for finding in findings] == [Reply, Title, Reply, Reset, Mark]
        offsets = [finding.offset for finding in findings]
        assert offsets == sorted(offsets)


class TestSynchronizedUpdate:
    def test_the_picture_before_it_is_shown_until_it_ends(self, tape: Tape) -> None:
        tape.feed(b"before")
        tape.feed(BEGIN + b"\x1b[2J\x1b[Hhalf a pic")
        assert tape.screen.held
        held = tape.screen.snapshot()
        assert (held.lines[0], held.tape_offset) == ("before", 6)
        tape.feed(b"ture" + END)
        assert not tape.screen.held
        assert tape.first() == "half a picture"
        assert tape.screen.snapshot().seq > held.seq

    def test_what_came_just_before_it_in_the_same_chunk_is_shown(self, tape: Tape) -> None:
        tape.feed(b"old", b"\rnew" + BEGIN + b"\x1b[2Jtorn")
        held = tape.screen.snapshot()
        assert (held.lines[0], held.tape_offset, held.cursor) == ("new", 7, CursorPosition(0, 3))
        assert tape.screen.seq > held.seq

    def test_it_may_begin_and_end_in_cut_sequences(self, tape: Tape) -> None:
        tape.feed(b"old" + BEGIN[:4], BEGIN[4:] + b"\rnew", END[:5])
        assert tape.screen.held
        held = tape.screen.snapshot()
        assert (held.lines[0], held.tape_offset) == ("old", 3)
        tape.feed(END[5:])
        assert tape.first() == "new"

    def test_the_modes_shown_belong_to_the_picture(self, tape: Tape) -> None:
        tape.feed(b"\x1b]2;a\x07main" + BEGIN + b"\x1b[?1049h\x1b[?25l\x1b]2;b\x07alt")
        held = tape.screen.snapshot()
        assert (held.alt_screen, held.cursor_visible, held.title) == (False, True, "a")
        tape.feed(END)
        shown = tape.screen.snapshot()
        assert (shown.alt_screen, shown.cursor_visible, shown.title) == (True, False, "b")

    def test_one_that_takes_too_long_is_shown_anyway(self, tape: Tape) -> None:
        tape.feed(b"before", BEGIN + b"\rafter ")
        tape.clock.now += SYNC_LIMIT - 0.01
        assert tape.first() == "before"
        tape.clock.now += 0.01
        assert not tape.screen.held
        assert tape.first() == "after"
        assert tape.feed(b"\x1b[?2026$p") == [Reply(tape.end - 9, "mode", b"\x1b[?2026;2$y")]

    def test_repeating_its_beginning_does_not_prolong_it(self, tape: Tape) -> None:
        tape.feed(b"before", BEGIN + b"\rtorn")
        for _ in range(10):
            tape.clock.now += SYNC_LIMIT / 10
            assert tape.first() == "before" or not tape.screen.held
            tape.feed(BEGIN + b".")
        tape.clock.now += CAPTURE_INTERVAL
        assert tape.first() != "before"

    def test_nothing_is_held_back_after_the_end(self, tape: Tape) -> None:
        tape.feed(b"before", BEGIN + b"\rlast words")
        seq = tape.screen.snapshot().seq
        tape.screen.end()
        assert not tape.screen.held
        assert tape.first() == "last words"
        assert tape.screen.snapshot().seq > seq
        assert tape.screen.snapshot().tape_offset == tape.end

    def test_a_resize_ends_it(self, tape: Tape) -> None:
        tape.feed(b"before", BEGIN + b"\rnew   ")
        tape.screen.resize(30, 6)
        assert not tape.screen.held
        assert (tape.first(), tape.screen.snapshot().cols) == ("new", 30)

    def test_a_flood_of_updates_is_captured_once_per_interval(self, tape: Tape) -> None:
        pictures = set()
        for step in range(1000):
            tape.feed(b"\r%d" % step + BEGIN, b"torn" + END + BEGIN)
            pictures.add(tape.first())
        assert pictures == {"0"}
        tape.clock.now += CAPTURE_INTERVAL * 2
        tape.feed(END + b"\rnew   " + BEGIN)
        assert tape.first().startswith("new")

    def test_updates_that_end_in_their_chunk_are_not_captured(self, tape: Tape) -> None:
        tape.feed((b"\rx" + BEGIN + b"y" + END) * 1000)
        assert tape.screen.seq == 1
        assert tape.first() == "xy"

    def test_a_picture_that_was_shown_is_never_taken_back(self, tape: Tape) -> None:
        tape.feed(b"one" + BEGIN, b"\rtwo" + END)
        assert tape.first() == "two"
        tape.feed(BEGIN + b"\rthree")  # too soon for another capture
        assert tape.first() == "two"


class TestStyle:
    def test_attributes_and_colours(self, tape: Tape) -> None:
        tape.feed(b"a\x1b[1;31mb\x1b[0;2;3;4mc\x1b[0;5;7;9md\x1b[0;38;5;208;48;2;1;2;255me\x1b[0;97;41mf")
        assert tape.screen.styled()[0] == (
            StyledRun("a", Style()),
            StyledRun("b", Style(fg=1, bold=True)),
            StyledRun("c", Style(faint=True, italic=True, underline=True)),
            StyledRun("d", Style(blink=True, inverse=True, strikethrough=True)),
            StyledRun("e", Style(fg=208, bg="#0102ff")),
            StyledRun("f", Style(fg=15, bg=1)),
        )

    def test_blanks_are_trimmed_only_if_they_look_like_nothing(self, tape: Tape) -> None:
        tape.feed("世\x1b[44m  \x1b[0m   \r\n\x1b[7m ".encode())
        assert tape.screen.styled()[:3] == (
            (StyledRun("世", Style()), StyledRun("  ", Style(bg=4))),
            (StyledRun(" ", Style(inverse=True)),),
            (),
        )

    def test_the_lines_read_like_the_snapshot(self, tape: Tape) -> None:
        tape.feed("ab \x1b[1m世 c\x1b[0m\r\n\r\n  \x1b[31mé".encode())
        styled = tape.screen.styled()
        assert tuple("".join(run.text for run in line).rstrip(" ") for line in styled) == tape.lines()


class TestEngineFaults:
    """The engine panics on grids narrower than we let it have; here it is let."""

    @pytest.fixture
    def narrow(self, monkeypatch: pytest.MonkeyPatch) -> Tape:
        monkeypatch.setattr(model_module, "MODEL_MIN_COLS", 1)
        monkeypatch.setattr(model_module, "MODEL_MIN_ROWS", 1)
        return Tape(2, 1)

    def test_a_panic_leaves_a_fresh_picture_that_goes_on(self, narrow: Tape) -> None:
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
    def test_nothing_else_is_caught(self, tape: Tape, error: type[BaseException]) -> None:
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


class TestWork:
    """A few bytes can ask for much: what one chunk may ask for is bounded, and counted."""

    def test_ordinary_drawing_is_never_left_out(self, tape: Tape) -> None:
        frame = b"\x1b[2J\x1b[H" + b"".join(b"\x1b[%d;1H\x1b[Jline %d\x1b[15b" % (n, n) for n in range(1, 7))
        tape.feed(b"\x1b[?1049h" + frame * 500 + b"\x1b[?1049l" + b"\x1b[2;5r\x1b[3S\x1b[2T\x1b[4L\x1b[M")
        assert tape.screen.skipped == 0

    @pytest.mark.parametrize(
        ("sequence", "drawn"),
        [
            (b"x\x1b[65535b", 15),
            (b"\x1b[65535S", 333),
            (b"\x1b[65535T", 1000),
            (b"\x1b#8", 333),
            (b"\x1bc", 250),
            (b"\x1b[2J", 2000),
            (b"\x1b[?1049h\x1b[?1049l", 1000),
        ],
    )
    def test_a_flood_is_drawn_up_to_the_limit_of_its_chunk(self, sequence: bytes, drawn: int) -> None:
        tape = Tape(100, 50)
        tape.feed(sequence * 10_000)
        in_each = 2 if sequence.endswith(b"l") else 1
        assert tape.screen.skipped == (10_000 - drawn) * in_each
        tape.feed(b"\x1bcalive" + sequence[:0])
        assert tape.first() == "alive"
        assert tape.screen.skipped == (10_000 - drawn) * in_each

    def test_what_is_not_drawn_is_not_believed_either(self) -> None:
        tape = Tape(100, 50)
        findings = tape.feed(b"\x1b#8" * 400 + b"\x1b[?1049;2004h\x1bcx\x1b[6n")
        assert tape.screen.skipped == 400 - 333 + 1  # the switch still fits, the reset does not
        assert tape.screen.snapshot().alt_screen
        assert [type(finding) for finding in findings] == [Reply]

    def test_one_that_is_cut_is_left_out_whole(self) -> None:
        tape = Tape(100, 50)
        tape.feed(b"ab\x1b[2", b"J" + b"\x1b#8" * 333 + b"\x1b[2Jcd\x1b[H")
        assert tape.screen.skipped == 1
        tape = Tape(MAX_COLS, 200)
        tape.feed(b"\x1b[6", b"5535S\x1bcab\x1b[6", b"5535S" * 1 + b"\x1bc" * 6 + b"\x1b[2Jcd")
        assert tape.first() == "cd"


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
    tape = Tape(*size)
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
    whole, cut = Tape(), Tape()
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


def test_megabytes_of_anything_leave_it_working(tape: Tape) -> None:
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
