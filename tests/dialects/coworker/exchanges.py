"""Recordings of the original server, where they are at hand: beside the repository."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

FRAMES = Path(__file__).parents[3].parent / "shared" / "frames" / "coworker"


def lines(scenario: str) -> Iterator[dict[str, Any]]:
    """What happened, line by line. Skips the test where there are no recordings."""
    path = FRAMES / f"{scenario}.jsonl"
    if not path.exists():
        pytest.skip(f"no recordings in {FRAMES}")
    yield from map(msgspec.json.decode, path.read_bytes().splitlines())


def exchanges(scenario: str) -> Iterator[tuple[str | bytes, dict[str, Any]]]:
    """What was sent, with the first frame that came after it."""
    sent: str | bytes | None = None
    for line in lines(scenario):
        if line["dir"] == "send":
            sent = msgspec.json.encode(line["frame"]).decode()
        elif line["dir"] == "send_raw":
            data = line["data"]
            sent = data if isinstance(data, str) else data["binary_utf8"].encode()
        elif line["dir"] == "recv" and sent is not None:
            yield sent, line["frame"]
            sent = None
