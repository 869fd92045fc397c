"""Base64 texts as they stand in messages."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as some
from msgspec import Raw

from dragoman.services.uploads.encoded import PIECE, Encoded
from dragoman.services.uploads.refused import UploadRefused

BYTES = PIECE // 4 * 3


def encoded(value: Any) -> Encoded:
    return Encoded(Raw(json.dumps(value).encode()), "File a")


def decoded(text: str) -> bytes:
    return b"".join(encoded(text).pieces())


def coded(data: bytes) -> str:
    return base64.b64encode(data).decode()


@given(some.binary(max_size=200))
@example(b"")
def test_bytes_come_out_as_they_went_in(data: bytes) -> None:
    for text in (coded(data), f"data:a/b;base64,{coded(data)}"):
        found = encoded(text)
        assert found.size == len(data)
        assert b"".join(found.pieces()) == data
        assert found.beginning(12) == data[:12]


@pytest.mark.parametrize("size", [BYTES - 1, BYTES, BYTES + 1, 2 * BYTES, 2 * BYTES + 2])
def test_long_texts_come_in_pieces(size: int) -> None:
    data = bytes(range(256)) * (size // 256 + 1)
    found = encoded("data:,%s" % coded(data[:size]))  # noqa: UP031
    pieces = list(found.pieces())
    assert b"".join(pieces) == data[:size]
    assert (found.size, len(pieces)) == (size, -(-size // BYTES))
    assert max(map(len, pieces)) <= BYTES


def test_a_slash_may_be_escaped_as_json_allows() -> None:
    data = b"\xff\xff\xff" * 10
    text = json.dumps(f"data:image/png;base64,{coded(data)}").replace("/", "\\/")
    found = Encoded(Raw(text.encode()), "File a")
    assert b"".join(found.pieces()) == data
    assert found.head == "data:image/png;base64"


@pytest.mark.parametrize(
    "text",
    [
        *("@@@@", "eHg", "eHg==", "eH=g", "e===", "=", "====", "eHh4\n", " eHh4", "eHh4 ", "eH-_", "eHh4eA", "ëHh4"),
        *("data:text/plain,hello", "data:text/plain;base64,eHh4,eHh4", "eHg=eHg=", "eHh4==eHh4", "data:;base64,=eHh"),
        *("A" * (PIECE - 4) + "AAA=" + "AAAA", "A" * PIECE + "=AAA", "A" * PIECE + "A", "A" * PIECE + "@AAA"),
    ],
    ids=range(22),
)
def test_what_is_no_base64_is_refused(text: str) -> None:
    with pytest.raises(UploadRefused, match=r"^File a: data is not valid base64$"):
        decoded(text)


@given(some.text("aZ0+/=-_@ \n,", max_size=12))
def test_a_text_is_decoded_as_the_library_does_or_refused(text: str) -> None:
    body = text.partition(",")[2] if "," in text else text
    try:
        wanted: bytes | None = base64.b64decode(body, validate=True)
    except ValueError:
        wanted = None
    if wanted is not None and base64.b64encode(wanted).decode()[:-3] != body[:-3]:
        wanted = None
    try:
        assert decoded(text) == wanted
    except UploadRefused:
        assert wanted is None


@pytest.mark.parametrize("value", [None, 1, True, [], {}, ["a"], {"a": "b"}], ids=str)
def test_another_value_is_no_text(value: Any) -> None:
    with pytest.raises(UploadRefused, match=r"^File a: data must be a base64 text$"):
        encoded(value)


@pytest.mark.parametrize("raw", [b"", b'"', b'"\\ud800"', b'"\\x"'], ids=["nothing", "open", "half", "escape"])
def test_what_no_json_writer_gives_is_refused(raw: bytes) -> None:
    with pytest.raises(UploadRefused, match=r"^File a: data must be a base64 text$"):
        Encoded(Raw(raw), "File a")
