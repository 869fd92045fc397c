"""How a token is compared."""

from __future__ import annotations

import hmac

import pytest

from dragoman.server.serve import _token_check


def test_every_comparison_takes_the_same_time_wherever_they_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time itself is too noisy to be measured: it is the function made for it that compares."""
    compared: list[tuple[bytes, bytes]] = []
    plain = hmac.compare_digest

    def counting(one: bytes, other: bytes) -> bool:
        compared.append((one, other))
        return plain(one, other)

    monkeypatch.setattr(hmac, "compare_digest", counting)
    right = _token_check("s3cret")
    assert [right(given) for given in ("s3cret", "", "s", "s3creT", "x" * 1000, "\udcff")] == [True] + [False] * 5
    assert len(compared) == 6
    assert right(None) is False
