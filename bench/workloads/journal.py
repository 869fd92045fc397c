"""The journal: events made durable, and events read back."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from bench.ours import Dragoman
from bench.plan import Plan
from bench.processes import module, result_of
from bench.rows import Row, median, number
from bench.wire import Link, Links

TITLE = "the log on disk"
PRODUCERS = 200
LIMIT = 60.0


def run(plan: Plan) -> Iterator[Row]:
    yield _appended(plan)
    stored = plan.folder / "replayed"
    session = result_of(module("inside.fill", stored, 1, plan.replayed), folder=plan.folder, limit=LIMIT)["session"]
    yield from _read_back(plan, stored, session)


def _appended(plan: Plan) -> Row:
    rates, p50, p99, bare = [], [], [], []
    for _ in range(plan.repeats):
        folder = plan.folder / "appended"
        found = result_of(module("inside.append", folder, PRODUCERS, plan.events), folder=plan.folder, limit=LIMIT)
        shutil.rmtree(folder)
        rates.append(found["rate"])
        p50.append(found["p50_ms"])
        p99.append(found["p99_ms"])
        bare.append(_bare(plan, plan.events)["written"])
    return Row(
        f"durable, {PRODUCERS} at once",
        "events/s",
        median(rates),
        median(bare),
        "sqlite3, by 200",
        note=f"p50 {number(median(p50))} p99 {number(median(p99))} ms",
        runs=rates,
        ceiling_runs=bare,
        detail={"p50_ms": p50, "p99_ms": p99},
    )


def _read_back(plan: Plan, stored: Path, session: str) -> Iterator[Row]:
    inside, socket, bare = [], [], []
    for _ in range(plan.repeats):
        found = result_of(module("inside.replay", stored, session), folder=plan.folder, limit=LIMIT)
        inside.append(found["rate"])
        bare.append(_bare(plan, plan.replayed)["read"])
        socket.append(_over_the_hub(plan, stored, session))
    for what, rates in (("read back, by a follower", inside), ("read back, over a hub link", socket)):
        yield Row(what, "events/s", median(rates), median(bare), "SELECT+msgspec", runs=rates, ceiling_runs=bare)


def _over_the_hub(plan: Plan, stored: Path, session: str) -> float:
    """A fresh server, so that nothing of the log is in its memory."""
    last = 0

    def take(_: int, payload: memoryview) -> None:
        nonlocal last
        if payload[:16] == b'{"type":"events"':
            text = bytes(payload)
            last = int(text[text.rindex(b'"seq":') + 6 :].partition(b",")[0])

    with Dragoman(plan.folder, data=stored) as server:
        head = server.ask("snapshot", session=session)["seq"]
        link = Link(server.port, "/hub/ws", take)
        links = Links([link])
        began = time.perf_counter()
        link.send(msgspec.json.encode({"op": "follow", "id": 1, "session": session, "after": 0}))
        if not links.until(lambda: last >= head, LIMIT):
            raise ConnectionError(f"only {last} of {head} events came")
        taken = time.perf_counter() - began
        links.close()
    return head / taken


def _bare(plan: Plan, events: int) -> dict[str, float]:
    folder = plan.folder / "bare"
    folder.mkdir()
    found = result_of(module("bare.sqlite", folder, events), folder=plan.folder, limit=LIMIT)
    shutil.rmtree(folder)
    return found
