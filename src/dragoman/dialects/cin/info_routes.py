"""What a dashboard asks of the server itself (spec §3.5): its health, its version, who and where it is, its figures."""

from __future__ import annotations

import asyncio
import functools
import getpass
import socket
from collections import defaultdict

import msgspec
from starlette.responses import Response
from starlette.routing import Route

from dragoman.hub.events import Event, ToolCalled, ToolEnded, UsageReported
from dragoman.services.observability.version import running_version

from .calls import Call, ok, plain, resource
from .host import Host
from .projection import when

UPDATE = "pip install --upgrade dragoman"


class Spent(msgspec.Struct):
    """Tokens of a session, of its newest report and together."""

    current: int = 0
    cumulative: int = 0


class Figures:
    """``/stats``. One at a time: each reads what many sessions did."""

    def __init__(self) -> None:
        self._reading = asyncio.Lock()

    async def answer(self, call: Call) -> Response:
        """How often the tools of late were called, how long they took (ms), and what sessions spent."""
        registry, most = call.host.registry, call.host.settings.history_events
        async with self._reading:
            calls = await registry.newest(call.principal, 2 * most, facts=["tool.called", "tool.ended"])
            spent = await registry.newest(call.principal, most, facts=["usage.reported"])
        counts, durations = tools_used(calls)
        total = _events(call)
        return plain(
            {"totalEvents": total, "toolCounts": counts, "avgDurations": durations, "tokens": tokens_spent(spent)}
        )


def info_routes(host: Host) -> list[Route]:
    """See the module."""
    return [
        resource(host, "/health", GET=health),
        resource(host, "/config", GET=config),
        resource(host, "/info", GET=info),
        resource(host, "/stats", GET=Figures().answer),
        resource(host, "/version.json", GET=version),
    ]


async def health(call: Call) -> Response:
    """``events`` counts what stands in the logs of all sessions that the caller may see."""
    return ok(
        version=await asyncio.to_thread(_version),
        clients=call.host.clients(),
        events=_events(call),
        voiceEnabled=False,
    )


async def config(_: Call) -> Response:
    """``tmuxSession`` is a word for the dashboard to show: no session is in anybody's tmux unless it says so."""
    user, host = await asyncio.to_thread(_names)
    return plain({"username": user, "hostname": host, "tmuxSession": "dragoman"})


async def info(call: Call) -> Response:
    return ok(cwd=str(call.host.folder))


async def version(_: Call) -> Response:
    """The server knows of no release but its own."""
    running = await asyncio.to_thread(_version)
    return plain({"latest": running, "minSupported": "0.0.0", "releaseUrl": "", "updateCommand": UPDATE})


def tools_used(events: list[tuple[str, Event]]) -> tuple[dict[str, int], dict[str, int]]:
    """By tool: how often, and how long on average where that is known: by whoever ran it, else from its begin."""
    counts: defaultdict[str, int] = defaultdict(int)
    times: defaultdict[str, list[int]] = defaultdict(list)
    began: dict[tuple[str, str], int] = {}
    for session, event in events:
        fact = event.fact
        if isinstance(fact, ToolCalled):
            began[session, fact.call] = when(fact, event)
            continue
        assert isinstance(fact, ToolEnded)
        counts[fact.tool] += 1
        start = began.pop((session, fact.call), None)
        if fact.duration_ms is not None:
            times[fact.tool].append(fact.duration_ms)
        elif start is not None:
            times[fact.tool].append(max(0, when(fact, event) - start))
    return dict(counts), {tool: round(sum(all_) / len(all_)) for tool, all_ in times.items()}


def tokens_spent(events: list[tuple[str, Event]]) -> dict[str, Spent]:
    """By session. Of several reports of one message the last counts."""
    reports: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for session, event in events:
        fact = event.fact
        assert isinstance(fact, UsageReported)
        reports[session].pop(fact.message, None)
        reports[session][fact.message] = (fact.input_tokens or 0) + (fact.output_tokens or 0)
    return {session: Spent(list(each.values())[-1], sum(each.values())) for session, each in reports.items()}


@functools.cache
def _version() -> str:
    return running_version()


def _events(call: Call) -> int:
    return sum(row.head for row in call.host.registry.rows(call.principal))


def _names() -> tuple[str, str]:
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # nobody has a name for whom the server runs as
        user = "unknown"
    return user, socket.gethostname()
