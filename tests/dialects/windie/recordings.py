"""What the real clients said and were told, where the recordings are at hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[4] / "shared" / "frames" / "windie"
"""Beside the repository: the recordings are no part of it."""

recorded = pytest.mark.skipif(not FOLDER.is_dir(), reason="the recordings are not here")


def names() -> list[str]:
    """Every recording; none where there are none."""
    return sorted(path.stem for path in FOLDER.glob("*.jsonl"))


def frames(name: str, direction: str) -> list[dict[str, Any]]:
    """The frames of a recording's sockets that went this way (``c2s`` or ``s2c``), in order."""
    lines = (FOLDER / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    found = (line for line in map(json.loads, lines) if line["dir"] == direction and line["conn"] != "http")
    return [line["frame"] for line in found]
