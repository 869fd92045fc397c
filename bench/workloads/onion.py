"""A ConnectOnion client that comes back to a running session, and a short turn however old its session is.

Coming back: a signed client of a scripted turn of 1,000 events a second is cut off, without a word, every 100 ms, stays
away for 50, and goes on behind the last event that it has. Beside it a bare server that keeps the turn's frames in a
list. Short turns: a model's real deltas, without what OUTPUT repeats by the protocol (``session``, ``chat_items``).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

from bench.onion_link import OnionLink, OnionTurn
from bench.ours import Dragoman
from bench.plan import Plan
from bench.processes import Process, module
from bench.returns import AWAY, HOLD, Heard, Returner
from bench.rows import Aim, Row, at_least, below, median, percentile

TITLE = "a session over onion"
BARE = "uvicorn, a list"
PATH = "/onion/ws"
PACE_MS = 1.0
ROOM = 1.25
"""Of what the drops take by themselves, that the turn lasts."""

CAUGHT_UP_MS, CAUGHT_UP_P95_MS = 10.0, 15.0
SHORT = 10
"""Deltas of a short turn."""

PAUSE = 0.05
"""Seconds between two of them."""

AGE = 21
"""The turn that is set beside the first one."""

NEAR = 3
"""So many turns at either end are taken together: single ones differ by more than their age."""

HEAVIER = 1.05

_SCRIPTED = '[dialects.onion]\nkind = "scripted"\n'
_MODEL = """\
[native.providers.openai]
api = "openai-responses"
base_url = "{url}/v1"
models = ["asked"]
"""


def run(plan: Plan) -> Iterator[Row]:
    yield from _returns(plan)
    yield from _short(plan)


def _returns(plan: Plan) -> Iterator[Row]:
    count = int(plan.drops * (HOLD + AWAY + 0.01) * ROOM / PACE_MS * 1000)
    with Dragoman(plan.folder, settings=_SCRIPTED, work=plan.folder) as server:
        ours = Returner(server.port, PATH).run(count, PACE_MS, plan.drops)
    with Process(module("bare.resume"), folder=plan.folder) as process:
        bare = Returner(process.line()["port"], "/ws").run(count, PACE_MS, plan.drops)
    for what, of in (("lost", ours.lost(count)), ("told twice", ours.twice), ("out of order", ours.disordered)):
        yield Row(f"events {what}, of {count:,} over {plan.drops} drops", "events", of, aim=_none(of))
    yield Row("OUTPUTs of the turn", "", ours.outputs, bare.outputs, BARE, at_least(float(ours.outputs == 1), 1, "1"))
    found, beside = _ms(ours.caught_up), _ms(bare.caught_up)
    aim = below(median(found), CAUGHT_UP_MS, f"{CAUGHT_UP_MS:g} ms")
    yield Row("caught up, p50", "ms", median(found), median(beside), BARE, aim, runs=found, ceiling_runs=beside)
    late = percentile(found, 0.95)
    aim = below(late, CAUGHT_UP_P95_MS, f"{CAUGHT_UP_P95_MS:g} ms")
    yield Row("caught up, p95", "ms", late, percentile(beside, 0.95), BARE, aim)
    found, beside = _ms(ours.connected), _ms(bare.connected)
    yield Row("socket and CONNECTED, p50", "ms", median(found), median(beside), BARE, runs=found, ceiling_runs=beside)
    yield Row("events told on coming back", "events", median(ours.again), median(bare.again), BARE)
    for what, share in (("p50", 0.5), ("p99", 0.99)):
        yield Row(f"an event's way, {what}", "ms", _lag(ours, share), _lag(bare, share), BARE)


def _short(plan: Plan) -> Iterator[Row]:
    with ExitStack() as open_:
        models = open_.enter_context(Process(module("models.server"), folder=plan.folder, is_client=True))
        settings = _MODEL.format(url=f"http://127.0.0.1:{models.line()['port']}")
        work = plan.folder / "work"
        (work / ".agent").mkdir(parents=True)
        (work / ".agent" / "config.json").write_text('{"provider":"openai","model":"asked"}')
        folder = plan.folder / "short"
        folder.mkdir()
        ours = open_.enter_context(Dragoman(folder, settings=settings, work=work))
        ours.ask("set_key", provider="openai", key="none")
        young: list[OnionTurn] = []
        old: list[OnionTurn] = []
        for _ in range(plan.short_sessions):
            turns = _turns(ours)
            young += turns[:NEAR]
            old += turns[-NEAR:]
    first = _ms([turn.first for turn in young + old])
    yield Row("first delta of a short turn, p50", "ms", median(first), runs=first)
    size, before = (median([turn.size for turn in turns]) for turns in (old, young))
    what = f"turn {AGE} of a session"
    heavier = f"{HEAVIER:g} x turn 1"
    yield Row(f"{what}, bytes of frames", "bytes", size, before, "turn 1", below(size, before * HEAVIER, heavier))
    for name, of in (("time", [turn.whole for turn in old]), ("CPU", [turn.cpu for turn in old])):
        then = [turn.whole if name == "time" else turn.cpu for turn in young]
        now_ms, then_ms = _ms(of), _ms(then)
        aim = below(median(now_ms), median(then_ms) * HEAVIER, heavier)
        yield Row(
            f"{what}, {name}", "ms", median(now_ms), median(then_ms), "turn 1", aim, runs=now_ms, ceiling_runs=then_ms
        )
    yield Row(f"{what}, session and chat items", "bytes", median([turn.history for turn in old]))


def _turns(server: Dragoman) -> list[OnionTurn]:
    """Those of one session, after one that warms up what is made once for a server, in a session of its own."""
    with OnionLink(server.port, server.process) as link:
        link.turn(SHORT)
    with OnionLink(server.port, server.process) as link:
        turns = []
        for _ in range(AGE):
            link.rest(PAUSE)
            turns.append(link.turn(SHORT))
    return turns


def _ms(seconds: list[float]) -> list[float]:
    return [second * 1e3 for second in seconds]


def _lag(heard: Heard, share: float) -> float:
    return percentile(_ms(heard.lags), share)


def _none(found: int) -> Aim:
    return Aim("= 0", found == 0)
