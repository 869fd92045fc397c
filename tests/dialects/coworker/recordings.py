"""The original's recorded conversations, where they are at hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[4] / "shared" / "frames" / "coworker"
"""Beside the repository: the recordings are no part of it."""

recorded = pytest.mark.skipif(not FOLDER.is_dir(), reason="the recordings are not here")


def names() -> list[str]:
    """Every scenario; none where there are no recordings."""
    return sorted(path.stem for path in FOLDER.glob("*.jsonl"))


def received(name: str, *types: str) -> list[dict[str, Any]]:
    """The frames of these types that the original sent in a scenario, in order."""
    lines = (FOLDER / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    frames = (line["frame"] for line in map(json.loads, lines) if line["dir"] == "recv")
    return [frame for frame in frames if frame["type"] in types]
