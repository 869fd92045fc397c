"""Spans leave here: from a bounded queue, in a thread of their own. Nobody ever waits for it.

A collector that refuses, is silent or slow costs that thread its time, and then spans: what does not fit the queue, or
does not get away in time, is dropped and counted.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from .settings import ExportSettings
from .spans import Span

log = logging.getLogger("dragoman.telemetry")


class Sender(Protocol):
    """What carries spans to where they are collected. Used in one thread, but for ``shutdown``."""

    def send(self, spans: Sequence[Span]) -> bool:
        """Send them; whether they arrived. May take as long as ``ExportSettings.seconds`` says."""

    def shutdown(self) -> None:
        """From any thread: let a ``send`` that waits before it tries again do so no longer."""


MakeSender = Callable[[], Sender]
"""Called in the thread; may import and connect at leisure. Raises ``ImportError`` where the library is missing."""


class SpanQueue:
    """See the module. ``start`` it, ``close`` it; between them ``offer`` may be called at any time."""

    def __init__(self, make: MakeSender, limits: ExportSettings) -> None:
        self._make = make
        self._limits = limits
        self._spans: deque[Span] = deque()
        self._changed = threading.Condition()
        self._closing = False
        self._given_up = False
        self._sender: Sender | None = None
        self._failing = False
        self._thread = threading.Thread(target=self._run, name="dragoman-spans", daemon=True)
        self._over = asyncio.Event()
        self.sent = 0
        self.dropped = 0

    def start(self) -> None:
        """Begin to send."""
        self._loop = asyncio.get_running_loop()
        self._thread.start()

    @property
    def waiting(self) -> int:
        """Spans in the queue."""
        return len(self._spans)

    def offer(self, spans: Sequence[Span]) -> None:
        """Take these; those beyond the queue's limit are dropped."""
        with self._changed:
            room = 0 if self._given_up or self._closing else self._limits.queue - len(self._spans)
            self._spans.extend(spans[: max(0, room)])
            self.dropped += max(0, len(spans) - room)
            if len(self._spans) >= self._limits.batch:
                self._changed.notify()

    async def close(self, limit: float) -> None:
        """Send what waits, within ``limit`` seconds; the rest is dropped. The thread ends once its request does."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        if not self._thread.is_alive():
            return
        try:
            async with asyncio.timeout(limit):
                await self._over.wait()
        except TimeoutError:
            self._give_up()
            log.warning("spans were not all sent within %.1f s; the rest is dropped", limit)

    def _give_up(self) -> None:
        with self._changed:
            self._given_up = True
            self.dropped += len(self._spans)
            self._spans.clear()
        if self._sender is not None:
            self._sender.shutdown()

    # In the thread

    def _run(self) -> None:
        try:
            self._sender = self._make()
            while batch := self._next():
                self._send(self._sender, batch)
            self._sender.shutdown()
        except ImportError as problem:
            log.warning("no spans are sent: %s is missing (pip install 'dragoman[otel]')", problem.name)
            self._give_up()
        except Exception:
            log.exception("no more spans are sent")
            self._give_up()
        finally:
            self._tell_over()

    def _next(self) -> list[Span]:
        """The next spans to send, once they are many or old enough; none at the end."""
        with self._changed:
            self._changed.wait_for(self._is_due, self._limits.every)
            while not self._spans and not self._closing:
                self._changed.wait_for(self._is_due, self._limits.every)
            count = 0 if self._given_up else min(len(self._spans), self._limits.batch)
            return [self._spans.popleft() for _ in range(count)]

    def _is_due(self) -> bool:
        return self._closing or len(self._spans) >= self._limits.batch

    def _send(self, sender: Sender, batch: Sequence[Span]) -> None:
        arrived = sender.send(batch)
        if arrived:
            self.sent += len(batch)
        else:
            with self._changed:
                self.dropped += len(batch)
        if arrived is self._failing:
            self._failing = not arrived
            say = log.info if arrived else log.warning
            say("spans arrive again" if arrived else "spans do not arrive and are dropped (the collector fails)")

    def _tell_over(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._over.set)
        except RuntimeError:
            log.debug("the loop was closed first")
