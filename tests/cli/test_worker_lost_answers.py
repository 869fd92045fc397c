"""A worker whose requests are carried out while their answers are lost: nothing is begun, asked or told twice."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import TracebackType

import pytest

from tests.agents.native.model_server.script import say

from .worker_rig import LIMIT, Stage, staged, types


class Swallower:
    """A TCP relay that hands requests on, and cuts the line in place of an answer where ``swallows`` says so.

    It is asked with the first line of each connection's request. A path in ``held`` waits for its event first.
    """

    def __init__(self, port: int, swallows: Callable[[str], bool]) -> None:
        self.target = port
        self.swallowed: Counter[str] = Counter()
        self.held: dict[str, asyncio.Event] = {}
        self.arrived: set[str] = set()
        self._swallows = swallows
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Swallower:
        self._server = await asyncio.start_server(self._relay, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._open:
            task.cancel()
        await self._server.wait_closed()

    @property
    def port(self) -> int:
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        far: asyncio.StreamWriter | None = None
        try:
            head = await reader.readline()
            line = head.decode().rsplit(" ", 1)[0]
            word = line.rsplit("/", 1)[-1]
            self.arrived.add(word)
            if (gate := self.held.get(word)) is not None:
                await gate.wait()
            far_reader, far = await asyncio.open_connection("127.0.0.1", self.target)
            far.write(head)
            upward = asyncio.ensure_future(_copy(reader, far))
            try:
                if self._swallows(line):
                    await far_reader.readline()  # it was carried out
                    self.swallowed[word] += 1
                else:
                    await _copy(far_reader, writer)
            finally:
                upward.cancel()
        except OSError:
            return  # one of the two went
        finally:
            self._open.discard(task)
            for end in (writer, far):
                if end is not None:
                    end.close()


async def _copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    while data := await source.read(65536):
        sink.write(data)
        await sink.drain()


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with staged(tmp_path) as stage:
        yield stage


def every_other(*words: str) -> Callable[[str], bool]:
    """Of the POSTs to paths that end so, the answers of the first, the third… are lost."""
    count: Counter[str] = Counter()

    def swallows(line: str) -> bool:
        word = line.rsplit("/", 1)[-1]
        if not line.startswith("POST ") or word not in words:
            return False
        count[word] += 1
        return count[word] % 2 == 1

    return swallows


async def test_every_other_answer_is_lost(stage: Stage) -> None:
    stage.model.script(say(*(f"{number} " for number in range(8))))
    run = await stage.runs.create()
    words = ("heartbeat", "worker-dispatched", "events")
    async with Swallower(stage.port, every_other(*words)) as relay:
        stage.worker(port=relay.port)
        log = await stage.becomes(run, "completed")
        assert relay.swallowed["worker-dispatched"] == 1
        assert min(relay.swallowed[word] for word in words) > 0
        assert relay.swallowed["events"] >= 5
    told = [event["payload"] for event in log if event["source"] == "worker-stream"]
    assert [event["sequence"] for event in told] == list(range(1, len(told) + 1))
    assert types(log).count("run-dispatched") == 1
    await stage.asked(1)


async def test_a_stop_whose_heartbeat_was_lost_is_seen_all_the_same(stage: Stage) -> None:
    stage.waits()
    run = await stage.runs.create()
    are_lost = False

    async with Swallower(stage.port, lambda line: are_lost and line.endswith("/heartbeat")) as relay:
        worker = stage.worker(port=relay.port)
        await stage.asked()
        await stage.has(run, "streaming-response")
        are_lost = True
        await stage.runs.post(f"/{run}/control", action="stop")
        async with asyncio.timeout(LIMIT):
            while (await stage.runs.types(run))[-1] != "worker-heartbeat":
                await asyncio.sleep(0.01)
        are_lost = False
        await asyncio.wait_for(stage.model.journal[0].left.wait(), LIMIT)
        await worker.says(f"{run} stopped")
        assert "worker-control" not in await stage.runs.types(run)


async def test_a_run_that_is_paused_before_it_is_begun_is_not_asked_before_its_resume(stage: Stage) -> None:
    stage.model.script(say("at last"))
    run = await stage.runs.create()
    async with Swallower(stage.port, lambda _: False) as relay:
        relay.held["worker-dispatched"] = asyncio.Event()
        worker = stage.worker(port=relay.port)
        async with asyncio.timeout(LIMIT):
            while "worker-dispatched" not in relay.arrived:
                await asyncio.sleep(0.01)
        await stage.runs.post(f"/{run}/control", action="pause")
        relay.held["worker-dispatched"].set()
        await stage.has(run, "run-dispatched")
        await stage.runs.post(f"/{run}/control", action="set-control-mode", control_mode="human_override")
        await stage.has(run, "worker-control")
        await stage.asked(0)
        await stage.runs.post(f"/{run}/control", action="resume")
        await worker.says(f"{run} completed")
    await stage.asked(1)


async def test_a_run_that_was_stopped_before_its_dispatch_is_not_begun(stage: Stage) -> None:
    run = await stage.runs.create()
    async with Swallower(stage.port, lambda _: False) as relay:
        relay.held["worker-dispatched"] = asyncio.Event()
        worker = stage.worker(port=relay.port)
        async with asyncio.timeout(LIMIT):
            while "worker-dispatched" not in relay.arrived:
                await asyncio.sleep(0.01)
        await stage.runs.post(f"/{run}/control", action="stop")
        relay.held["worker-dispatched"].set()
        stage.model.script(say("next"))
        later = await stage.runs.create()
        await worker.says(f"{later} completed")
        assert worker.said() == [f"{later} completed"]
    await stage.asked(1)
