"""Telemetry: a tap on every session's log that turns events into spans and figures. It is told, and holds up nobody."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module

from dragoman.hub.clock import Clock, SystemClock
from dragoman.hub.events import STREAMED, AnyFact, Event
from dragoman.hub.log import SessionLog

from .activity import Activities, tag_of
from .endpoints import shown_url, traces_url
from .figures import Counted, Family, Figures, Values
from .sending import Sender, SpanQueue
from .settings import ObservabilitySettings
from .spans import SpanMaker
from .version import running_version

log = logging.getLogger("dragoman.telemetry")


class Telemetry:
    """Give it to the registry as a tap. ``start`` it before, and ``close`` it after the registry.

    ``make_sender`` stands in for OpenTelemetry's library in tests.
    """

    def __init__(
        self,
        settings: ObservabilitySettings,
        *,
        clock: Clock | None = None,
        make_sender: Callable[[], Sender] | None = None,
    ) -> None:
        self._settings = settings
        self._clock = clock or SystemClock()
        self._activities = Activities()
        self._figures = Figures(most_names=settings.metric_names)
        self._spans = SpanMaker(details=settings.details)
        self._queue = SpanQueue(make_sender or self._otlp, settings.export) if settings.enabled else None

    def start(self) -> None:
        """Begin to send spans, where that is wanted; the library for it is loaded meanwhile."""
        if self._queue is not None:
            log.info("spans go to %s", shown_url(self._url))
            self._queue.start()

    async def close(self, limit: float | None = None) -> None:
        """Send what waits: for ``limit`` seconds, and never longer than ``observability.export.close``."""
        if self._queue is not None:
            longest = self._settings.export.close
            await self._queue.close(longest if limit is None else min(limit, longest))

    def __call__(self, session: SessionLog, events: Sequence[Event]) -> None:
        """Events became durable. A mistake in here costs figures, not the events."""
        try:
            self._figures.recorded(_by_kind(events), _by_time(events), self._clock.now())
        except Exception:
            log.exception("events were not counted")
        for event in events:
            if type(event.fact) not in STREAMED:
                self._fold(session, event)

    def _fold(self, session: SessionLog, event: Event) -> None:
        try:
            self._told(session, event)
        except Exception:
            log.exception("an event was not counted")

    def _told(self, session: SessionLog, event: Event) -> None:
        for activity in self._activities.take(session.shown, event):
            self._figures.take(activity)
            if self._queue is not None:
                self._queue.offer(self._spans.spans(activity))

    def families(self) -> Iterable[Family]:
        """All figures, and what is open now. To be called on the loop."""
        yield from self._figures.families
        yield level("dragoman_turns_open", "Turns that run.", self._activities.turns_open)
        decisions: Values = {(kind,): float(count) for kind, count in self._activities.decisions_open().items()}
        yield Counted(
            name="dragoman_decisions_open",
            help="Decisions that somebody must answer.",
            labels=("kind",),
            grows=False,
            values=decisions,
        )
        if self._queue is not None:
            sent: Values = {("sent",): float(self._queue.sent), ("dropped",): float(self._queue.dropped)}
            yield Counted(name="dragoman_spans", help="Spans by what became of them.", labels=("fate",), values=sent)
            yield level("dragoman_spans_waiting", "Spans that wait to be sent.", self._queue.waiting)

    @property
    def _url(self) -> str:
        return traces_url(self._settings.otlp_endpoint, self._settings.traces_url)

    def _otlp(self) -> Sender:
        sender: Sender = import_module(f"{__package__}.otlp").OtlpSender(
            self._url,
            self._settings.headers,
            service=self._settings.service_name,
            version=running_version(),
            seconds=self._settings.export.seconds,
        )
        return sender


def _by_kind(events: Sequence[Event]) -> dict[str, int]:
    kinds: dict[type[AnyFact], int] = {}
    for event in events:
        kind = type(event.fact)
        kinds[kind] = kinds.get(kind, 0) + 1
    return {tag_of(kind): count for kind, count in kinds.items()}


def _by_time(events: Sequence[Event]) -> dict[int, int]:
    times: dict[int, int] = {}
    for event in events:
        times[event.at] = times.get(event.at, 0) + 1
    return times


def level(name: str, text: str, value: float) -> Counted:
    """A number without labels that goes up and down."""
    return Counted(name=name, help=text, grows=False, values={(): float(value)})
