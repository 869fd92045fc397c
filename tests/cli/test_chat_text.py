"""Text for a terminal: nothing that drives it gets through, and rows fit."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.cli.chat_text import Cleaner, Flow, clean, fit, one_line, plain, visible, width, wrap

NASTY = st.text(
    st.one_of(st.characters(), st.sampled_from("\x1b[]m;0?2J\x07\x9b\x9c\x9d\\\r\n\t\u202e\u200dP~ 漢\ud800")),
    max_size=60,
)
WRITTEN = st.text(st.sampled_from("ab é漢字👩\u200d💻 \n"), max_size=80)


def harmless(text: str) -> bool:
    return all(letter == "\n" or letter.isprintable() or letter in "\u200c\u200d" for letter in text)


@pytest.mark.parametrize(
    ("given", "left"),
    [
        ("plain, ünïcödé 漢字 👍\n", "plain, ünïcödé 漢字 👍\n"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;your title\x07said", "said"),
        ("\x1b]52;c;ZXZpbA==\x1b\\said", "said"),
        ("\x1bP+q544e\x1b\\said", "said"),
        ("\x1b]0;never ended\nthe rest is shown", "]0;never ended\nthe rest is shown"),
        ("\x1b[2J\x1b[Hgone", "gone"),
        ("\x9b2Jeight bits", "eight bits"),
        ("back\x08\x08\x7fspace\x07", "backspace"),
        ("over\rwritten", "overwritten"),
        ("a\tb", "a    b"),
        ("non\xa0breaking\u2028line", "non breaking line"),
        ("user\u202egnp.exe", "usergnp.exe"),
        ("half \ud83d a pair", "half \N{REPLACEMENT CHARACTER} a pair"),
    ],
)
def test_what_drives_a_terminal_is_taken_out(given: str, left: str) -> None:
    assert clean(given) == left


@given(NASTY)
def test_nothing_else_gets_through(text: str) -> None:
    assert harmless(clean(text))
    assert harmless(visible(text))


@given(st.lists(NASTY, max_size=6))
def test_nor_in_pieces(pieces: list[str]) -> None:
    cleaner = Cleaner()
    joined = "".join([*(cleaner.feed(piece) for piece in pieces), cleaner.end()])
    assert harmless(joined)
    assert joined == clean("".join(pieces)), "where it is cut makes no difference"


def test_a_sequence_that_is_cut_in_two_is_one() -> None:
    cleaner = Cleaner()
    assert [cleaner.feed(piece) for piece in ("before \x1b", "[3", "1mred", "\x1b]0;t", "itle\x1b", "\\ after")] == [
        "before ",
        "",
        "red",
        "",
        "",
        " after",
    ]


def test_a_sequence_that_never_ends_swallows_nothing_for_ever() -> None:
    cleaner = Cleaner()
    said = cleaner.feed("\x1b]0;") + "".join(cleaner.feed("word ") for _ in range(100)) + cleaner.end()
    assert said.count("word") == 100


@pytest.mark.parametrize(
    ("given", "seen"),
    [
        ("rm -rf x\x1b[8m; ls", "rm -rf x␛[8m; ls"),
        ("a\rb\x00\x7f", "a␍b␀␡"),
        ("two\r\nlines", "two\nlines"),
        ("turned\u202e", "turned\N{REPLACEMENT CHARACTER}"),
    ],
)
def test_what_is_to_be_permitted_hides_nothing(given: str, seen: str) -> None:
    assert visible(given) == seen


@pytest.mark.parametrize(
    ("text", "columns", "rows"),
    [
        ("a short line", 20, ["a short line"]),
        ("words go to the next row", 10, ["words go", "to the", "next row"]),
        ("  indented stays", 12, ["  indented", "stays"]),
        ("unbreakablelongword", 8, ["unbreaka", "blelongw", "ord"]),
        ("漢字漢字漢字", 5, ["漢字", "漢字", "漢字"]),
        ("exactly ten", 11, ["exactly ten"]),
        ("", 10, [""]),
    ],
)
def test_a_line_is_wrapped_at_words(text: str, columns: int, rows: list[str]) -> None:
    assert [plain(row) for row in wrap([("", text)], columns)] == rows


def test_styles_stay_with_their_words() -> None:
    assert wrap([("dim", "one "), ("bad", "two three")], 8) == [[("dim", "one "), ("bad", "two")], [("bad", "three")]]


@given(WRITTEN.filter(lambda text: "\n" not in text), st.integers(2, 30))
def test_no_row_is_wider_and_no_word_is_lost(text: str, columns: int) -> None:
    rows = [plain(row) for row in wrap([("", text)], columns)]
    assert all(width(row) <= columns for row in rows)
    assert "".join(rows).replace(" ", "") == text.replace(" ", "")
    assert [row for one in rows for row in map(plain, wrap([("", one)], columns))] == rows


@given(WRITTEN, st.lists(st.integers(0, 80), max_size=8), st.integers(2, 30))
def test_a_text_that_grows_is_wrapped_as_if_it_came_at_once(text: str, cuts: list[int], columns: int) -> None:
    at_once, flow = Flow(), Flow()
    places = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    rows = [row for start, end in pairwise(places) for row in flow.feed(text[start:end], columns)]
    assert rows + flow.end() == at_once.feed(text, columns) + at_once.end()
    assert all(width(row) <= columns for row in rows)


def test_a_row_that_is_cut_says_so() -> None:
    assert fit("0123456789", 10) == "0123456789"
    assert fit("0123456789a", 10) == "012345678…"
    assert fit("漢字漢字", 5) == "漢字…"
    assert one_line("  two\n lines\x1b[1m ", 40) == "two lines"
