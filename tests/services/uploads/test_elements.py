"""Arrays that are gone through in pieces hold what a decoder finds in them."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as some
from msgspec import Raw

from dragoman.services.uploads.elements import MOST, TooManyElements, elements

JSON = some.recursive(
    some.none() | some.booleans() | some.integers(-9, 9) | some.text('a"\\/[]{},: é\n', max_size=8),
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(some.text('a"\\', max_size=3), inner, max_size=3),
    max_leaves=8,
)


def both(text: bytes) -> tuple[list[bytes], list[bytes]]:
    """What is found in pieces, and by the decoder."""
    ours = [bytes(it) for it in elements(Raw(text), long=0)]
    return ours, [bytes(it) for it in msgspec.json.decode(text, type=list[Raw])]


@given(some.lists(JSON, max_size=4), some.sampled_from([None, 1, "\t"]), some.booleans(), some.integers(0, 600))
@example([], None, True, 0)
@example([], None, True, 600)
@example(["\\"], None, True, 300)
def test_they_are_the_decoders(value: list[Any], indent: int | str | None, ascii_only: bool, spaces: int) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only).encode()
    gap = b" " * spaces
    ours, theirs = both(b"[" + gap + text[1:-1] + gap + b"]")
    assert ours == theirs
    assert [json.loads(it) for it in ours] == value


@pytest.mark.parametrize("size", [128 * 1024 - 1, 128 * 1024, 128 * 1024 + 1, 400_000])
@pytest.mark.parametrize("end", ["", "\\", '"', '\\"'], ids=["plain", "backslash", "quote", "both"])
def test_long_texts_end_where_they_end(size: int, end: str) -> None:
    value = [{"name": "a", "data": "x" * size + end}, "y" * size + end, end + "z"]
    ours, theirs = both(json.dumps(value).encode())
    assert ours == theirs


@pytest.mark.parametrize(
    "value", [[[1] * 30_000], ["\\" * 30_000], [[[]] * 30_000] * 256], ids=["items", "escapes", "arrays"]
)
def test_many_small_things_are_left_to_the_decoder(value: list[Any]) -> None:
    ours, theirs = both(json.dumps(value).encode())
    assert ours == theirs


@pytest.mark.parametrize("element", [b"0", b"[]", b'"\\\\"', b"{}"])
@pytest.mark.parametrize("long", [0, 1 << 30], ids=["in pieces", "at once"])
def test_an_array_of_millions_costs_nothing(element: bytes, long: int) -> None:
    array = Raw(b"[" + b",".join([element] * 1_000_000) + b"]")
    tracemalloc.start()
    try:
        with pytest.raises(TooManyElements):
            elements(array, long=long)
        assert tracemalloc.get_traced_memory()[1] < 1024 * 1024
    finally:
        tracemalloc.stop()


def test_as_many_as_are_taken() -> None:
    array = json.dumps([1] * MOST).encode()
    assert len(elements(Raw(array), long=0)) == len(elements(Raw(array))) == MOST
    for long in (0, 1 << 30):
        with pytest.raises(TooManyElements):
            elements(Raw(array[:-1] + b",1]"), long=long)


@pytest.mark.parametrize("text", [b'"a"', b"{}", b"1", b"", b"[", b'["a', b"[1", b'["a\\'], ids=range(8))
def test_what_is_no_array_is_refused_as_the_decoder_does(text: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        elements(Raw(text), long=0)
