"""Events of agents elsewhere, posted over HTTP, to every client of the bridge (the cin dialect).

Eight keep-alive connections post the hooks of an agent's tool calls: a burst as fast as they are taken, then a
hundred a second. Ours stores each event before it answers, and tells every client what became of the session beside
it; the bare server does neither.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from bench.ours import Dragoman
from bench.plan import Plan
from bench.posts import Burst, Fanout, Place
from bench.processes import Process, module
from bench.rows import Aim, Row, at_least, below, median, percentile

TITLE = "events to the clients of a bridge"
BARE = "uvicorn, hub sends"
STORED = "the same, sqlite3"
PLAIN = "plain folder"
RATE = 100.0
"""Hooks a second, when they are paced."""

DELIVERIES, DELAY, CPU = 0.79, 1.3, 1.7
"""Of the bare server's figures, that ours may be at."""

SAME = 0.8
"""What agents in a large repository reach of the rate of those in a plain folder, within what runs differ by."""


@dataclass
class Tries:
    """What one server reached, by the number of its clients, each time."""

    bursts: dict[int, list[Burst]] = field(default_factory=dict)
    delays: dict[int, list[float]] = field(default_factory=dict)

    def rates(self, links: int) -> list[float]:
        return [burst.rate for burst in self.bursts[links]]

    def cpu(self, links: int) -> list[float]:
        return [burst.cpu_per_event for burst in self.bursts[links]]

    def delay(self, links: int, share: float) -> float:
        """Milliseconds."""
        return percentile(self.delays[links], share) * 1e3


Stand = tuple[Process, int, Place]
"""A server under measurement, its port, and where on it."""


def run(plan: Plan) -> Iterator[Row]:
    tries = _measured(plan)
    ours, bare = tries["ours"], tries["bare"]
    for links in plan.fanned:
        yield from _rows(f"{links} client{'s' * (links > 1)}", ours, bare, links, most=links == max(plan.fanned))
    for links in plan.fanned:
        yield from _compared(f"beside one that stores, {links}", ours, tries["stored"], STORED, links)
    for links in plan.fanned:
        yield from _compared(f"with twins, {links}", tries["twins"], bare, BARE, links)
    for links in plan.fanned:
        yield from _compared(f"in a repository of {plan.files:,} files, {links}", tries["git"], ours, PLAIN, links)
    everything = [burst for tried in tries.values() for bursts in tried.bursts.values() for burst in bursts]
    lost = sum(burst.lost for burst in everything)
    disordered = sum(burst.disordered for burst in everything)
    yield Row("events lost, all servers", "", lost, aim=Aim("= 0", lost == 0))
    yield Row("events out of order, all servers", "", disordered, aim=Aim("= 0", disordered == 0))


def _rows(what: str, ours: Tries, bare: Tries, links: int, *, most: bool) -> Iterator[Row]:
    """With the aims: CPU where one client hears, deliveries and their delay where the most do."""
    rows = list(_compared(what, ours, bare, BARE, links))
    for row in rows:
        aim = None
        if row.unit == "us/event" and links == 1:
            aim = below(row.ours, CPU * (row.ceiling or 0), f"{CPU:g} x ceiling")
        elif row.unit == "/s" and most:
            aim = at_least(row.ours, DELIVERIES * (row.ceiling or 0), f"{DELIVERIES:g} x ceiling")
        elif row.what.endswith("p50") and most:
            aim = below(row.ours, DELAY * (row.ceiling or 0), f"{DELAY:g} x ceiling")
        yield replace(row, aim=aim)


def _compared(what: str, ours: Tries, other: Tries, beside: str, links: int) -> Iterator[Row]:
    aim = None
    if beside == PLAIN:
        aim = at_least(median(ours.rates(links)), SAME * median(other.rates(links)), f"{SAME:g} x {PLAIN}")
    yield _row(f"{what}: deliveries", "/s", ours.rates(links), other.rates(links), beside, aim, ours.bursts[links])
    yield _row(f"{what}: CPU", "us/event", ours.cpu(links), other.cpu(links), beside)
    for name, share in (("p50", 0.5), ("p95", 0.95)):
        yield Row(f"{what}: delay, {name}", "ms", ours.delay(links, share), other.delay(links, share), beside)


def _row(
    what: str,
    unit: str,
    ours: list[float],
    other: list[float],
    beside: str,
    aim: Aim | None = None,
    bursts: list[Burst] | None = None,
) -> Row:
    detail: dict[str, object] = {}
    if bursts:
        detail["bytes per delivery"] = sum(one.size for one in bursts) / sum(one.events * one.links for one in bursts)
    return Row(what, unit, median(ours), median(other), beside, aim, runs=ours, ceiling_runs=other, detail=detail)


def _measured(plan: Plan) -> dict[str, Tries]:
    """Each server in turn, so often."""
    plain, repository = plan.folder / "plain", plan.folder / "repository"
    plain.mkdir()
    _make_repository(repository, plan.files)
    with ExitStack() as open_:
        stands: dict[str, Stand] = {
            "ours": _ours(plan, open_, "ours", plain),
            "bare": _bare(plan, open_, plain),
            "stored": _bare(plan, open_, plain, plan.folder / "events.sqlite"),
            "twins": _ours(plan, open_, "twins", plain),
            "git": _ours(plan, open_, "git", repository),
        }
        tries = {name: Tries() for name in stands}
        for number in range(plan.repeats):
            for links in plan.fanned:
                for name, stand in stands.items():
                    _try(stand, f"agent-{number}-{links}", links, plan, tries[name])
    return tries


def _try(stand: Stand, name: str, links: int, plan: Plan, tried: Tries) -> None:
    process, port, place = stand
    with Fanout(process, port, place, name=name, links=links) as fanout:
        fanout.warm_up()
        tried.bursts.setdefault(links, []).append(fanout.burst(plan.posted))
        tried.delays.setdefault(links, []).extend(fanout.paced(RATE, plan.pacing))


def _ours(plan: Plan, open_: ExitStack, name: str, cwd: Path) -> Stand:
    folder = plan.folder / name
    folder.mkdir()
    tolerate = '["legacy"]' if name == "twins" else "[]"
    # an agent that has posted all is not to be taken for gone while others post: its last calls would be told as ended
    settings = f"[dialects.cin]\ntolerate = {tolerate}\n[hooked]\ngone_working = 3600\n"
    server = open_.enter_context(Dragoman(folder, settings=settings, work=folder))
    return server.process, server.port, Place("/cin/ws", "/cin/event", str(cwd))


def _bare(plan: Plan, open_: ExitStack, cwd: Path, *file: Path) -> Stand:
    process = open_.enter_context(Process(module("bare.events", *file), folder=plan.folder))
    return process, process.line()["port"], Place("/", "/event", str(cwd))


def _make_repository(folder: Path, files: int) -> None:
    """One with so many files, all of them committed but one."""
    for number in range(files):
        file = folder / f"part{number // 250}" / f"file{number}.txt"
        if number % 250 == 0:
            file.parent.mkdir(parents=True)
        file.write_text(f"file {number}\n")
    git = ["git", "-C", str(folder), "-c", "user.name=bench", "-c", "user.email=bench@example.com"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "all of it"]):
        subprocess.run([*git, *words], check=True, stdout=subprocess.DEVNULL)
    (folder / "part0" / "file0.txt").write_text("changed\n")
