"""Watching one agent: every source of evidence comes in here, and goes out as facts and as one true state.

The state is what ``Fusion`` believes, or ``prompt`` while a dialog is open.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from dragoman.agents.common.errors import categorise
from dragoman.agents.common.hooks import read_hook
from dragoman.agents.common.ledger import Ledger
from dragoman.agents.common.observation import Activity, Dialog, Observation, Sighting, Source
from dragoman.agents.common.paced_log import PacedLog
from dragoman.agents.common.tail import LogTail
from dragoman.agents.terminal.findings import Finding, ProgramStatus, Reset, Title
from dragoman.agents.terminal.program_status import StatusReport, parse_report
from dragoman.agents.terminal.terminal import PtyTerminal
from dragoman.agents.terminal.tui import read_screen
from dragoman.agents.terminal.tui.reading import ScreenReading
from dragoman.agents.terminal.tui.titles import read_title
from dragoman.hub.errors import InvalidRequest
from dragoman.hub.events import AnyFact, Event, StateChanged, ToolCalled, ToolEnded
from dragoman.hub.ports import TapeReader
from dragoman.hub.session import Session
from dragoman.hub.standing import AgentStatus
from dragoman.hub.turns import dangling_calls

from .dialogs import Dialogs, OpenDialog
from .fusion import QUIET_BEFORE_IDLE, Belief, Fusion
from .profile import Profile
from .settings import DriverSettings

log = logging.getLogger("dragoman.terminal")

LOG_SEARCH = 1.0
"""Seconds between two searches for the agent's session log."""

HISTORY = 2.0
"""Seconds after which what a log or a hook tells is no evidence of the state any more."""

CLOCKS_APART = 60.0
"""Seconds by which what happened may lie ahead of our clock."""

BETWEEN_READS = 0.01
"""Seconds between two reads of a log that we are behind with."""

BUSY_AFTER_OUTPUT = 3.0
"""Seconds after the last sign of life for which the session log is looked at."""

REFLOWING = 1.0
"""Seconds after a resize in which a dialog may look different and be the same."""

_BLOCKED = {
    "": Dialog(kind="permission"),
    "question": Dialog(kind="question"),
    "auth": Dialog(kind="setup", subtype="login_method"),
}
"""What a status report's kind of being blocked means."""


UNKNOWN = "unknown"
"""The detail of an error of which nobody has said what it was."""

START_PATIENCE = 15.0
"""Seconds after a start in which idle must be seen on the screen too."""

DETAIL_PATIENCE = 0.4
"""Seconds for which an error that comes without a word of what it was waits for one from another source."""

REST_BEFORE_IDLE = 1.0
"""Seconds for which an input box must have been all there is, for idle, although the program goes on drawing."""


class AgentWatch:
    """One session's agent. Implements ``TerminalWatcher``; ``opened`` is called with each new dialog."""

    def __init__(
        self,
        session: Session,
        terminal: PtyTerminal,
        profile: Profile,
        settings: DriverSettings,
        *,
        opened: Callable[[OpenDialog], None],
    ) -> None:
        self._session = session
        self._terminal = terminal
        self._profile = profile
        self._settings = settings
        self._opened = opened
        self._loop = asyncio.get_running_loop()
        self.dialogs = Dialogs(session, record=self.record, changed=self._dialog_changed)
        self.ledger = Ledger()
        self.reading = ScreenReading()
        self.running = False
        self.worked = 0
        """Grows while there is evidence of work."""
        self.came_back = 0
        """Prompts of ours that the agent has shown to have taken."""
        self.broken_off = 0
        """How often a person broke off what the agent did."""
        self._fusion = Fusion()
        self._status: StatusReport | None = None
        self._titled: str | None = None
        self._published_decision: str | None = None
        self._tail: LogTail | None = None
        self._said = PacedLog(log)
        self._environment: Mapping[str, str] = {}
        self._began = 0.0
        self._launched_at = 0.0
        self._was_ready = False
        self._searched = 0.0
        self._last_output = 0.0
        self._resting_since: float | None = None
        self._failed_at: float | None = None
        self._resized_at = float("-inf")
        self._looking: asyncio.TimerHandle | None = None
        self._waking: asyncio.TimerHandle | None = None
        self._tailing: asyncio.TimerHandle | None = None
        self._waiters: set[asyncio.Future[None]] = set()
        self._unwatch: Callable[[], None] | None = None

    def begin(self, environment: Mapping[str, str], tail: LogTail | None) -> None:
        """The program runs. ``tail`` is its session log, where that is known beforehand."""
        self.running = True
        self._environment, self._tail = environment, tail
        self._fusion = Fusion(screened=self._terminal.screen is not None)
        self.ledger, self._status, self._titled = Ledger(), None, None
        self.reading = ScreenReading()
        self._began = time.time() - 1.0
        self._last_output = self._launched_at = self._loop.time()
        self._was_ready = False
        self.dialogs.screen_known = self._terminal.screen is not None
        self._unwatch = self._terminal.watch(self)

    def end(self) -> None:
        """The program is gone, with all its output."""
        self._read_log()
        self.running = False
        for timer in (self._looking, self._waking, self._tailing):
            if timer is not None:
                timer.cancel()
        self._looking = self._waking = self._tailing = None
        if self._unwatch is not None:
            self._unwatch()
            self._unwatch = None
        self.dialogs.void("the program ended")
        for end in dangling_calls(self._session.state, "the program ended", now=self._session.clock.now()):
            self.record(end)
        self._said.close()
        self._wake_waiters()

    @property
    def was_ready(self) -> bool:
        """Whether this run of the program has come as far as its input box."""
        return self._was_ready

    @property
    def state(self) -> str:
        """The state as published."""
        return self._session.state.status.state

    async def until(self, true: Callable[[], bool], limit: float | None) -> bool:
        """Wait until ``true`` holds, looked at whenever something new is known; False after ``limit`` seconds."""
        deadline = None if limit is None else self._loop.time() + limit
        while not true():
            waiter = self._loop.create_future()
            self._waiters.add(waiter)
            try:
                rest = None if deadline is None else deadline - self._loop.time()
                if rest is not None and rest <= 0:
                    return False
                await asyncio.wait({waiter}, timeout=rest)
            finally:
                self._waiters.discard(waiter)
        return True

    def _wake_waiters(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    # Watching the terminal

    def readers(self) -> Sequence[TapeReader]:
        """It looks at the screen only."""
        return ()

    def tape_grew(self) -> None:
        self._last_output = self._loop.time()
        self._look_soon(self._settings.look_interval)
        self._tail_soon()

    def screen_changed(self) -> None:
        """It looks when bytes have come, whether the picture is published or not."""

    def resized(self) -> None:
        self._resized_at = self._loop.time()
        self._look_soon(self._settings.look_interval)

    def found(self, finding: Finding) -> None:
        """What the program says beside drawing, in stream order."""
        if isinstance(finding, ProgramStatus):
            report = parse_report(finding.payload)
            if report is not None and report.id == "":
                self._reported(report)
        elif isinstance(finding, Title):
            before, self._titled = self._titled, read_title(self._profile.name, finding.text)
            state = self._titled
            opened = self.dialogs.open
            if before == "prompt" and state not in (None, "prompt") and opened is not None and opened.shown is None:
                self.dialogs.no_longer_asked(self._loop.time())
            if state is not None and self._status is None:
                self.see(Sighting(source="title", state=state, cause=f"title:{state}"))
        elif isinstance(finding, Reset):
            self._status = None
            self._fusion.unsay("status")

    def _reported(self, report: StatusReport) -> None:
        before, self._status = self._status, report
        asked = before is not None and before.state == "blocked"
        # Some rest, by their own account, while they ask: their work is the first sign that they have been answered.
        set_to_work = before is not None and report.state == "working" and before.state != "working"
        if report.state == "clear":
            self._fusion.unsay("status")
            return
        if report.state == "blocked":
            about = _BLOCKED.get(report.kind or "", _BLOCKED[""])
            self.see(Sighting(source="status", state="prompt", cause=f"status:prompt({about.kind})", dialog=about))
            return
        if asked or set_to_work:
            self.dialogs.no_longer_asked(self._loop.time())
        state: Activity = "idle" if report.state in ("idle", "done") else report.state  # type: ignore[assignment]
        error = report.msg if state == "error" else None
        self.see(Sighting(source="status", state=state, cause=f"status:{state}", error=error))

    def _look_soon(self, delay: float) -> None:
        if self._looking is None and self.running:
            self._looking = self._loop.call_later(delay, self._look_due)

    def _look_due(self) -> None:
        self._looking = None
        self.look()

    def look(self) -> ScreenReading:
        """Read the screen now and take in what it shows."""
        screen = self._terminal.screen
        if screen is None or not self.running:
            return self.reading
        if screen.held:
            self._look_soon(self._settings.look_interval)
            return self.reading
        now = self._loop.time()
        reading = self.reading = read_screen(self._profile.name, screen.snapshot(), screen.styled)
        at_rest = reading.working or reading.input_box is not None
        size = self._terminal.cols, self._terminal.rows
        resized = now - self._resized_at < REFLOWING
        self.dialogs.on_screen(reading.dialog, now, at_rest=at_rest, resized=resized, size=size)
        self._see_screen(reading, now)
        self._settle()
        self._wake_waiters()
        return reading

    def _see_screen(self, reading: ScreenReading, now: float) -> None:
        if reading.dialog is not None or reading.working or reading.input_box is None:
            self._resting_since = None
        elif self._resting_since is None:
            self._resting_since = now
        if reading.dialog is not None:
            self._fusion.unsay("screen")
        elif reading.working or self._titled_working():
            self._fusion.see(Sighting(source="screen", state="working", cause="screen:working"), now)
        elif reading.input_box is None:
            self._fusion.unsay("screen")
        elif (wait := self._rest_needed(now)) > 0:
            self._look_soon(wait)
        elif reading.error is not None:
            self._fusion.see(Sighting(source="screen", state="error", cause="screen:error", error=reading.error), now)
        else:
            self._fusion.see(Sighting(source="screen", state="idle", cause="screen:idle"), now)

    def _rest_needed(self, now: float) -> float:
        """Seconds until an input box means idle: after a little silence, or after a longer stretch of nothing else."""
        assert self._resting_since is not None
        silent = self._last_output + QUIET_BEFORE_IDLE
        return min(max(silent, self._resting_since + QUIET_BEFORE_IDLE), self._resting_since + REST_BEFORE_IDLE) - now

    def _titled_working(self) -> bool:
        """Some draw no spinner while they write, but keep one in their title."""
        return self._titled == "working"

    # Session log

    def _tail_soon(self) -> None:
        if self._tailing is None and self.running:
            self._tailing = self._loop.call_later(self._settings.log_interval, self._tail_due)

    def _tail_due(self) -> None:
        self._tailing = None
        self._read_log()
        if self._tail is not None and self._tail.behind:
            self._tailing = self._loop.call_later(BETWEEN_READS, self._tail_due)
        elif self._loop.time() - self._last_output < BUSY_AFTER_OUTPUT:
            self._tail_soon()

    def _read_log(self) -> None:
        if self._tail is None:
            self._search_log()
        if self._tail is None:
            return
        for record in self._tail.records():
            try:
                self._take(_understood(partial(self._profile.read_record, record)), "log")
            except Exception:  # one record never costs those behind it, nor a stop its verdict
                log.exception("a record of %s is not taken in", self._tail.path.name)

    def follow(self, path: Path, *, from_end: bool = False) -> LogTail:
        """The session log at this path, from its beginning or from what is written from now on."""
        return LogTail(path, self._session.limits, from_end=from_end, say=partial(self._said.warn, "log"))

    def _search_log(self) -> None:
        now = self._loop.time()
        if now - self._searched < LOG_SEARCH:
            return
        self._searched = now
        path = self._profile.find_log(self._environment, self._session.state.cwd, self._began)
        if path is not None:
            self._tail = self.follow(path)

    # Hooks

    def take_hook(self, event: str, data: dict[str, Any], at: int | None = None) -> int:
        """Take in a hook's payload. ``at`` is when it ran, in milliseconds since 1970; returns the log's head."""
        observation = _understood(lambda: read_hook(self._profile.name, event, data))
        if observation.transcript and (self._tail is None or str(self._tail.path) != observation.transcript):
            self._read_log()
            self._tail = self.follow(Path(observation.transcript), from_end=_resumes(data))
        self._take(observation, "hook", at)
        self._last_output = max(self._last_output, self._loop.time() - QUIET_BEFORE_IDLE)
        self._tail_soon()
        self._look_soon(self._settings.look_interval)
        return self._session.head

    def catch_up(self) -> None:
        """Take in what the agent has written to its log by now."""
        self._read_log()

    # Taking things in

    def _take(self, observation: Observation, source: Source, at: int | None = None) -> None:
        if observation.prompt is not None:
            self.came_back += self.ledger.came_back(observation.prompt)
        turn = self._session.state.turn
        for fact in self.ledger.admit(observation.facts):
            if turn is not None and getattr(fact, "turn", turn) is None and not _goes_on_alone(fact):
                fact = msgspec.structs.replace(fact, turn=turn.turn)  # noqa: PLW2901
            self._record_if_it_can_be(fact)
            if isinstance(fact, ToolEnded):
                self.dialogs.tool_ended(fact.call, fact.tool, fact.input)
        when = _moment(at if at is not None else observation.at)
        if when is not None and time.time() * 1000 - when > HISTORY * 1000:
            self._wake_waiters()
            return  # it happened, but says nothing of now
        if observation.interrupted:
            self.dialogs.no_longer_asked(self._loop.time(), by_itself=False)
            self._fusion.interrupt(f"{source}:idle", self._loop.time())
            self.broken_off += 1
        if observation.sighting is not None:
            self.see(observation.sighting, when)
        else:
            self._settle()
        self._wake_waiters()

    def _record_if_it_can_be(self, fact: AnyFact) -> None:
        """What no log can hold, such as a tool's input nested too deep, is left out; that there was a call is not.

        But a call has one end: one that the hub had to mark, at the end of its turn, gets no other.
        """
        if isinstance(fact, ToolEnded) and fact.call not in self._session.state.calls:
            return
        try:
            self.record(fact)
        except InvalidRequest as problem:
            self._said.warn("fact", f"something that an agent said is left out: {problem}")
            if isinstance(fact, ToolCalled):
                self.record(msgspec.structs.replace(fact, input=None))
            elif isinstance(fact, ToolEnded):
                self.record(msgspec.structs.replace(fact, input=None, output=None))

    def see(self, sighting: Sighting, at: int | None = None) -> None:
        """Take evidence. ``at`` is when it happened by the source's own clock."""
        now = self._loop.time()
        if sighting.state == "prompt":
            self.dialogs.told(sighting, now)
            self._look_soon(self._settings.look_interval)
        else:
            if sighting.source == "hook" and sighting.state == "idle" and self.dialogs.open is not None:
                self.dialogs.no_longer_asked(now, by_itself=False)
            self._fusion.see(sighting, now, at)
        self._settle()
        self._wake_waiters()

    # The state

    def _settle(self) -> None:
        """Say what is true now, if it is news; look again when time alone may change it."""
        if not self.running:
            return
        now = self._loop.time()
        self.dialogs.tick(now, at_rest=self.reading.working or self.reading.input_box is not None)
        belief = self._fusion.belief(now)
        opened = self.dialogs.open
        waits: list[float | None] = []
        if opened is not None:
            self._publish("prompt", opened.cause, decision=opened.decision)
        elif self.state == "prompt" and self._resting_since is not None and self._fusion.guesses_work(now):
            pass  # its title stopped to spin for the dialog, and its box is there: soon it is known to rest, or not
        elif belief is not None and (wait := self._unexplained(belief, now)) > 0:
            waits.append(wait)
        elif belief is not None and not self._too_early(belief.state, now):
            if belief.state == "working":
                self.worked += 1
            self._publish(belief.state, belief.cause, error=belief.error)
        elif self.state == "prompt":
            self._publish("starting", "screen:starting")  # a set-up dialog is over, and the agent is not there yet
        waits += [self._fusion.next_look(now), self.dialogs.look_again(now)]
        if (
            not self._was_ready
            and self._resting_since is not None
            and now < self._resting_since + self._profile.settles
        ):
            waits.append(self._resting_since + self._profile.settles - now)
        self._wake_in(min((wait for wait in waits if wait is not None), default=None))

    def _unexplained(self, belief: Belief, now: float) -> float:
        """Seconds to wait for a word of what an error was; none for one that has been told."""
        if belief.state != "error":
            self._failed_at = None
            return 0
        self._failed_at = self._failed_at or now
        return 0 if belief.error or self.state == "error" else self._failed_at + DETAIL_PATIENCE - now

    def _too_early(self, state: str, now: float) -> bool:
        """Agents call themselves idle before there is anything to type into, and then work for a moment more."""
        if self._was_ready or state != "idle":
            return False
        rested = self._resting_since is not None and now - self._resting_since >= self._profile.settles
        self._was_ready = rested or self._terminal.screen is None or now - self._launched_at > START_PATIENCE
        return not self._was_ready

    def _publish(self, state: str, cause: str, *, error: str | None = None, decision: str | None = None) -> None:
        status = self._session.state.status
        if state == "error" == status.state and not _explains(error, status):
            return
        if state == status.state and decision == self._published_decision and state != "error":
            return
        self._published_decision = decision
        self.record(
            StateChanged(
                prev=status.state,
                next=state,
                cause=cause,
                tape_offset=self._terminal.tape.end,
                error_detail=(error or UNKNOWN) if state == "error" else None,
                error_category=categorise(error or "") if state == "error" else None,
                decision=decision,
            )
        )

    def _wake_in(self, delay: float | None) -> None:
        if self._waking is not None:
            self._waking.cancel()
            self._waking = None
        if delay is not None:
            self._waking = self._loop.call_later(delay + 0.005, self._wake_due)

    def _wake_due(self) -> None:
        self._waking = None
        self.look()
        self._settle()
        self._wake_waiters()

    def _dialog_changed(self) -> None:
        opened = self.dialogs.open
        if opened is not None:
            self._loop.call_later(self._settings.options_timeout, self._options_overdue, opened.decision)
            self._opened(opened)
        self._wake_in(0.0)

    def _options_overdue(self, decision: str) -> None:
        if self.dialogs.open is not None and self.dialogs.open.decision == decision:
            self.dialogs.give_up_on_options()

    def record(self, fact: AnyFact) -> Event:
        """Record what the agent did: it has happened, so it is taken even while the disk does not keep up."""
        return self._session.record(fact, settling=True)


def _understood(read: Callable[[], Observation]) -> Observation:
    """What was read; nothing when our reader is at fault: an agent's words must never end its session."""
    try:
        return read()
    except Exception:
        log.exception("what an agent said cannot be read")
        return Observation()


def _goes_on_alone(fact: AnyFact) -> bool:
    """Whether it is a sub-agent's call: that may go on after the turn in which the sub-agent was started."""
    origin = fact.origin if isinstance(fact, (ToolCalled, ToolEnded)) else None
    return origin is not None and origin.subagent is not None


def _explains(error: str | None, status: AgentStatus) -> bool:
    """Whether this says more of an error than what has been told: several sources tell of it in words of their own."""
    if error is None or error == status.error_detail:
        return False
    return status.error_detail in (None, UNKNOWN) or (
        status.error_category in (None, "other") and categorise(error) != "other"
    )


def _resumes(data: Mapping[str, Any]) -> bool:
    return data.get("source") in ("resume", "fork")


def _moment(at: int | None) -> int | None:
    """When something happened, if it can have been then: what is told of it is as true without."""
    return at if at is not None and 0 <= at <= time.time() * 1000 + CLOCKS_APART * 1000 else None
