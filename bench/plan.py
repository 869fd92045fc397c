"""How much is measured: the sizes of a full and of a quick run, in one place."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Plan:
    """Sizes in bytes of flood are megabytes; times are seconds; the rest are counts."""

    folder: Path
    peers: Path | None

    repeats: int = 3
    repeats_alone: int = 5
    """Floods with a single link, the figures that have aims."""

    link_counts: tuple[int, ...] = (1, 10, 100)
    flood: dict[int, float] | None = None
    """Megabytes of a flood, by the number of links that watch it."""

    drawn: float = 16
    """Megabytes of a flood that a screen model draws, at most."""

    keys: int = 500
    events: int = 60_000
    replayed: int = 100_000
    starts: int = 5
    stored: int = 10_000
    sessions: int = 100
    links: int = 200
    idle: float = 10.0
    paced: int = 2_000
    """Deltas of a model that sends them one by one."""

    flooded: int = 6_000
    """Deltas of a model that sends them as fast as they are taken."""

    first: int = 40
    """Turns of which the first delta's way is timed."""

    short_turns: int = 20
    bursts: int = 5
    """Long turns of a coworker client, and their deltas."""

    burst: int = 2_000

    drops: int = 100
    """How often an onion client is cut off while a turn runs."""

    fanned: tuple[int, ...] = (1, 200)
    """Clients of the bridge that hear each posted event."""

    posted: int = 2_000
    """Hooks in a burst."""

    pacing: float = 2.0
    """Seconds of a hundred hooks a second, each time."""

    files: int = 50_000
    """Of the repository that agents work in."""

    short_sessions: int = 7
    """Sessions whose first and twenty-first turns are set side by side."""

    streaming: float = 4.0
    """Seconds for which many models stream at once."""

    def rounds(self, links: int) -> int:
        return self.repeats_alone if links == 1 else self.repeats

    def megabytes(self, links: int, *, drawn: bool = False) -> float:
        size = (self.flood or {}).get(links, 8)
        return min(size, self.drawn) if drawn else size


def full(folder: Path, peers: Path | None) -> Plan:
    return Plan(folder, peers, flood={1: 60, 10: 24, 100: 6})


def quick(folder: Path, peers: Path | None) -> Plan:
    """The same rows from less work: noisier, and good for seeing that all still runs."""
    return Plan(
        folder,
        peers,
        repeats=1,
        repeats_alone=2,
        flood={1: 24, 10: 10, 100: 3},
        drawn=8,
        keys=100,
        events=20_000,
        replayed=30_000,
        starts=2,
        stored=2_000,
        sessions=30,
        links=60,
        idle=3.0,
        paced=1_000,
        flooded=3_000,
        first=15,
        streaming=2.0,
        short_turns=10,
        bursts=2,
        drops=25,
        short_sessions=3,
        posted=1_000,
        pacing=1.0,
        files=10_000,
    )
