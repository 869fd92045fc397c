"""``dragoman sessions``: what a server hosts."""

from __future__ import annotations

import argparse
import json
import time

from .reaching import Reach, Row, reach


def run(arguments: argparse.Namespace) -> int:
    """Print one line, or one JSON object, per session."""

    async def work(server: Reach) -> int:
        rows = await server.sessions()
        for row in rows:
            print(json.dumps(row) if arguments.json else line(row))
        if not rows and not arguments.json:
            print("no sessions")
        return 0

    return reach(work, arguments)


def line(row: Row) -> str:
    """``1b9d6bcd  terminal  unknown   working  2 min  work  /home/me/work``"""
    age = duration(max(0.0, time.time() - row["changed_at"] / 1000))
    columns = (f"{row['session'][:8]}", f"{row['kind']:<8}", f"{row['agent']:<8}", f"{row['status']:<8}", f"{age:>7}")
    return printable("  ".join((*columns, row["title"], row["cwd"])))


def printable(text: str) -> str:
    """Without characters that a terminal would obey: titles are somebody else's words."""
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)


def duration(seconds: float) -> str:
    """How long ago, in the largest unit that fits."""
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return f"{int(seconds)} s"
