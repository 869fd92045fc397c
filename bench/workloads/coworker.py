"""A streamed turn as a coworker client sees it, with the durable log and the provider's raw events.

Each delta is two facts in the log and two chunks for the client (``raw`` and ``text_delta``), each with its part twice.
Beside it a bare uvicorn that relays the same model stream: one chunk for a delta, nothing kept, no raw one. One session
has the short turns, each burst a session of its own; the model's events come 16 to a chunk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Protocol

from bench.ours import Dragoman
from bench.plan import Plan
from bench.processes import Process, module
from bench.rows import Aim, Row, at_least, below, median, percentile
from bench.turns import CoworkerLink, Turn

from .models import Bare, measured

TITLE = "a turn over coworker"
RELAY = "uvicorn, relay"
SHORT = 10
"""Deltas of a short turn."""

PAUSE = 0.05
"""Seconds between two short turns."""

SETTLE = 0.3
"""Seconds between a session's first turn and its burst: what follows a turn is not the burst's."""

FIRST_MS = 5.0
THIRD = 1 / 3
"""Of what the relay takes."""

CPU_SECONDS = 0.06
LIBRARY_API = "openai-responses"
AGE = 200
"""The short turn of a session that is set beside its first one."""

_SETTINGS = """\
[native.providers.openai]
api = "openai-responses"
base_url = "{url}/v1"
models = ["asked"]
"""


class Stand(Protocol):
    """A server of coworker links."""

    process: Process
    port: int


class Relay:
    """The bare one."""

    def __init__(self, plan: Plan, url: str) -> None:
        self.process = Process(module("models.relay", url), folder=plan.folder)
        self.port: int = self.process.line()["port"]


def run(plan: Plan) -> Iterator[Row]:
    work = plan.folder / "work"
    (work / ".agent").mkdir(parents=True)
    (work / ".agent" / "config.json").write_text('{"provider":"openai","model":"asked"}')
    with ExitStack() as open_:
        models = open_.enter_context(Process(module("models.server"), folder=plan.folder, is_client=True))
        url = f"http://127.0.0.1:{models.line()['port']}"
        ours = open_.enter_context(Dragoman(plan.folder, settings=_SETTINGS.format(url=url), work=work))
        ours.ask("set_key", provider="openai", key="none")
        relay = Relay(plan, url)
        open_.enter_context(relay.process)
        yield from _short(plan, ours, relay)
        yield from _bursts(plan, ours, relay)
        yield from _aged(ours)
        yield from _library(plan, url)


def _short(plan: Plan, ours: Stand, relay: Stand) -> Iterator[Row]:
    """Short turns of one session, with pauses."""
    found = {stand: _turns(stand, plan.short_turns) for stand in (ours, relay)}

    def times(stand: Stand, of: Callable[[Turn], float]) -> list[float]:
        return [of(turn) * 1e3 for turn in found[stand]]

    first, bare = times(ours, lambda turn: turn.first), times(relay, lambda turn: turn.first)
    yield _row("first chunk, p50", "ms", first, bare, below(median(first), FIRST_MS, f"{FIRST_MS:g} ms"))
    yield Row("first chunk, p95", "ms", percentile(first, 0.95), percentile(bare, 0.95), RELAY)
    for what, of in (("whole short turn", lambda turn: turn.whole), ("CPU of a short turn", lambda turn: turn.cpu)):
        yield _row(what, "ms", times(ours, of), times(relay, of))


def _bursts(plan: Plan, ours: Stand, relay: Stand) -> Iterator[Row]:
    """Long turns, each of a session of its own; ours and the relay take turns."""
    found: dict[Stand, list[Turn]] = {ours: [], relay: []}
    for _ in range(plan.bursts):
        for stand, turns in found.items():
            with CoworkerLink(stand.port, stand.process) as link:
                link.turn(SHORT)
                link.rest(SETTLE)
                turns.append(link.turn(plan.burst))
    rate, bare_rate = ([turn.rate for turn in turns] for turns in found.values())
    third = median(bare_rate) * THIRD
    yield _row("deltas, raw and shown", "deltas/s", rate, bare_rate, at_least(median(rate), third, "1/3 of the relay"))
    cpu, bare = ([turn.cpu_per_1000 for turn in turns] for turns in found.values())
    aim = below(median(cpu), CPU_SECONDS, f"{CPU_SECONDS:g} s")
    yield _row("CPU of 1,000 deltas", "s", cpu, bare, aim)
    sizes, bare = ([turn.size / turn.deltas for turn in turns] for turns in found.values())
    yield _row("payload of a delta", "bytes", sizes, bare)


def _aged(ours: Stand) -> Iterator[Row]:
    """What a turn costs once its session has many behind it: the median of some around each place."""
    with CoworkerLink(ours.port, ours.process) as link:
        turns = [link.turn(SHORT) for _ in range(AGE + 5)]
    young, old = turns[1:11], turns[-10:]
    for what, of in (("CPU", lambda turn: turn.cpu), ("time", lambda turn: turn.whole)):
        then, now = ([of(turn) * 1e3 for turn in some] for some in (young, old))
        yield Row(
            f"turn {AGE} of a session, {what}",
            "ms",
            median(now),
            median(then),
            "its first ten",
            runs=now,
            ceiling_runs=then,
        )


def _library(plan: Plan, url: str) -> Iterator[Row]:
    """The other way to a model: what our adapter adds to the library, by itself behind bare uvicorn."""
    with Bare(plan, "pydantic-ai", url) as adapter, Bare(plan, "library", url) as bare:
        found: dict[Bare, list[float]] = {adapter: [], bare: []}
        for stand in found:
            measured(stand, LIBRARY_API, "flood-500", 500)  # warm up
        for _ in range(plan.repeats):
            for stand, runs in found.items():
                runs.append(measured(stand, LIBRARY_API, f"flood-{plan.flooded}", plan.flooded).us)
    ours, by_itself = found.values()
    what = "a delta through pydantic-ai, no log"
    yield Row(what, "us/delta", median(ours), median(by_itself), "the library", runs=ours, ceiling_runs=by_itself)


def _turns(stand: Stand, count: int) -> list[Turn]:
    with CoworkerLink(stand.port, stand.process) as link:
        link.turn(SHORT)
        turns = []
        for _ in range(count):
            link.rest(PAUSE)
            turns.append(link.turn(SHORT))
    return turns


def _row(what: str, unit: str, ours: list[float], bare: list[float], aim: Aim | None = None) -> Row:
    return Row(what, unit, median(ours), median(bare), RELAY, aim, runs=ours, ceiling_runs=bare)
