"""tmux's control mode without tmux: replies, output, and the picture that a pane begins with."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from dragoman.agents.terminal.screen import PyavtScreen
from dragoman.agents.terminal.tmux import check_attach, tmux_environment
from dragoman.agents.terminal.tmux_control import FIELDS, ControlReader, fields_of, picture
from dragoman.hub.errors import InvalidRequest

from .fed_screen import FedScreen


def fed(data: bytes, cols: int, rows: int) -> PyavtScreen:
    screen = FedScreen(cols, rows)
    screen.feed(data)
    return screen.screen


class Heard:
    """A reader, and everything it said in order."""

    def __init__(self) -> None:
        self.said: list[object] = []
        self.reader = ControlReader(
            started=lambda: self.said.append("started"),
            output=lambda pane, data: self.said.append((pane, data)),
            notified=lambda name, rest: self.said.append((name, rest)),
        )

    def expect(self, *names: str) -> None:
        self.reader.expect(*[lambda lines, name=name: self.said.append((name, lines)) for name in names])


STREAM = (
    b"\x1bP1000p%begin 1 10 0\r\n%end 1 10 0\r\n%session-changed $0 work\r\n"
    b"%begin 1 11 1\r\none\r\n%output %0 no\r\n%end 1 10 1\r\n%end 1 11 1\r\n%begin 1 12 1\r\n%end 1 12 1\r\n"
    b"%output %0 a\\033\\015\\012\\134\xff\r\n%output %1 other\r\n%exit\r\n\x1b\\"
)


@pytest.mark.parametrize("step", [1, 7, len(STREAM)])
def test_a_stream_is_taken_apart_wherever_it_was_cut(step: int) -> None:
    heard = Heard()
    heard.expect("a", "b")
    for at in range(0, len(STREAM), step):
        heard.reader.feed(STREAM[at : at + step])
    assert heard.said == [
        "started",
        (b"session-changed", b"$0 work"),
        ("a", [b"one", b"%output %0 no", b"%end 1 10 1"]),
        ("b", []),
        (b"%0", b"a\x1b\r\n\\\xff"),
        (b"%1", b"other"),
        (b"exit", b""),
    ]


def test_an_error_fails_what_stood_behind_it_on_its_line_and_no_more() -> None:
    heard = Heard()
    heard.expect("a", "b", "c")
    heard.expect("d")
    heard.reader.feed(b"%begin 1 1 1\n%end 1 1 1\n%begin 1 2 1\nno\n%error 1 2 1\n%begin 1 3 1\n%end 1 3 1\n")
    assert heard.said == [("a", []), ("b", None), ("c", None), ("d", [])]


PLAIN = {
    **dict.fromkeys(FIELDS, "0"),
    "pane_height": "4",
    "scroll_region_lower": "3",
    "cursor_flag": "1",
    "wrap_flag": "1",
    "bracket_paste_flag": "",
}


def drawn(*, lines: Sequence[bytes], other: Sequence[bytes] = (), **more: str) -> bytes:
    return picture({**PLAIN, **more}, lines, other, b"", pasting=False)


def test_the_picture_has_its_lines_below_each_other() -> None:
    screen = fed(drawn(lines=[b"one", b"  \x1b[31mtwo", b"", b"1234567890"], cursor_x="4", cursor_y="1"), 10, 4)
    shown = screen.snapshot()
    assert shown.lines == ("one", "  two", "", "1234567890")
    assert (shown.cursor.row, shown.cursor.col, shown.cursor_visible, shown.alt_screen) == (1, 4, True, False)


def test_the_picture_has_the_modes_of_the_program() -> None:
    flags = {"cursor_flag": "0", "keypad_cursor_flag": "1", "bracket_paste_flag": "1", "mouse_sgr_flag": "1"}
    screen = fed(drawn(lines=[b"x"], **flags), 10, 4)
    assert (screen.snapshot().cursor_visible, screen.bracketed_paste) == (False, True)
    assert screen.modes.application_cursor_keys


def test_an_alternate_screen_has_the_other_one_behind_it() -> None:
    flags = {"alternate_on": "1", "alternate_saved_x": "2", "alternate_saved_y": "1"}
    data = drawn(lines=[b"above"], other=[b"below", b"$"], **flags)
    shown = fed(data, 10, 4).snapshot()
    assert (shown.lines[0], shown.alt_screen) == ("above", True)
    after = fed(data + b"\x1b[?1049l!", 10, 4).snapshot()
    assert (after.lines[:2], after.alt_screen) == (("below", "$ !"), False)


def test_a_scroll_region_goes_on_and_so_does_an_unfinished_sequence() -> None:
    pane = {**PLAIN, "scroll_region_upper": "1", "scroll_region_lower": "2", "cursor_y": "2"}
    data = picture(pane, [b"a", b"b", b"c", b"d"], (), rb"\033[3", pasting=True)
    screen = fed(data + b"1m\ne", 10, 4)
    assert screen.snapshot().lines == ("a", "c", "e", "d")
    assert screen.bracketed_paste


def test_a_variable_that_this_tmux_does_not_have_is_empty() -> None:
    assert fields_of(b"%1,0,12") == {"pane_id": "%1", "pane_dead": "0", "pane_pid": "12"}


@pytest.mark.parametrize(
    ("attach", "target"),
    [
        ("tmux:work", "=work:"),
        ("tmux:work:1.2", "=work:1.2"),
        ("tmux:%3", "%3"),
        ("tmux:$1", "$1"),
        ("tmux:=work:", "=work:"),
    ],
)
def test_the_name_is_taken_exactly(attach: str, target: str) -> None:
    assert check_attach(attach) == target


@pytest.mark.parametrize("attach", ["tmux:", "tmux", "work", "", "tmux:a\nb", "screen:", "screen:work"])
def test_what_names_no_session(attach: str) -> None:
    with pytest.raises(InvalidRequest, match="screen cannot" if attach == "screen:work" else "is not tmux:NAME"):
        check_attach(attach)


def test_our_client_is_not_inside_of_tmux_and_takes_no_secrets_there() -> None:
    ours = {"TMUX": "s,1,0", "TMUX_PANE": "%1", "TMUX_TMPDIR": "d", "API_KEY": "x", "DRAGOMAN_SESSION": "id"}
    assert tmux_environment(ours) == {"TMUX_TMPDIR": "d", "DRAGOMAN_SESSION": "id"}
