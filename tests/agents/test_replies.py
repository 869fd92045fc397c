"""What a program asks of its terminal, our answers, and how those of a viewer are recognised."""

from __future__ import annotations

import pytest

from dragoman.agents.terminal.findings import Reply
from dragoman.agents.terminal.limits import MAX_REPLIES_PER_FEED
from dragoman.agents.terminal.replies import ANSWER, palette_colour, query_kind
from dragoman.agents.terminal.screen import PyavtScreen

from .fed_screen import FedScreen


@pytest.fixture
def tape() -> FedScreen:
    return FedScreen()


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


@pytest.mark.parametrize(("name", "query", "reply"), [(name, *pair) for name, pair in QUERIES.items()])
def test_each_query_has_its_answer_wherever_it_is_cut(name: str, query: bytes, reply: bytes) -> None:
    kind = name.partition(",")[0].partition(" ")[0]
    for cut in range(len(query)):
        tape = FedScreen()
        tape.feed(b"\r\nab")
        assert tape.feed(query[:cut], query[cut:]) == [Reply(4, kind, reply)]


def test_the_cursor_is_reported_as_it_is_at_that_point_of_the_stream(tape: FedScreen) -> None:
    findings = tape.feed("a\x1b[6n世\x1b[6n\r\n\x1b[6n\x1b[5;7H\x1b[6nend".encode())
    assert [finding.data for finding in findings] == [
        b"\x1b[1;2R",
        b"\x1b[1;4R",
        b"\x1b[2;1R",
        b"\x1b[5;7R",
    ]
    assert tape.lines() == ("a世", "", "", "", "      end", "")


def test_a_control_inside_the_question_moves_the_cursor_first(tape: FedScreen) -> None:
    assert tape.feed(b"ab\x1b[6\nn")[0].data == b"\x1b[2;3R"


def test_answers_keep_the_order_of_the_questions(tape: FedScreen) -> None:
    findings = tape.feed(b"\x1b]7501;?\x1b\\\x1b[>q\x1b[?u\x1b[c")
    assert [finding.kind for finding in findings] == ["program_status", "version", "kitty", "da1"]


def test_several_colours_in_one_question(tape: FedScreen) -> None:
    findings = tape.feed(b"\x1b]10;?;?\x07\x1b]4;0;?;1;#fff;15;?;999;?;x;?\x07")
    assert [finding.data.split(b";rgb:")[0] for finding in findings] == [
        b"\x1b]10",
        b"\x1b]11",
        b"\x1b]4;0",
        b"\x1b]4;15",
    ]


def test_answers_and_settings_are_no_questions(tape: FedScreen) -> None:
    assert tape.feed(b"\x1b]11;#000000\x07\x1b]4;1;rgb:00/00/00\x07\x1b[?62;22c\x1b[1;1R\x1b[?1u\x1b[0n") == []


def test_a_storm_of_questions_is_bounded(tape: FedScreen) -> None:
    storm = b"\x1b[6n\x1b]4;" + b";".join(b"%d;?" % n for n in range(256)) + b"\x07"
    assert len(tape.feed(storm * 20)) == MAX_REPLIES_PER_FEED
    assert len(tape.feed(b"\x1b[6n" * 100_000)) == MAX_REPLIES_PER_FEED
    assert len(tape.feed(b"\x1b[6n")) == 1


def test_the_keyboard_flags_are_those_the_program_set(tape: FedScreen) -> None:
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


QUESTIONS = (
    b"\x1b[c\x1b[>c\x1b[5n\x1b[6n\x1b[?6n\x1b[?u\x1b[>q\x1b[?2026$p\x1b[4$p\x1b[14t\x1b[16t\x1b[18t"
    b"\x1b]10;?\x07\x1b]11;?\x1b\\\x1b]12;?\x07\x1b]4;1;?\x07\x1b]7501;?\x1b\\"
)


def test_every_answer_of_ours_is_recognised_by_its_kind() -> None:
    replies = [finding for finding in PyavtScreen(80, 24).feed(QUESTIONS, 0) if isinstance(finding, Reply)]
    assert len(replies) == 17
    for reply in replies:
        match = ANSWER.fullmatch(reply.data)
        assert match is not None, reply
        assert match.lastgroup == reply.kind


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"\x1b[?1;2c", "da1"),
        (b"\x1b[>41;377;0c", "da2"),
        (b"\x1b[0n", "status"),
        (b"\x1b[12;40R", "cpr"),
        (b"\x1b[?12;40;1R", "dec_cpr"),
        (b"\x1b[?15u", "kitty"),
        (b"\x1bP>|kitty(0.38.1)\x1b\\", "version"),
        (b"\x1b[?2026;2$y", "mode"),
        (b"\x1b]11;rgb:1e1e/1e1e/2e2e\x1b\\", "colour"),
        (b"\x1b]4;7;rgba:ff/ff/ff/80\x07", "colour"),
        (b"\x1b]7501;?rev=1\x07", "program_status"),
    ],
)
def test_answers_of_other_terminals_are_recognised(data: bytes, kind: str) -> None:
    found = ANSWER.search(b"typed" + data + b"more")
    assert found is not None
    assert (found[0], found.lastgroup) == (data, kind)


@pytest.mark.parametrize(
    "data", [b"\x1b[A", b"\x1b[1;5A", b"\x1b[200~", b"\x1b[<0;1;1M", b"\x1b[97;5u", b"\x1b[15~", b"\x1bOP", b"\x1b"]
)
def test_keys_and_mouse_are_no_answers(data: bytes) -> None:
    assert ANSWER.search(data) is None


def test_what_is_no_question_has_no_kind() -> None:
    for body in (b"m", b"1c", b"7n", b"?1049h", b"$p", b"?$p", b"?999999$p", b">1u", b"8;1;1t", b"22;0t"):
        assert query_kind(body) is None


def test_the_palette_is_xterms() -> None:
    assert [palette_colour(index) for index in (0, 9, 16, 21, 231, 232, 255)] == [
        (0, 0, 0),
        (255, 0, 0),
        (0, 0, 0),
        (0, 0, 255),
        (255, 255, 255),
        (8, 8, 8),
        (238, 238, 238),
    ]
