"""One link that reads, beside one that has attached and never reads."""

from __future__ import annotations

import socket
from collections.abc import Iterator

from bench.ours import Dragoman
from bench.plan import Plan
from bench.programs import Flood, make_flood
from bench.rows import Aim, Row, at_least, below, median
from bench.stands import Stand, ours
from bench.viewers import HubViewer
from bench.wire import Links

from .throughput import flood_once

TITLE = "one link beside one that never reads"
RECEIVE_BUFFER = 64 * 1024
"""What the kernel takes for a link that does not read. Left alone it takes megabytes, and nothing would be stuck."""

KEEPS = 0.8
GROWTH_MB = 10.0


def run(plan: Plan) -> Iterator[Row]:
    with Dragoman(plan.folder) as server:
        for dialect, model in (("hub", False), ("coop", True)):
            flood = make_flood(plan.folder, plan.megabytes(1, drawn=model))
            stand = ours(server, flood.command, dialect=dialect, model=model)
            yield from _beside(f"{dialect}, {'model on' if model else 'no model'}", stand, flood, plan.rounds(1))


def _beside(what: str, stand: Stand, flood: Flood, repeats: int) -> Iterator[Row]:
    stand.watch(1)
    flood_once(stand, flood)  # warm up: the ring and the allocator have their size afterwards
    alone: list[tuple[float, float]] = []
    beside: list[tuple[float, float]] = []
    untold: list[int] = []
    missed: list[float] = []
    for _ in range(repeats):
        alone.append(_watched(stand, flood))
        stuck = stand.open(False)
        stuck.link.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)
        stuck.expect(flood.size)
        beside.append(_watched(stand, flood))
        links = Links([stuck.link])
        links.until(lambda stuck=stuck: stuck.finished, 10)
        missed.append(stuck.lost / flood.size)
        if isinstance(stuck, HubViewer):
            untold.append(abs(stuck.skipped - stuck.lost))
        links.close()
    stand.leave()
    rate, base = median(rate for rate, _ in beside), median(rate for rate, _ in alone)
    yield Row(
        f"{what}: the reader gets",
        "MB/s",
        rate,
        base,
        "alone",
        at_least(rate, KEEPS * base, f"{KEEPS:g} x alone"),
        runs=[rate for rate, _ in beside],
        ceiling_runs=[rate for rate, _ in alone],
    )
    growth = max(size for _, size in beside)
    yield Row(
        f"{what}: server grows by",
        "MB",
        growth,
        max(size for _, size in alone),
        "alone",
        below(growth, GROWTH_MB, f"{GROWTH_MB:g} MB"),
    )
    if untold:
        note = f"of {median(missed):.0%} missed"
        yield Row(f"{what}: untold", "bytes", sum(untold), aim=Aim("= 0", sum(untold) == 0), note=note)


def _watched(stand: Stand, flood: Flood) -> tuple[float, float]:
    """One flood: the reader's rate, and by how many megabytes the server grew at most meanwhile."""
    before = stand.process.rss() or 0
    sizes = [before]
    rate, _ = flood_once(stand, flood, each=lambda: sizes.append(stand.process.rss() or 0))
    return rate, (max(sizes) - before) / 1e6
