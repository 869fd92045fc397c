"""Arrays that are gone through in pieces hold what a decoder finds in them."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as some
from msgspec import Raw

from dragoman.services.uploads.elements import elements

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


@pytest.mark.parametrize("value", [[1] * 30_000, ["\\" * 30_000], [[]] * 30_000], ids=["items", "escapes", "arrays"])
def test_many_small_things_are_left_to_the_decoder(value: list[Any]) -> None:
    ours, theirs = both(json.dumps(value).encode())
    assert ours == theirs


@pytest.mark.parametrize("text", [b'"a"', b"{}", b"1", b"", b"[", b'["a', b"[1", b'["a\\'], ids=range(8))
def test_what_is_no_array_is_refused_as_the_decoder_does(text: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        elements(Raw(text), long=0)
