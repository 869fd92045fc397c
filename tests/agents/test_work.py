"""A few bytes can ask for much: what one chunk may ask for is bounded, and counted."""

from __future__ import annotations

import pytest

from dragoman.agents.terminal.findings import Reply
from dragoman.agents.terminal.limits import MAX_CELLS_PER_CALL, MAX_COLS, MAX_ROWS

from .fed_screen import FedScreen


@pytest.fixture
def tape() -> FedScreen:
    return FedScreen()


def test_ordinary_drawing_is_never_left_out(tape: FedScreen) -> None:
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
def test_a_flood_is_drawn_up_to_the_limit_of_its_chunk(sequence: bytes, drawn: int) -> None:
    tape = FedScreen(100, 50)
    tape.feed(sequence * 10_000)
    in_each = 2 if sequence.endswith(b"l") else 1
    assert tape.screen.skipped == (10_000 - drawn) * in_each
    tape.feed(b"\x1bcalive")
    assert tape.first() == "alive"
    assert tape.screen.skipped == (10_000 - drawn) * in_each


def test_what_is_not_drawn_is_not_believed_either() -> None:
    tape = FedScreen(100, 50)
    findings = tape.feed(b"\x1b#8" * 400 + b"\x1b[?1049;2004h\x1bcx\x1b[6n")
    assert tape.screen.skipped == 400 - 333 + 1  # the switch still fits, the reset does not
    assert tape.screen.snapshot().alt_screen
    assert [type(finding) for finding in findings] == [Reply]


def test_one_sequence_alone_is_never_too_much() -> None:
    for size in ((MAX_COLS, 200), (400, MAX_ROWS)):
        tape = FedScreen(*size)
        for sequence in (b"x\x1b[65535b", b"\x1b[65535S", b"\x1b[65535M", b"\x1b#8", b"\x1bc", b"\x1b[2J"):
            tape.feed(sequence[:-1], sequence[-1:])
        assert tape.screen.skipped == 0


def test_a_long_chunk_on_a_wide_screen_is_drawn_as_in_short_ones() -> None:
    text = "".join(f"line {n} 世\r\n" for n in range(8000)).encode()
    whole, pieces = FedScreen(MAX_COLS, 20), FedScreen(MAX_COLS, 20)
    assert len(text) * MAX_COLS > 10 * MAX_CELLS_PER_CALL
    whole.feed(text)
    pieces.feed(*(text[start : start + 500] for start in range(0, len(text), 500)))
    assert whole.lines() == pieces.lines()
    assert whole.lines()[-2] == "line 7999 世"
