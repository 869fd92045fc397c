"""Content codings are undone whole, and never beyond the room there is."""

import gzip
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.agents.native.web.inflate import CodingFailed, Inflater, decoder

CODINGS = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "x-gzip": lambda data: gzip.compress(data[:9]) + gzip.compress(data[9:]),
    "identity": bytes,
}


@given(st.sampled_from(sorted(CODINGS)), st.binary(max_size=3000), st.lists(st.integers(1, 500), min_size=1))
def test_however_it_is_cut_the_body_comes_whole(coding: str, body: bytes, cuts: list[int]) -> None:
    undo = decoder(coding)
    packed = CODINGS[coding](body)
    given_back = b""
    while packed:
        size = cuts.pop() if cuts else len(packed)
        given_back += undo.feed(packed[:size], 10_000)
        packed = packed[size:]
    undo.end()
    assert given_back == body


@given(st.sampled_from(sorted(CODINGS)), st.integers(1, 5000))
def test_no_more_is_given_than_there_is_room_for(coding: str, room: int) -> None:
    assert decoder(coding).feed(CODINGS[coding](b"a" * 1_000_000), room) == b"a" * room


@given(st.sampled_from(["gzip", "deflate"]), st.lists(st.binary(min_size=1)))
def test_any_bytes_are_undone_or_refused(coding: str, pieces: list[bytes]) -> None:
    undo = Inflater(coding)
    try:
        for piece in pieces:
            assert len(undo.feed(piece, 100)) <= 100
        undo.end()
    except CodingFailed:
        return


@pytest.mark.parametrize("header", ["br", "zstd", "gzip, deflate", "gzip, gzip", "compress", "x" * 500, "ünicode"])
def test_other_codings_are_refused_by_name(header: str) -> None:
    with pytest.raises(CodingFailed, match="unsupported content encoding") as refused:
        decoder(header)
    assert len(str(refused.value)) < 100


@pytest.mark.parametrize("header", ["", " ", "identity", "gzip, identity", " GZIP "])
def test_codings_are_names_in_any_case(header: str) -> None:
    decoder(header)
