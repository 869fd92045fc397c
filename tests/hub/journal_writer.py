"""A program to be killed: it writes logs as fast as it can and says on stdout what it was told is durable.

Lines: ``open``; ``durable SESSION SEQ``; ``dropped SESSION`` once a drop has returned. Its random choices come from
the seed that it is given, so that a failure can be played again.
"""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import Mapping
from pathlib import Path

from dragoman.hub.events import Event, LogWritten
from dragoman.hub.journal import Snapshot
from dragoman.hub.sqlite import SqliteJournal

from .journal_kit import row


def text_of(session: str, seq: int) -> str:
    """What event ``seq`` of a session says, of very different lengths."""
    return f"{session} {seq} " + "x" * ((seq * 7919) % 600 if seq % 50 else 30_000)


def say(line: str) -> None:
    sys.stdout.write(line + "\n")


def told(heads: Mapping[str, int]) -> None:
    for session, seq in heads.items():
        say(f"durable {session} {seq}")
    sys.stdout.flush()


async def main(path: Path, seed: int) -> None:
    chance = random.Random(seed)
    journal = SqliteJournal(path)
    heads = {known.session: known.head for known in await journal.open(told) if known.dropped_at is None}
    made = 0
    say("open")
    sys.stdout.flush()
    while True:
        if len(heads) < 6:
            made += 1
            heads[f"s{seed}-{made}"] = 0
        session = chance.choice(sorted(heads))
        for _ in range(chance.randint(1, 60)):
            seq = heads[session] = heads[session] + 1
            journal.append(
                Event(seq, seq, journal.epoch, LogWritten(line=text_of(session, seq))),
                row(session, seq),
                key=f"key {seq}",
            )
        if chance.random() < 0.1:
            journal.put_snapshot(session, Snapshot(heads[session], b"{}"))
        if chance.random() < 0.02:
            await journal.drop(row(session, heads.pop(session), dropped_at=1))
            say(f"dropped {session}")
            sys.stdout.flush()
        if chance.random() < 0.5:
            await asyncio.sleep(0)
        if journal.full or chance.random() < 0.1:
            await journal.flush()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
