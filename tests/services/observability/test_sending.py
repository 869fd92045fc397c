"""A collector that is dead, silent, slow or wrong holds up nobody (coworker's defect: export stalled turns)."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from dragoman.services.observability import ObservabilitySettings, Telemetry
from dragoman.services.observability.sending import Sender, SpanQueue
from dragoman.services.observability.settings import ExportSettings
from dragoman.services.observability.spans import Span
from tests.hub.rig import until

from .watched import QUICK, Collector, watching


def span(number: int = 1) -> Span:
    return Span(trace=1, span=number, parent=None, name=f"span {number}", began=0, ended=1, attributes={})


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "dragoman-spans"]


async def test_a_turn_ends_while_the_exporter_is_stuck(tmp_path: Path) -> None:
    """No await on an export is in a turn's path: the exporter hangs from before the turn until after it."""
    async with watching(tmp_path, export={"every": 0.01, "close": 0.05}) as watched:
        watched.collector.open.clear()
        session = await watched.session()
        await watched.turn(session)
        await until(watched.collector.entered.is_set)
        for _ in range(20):
            await watched.turn(session)
        assert not watched.collector.open.is_set()
        assert not watched.collector.spans
        began = asyncio.get_running_loop().time()
        await watched.telemetry.close()
        assert asyncio.get_running_loop().time() - began < 2
        assert watched.collector.is_down
        watched.collector.open.set()
        await until(lambda: not threads())
        assert watched.value("dragoman_spans", fate="dropped") == 60


async def test_the_end_waits_no_longer_than_it_is_told(tmp_path: Path) -> None:
    async with watching(tmp_path, export={"every": 0.01, "close": 60.0}) as watched:
        watched.collector.open.clear()
        await watched.turn(await watched.session())
        await until(watched.collector.entered.is_set)
        await asyncio.wait_for(watched.telemetry.close(0.05), 2)
        watched.collector.open.set()
    await until(lambda: not threads())


async def test_what_waits_is_sent_at_the_end() -> None:
    collector = Collector()
    queue = SpanQueue(lambda: collector, ExportSettings(every=60.0, batch=3))
    queue.start()
    queue.offer([span(n) for n in range(8)])
    await queue.close(5.0)
    assert [it.span for it in collector.spans] == list(range(8))
    assert collector.batches == [3, 3, 2]
    assert collector.is_down
    assert (queue.sent, queue.dropped, queue.waiting) == (8, 0, 0)
    await until(lambda: not threads())


async def test_few_spans_are_sent_after_a_while_and_many_at_once() -> None:
    collector = Collector()
    queue = SpanQueue(lambda: collector, ExportSettings(every=0.01, batch=100))
    queue.start()
    queue.offer([span()])
    await until(lambda: queue.sent == 1)
    await queue.close(5.0)
    queue = SpanQueue(lambda: collector, ExportSettings(every=60.0, batch=2))
    queue.start()
    queue.offer([span(), span()])
    await until(lambda: queue.sent == 2)
    await queue.close(5.0)


async def test_the_queue_is_bounded() -> None:
    collector = Collector()
    collector.open.clear()
    queue = SpanQueue(lambda: collector, ExportSettings(every=0.01, queue=10, batch=5))
    queue.start()
    queue.offer([span()])
    await until(collector.entered.is_set)
    queue.offer([span(n) for n in range(100)])
    queue.offer([span()])
    assert (queue.waiting, queue.dropped) == (10, 91)
    collector.open.set()
    await queue.close(5.0)
    assert queue.sent == 11
    queue.offer([span()])
    assert queue.dropped == 92


async def test_a_failing_collector_is_told_of_once_and_when_it_is_back(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "dragoman.telemetry")
    collector = Collector()
    collector.arrives = False
    queue = SpanQueue(lambda: collector, QUICK)
    queue.start()
    for number in range(1, 4):
        queue.offer([span()])
        await until(lambda: queue.dropped == number)  # noqa: B023  waited for at once
    collector.arrives = True
    queue.offer([span()])
    await until(lambda: queue.sent == 1)
    await queue.close(5.0)
    assert [record.getMessage().split(" (")[0] for record in caplog.records] == [
        "spans do not arrive and are dropped",
        "spans arrive again",
    ]


async def test_a_missing_library_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    def make() -> Sender:
        raise ModuleNotFoundError("No module named 'opentelemetry'", name="opentelemetry")

    queue = SpanQueue(make, QUICK)
    queue.start()
    await until(lambda: not threads())
    for _ in range(3):
        queue.offer([span()])
    await queue.close(5.0)
    [record] = caplog.records
    assert "opentelemetry is missing (pip install 'dragoman[otel]')" in record.getMessage()
    assert queue.dropped == 3


async def test_a_mistake_in_the_exporter_ends_the_sending_and_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Collector):
        def send(self, spans: Sequence[Span]) -> bool:
            raise RuntimeError("a mistake")

    queue = SpanQueue(Broken, QUICK)
    queue.start()
    queue.offer([span()])
    await until(lambda: not threads())
    queue.offer([span()])
    await queue.close(5.0)
    assert "no more spans are sent" in caplog.text


async def test_nothing_runs_where_it_is_off(tmp_path: Path) -> None:
    def make() -> Sender:
        raise AssertionError("nothing is sent")

    telemetry = Telemetry(ObservabilitySettings(), make_sender=make)
    telemetry.start()
    assert not threads()
    await telemetry.close()
    async with watching(tmp_path, enabled=False) as watched:
        await watched.turn(await watched.session())
        assert watched.value("dragoman_turns", kind="puppet", agent="scripted", outcome="completed") == 1
        assert not threads()


async def test_closing_what_was_never_started_is_quick() -> None:
    await SpanQueue(Collector, QUICK).close(60.0)
