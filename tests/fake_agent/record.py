"""The record of what was true: one JSON line for each state and each effect, at the moment it begins."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any


class Record:
    """Appends to a file, or to nothing. Each line is one write, so that a reader never sees half a line for long."""

    def __init__(self, path: str | None) -> None:
        self._file = None if path is None else os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def state(self, state: str, **more: Any) -> None:
        """From now on this is true."""
        self._write({"state": state, **more})

    def effect(self, effect: str, **more: Any) -> None:
        """Something took effect now."""
        self._write({"effect": effect, **more})

    def _write(self, entry: dict[str, Any]) -> None:
        if self._file is not None:
            line = json.dumps({"at": int(time.time() * 1000), **entry}, ensure_ascii=False)
            os.write(self._file, line.encode() + b"\n")


def read(path: Path) -> list[dict[str, Any]]:
    """All whole lines so far."""
    if not path.exists():
        return []
    whole, _, _ = path.read_bytes().rpartition(b"\n")
    return [json.loads(line) for line in whole.splitlines() if line]
