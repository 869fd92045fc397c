"""How long a key takes to come back: to the server, through ``cat`` on a raw PTY, and back to the link that typed it.

With several links all of them get the echo, and they type in turn, so that none is always served first.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack

from bench.ours import Dragoman
from bench.plan import Plan
from bench.processes import Process
from bench.programs import ECHO
from bench.rows import Row, below, percentile
from bench.stands import Stand, bare, bare_command, ours

TITLE = "echo of a key"
AIM_MS = 1.0
PAUSE = 0.002
"""Seconds between two keys."""

BLOCK = 25
"""Keys typed on one stand before the next has its turn."""


class Lost(Exception):
    """A key did not come back."""


def run(plan: Plan) -> Iterator[Row]:
    with ExitStack() as open_:
        server = open_.enter_context(Dragoman(plan.folder))
        process = open_.enter_context(Process(bare_command("read", ECHO), folder=plan.folder))
        stands = {
            "hub": ours(server, ECHO, dialect="hub", model=True),
            "coop": ours(server, ECHO, dialect="coop", model=True),
            "bare": bare(process, "bare"),
        }
        for links in plan.link_counts:
            yield from _with_links(stands, links, plan.keys)


def _with_links(stands: dict[str, Stand], links: int, keys: int) -> Iterator[Row]:
    times: dict[str, list[float]] = {name: [] for name in stands}
    for stand in stands.values():
        stand.watch(links)
        _type(stand, BLOCK)  # warm up
    for _ in range(max(1, keys // BLOCK)):
        for name, stand in stands.items():
            times[name] += _type(stand, BLOCK)
    for stand in stands.values():
        stand.leave()
    ceiling = times["bare"]
    for dialect in ("hub", "coop"):
        for share in (0.5, 0.99):
            ours_ms = percentile(times[dialect], share)
            yield Row(
                f"{dialect}, {links} link{'s' if links > 1 else ''}, p{share * 100:.0f}",
                "ms",
                ours_ms,
                percentile(ceiling, share),
                "uvicorn, read",
                below(ours_ms, AIM_MS, f"{AIM_MS:g} ms") if links == 1 and share > 0.9 else None,
            )


def _type(stand: Stand, keys: int) -> list[float]:
    """Milliseconds until each key was back."""
    times = []
    for number in range(keys):
        viewer = stand.viewers[number % len(stand.viewers)]
        arrived: list[float] = []
        viewer.on_output = lambda arrived=arrived: arrived.append(time.perf_counter())
        for other in stand.viewers:
            other.expect(1)
        began = time.perf_counter()
        viewer.type(b"x")
        if not stand.links.until(lambda: all(other.finished for other in stand.viewers), 5):
            raise Lost(f"{stand.name}: a key did not come back within 5 s")
        times.append((arrived[0] - began) * 1000)
        viewer.on_output = None
        time.sleep(PAUSE)
    return times
