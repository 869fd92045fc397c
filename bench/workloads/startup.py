"""From the start of the process to the first accepted WebSocket."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

from bench.plan import Plan
from bench.processes import Process, module, result_of
from bench.rows import Row, below, median
from bench.wire import Link

TITLE = "start-up"
AIM_S = 0.5
EVENTS = 3
"""Events in each stored session, beside its creation."""


def run(plan: Plan) -> Iterator[Row]:
    empty, stored = plan.folder / "empty", plan.folder / "stored"
    result_of(module("inside.fill", stored, plan.stored, EVENTS), folder=plan.folder, limit=120)
    for data in (empty, stored):
        _ours(plan, data)  # the first start writes what the next ones find: the compiled modules, the empty journal
    times: dict[str, list[float]] = {"empty": [], "stored": [], "bare": []}
    for _ in range(plan.starts):
        times["empty"].append(_ours(plan, empty))
        times["stored"].append(_ours(plan, stored))
        times["bare"].append(_started(module("bare.startup"), plan.folder, "/ws/idle"))
    for what, name in (("nothing stored", "empty"), (f"{plan.stored:,} sessions stored", "stored")):
        seconds = median(times[name])
        yield Row(
            what,
            "s",
            seconds,
            median(times["bare"]),
            "bare imports+app",
            below(seconds, AIM_S, f"{AIM_S:g} s"),
            runs=times[name],
            ceiling_runs=times["bare"],
        )


def _ours(plan: Plan, data: Path) -> float:
    command = [sys.executable, "-m", "dragoman", "serve", "--json", "--port", "0", "--data", str(data)]
    return _started(command, plan.folder, "/hub/ws")


def _started(command: list[str], folder: Path, path: str) -> float:
    with Process(command, folder=folder) as process:
        port = process.line()["port"]
        link = Link(port, path, lambda *_: None)
        taken = time.perf_counter() - process.began
        link.close()
    return taken
