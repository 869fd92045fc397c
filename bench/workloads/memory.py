"""What it costs to exist: memory and CPU of a server, of sessions and of links that do nothing."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack

from bench.ours import Dragoman
from bench.plan import Plan
from bench.processes import Process
from bench.programs import IDLE
from bench.rows import Row, below, skipped
from bench.stands import bare_command
from bench.viewers import CoopViewer, HubViewer, Viewer
from bench.wire import Link, Links

TITLE = "idle"
RSS_MB = 60.0
SESSION_KB = 60.0
CPU_PERCENT = 0.5
WATCHED = 50
"""Sessions whose idle CPU is measured."""

SETTLE = 1.0
"""Seconds until what was just opened has come to rest."""


def run(plan: Plan) -> Iterator[Row]:
    with Dragoman(plan.folder) as server:
        if server.process.rss() is None:
            yield skipped("memory and CPU", "this system has no /proc")
            return
    yield from _at_rest(plan)
    for model in (False, True):
        yield from _sessions(plan, model=model)
    yield from _links(plan)


def _at_rest(plan: Plan) -> Iterator[Row]:
    with Dragoman(plan.folder) as server, Process(bare_command("read", IDLE), folder=plan.folder) as bare:
        bare.line()
        size, ceiling = _megabytes(server.process), _megabytes(bare)
    yield Row("server", "MB", size, ceiling, "uvicorn", below(size, RSS_MB, f"{RSS_MB:g} MB"))


def _sessions(plan: Plan, *, model: bool) -> Iterator[Row]:
    """Programs that wait, each on a terminal of its own; the bare server keeps a link open for each."""
    what = "model on" if model else "no model"
    with Dragoman(plan.folder) as server, ExitStack() as open_:
        before = _kilobytes(server.process)
        for _ in range(plan.sessions):
            server.terminal(IDLE, model=model)
        cost = (_kilobytes(server.process) - before) / plan.sessions
        ceiling = _bare_links(plan, open_, "/own", plan.sessions)
        aim = None if model else below(cost, SESSION_KB, f"{SESSION_KB:g} kB")
        yield Row(f"a session, {what} (of {plan.sessions})", "kB", cost, ceiling, "uvicorn+PTY+link", aim)
        if not model:
            return
    with Dragoman(plan.folder) as server:
        for _ in range(WATCHED):
            server.terminal(IDLE, model=True)
        time.sleep(SETTLE)
        used = server.process.cpu() or 0.0
        time.sleep(plan.idle)
        percent = ((server.process.cpu() or 0.0) - used) / plan.idle * 100
        yield Row(
            f"CPU of {WATCHED} sessions", "% of a core", percent, aim=below(percent, CPU_PERCENT, f"{CPU_PERCENT:g} %")
        )


def _links(plan: Plan) -> Iterator[Row]:
    """Links that watch one idle terminal, over hub and over coop, beside links that watch nothing."""
    with ExitStack() as open_:
        ceiling = _bare_links(plan, open_, "/idle", plan.links)
    for dialect in ("hub", "coop"):
        with Dragoman(plan.folder) as server:
            session = server.terminal(IDLE, model=True)
            _viewer(server, session, dialect).close()
            before = _kilobytes(server.process)
            links = Links(_viewer(server, session, dialect).link for _ in range(plan.links))
            links.settle()
            cost = (_kilobytes(server.process) - before) / plan.links
            links.close()
        yield Row(f"a {dialect} link (of {plan.links})", "kB", cost, ceiling, "uvicorn")


def _viewer(server: Dragoman, session: str, dialect: str) -> Viewer:
    return (HubViewer if dialect == "hub" else CoopViewer)(server.port, session)


def _bare_links(plan: Plan, open_: ExitStack, path: str, count: int) -> float:
    """Kilobytes for each link to a bare server."""
    process = open_.enter_context(Process(bare_command("read", IDLE), folder=plan.folder))
    port = process.line()["port"]
    Link(port, path, lambda *_: None).close()
    before = _kilobytes(process)
    links = Links(Link(port, path, lambda *_: None) for _ in range(count))
    links.settle()
    cost = (_kilobytes(process) - before) / count
    open_.callback(links.close)
    return cost


def _kilobytes(process: Process) -> float:
    time.sleep(SETTLE)
    return (process.rss() or 0) / 1e3


def _megabytes(process: Process) -> float:
    return _kilobytes(process) / 1e3
