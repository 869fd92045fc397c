"""Models that stream: CPU of the server for each delta, from the provider's bytes to the frame of a hub link.

Every delta is an event of its own at the provider, and a ``part.delta`` event in the log that a link follows. Paced,
each comes in a TCP segment of its own, so that nothing can be joined; flooded, they come as fast as they are taken.
All the CPU that the process used meanwhile is counted: the turn's other events and the journal's thread too.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

import msgspec

from bench.ours import Dragoman
from bench.plan import Plan
from bench.processes import Failed, Process, module
from bench.rows import Aim, Row, below, median, percentile
from bench.wire import Link, Links

TITLE = "streaming models"
APIS = ("openai-responses", "openai-chat", "anthropic", "google")
OWN = frozenset({"openai-responses", "openai-chat"})
"""The APIs that our own adapters speak; the others go through pydantic-ai."""

BESIDE = {
    "openai-responses": ("least", "sdk"),
    "openai-chat": ("least", "sdk", "pydantic-ai"),
    "anthropic": ("sdk",),
    "google": ("sdk",),
}
NAMES = {"least": "aiohttp+uvicorn", "sdk": "vendor's SDK", "pydantic-ai": "pydantic-ai"}
AIM_US = 60.0
RATE = 2_000
"""Deltas per second of one paced stream."""

SESSIONS, LINKS, SESSION_RATE = 100, 10, 50
"""Streams at once, the links that follow them (each as many as the others), and deltas per second of each stream."""

BEGIN_SECONDS = 3.0
"""For many streams to begin."""

LIMIT = 120.0
_STAMP = re.compile(rb'"(?:kind":"text|type":"delta)","text":"(\d{15}) "')
_END = re.compile(rb'"type":"turn.ended"|^\{"end":true\}$')


@dataclass
class Measured:
    """One run of some streams."""

    deltas: int
    seconds: float
    cpu: float
    grown: int
    delays: list[float] = field(default_factory=list)
    """Seconds from the provider's send to the frame, of each delta."""

    @property
    def us(self) -> float:
        """CPU microseconds for each delta."""
        return self.cpu / self.deltas * 1e6

    @property
    def rate(self) -> float:
        """Deltas per second."""
        return self.deltas / self.seconds

    def delay_ms(self, share: float) -> float:
        return percentile(self.delays, share) * 1e3


class Meter:
    """What a process used since this was made."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._rss, self._cpu, self._began = process.rss() or 0, process.cpu() or 0.0, time.perf_counter()

    def read(self, delays: list[float]) -> Measured:
        """Until now, for the deltas that had these delays."""
        seconds, cpu = time.perf_counter() - self._began, (self._process.cpu() or 0.0) - self._cpu
        return Measured(len(delays), seconds, cpu, (self._process.rss() or 0) - self._rss, delays)


class Watcher:
    """A link that sees streams of deltas, of our server or a bare one."""

    def __init__(self, port: int, path: str, delays: list[float]) -> None:
        self.delays = delays
        self.ended = self.answered = 0
        self.last = b""
        self.link = Link(port, path, self._take)

    def _take(self, _: int, payload: memoryview) -> None:
        now = time.monotonic()
        self.last = data = bytes(payload)
        self.delays += [now - int(stamp) / 1e6 for stamp in _STAMP.findall(data)]
        self.ended += len(_END.findall(data))
        self.answered += data.startswith(b'{"type":"ok"')


class Crowd:
    """Links to one server that are read together."""

    def __init__(self, stand: Ours | Bare, links: int) -> None:
        self.delays: list[float] = []
        """Of every delta that came, in the order they came."""
        self.watchers = [Watcher(stand.port, stand.path, self.delays) for _ in range(links)]
        self._links = Links(watcher.link for watcher in self.watchers)

    def count(self, what: str) -> int:
        return sum(getattr(watcher, what) for watcher in self.watchers)

    def until(self, what: str, count: int) -> None:
        if not self._links.until(lambda: self.count(what) >= count, LIMIT):
            raise Failed(f"only {self.count(what)} of {count} streams {what}: {self._said()}")

    def read_for(self, seconds: float) -> None:
        self._links.until(lambda: False, seconds)

    def check(self, deltas: int) -> None:
        """Exactly so many came."""
        if len(self.delays) != deltas:
            raise Failed(f"{len(self.delays)} of {deltas} deltas came: {self._said()}")

    def close(self) -> None:
        self._links.close()

    def _said(self) -> str:
        return " ".join(str(watcher.last[-200:]) for watcher in self.watchers)


class Ours:
    """``dragoman serve`` with the model server as its providers."""

    path = "/hub/ws"

    def __init__(self, plan: Plan, models: str) -> None:
        settings = [
            f'[native.providers.bench-{api}]\napi = "{api}"\n'
            f'base_url = "{models}{"/v1" if api in OWN else ""}"\nmodels = ["flood-10"]\n'
            for api in APIS
        ]
        self.server = Dragoman(plan.folder, settings="\n".join(settings))
        self.process, self.port = self.server.process, self.server.port
        self._cwd = str(plan.folder)

    def prepare(self, watchers: Sequence[Watcher], api: str, model: str, streams: int) -> list[str]:
        """New sessions, followed by the links in turn."""
        chosen = {"provider": f"bench-{api}", "model": model}
        sessions = []
        for number in range(streams):
            made = self.server.ask("create", kind="native", cwd=self._cwd, settings=chosen)
            sessions.append(str(made["session"]))
            follow = {"op": "follow", "id": number, "session": sessions[-1]}
            watchers[number % len(watchers)].link.send(msgspec.json.encode(follow))
        return sessions

    def begin(self, watchers: Sequence[Watcher], sessions: list[str]) -> None:  # noqa: ARG002
        for session in sessions:
            self.server.ask("submit", session=session, text="count")

    def __enter__(self) -> Ours:
        return self

    def __exit__(self, *raised: object) -> None:
        self.server.__exit__(*raised)


class Bare:
    """A bare client of the model server, and a frame for each delta."""

    path = "/ws"

    def __init__(self, plan: Plan, how: str, models: str) -> None:
        self.process = Process(module("models.bare", how, models), folder=plan.folder)
        self.port: int = self.process.line()["port"]

    def prepare(self, watchers: Sequence[Watcher], api: str, model: str, streams: int) -> list[str]:  # noqa: ARG002
        return [msgspec.json.encode({"api": api, "model": model}).decode()] * streams

    def begin(self, watchers: Sequence[Watcher], sessions: list[str]) -> None:
        for number, asked in enumerate(sessions):
            watchers[number % len(watchers)].link.send(asked.encode())

    def __enter__(self) -> Bare:
        return self

    def __exit__(self, *_: object) -> None:
        said = self.process.stop()
        if "Traceback" in said:
            raise Failed(f"a bare client logged an error: {said}")


def run(plan: Plan) -> Iterator[Row]:
    with ExitStack() as open_:
        models = open_.enter_context(Process(module("models.server"), folder=plan.folder, is_client=True))
        url = f"http://127.0.0.1:{models.line()['port']}"
        stands: dict[str, Ours | Bare] = {"ours": open_.enter_context(Ours(plan, url))}
        stands |= {how: open_.enter_context(Bare(plan, how, url)) for how in NAMES}
        paced, flooded = f"paced-{plan.paced}-{RATE}", f"flood-{plan.flooded}"
        for api in APIS:
            for how in ("ours", *BESIDE[api]):
                measured(stands[how], api, "flood-500", 500)  # warm up
            yield from _alone(plan, stands, api, paced, plan.paced, "one by one")
            yield from _alone(plan, stands, api, flooded, plan.flooded, "flooded")
        yield from _turn(plan, stands)
        yield from _many(plan, stands)


def _alone(plan: Plan, stands: dict[str, Ours | Bare], api: str, model: str, deltas: int, how: str) -> Iterator[Row]:
    """One stream and one link; a row for each of what it stands beside."""
    runs: dict[str, list[Measured]] = {name: [] for name in ("ours", *BESIDE[api])}
    for _ in range(plan.repeats):
        for name, found in runs.items():
            found.append(measured(stands[name], api, model, deltas))
    us = {name: [it.us for it in found] for name, found in runs.items()}
    for name in BESIDE[api]:
        ours, first = median(us["ours"]), name == BESIDE[api][0]
        yield Row(
            f"{api}, {how}" + ("" if first else " (the same)"),
            "us/delta",
            ours,
            median(us[name]),
            NAMES[name],
            _aim(ours) if first and api in OWN else None,
            runs=us["ours"],
            ceiling_runs=us[name],
            detail={
                "per_second": {key: [it.rate for it in found] for key, found in runs.items()},
                "p99_ms": {key: [it.delay_ms(0.99) for it in found] for key, found in runs.items()},
            },
        )


def _many(plan: Plan, stands: dict[str, Ours | Bare]) -> Iterator[Row]:
    """Many streams at once, at the pace of real models and as fast as they are taken."""
    ours, bare = (_while_all_stream(stands[name], "openai-chat", plan.streaming) for name in ("ours", "least"))
    what = f"{SESSIONS} at once, {SESSION_RATE}/s each"
    yield Row(what, "us/delta", ours.us, bare.us, NAMES["least"], _aim(ours.us))
    yield Row(f"{what}: reached", "deltas/s", ours.rate, bare.rate, NAMES["least"])
    for share in (0.5, 0.99):
        yield Row(f"{what}: p{share * 100:.0f} delay", "ms", ours.delay_ms(share), bare.delay_ms(share), NAMES["least"])
    yield Row(f"{what}: server grows by", "MB", ours.grown / 1e6, bare.grown / 1e6, NAMES["least"])
    flood = plan.flooded // 10
    ours, bare = (
        measured(stands[name], "openai-chat", f"flood-{flood}", flood * SESSIONS, SESSIONS, LINKS)
        for name in ("ours", "least")
    )
    what = f"{SESSIONS} at once, flooded"
    yield Row(what, "us/delta", ours.us, bare.us, NAMES["least"])
    yield Row(f"{what}: reached", "deltas/s", ours.rate, bare.rate, NAMES["least"])


def _turn(plan: Plan, stands: dict[str, Ours | Bare]) -> Iterator[Row]:
    """What a turn costs before and after its deltas, and how long its first delta is on its way."""
    runs: dict[str, list[Measured]] = {"ours": [], "least": []}
    for _ in range(plan.first):
        for name, found in runs.items():
            found.append(measured(stands[name], "openai-chat", "paced-1-1", 1))
    ours, bare = (median(it.cpu * 1e3 for it in found) for found in runs.values())
    yield Row("a turn of one delta, CPU", "ms", ours, bare, NAMES["least"])
    for share in (0.5, 0.99):
        ours, bare = (percentile([it.delays[0] for it in found], share) * 1e3 for found in runs.values())
        yield Row(f"first delta of an answer, p{share * 100:.0f}", "ms", ours, bare, NAMES["least"])


def _aim(us: float) -> Aim:
    return below(us, AIM_US, f"{AIM_US:g} us")


def measured(stand: Ours | Bare, api: str, model: str, deltas: int, streams: int = 1, links: int = 1) -> Measured:
    """Let ``streams`` answers be streamed to their ends, and check that every delta came."""
    with _watched(stand, api, model, streams, links) as (crowd, sessions):
        meter = Meter(stand.process)
        stand.begin(crowd.watchers, sessions)
        crowd.until("ended", streams)
        crowd.check(deltas)
        return meter.read(crowd.delays)


def _while_all_stream(stand: Ours | Bare, api: str, seconds: float) -> Measured:
    """Many streams, while all of them have begun and none has ended."""
    rss = stand.process.rss() or 0
    each = round(SESSION_RATE * (seconds + 2 * BEGIN_SECONDS))
    with _watched(stand, api, f"paced-{each}-{SESSION_RATE}", SESSIONS, LINKS) as (crowd, sessions):
        stand.begin(crowd.watchers, sessions)
        crowd.read_for(BEGIN_SECONDS)
        meter, before = Meter(stand.process), len(crowd.delays)
        crowd.read_for(seconds)
        found = meter.read(crowd.delays[before:])
        if crowd.count("ended"):
            raise Failed("a stream ended while many were measured: this machine is too slow, or too busy")
        crowd.until("ended", SESSIONS)
        crowd.check(each * SESSIONS)
    found.grown = (stand.process.rss() or 0) - rss
    return found


@contextmanager
def _watched(stand: Ours | Bare, api: str, model: str, streams: int, links: int) -> Iterator[tuple[Crowd, list[str]]]:
    """New streams that have not begun, and the links that watch them in turn."""
    crowd = Crowd(stand, links)
    try:
        sessions = stand.prepare(crowd.watchers, api, model, streams)
        if isinstance(stand, Ours):
            crowd.until("answered", streams)
        yield crowd, sessions
    finally:
        crowd.close()
