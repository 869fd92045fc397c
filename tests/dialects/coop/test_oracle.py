"""The checker itself must see what it is there to see."""

from __future__ import annotations

import pytest

from .oracle import OffsetOracle
from .programs import pattern


def test_contiguous_chunks_are_clean():
    oracle = OffsetOracle(truth=b"abcdef", base=10)
    oracle.pushed(10, b"abc")
    oracle.pushed(13, b"def")
    assert (oracle.gaps, oracle.overlaps, oracle.conflicts) == ([], [], [])
    assert oracle.joined(10, 16) == b"abcdef"


def test_a_jump_is_a_gap_until_a_replay_fills_it():
    oracle = OffsetOracle()
    oracle.pushed(0, b"ab")
    oracle.pushed(4, b"ef")
    assert oracle.gaps == [(2, 4)]
    with pytest.raises(AssertionError):
        oracle.joined(0, 6)
    oracle.take({"event": "replay_result", "offset": 1, "data": "YmNkZQ=="})
    assert oracle.joined(0, 6) == b"abcdef"
    assert oracle.overlaps == []


def test_a_repeated_chunk_is_an_overlap_even_with_the_right_bytes():
    oracle = OffsetOracle()
    oracle.pushed(0, b"abcd")
    oracle.pushed(2, b"cdef")
    assert oracle.overlaps == [(2, 4)]
    assert oracle.conflicts == []


def test_wrong_bytes_at_an_offset_are_a_conflict():
    oracle = OffsetOracle()
    oracle.pushed(0, b"abcd")
    oracle.learn(2, b"xy")
    assert oracle.conflicts == [(2, 4)]
    truthful = OffsetOracle(truth=b"abcd", base=0)
    truthful.pushed(1, b"abc")
    assert truthful.conflicts == [(1, 4)]


def test_every_line_of_the_pattern_names_its_place():
    whole = pattern(64 * 20)
    assert len(whole) == 64 * 20
    assert whole[64 * 7 :].startswith(b"00000007 ")
    assert pattern(100, 333) == whole[333:433]
