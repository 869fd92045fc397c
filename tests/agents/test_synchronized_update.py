"""A synchronized update (mode 2026) is shown as a whole, but never held back for long."""

from __future__ import annotations

import pytest

from dragoman.agents.terminal.findings import (
    Reply,
)
from dragoman.agents.terminal.limits import CAPTURE_INTERVAL, SYNC_LIMIT
from dragoman.hub.ports import CursorPosition

from .fed_screen import BEGIN, END, FedScreen


@pytest.fixture
def tape() -> FedScreen:
    return FedScreen()


def test_the_picture_before_it_is_shown_until_it_ends(tape: FedScreen) -> None:
    tape.feed(b"before")
    tape.feed(BEGIN + b"\x1b[2J\x1b[Hhalf a pic")
    assert tape.screen.held
    held = tape.screen.snapshot()
    assert (held.lines[0], held.tape_offset) == ("before", 6)
    tape.feed(b"ture" + END)
    assert not tape.screen.held
    assert tape.first() == "half a picture"
    assert tape.screen.snapshot().seq > held.seq


def test_what_came_just_before_it_in_the_same_chunk_is_shown(tape: FedScreen) -> None:
    tape.feed(b"old", b"\rnew" + BEGIN + b"\x1b[2Jtorn")
    held = tape.screen.snapshot()
    assert (held.lines[0], held.tape_offset, held.cursor) == ("new", 7, CursorPosition(0, 3))
    assert tape.screen.seq > held.seq


def test_it_may_begin_and_end_in_cut_sequences(tape: FedScreen) -> None:
    tape.feed(b"old" + BEGIN[:4], BEGIN[4:] + b"\rnew", END[:5])
    assert tape.screen.held
    held = tape.screen.snapshot()
    assert (held.lines[0], held.tape_offset) == ("old", 3)
    tape.feed(END[5:])
    assert tape.first() == "new"


def test_the_modes_shown_belong_to_the_picture(tape: FedScreen) -> None:
    tape.feed(b"\x1b]2;a\x07main" + BEGIN + b"\x1b[?1049h\x1b[?25l\x1b]2;b\x07alt")
    held = tape.screen.snapshot()
    assert (held.alt_screen, held.cursor_visible, held.title) == (False, True, "a")
    tape.feed(END)
    shown = tape.screen.snapshot()
    assert (shown.alt_screen, shown.cursor_visible, shown.title) == (True, False, "b")


def test_one_that_takes_too_long_is_shown_anyway(tape: FedScreen) -> None:
    tape.feed(b"before", BEGIN + b"\rafter ")
    tape.clock.now += SYNC_LIMIT - 0.01
    assert tape.first() == "before"
    tape.clock.now += 0.01
    assert not tape.screen.held
    assert tape.first() == "after"
    assert tape.feed(b"\x1b[?2026$p") == [Reply(tape.end - 9, "mode", b"\x1b[?2026;2$y")]


def test_repeating_its_beginning_does_not_prolong_it(tape: FedScreen) -> None:
    tape.feed(b"before", BEGIN + b"\rtorn")
    for _ in range(10):
        tape.clock.now += SYNC_LIMIT / 10
        assert tape.first() == "before" or not tape.screen.held
        tape.feed(BEGIN + b".")
    tape.clock.now += CAPTURE_INTERVAL
    assert tape.first() != "before"


def test_nothing_is_held_back_after_the_end(tape: FedScreen) -> None:
    tape.feed(b"before", BEGIN + b"\rlast words")
    seq = tape.screen.snapshot().seq
    tape.screen.end()
    assert not tape.screen.held
    assert tape.first() == "last words"
    assert tape.screen.snapshot().seq > seq
    assert tape.screen.snapshot().tape_offset == tape.end


def test_a_resize_ends_it(tape: FedScreen) -> None:
    tape.feed(b"before", BEGIN + b"\rnew   ")
    tape.screen.resize(30, 6)
    assert not tape.screen.held
    assert (tape.first(), tape.screen.snapshot().cols) == ("new", 30)


def test_a_flood_of_updates_is_captured_once_per_interval(tape: FedScreen) -> None:
    pictures = set()
    for step in range(1000):
        tape.feed(b"\r%d" % step + BEGIN, b"torn" + END + BEGIN)
        pictures.add(tape.first())
    assert pictures == {"0"}
    tape.clock.now += CAPTURE_INTERVAL * 2
    tape.feed(END + b"\rnew   " + BEGIN)
    assert tape.first().startswith("new")


def test_updates_that_end_in_their_chunk_are_not_captured(tape: FedScreen) -> None:
    tape.feed((b"\rx" + BEGIN + b"y" + END) * 1000)
    assert tape.screen.seq == 1
    assert tape.first() == "xy"


def test_a_picture_that_was_shown_is_never_taken_back(tape: FedScreen) -> None:
    tape.feed(b"one" + BEGIN, b"\rtwo" + END)
    assert tape.first() == "two"
    tape.feed(BEGIN + b"\rthree")  # too soon for another capture
    assert tape.first() == "two"
