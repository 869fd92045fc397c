"""The modes a program sets, followed in stream order."""

from __future__ import annotations

import pytest

from dragoman.agents.terminal.findings import (
    Reset,
)

from .fed_screen import FedScreen


@pytest.fixture
def tape() -> FedScreen:
    return FedScreen()


def test_the_alternate_screen_is_followed_in_stream_order(tape: FedScreen) -> None:
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


def test_a_switch_may_be_cut_anywhere() -> None:
    data = b"main\x1b[?1049halt"
    for cut in range(1, len(data)):
        tape = FedScreen()
        tape.feed(data[:cut], data[cut:])
        assert tape.screen.snapshot().alt_screen
        assert tape.first() == "    alt"


def test_what_the_program_wants_of_input(tape: FedScreen) -> None:
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


def test_a_full_reset_resets_all(tape: FedScreen) -> None:
    tape.feed(b"\x1b[?1049;2004;1;1002;1006;2026h\x1b[?25l\x1b[>1u")
    assert tape.feed(b"x\x1bc") == [Reset(tape.end - 2)]
    snapshot = tape.screen.snapshot()
    assert (snapshot.alt_screen, snapshot.cursor_visible) == (False, True)
    assert not tape.screen.bracketed_paste
    assert not tape.screen.held
    assert tape.screen.modes.mouse is None
    assert tape.screen.modes.kitty_flags == 0


def test_a_soft_reset_keeps_the_screen_and_the_mouse(tape: FedScreen) -> None:
    tape.feed(b"\x1b[?1049;2004;1;1002h\x1b[?25;7l\x1b[4h\x1b[!p")
    snapshot = tape.screen.snapshot()
    assert (snapshot.alt_screen, snapshot.cursor_visible) == (True, True)
    assert tape.screen.bracketed_paste
    assert tape.screen.modes.mouse == 1002
    assert not tape.screen.modes.application_cursor_keys
    assert [reply.data[-3:-2] for reply in tape.feed(b"\x1b[?7$p\x1b[4$p")] == [b"1", b"2"]


def test_the_cursor_can_be_hidden(tape: FedScreen) -> None:
    tape.feed(b"\x1b[?25l")
    assert not tape.screen.snapshot().cursor_visible
    tape.feed(b"\x1b[?25h")
    assert tape.screen.snapshot().cursor_visible
