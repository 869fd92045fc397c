"""Makes ``tests/data/onion/recorded`` of the full recordings (``python -m tests.dialects.onion.recorded.reduce DIR``).

What is left out is said in that folder's README. Nothing of what a client sent is, but for the permissions in a session
that it gives back: those are left out where the server said them, too.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from .console import of_seed
from .recording import FOLDER

_HEADERS = frozenset({"content-type", "access-control-allow-origin"})


def reduced(entry: dict[str, Any]) -> dict[str, Any]:
    """One line of a recording, without what nothing is compared with."""
    made: dict[str, Any] = _without_permissions(entry)
    frame = made.get("frame")
    if not isinstance(frame, dict):
        return made
    if made["dir"] == "s2c" and frame.get("type") == "session_sync":
        frame["session"] = {}
    if made["dir"] == "http<":
        frame["headers"] = {key: value for key, value in frame["headers"].items() if key in _HEADERS}
        body = frame["body"]
        if isinstance(body, dict) and "sessions" in body:
            body["sessions"] = []
        if isinstance(body, dict) and "_text" in body:
            body["_text"] = body["_text"][:15]
    return made


def _is_ping(entry: dict[str, Any]) -> bool:
    """Real clients took longer than half a minute now and then."""
    return isinstance(entry["frame"], dict) and entry["frame"].get("type") in ("PING", "PONG")


def _without_permissions(value: Any) -> Any:
    """A copy in which what is permitted is an empty object."""
    if isinstance(value, list):
        return [_without_permissions(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {key: {} if key == "permissions" else _without_permissions(item) for key, item in value.items()}


def main(source: Path) -> None:
    """Every scenario of a folder, and what its hosts said on their consoles of sockets and messages."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for path in sorted((*source.glob("*.jsonl"), *source.glob("clients/*.jsonl"))):
        full = [json.loads(line) for line in path.read_text("utf-8").split("\n") if line]
        client = path.parent != source
        if client:
            full = [entry for entry in full if entry["dir"] != "http" and not _is_ping(entry)]
        lines = [json.dumps(reduced(entry), ensure_ascii=False) for entry in full]
        name = f"client_{path.name}" if client else path.name
        (FOLDER / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    for path in sorted(source.glob("console-*.txt")):
        said = [line for line in path.read_text("utf-8").split("\n") if of_seed(line)]
        (FOLDER / path.name).write_text("".join(f"{line}\n" for line in said), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
