"""Byte ranges, by the table of RFC 9110 and by what must hold of any header."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dragoman.dialects.ranges import Asked, Part, Unsatisfiable, Whole, asked_range


@pytest.mark.parametrize(
    ("header", "size", "asked"),
    [
        (None, 10, Whole()),
        ("bytes=0-0", 10, Part(0, 1)),
        ("bytes=2-4", 10, Part(2, 5)),
        ("BYTES=2-4", 10, Part(2, 5)),
        ("bytes= 2-4\t", 10, Part(2, 5)),
        ("bytes=,2-4,,", 10, Part(2, 5)),
        ("bytes=0-9", 10, Part(0, 10)),
        ("bytes=9-", 10, Part(9, 10)),
        ("bytes=0-", 10, Part(0, 10)),
        ("bytes=5-9999999999", 10, Part(5, 10)),
        ("bytes=-1", 10, Part(9, 10)),
        ("bytes=-10", 10, Part(0, 10)),
        ("bytes=-11", 10, Part(0, 10)),
        ("bytes=007-008", 10, Part(7, 9)),
        ("bytes=10-", 10, Unsatisfiable()),
        ("bytes=10-20", 10, Unsatisfiable()),
        ("bytes=-0", 10, Unsatisfiable()),
        ("bytes=0-", 0, Unsatisfiable()),
        ("bytes=-0", 0, Unsatisfiable()),
        ("bytes=-5", 0, Whole()),
        ("bytes=4-2", 10, Whole()),
        ("bytes=20-15", 10, Whole()),
        ("bytes=0-1,3-4", 10, Whole()),
        ("bytes=0-1,20-30", 10, Whole()),
        ("bytes=-", 10, Whole()),
        ("bytes=", 10, Whole()),
        ("bytes=,", 10, Whole()),
        ("bytes", 10, Whole()),
        ("", 10, Whole()),
        ("bytes=a-b", 10, Whole()),
        ("bytes=1 - 2", 10, Whole()),
        ("bytes=+1-2", 10, Whole()),
        ("bytes=1-2\n", 10, Whole()),
        ("bytes=--2", 10, Whole()),
        ("bytes=0x1-2", 10, Whole()),
        ("bytes=1_0-", 100, Whole()),
        ("bytes=\u0661-\u0662", 10, Whole()),
        ("lines=0-1", 10, Whole()),
        (" bytes=0-1", 10, Whole()),
        ("bytes =0-1", 10, Whole()),
        ("bytes=" + "9" * 5000 + "-", 10, Whole()),
    ],
)
def test_a_header_and_what_it_comes_to(header: str | None, size: int, asked: Asked) -> None:
    assert asked_range(header, size) == asked


def test_what_the_answer_says_of_itself() -> None:
    assert Part(2, 5).content_range(10) == "bytes 2-4/10"
    assert Unsatisfiable().content_range(10) == "bytes */10"


NUMBERS = st.integers(0, 40) | st.integers(0, 10**19 - 1)


@given(first=NUMBERS, last=NUMBERS | st.none(), size=st.integers(0, 40))
def test_a_range_is_the_bytes_that_it_names(first: int, last: int | None, size: int) -> None:
    body = bytes(range(size))
    asked = asked_range(f"bytes={first}-{'' if last is None else last}", size)
    named = bytes(at for at in body if first <= at and (last is None or at <= last))
    if last is not None and last < first:
        assert asked == Whole()
    elif isinstance(asked, Part):
        assert body[asked.start : asked.stop] == named != b""
    else:
        assert asked == Unsatisfiable()
        assert named == b""


@given(length=NUMBERS, size=st.integers(0, 40))
def test_a_suffix_is_the_last_bytes(length: int, size: int) -> None:
    body = bytes(range(size))
    asked = asked_range(f"bytes=-{length}", size)
    if isinstance(asked, Part):
        assert body[asked.start : asked.stop] == body[max(0, size - length) :] != b""
    else:
        assert asked == (Whole() if length else Unsatisfiable())
        assert not (length and size)


@given(header=st.text() | st.text("bytes=0123456789-, \t", max_size=20).map("bytes=".__add__), size=st.integers(0, 99))
@example(header="bytes=-", size=0)
def test_whatever_is_asked_a_part_lies_within_the_body(header: str, size: int) -> None:
    asked = asked_range(header, size)
    if isinstance(asked, Part):
        assert 0 <= asked.start < asked.stop <= size
