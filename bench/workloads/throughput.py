"""Terminal output to clients: a program writes as fast as it can, and 1, 10 and 100 links watch.

The figure is what each link gets per second. A link of ours that falls further behind than the tape (1 MiB) reaches
back loses bytes, and is told so; the share is in the note. The bare ceilings make the program wait instead.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field

from bench.ours import Dragoman
from bench.peers.install import Peers
from bench.plan import Plan
from bench.processes import Process, module, result_of
from bench.programs import GO, Flood, make_flood
from bench.rows import Aim, Row, at_least, median, skipped
from bench.stands import Stand, bare, bare_command, ours, peer_command

TITLE = "terminal output, each link"
LIMIT = 60.0
"""Seconds that one flood may take."""

PTYMINI_SHARE = {1: 1.5, 10: 1.0}
CEILING_SHARE = 0.5
FEED_SHARE = 0.7
JSON_SHARE = 0.5


class Incomplete(Exception):
    """A flood did not come to its end in time, or not as it was written."""


@dataclass
class Tries:
    """What one stand reached: bytes per second for each link, and the share that was lost."""

    rates: list[float] = field(default_factory=list)
    lost: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    @property
    def rate(self) -> float:
        return median(self.rates)

    @property
    def note(self) -> str:
        lost = median(self.lost)
        return f"{lost:.1%} skipped" if lost >= 0.001 else ""


def flood_once(stand: Stand, flood: Flood, *, each: Callable[[], None] | None = None) -> tuple[float, float]:
    """One flood to all links of a stand: megabytes per second for each, and the share that was lost.

    ``each`` is called now and then meanwhile.
    """
    stand.links.settle()
    for viewer in stand.viewers:
        viewer.expect(flood.size)
    began = time.perf_counter()
    stand.viewers[0].type(GO)
    if not stand.links.until(lambda: all(viewer.finished for viewer in stand.viewers), LIMIT, each=each):
        raise Incomplete(f"{stand.name}: a flood of {flood.size} bytes did not end within {LIMIT:.0f} s")
    taken = time.perf_counter() - began
    first = stand.viewers[0]
    if first.lost == 0 and first.crc != flood.crc:
        raise Incomplete(f"{stand.name}: what arrived is not what was written")
    count = sum(viewer.count for viewer in stand.viewers) / len(stand.viewers)
    return count / 1e6 / taken, 1 - count / flood.size


def measure(stands: dict[str, Stand], flood: Flood, links: int, repeats: int) -> dict[str, Tries]:
    """All stands in turn, ``repeats`` times."""
    tries = {name: Tries() for name in stands}
    for stand in stands.values():
        stand.watch(links)
    for _ in range(repeats):
        for name, stand in stands.items():
            cpu = stand.process.cpu() or 0.0
            rate, lost = flood_once(stand, flood)
            tries[name].rates.append(rate)
            tries[name].lost.append(lost)
            tries[name].cpu.append(((stand.process.cpu() or 0.0) - cpu) / flood.size * 1e8)
    for stand in stands.values():
        stand.leave()
    return tries


def run(plan: Plan) -> Iterator[Row]:
    peers = Peers(plan.peers)
    names = [name for name in ("ptymini", "terminado") if peers.missing(name) is None]
    floods = {links: make_flood(plan.folder, plan.megabytes(links)) for links in plan.link_counts}
    reached = {links: _plain(plan, flood, links, peers, names) for links, flood in floods.items()}
    for links, tries in reached.items():
        yield _plain_row(links, tries)
    for links, tries in reached.items():
        yield _row(f"coop raw, no model, {_links(links)}", tries["coop"], _best(tries), None)
    for name in ("ptymini", "terminado"):
        why = peers.missing(name)
        if why is not None:
            yield skipped(f"{name} for comparison", why)
            continue
        for links, tries in reached.items():
            yield _row(f"{name}, {_links(links)}", tries[name], _best(tries), None)
    yield from _drawn(plan)


def _plain(plan: Plan, flood: Flood, links: int, peers: Peers, names: list[str]) -> dict[str, Tries]:
    """Without a screen model: ours, the two bare servers, and whichever peer is there."""
    with ExitStack() as open_:
        server = open_.enter_context(Dragoman(plan.folder))
        stands = {
            "hub": ours(server, flood.command, dialect="hub", model=False),
            "coop": ours(server, flood.command, dialect="coop", model=False),
        }
        for how in ("read", "joined"):
            process = open_.enter_context(Process(bare_command(how, flood.command), folder=plan.folder))
            stands[how] = bare(process, how)
        for name in names:
            process = open_.enter_context(Process(peer_command(peers, name, flood.command), folder=plan.folder))
            stands[name] = bare(process, name)
        return measure(stands, flood, links, plan.rounds(links))


def _best(tries: dict[str, Tries]) -> tuple[str, Tries]:
    """The better of the two ways to serve it bare."""
    return max((("uvicorn, " + how, tries[how]) for how in ("read", "joined")), key=lambda pair: pair[1].rate)


def _plain_row(links: int, tries: dict[str, Tries]) -> Row:
    rate, best = tries["hub"].rate, _best(tries)
    aim: Aim | None = None
    if "ptymini" in tries and links in PTYMINI_SHARE:
        share = PTYMINI_SHARE[links]
        bound = share * tries["ptymini"].rate
        aim = at_least(rate, bound, f"{share:g} x ptymini ({bound:.0f})")
    elif links in PTYMINI_SHARE:
        aim = at_least(rate, CEILING_SHARE * best[1].rate, f"{CEILING_SHARE:g} x ceiling")
    return _row(f"hub, no model, {_links(links)}", tries["hub"], best, aim)


def _drawn(plan: Plan) -> Iterator[Row]:
    """With the screen model: the hub's stream beside reading and drawing, coop's beside that with base64 and JSON."""
    with Dragoman(plan.folder) as server:
        for links in plan.link_counts:
            flood = make_flood(plan.folder, plan.megabytes(links, drawn=True))
            hub = ours(server, flood.command, dialect="hub", model=True)
            coop = ours(server, flood.command, dialect="coop", model=True)
            found = {"hub": Tries(), "coop": Tries(), "feed": Tries(), "json": Tries()}
            for _ in range(plan.rounds(links)):
                for name, more in measure({"hub": hub, "coop": coop}, flood, links, 1).items():
                    found[name].rates += more.rates
                    found[name].lost += more.lost
                    found[name].cpu += more.cpu
                for how in ("feed", "json"):
                    found[how].rates.append(_loop(plan, flood, how))
            first = links == 1
            yield _row(
                f"hub, model on, {_links(links)}",
                found["hub"],
                ("read+draw", found["feed"]),
                at_least(found["hub"].rate, FEED_SHARE * found["feed"].rate, "0.7 x ceiling") if first else None,
            )
            yield _row(
                f"coop raw, model on, {_links(links)}",
                found["coop"],
                ("read+draw+JSON", found["json"]),
                at_least(found["coop"].rate, JSON_SHARE * found["json"].rate, "0.5 x ceiling") if first else None,
            )


def _loop(plan: Plan, flood: Flood, how: str) -> float:
    rate: float = result_of(module("bare.feed", how, flood.size, *flood.command), folder=plan.folder)["mbps"]
    return rate


def _row(what: str, tries: Tries, beside: tuple[str, Tries], aim: Aim | None) -> Row:
    name, ceiling = beside
    return Row(
        what,
        "MB/s",
        tries.rate,
        ceiling.rate,
        name,
        aim,
        note=tries.note,
        runs=tries.rates,
        ceiling_runs=ceiling.rates,
        detail={"cpu_s_per_100_mb": tries.cpu, "ceiling_cpu_s_per_100_mb": ceiling.cpu},
    )


def _links(count: int) -> str:
    return f"{count} link{'s' if count > 1 else ''}"
