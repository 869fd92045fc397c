"""Whole characters out of a stream that is cut anywhere."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.agents.terminal.utf8 import Utf8Reader

noise = st.lists(
    st.one_of(
        st.binary(max_size=5),
        st.sampled_from(
            [b"ab", "é".encode(), "世".encode(), "🙂".encode(), b"\xed\xa0\x80", b"\xc0\xaf", b"\xf4\x90\x80\x80"]
        ),
    ),
    max_size=30,
)


@settings(max_examples=400, deadline=None, derandomize=True, database=None)
@given(noise)
def test_the_text_is_that_of_the_whole_without_what_is_no_text(chunks: list[bytes]) -> None:
    reader = Utf8Reader()
    offset, text = 0, ""
    for chunk in chunks:
        text += reader.read(chunk, offset).text
        offset += len(chunk)
    whole = b"".join(chunks)
    assert text == whole[: len(whole) - reader.pending].decode(errors="ignore")
    assert reader.pending <= 3


@settings(max_examples=400, deadline=None, derandomize=True, database=None)
@given(noise)
def test_every_position_is_found_again_on_the_tape(chunks: list[bytes]) -> None:
    reader = Utf8Reader()
    tape, offset = b"".join(chunks), 0
    for chunk in chunks:
        piece = reader.read(chunk, offset)
        offset += len(chunk)
        for position, byte in enumerate(piece.data):
            original = tape[piece.locate(position)]
            assert byte == original or original in range(0x80, 0xC3), "only C1 controls are written differently"


def test_eight_bit_controls_take_their_seven_bit_form_of_the_same_length() -> None:
    piece = Utf8Reader().read("a\x9b6n\x85é".encode(), 0)
    assert piece.data == b"a\x1b[6n\x1bE\xc3\xa9"
    assert piece.text == "a\x9b6n\x85é"


def test_an_unfinished_character_can_be_dropped() -> None:
    reader = Utf8Reader()
    assert reader.read(b"a\xe4\xb8", 0).text == "a"
    assert reader.pending == 2
    reader.drop()
    assert reader.pending == 0
    assert reader.read(b"b", 3).text == "b"
