"""What a command said, cut anywhere and as long as it likes, is bounded text of whole characters."""

from __future__ import annotations

import re
from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from dragoman.agents.native.tools.command_output import SHOWN, Output

TEXT = st.text(st.sampled_from("aä€\U0001f98a\n"), max_size=1200)
CUTS = st.lists(st.integers(min_value=1, max_value=400), max_size=30)
MOST = 200


def pieces(data: bytes, cuts: Iterable[int]) -> Iterable[bytes]:
    for cut in cuts:
        yield data[:cut]
        data = data[cut:]
    yield data


def fed(data: bytes, cuts: Iterable[int], most: int = MOST) -> Output:
    said = Output(most)
    for piece in pieces(data, cuts):
        said.feed(piece)
    said.finish()
    return said


@given(TEXT, CUTS, st.integers(min_value=0, max_value=100))
def test_beginning_and_end_are_kept_and_what_is_missing_is_counted(text: str, cuts: list[int], spare: int) -> None:
    kept = fed(text.encode(), cuts).text(spare)
    if len(text) <= MOST - spare:
        assert kept == text
        return
    assert len(kept) <= MOST - spare
    gap = re.search(r"\n\[(\d+) characters left out\]\n", kept)
    assert gap is not None
    start, end = kept[: gap.start()], kept[gap.end() :]
    assert text.startswith(start)
    assert text.endswith(end)
    assert len(start) + int(gap[1]) + len(end) == len(text)
    assert abs(len(start) - len(end)) <= 1


def test_a_character_cut_at_every_byte_is_whole() -> None:
    data = "aä€\U0001f98a".encode() * 3
    for cut in range(1, len(data)):
        assert fed(data, [cut]).text() == data.decode()
    assert fed(data, [1] * len(data)).text() == data.decode()


@given(st.binary(max_size=600), CUTS)
def test_any_bytes_become_text_that_can_be_sent_and_holds_no_nul(data: bytes, cuts: list[int]) -> None:
    text = fed(data, cuts, most=1000).text()
    assert "\0" not in text
    assert text == data.decode(errors="replace").replace("\0", "\u2400")


def test_a_character_that_was_never_finished_is_replaced_once_all_is_over() -> None:
    said = Output(MOST)
    said.feed(b"a\xf0\x9f")
    assert said.text() == "a"
    said.finish()
    assert said.text() == "a\ufffd"


def test_what_was_seen_is_not_shown_again() -> None:
    said = Output(MOST)
    said.feed(b"one")
    assert said.unseen() == "one"
    assert said.unseen() == ""
    said.feed(b"two")
    said.feed(b"three")
    assert said.unseen() == "twothree"
    for _ in range(30):
        said.feed(b"x" * 999)
    shown = said.unseen()
    assert shown == f"[{30 * 999 - SHOWN} characters left out]\n" + "x" * SHOWN


def test_an_endless_stream_takes_no_endless_memory() -> None:
    said = Output(MOST)
    for _ in range(50_000):
        said.feed(b"x" * 20)
    assert said._newest.kept < 2 * MOST
    assert said._unseen.kept < 2 * SHOWN
