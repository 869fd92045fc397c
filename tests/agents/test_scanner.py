"""The side scanner: what it finds, wherever the bytes are cut, and that it follows the model's own parser."""

from __future__ import annotations

import avt
import pytest
from hypothesis import given, settings

from dragoman.agents.terminal.limits import MAX_CONTROL_SEQUENCE, MAX_CONTROL_STRING
from dragoman.agents.terminal.modes import Modes
from dragoman.agents.terminal.scanner import Csi, Esc, Osc, Scanner, Token
from dragoman.agents.terminal.utf8 import Utf8Reader

from .terminal_streams import pieces


class Reader:
    """What the screen does with a chunk before it draws."""

    def __init__(self) -> None:
        self.scanner = Scanner()
        self.offset = 0
        self._utf8 = Utf8Reader()

    def read(self, data: bytes) -> list[Token]:
        piece = self._utf8.read(data, self.offset)
        self.offset += len(data)
        return self.scanner.scan(piece.data, piece.locate)


def scan(*chunks: bytes) -> list[Token]:
    reader = Reader()
    return [token for chunk in chunks for token in reader.read(chunk)]


def found(*chunks: bytes) -> list[object]:
    """What the tokens say, without their offsets."""
    return [summary(token)[1:] for token in scan(*chunks)]


def summary(token: Token) -> tuple[object, ...]:
    match token:
        case Csi(origin, body):
            return (origin, "csi", body)
        case Osc(origin, body, bel):
            return (origin, "osc", body, bel)
        case Esc(origin, body):
            return (origin, "esc", body)


def csi(*bodies: bytes) -> list[object]:
    return [("csi", body) for body in bodies]


@pytest.mark.parametrize(
    "data",
    [
        b"plain text\r\n",
        b"\x1b[31mred\x1b[0m \x1b[1;38;2;1;2;3mx\x1b[m",
        b"\x1b[H\x1b[3;4r\x1b[K\x1b[12X\x1b[3A\x1b[@",
        b"\x1b7\x1b8\x1bM\x1bD\x1b(B\x1b)0\x1b=\x1b>\x1b#3",
        "wide 世界 é".encode(),
    ],
)
def test_drawing_is_of_no_interest(data: bytes) -> None:
    assert scan(data) == []


def test_a_sequence_tells_where_it_stands() -> None:
    assert scan(b"ab\x1b[?1049hcd\x1b[6n") == [Csi(2, b"?1049h", 2, 10), Csi(12, b"6n", 12, 16)]


def test_offsets_count_the_bytes_of_the_tape_in_damaged_chunks_too() -> None:
    data = b"\xff\xffab\xe4\xb8\x1b[6n\x80\xc3\xa9\xfe\x1b[5n"
    assert [token.origin for token in scan(data)] == [data.index(b"\x1b[6n"), data.index(b"\x1b[5n")]


def test_a_sequence_cut_in_two_begins_where_its_first_byte_was() -> None:
    reader = Reader()
    assert reader.read(b"ab\x1b[?10") == []
    assert reader.scanner.unfinished == 2
    assert reader.read(b"49hcd") == [Csi(2, b"?1049h", 0, 3)]
    assert reader.scanner.unfinished is None


def test_a_string_tells_how_it_ended() -> None:
    assert scan(b"\x1b]0;a\x07\x1b]2;b\x1b\\") == [Osc(0, b"0;a", True), Osc(6, b"2;b", False)]


@pytest.mark.parametrize(
    "data",
    [
        b"\x1b]0;[?1049h\x07",
        b"\x1bP[?1049h\x07[?1049h\x1b\\",
        b"\x1b_G[?1049h\x07\x1b\\",
        b"\x1b^[?1049h\x1b\\",
        b"\x1bX[?1049h\x1b\\",
        b"\xc2\x90[?1049h\xc2\x9c",
        b"\x1b]" + b"x" * (MAX_CONTROL_STRING + 1) + b"[?1049h\x07",
    ],
)
def test_what_stands_in_a_string_does_not_count(data: bytes) -> None:
    assert [item for item in found(data) if item[0] == "csi"] == []
    assert found(data + b"\x1b[?25l")[-1:] == csi(b"?25l")


@pytest.mark.parametrize("abort", [b"\x18", b"\x1a"])
def test_cancel_and_substitute_abort(abort: bytes) -> None:
    assert found(b"\x1b[?1049" + abort + b"h\x1b[6n") == csi(b"6n")
    assert found(b"\x1b" + abort + b"[6n") == []
    assert found(b"\x1b]0;a" + abort + b"b\x07\x1b[6n") == csi(b"6n")
    assert found(b"\x1bPabc" + abort + b"\x1b[6n") == csi(b"6n")


def test_escape_begins_a_new_sequence() -> None:
    assert found(b"\x1b[?1049\x1b[6n") == csi(b"6n")
    assert found(b"\x1b\x1b[6n") == csi(b"6n")
    assert found(b"\x1b(\x1b[6n") == csi(b"6n")
    assert found(b"\x1b]0;a\x1b[6n\x07") == csi(b"6n")
    assert found(b"\x1bPa\x1bcb") == [("esc", b"c")]


@pytest.mark.parametrize("inside", [b"\n", b"\x00", b"\x07", b"\x7f", b"\r\n\t"])
def test_controls_inside_a_sequence_do_not_end_it(inside: bytes) -> None:
    assert found(b"\x1b" + inside + b"[?10" + inside + b"49h") == csi(b"?1049h")


def test_eight_bit_controls_count_when_written_as_characters() -> None:
    assert found("\x9b6n\x9d0;a\x9c".encode()) == [*csi(b"6n"), ("osc", b"0;a", False)]
    assert found(b"\x9b6n") == []  # not UTF-8: the byte is dropped


@pytest.mark.parametrize(
    "data",
    [
        "é\x1b[?1049hü\x1b]0;títle\x1b\\\x1b]2;x\x1b[6n\x1bPq\x1b\\\x1bc".encode(),
        "\x9b6n\x9d0;a\x9c\x1b[?1\n049l".encode(),
        b"\xff\x1b[\xfe6n\xe4\xb8\x1b]0;a\xe4\x07\x1b]1\x1b\x1b[5n",
    ],
)
def test_cuts_make_no_difference(data: bytes) -> None:
    whole = [summary(token) for token in scan(data)]
    assert whole
    for cut in range(1, len(data)):
        assert [summary(token) for token in scan(data[:cut], data[cut:])] == whole, f"cut at {cut}"
    assert [summary(token) for token in scan(*(bytes((byte,)) for byte in data))] == whole


@settings(max_examples=400, deadline=None, derandomize=True, database=None)
@given(pieces)
def test_cuts_make_no_difference_in_any_stream(chunks: list[bytes]) -> None:
    whole = b"".join(chunks)
    assert [summary(token) for token in scan(*chunks)] == [summary(token) for token in scan(whole)]
    assert all(whole[token.origin : token.origin + 1] in b"\x1b\xc2" for token in scan(whole))


@settings(max_examples=600, deadline=None, derandomize=True, database=None)
@given(pieces)
def test_it_agrees_with_the_model_about_the_alternate_screen(chunks: list[bytes]) -> None:
    modes = Modes()
    for token in scan(*chunks):
        if isinstance(token, Csi):
            modes.apply(token.body)
        elif isinstance(token, Esc) and token.body == b"c":
            modes.reset()
    model = avt.Vt(20, 6, 10)
    model.feed_str(b"".join(chunks).decode(errors="ignore"))
    dump = model.dump()
    assert modes.alt_screen == (dump.rfind("?1047h") > dump.rfind("?1047l"))
    if b"!p" not in b"".join(chunks):  # the engine forgets to show the cursor again
        assert modes.cursor_visible == model.cursor.visible


def test_a_string_without_end_is_given_up_and_costs_no_memory() -> None:
    reader = Reader()
    reader.read(b"\x1b]0;")
    for _ in range(MAX_CONTROL_STRING // 4096 + 1):
        assert reader.scanner.unfinished in {0, None}
        assert reader.read(b"x" * 4096) == []
    assert reader.scanner.unfinished is None
    assert reader.read(b"still inside [?1049h") == []
    assert reader.read(b"\x07\x1b[6n") == [Csi(reader.offset - 4, b"6n", 1, 5)]


def test_a_string_up_to_the_limit_is_read() -> None:
    body = b"0;" + b"x" * (MAX_CONTROL_STRING - 2)
    assert found(b"\x1b]" + body + b"\x07") == [("osc", body, True)]
    assert found(b"\x1b]" + body + b"x\x07") == []


@pytest.mark.parametrize("start", [b"\x1b[?", b"\x1b\x00", b"\x1b("])
def test_a_sequence_without_end_is_given_up(start: bytes) -> None:
    filler = {b"\x1b[?": b"0", b"\x1b\x00": b"\x00", b"\x1b(": b"#"}[start]
    reader = Reader()
    reader.read(start)
    for _ in range(3):
        assert reader.read(filler * MAX_CONTROL_SEQUENCE) == []
    assert len(reader.scanner._held) <= MAX_CONTROL_SEQUENCE
    if start == b"\x1b[?":
        assert reader.read(b"1049h\x1b[6n")[-1].body == b"6n"  # its end is found, but it means nothing
        assert Modes().report(1049, private=True) == 2


def test_abandon_forgets_what_is_unfinished() -> None:
    for start in (b"\x1b[?10", b"\x1b]0;a", b"\x1b]0;a\x1b", b"\x1bPabc", b"\x1b"):
        reader = Reader()
        reader.read(start)
        reader.scanner.abandon()
        assert reader.scanner.unfinished is None
        assert [summary(token)[1:] for token in reader.read(b"49h\x1b[6n")] == csi(b"6n")
