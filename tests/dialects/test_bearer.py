"""How a bearer token is read: one way for all dialects."""

from __future__ import annotations

import pytest

from dragoman.dialects.base import Upgrade
from dragoman.dialects.bearer import bearer_of


@pytest.mark.parametrize(
    ("values", "token"),
    [
        ([b"Bearer abc"], "abc"),
        ([b"bearer abc"], "abc"),
        ([b"BEARER abc"], "abc"),
        ([b"  Bearer   abc  "], "abc"),
        ([b"Bearer a b"], "a b"),
        ([b"Bearer \xff"], "\xff"),
        ([], None),
        ([b""], None),
        ([b"Bearer"], None),
        ([b"Bearer   "], None),
        ([b"Basic YTpi"], None),
        ([b"abc"], None),
        ([b"Bearerabc"], None),
        ([b"Bearer abc", b"Bearer abc"], ""),
        ([b"Basic YTpi", b"Bearer abc"], ""),
    ],
    ids=str,
)
def test_bearer_tokens_are_read(values: list[bytes], token: str | None) -> None:
    headers = [(b"host", b"x"), *((b"authorization", value) for value in values)]
    assert bearer_of(headers) == token


def test_an_upgrade_shows_no_token() -> None:
    upgrade = Upgrade(path="/ws", query={"token": "s3cret"}, bearer="s3cret", peer="127.0.0.1", loopback=True)
    assert "s3cret" not in f"{upgrade!r} {upgrade}"
