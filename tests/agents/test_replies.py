"""Our answers, and how a viewer's are recognised."""

from __future__ import annotations

import pytest

from dragoman.agents.terminal.findings import Reply
from dragoman.agents.terminal.replies import ANSWER, palette_colour, query_kind
from dragoman.agents.terminal.screen import PyavtScreen

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
