"""Makes the small copies of the recordings: ``python -m tests.dialects.cin.recorded.reduce FOLDER``.

What is left out says nothing: lists of sessions that are as the one before on the same socket, the second copy of what
a frame says under both names, what other sockets heard at that moment in the same words, and most of a page in HTML.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from .recording import DATA, NAMES

Entry = dict[str, Any]

HTML = "<!DOCTYPE html>"


def reduced(entries: list[Entry]) -> list[Entry]:
    """The entries that say something, each as short as it can be."""
    made: list[Entry] = []
    lists: dict[str, str] = {}
    spoken: dict[str, int] = {}
    for entry in entries:
        frame = entry["data"]
        if entry["dir"] == "recv":
            if frame["type"] == "sessions":
                told = json.dumps(_without_news(frame["data"]))
                if lists.get(entry["who"]) == told:
                    continue
                lists[entry["who"]] = told
            words = json.dumps(frame)
            first = spoken.get(words)
            if first is not None and made[first]["who"] != entry["who"] and entry["t"] - made[first]["t"] < 100:
                made.append({**entry, "data": {"as": first}})
                continue
            spoken[words] = len(made)
            if "data" in frame and frame.get("payload") == frame["data"]:
                frame = {"type": frame["type"], "both": frame["data"]}
        elif isinstance(frame, dict) and isinstance(frame.get("body"), str) and frame["body"].startswith(HTML):
            frame = {**frame, "body": HTML}
        made.append({**entry, "data": frame})
    return made


def _without_news(sessions: list[Entry]) -> list[Entry]:
    """The list without what changes by the clock."""
    found = []
    for session in sessions:
        git = {key: value for key, value in session.get("gitStatus", {}).items() if key != "lastChecked"}
        kept = {key: value for key, value in session.items() if key not in ("lastActivity", "gitStatus")}
        found.append({**kept, "gitStatus": git})
    return found


def main(folder: Path) -> None:
    """Read the recordings there, and write the copies."""
    DATA.mkdir(parents=True, exist_ok=True)
    for name in NAMES:
        entries = [json.loads(line) for line in (folder / f"{name}.jsonl").read_text("utf-8").splitlines()]
        lines = [json.dumps(entry, ensure_ascii=False, separators=(",", ":")) for entry in reduced(entries)]
        (DATA / f"{name}.jsonl").write_text("\n".join(lines) + "\n", "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
