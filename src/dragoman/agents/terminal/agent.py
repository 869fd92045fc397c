"""The terminal agent: a program on a PTY as a session, and the log of what became of it."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path

from dragoman.agents.common.orphans import LostProgram, end_orphans
from dragoman.agents.common.processes import ProcessTable
from dragoman.hub.errors import (
    NOT_JSON,
    AlreadyRunning,
    Closed,
    LimitReached,
    NotRunning,
    StorageUnavailable,
    Unsupported,
)
from dragoman.hub.events import (
    AgentExited,
    AgentStarted,
    Answer,
    AnyFact,
    DecisionResolved,
    DecisionRevised,
    Event,
    Json,
    LogWritten,
    Notified,
    PromptSubmitted,
    StateChanged,
    TerminalReserved,
    TerminalResized,
    TerminalTitled,
)
from dragoman.hub.permissions import widening
from dragoman.hub.ports import Hooks
from dragoman.hub.session import Session
from dragoman.hub.standing import Executor
from dragoman.hub.turns import TurnContext

from .drivers.driver import AgentDriver
from .drivers.hook_folder import sweep_hook_folders
from .drivers.table import make_driver
from .environment import child_environment
from .findings import Finding, Notification, Title
from .memory import MemoryReturn
from .options import PRIVATE_OPTIONS, check_options, options_from
from .paced_facts import PacedFacts
from .settings import TerminalSettings
from .shelf import Shelf, sweep_shelves
from .terminal import PtyTerminal
from .tmux import Pane, find_pane

log = logging.getLogger("dragoman.terminal")

TAPE_RESERVE = 1024**3
"""Tape offsets set aside ahead of the program: none of them is used again should the server be lost."""


class TerminalFactory:
    """Makes terminal agents; knows how many programs run. ``url`` gives a session's COOP_URL."""

    kind = "terminal"
    elsewhere = False

    def __init__(self, settings: TerminalSettings, *, folder: Path, url: Callable[[str], str]) -> None:
        self.settings = settings
        self.url = url
        self.processes = ProcessTable()
        self.running = 0
        self.memory = MemoryReturn()
        self._folder = folder

    def validate(self, agent: str, cwd: str, options: dict[str, object]) -> dict[str, object]:
        """Check everything that can be checked before a session exists; returns what the log may hold."""
        check_options(agent, cwd, options_from(options), self.settings)
        return {name: value for name, value in options.items() if name not in PRIVATE_OPTIONS}

    def check_settings(self, changes: Mapping[str, Json]) -> None:
        """The hub checks those that have a meaning here."""

    def widens(self, before: Mapping[str, Json], changes: Mapping[str, Json]) -> bool:  # noqa: ARG002
        return widening(changes)

    def adopt(self, session: str, options: dict[str, object]) -> None:
        """Keep what the log may not hold."""
        given = options_from(options)
        for name, kept_as in PRIVATE_OPTIONS.items():
            if values := getattr(given, name):
                self.shelf(session).keep_private(kept_as, values)

    def make(self, session: Session) -> TerminalAgent:
        return TerminalAgent(session, self)

    def shelf(self, session: str) -> Shelf:
        """The session's folder on disk."""
        return Shelf(self._folder / session)

    async def sweep(self, kept: Collection[str]) -> Collection[str]:
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, sweep_shelves, self._folder, kept)
        await loop.run_in_executor(None, sweep_hook_folders)
        markers = {process.marker for process in await self.processes.read()}
        return [session for session in kept if session in markers]

    async def recover(self, session: Session, lost: Executor | None) -> None:
        """End what the lost server left running, and say in the log what was found."""
        if lost is None or session.state.options.get("attach") is not None:
            # What runs in somebody's tmux was never ours to end; the client that we had there carries the marker.
            program = LostProgram(pid=None, pid_start=None, marker=session.id)
        else:
            began = lost.started_at / 1000
            program = LostProgram(pid=lost.pid, pid_start=lost.pid_start, marker=session.id, started_at=began)
        (report,) = await end_orphans([program], schedule=self.settings.schedule, processes=self.processes)
        if line := report.line:
            session.record(LogWritten(line=line, level="warning"), settling=True)
            log.warning("session %s: %s", session.id, line)

    def dropped(self, session: str) -> None:
        self.shelf(session).remove()


class TerminalAgent:
    """One session's program. Implements the hub's ``Agent`` and the terminal's ``TerminalUser``."""

    own_tools: Collection[str] = ()
    offered_tools: Collection[str] = ()
    holds = False

    def __init__(self, session: Session, factory: TerminalFactory) -> None:
        self._session = session
        self._factory = factory
        self._options = options_from(session.state.options)
        self._shelf = factory.shelf(session.id)
        self._starting = asyncio.Lock()
        self._over = asyncio.Event()
        self._over.set()
        self._closing = False
        self._reserved = 0
        self._notes: dict[str, PacedFacts] = {}
        settings = factory.settings
        self._size = self._options.size(settings)
        self.terminal: PtyTerminal = PtyTerminal(
            self,
            settings,
            load_tape=lambda: self._shelf.load_tape(settings.tape, session.state.tape_end),
            last_screen=self._shelf.load_screen(*self._size, session.state.tape_end),
            model=settings.model if self._options.model is None else self._options.model,
        )
        self.driver = make_driver(
            session.state.agent,
            session,
            self.terminal,
            settings.driver,
            groom=self._options.groom,
            config=self._shelf.private(PRIVATE_OPTIONS["agent_config"]),
            resume=self._options.resume,
        )

    @property
    def hooks(self) -> Hooks | None:
        return self.driver

    # Agent

    async def start(self) -> None:
        """Spawn the program. Raises ``AlreadyRunning``, ``InvalidRequest``, ``LimitReached``, ``StorageUnavailable``.

        It runs at once, but its bytes wait until its start is durable.
        """
        async with self._starting:
            if not self._over.is_set():
                raise AlreadyRunning("the program runs already")
            factory = self._factory
            await self.terminal.settled(factory.settings.schedule.give_up)
            if factory.running >= factory.settings.live:
                raise LimitReached(f"{factory.settings.live} programs run (terminal.live)")
            factory.running += 1
            try:
                await self._launch(self._session.state.runs + 1)
            except BaseException as problem:
                factory.running -= 1
                if isinstance(problem, (OSError, *NOT_JSON)):
                    raise StorageUnavailable(f"what is kept for this session cannot be used: {problem}") from problem
                raise
            self._started(self._session.state.runs + 1)

    async def _launch(self, run: int) -> None:
        session, settings = self._session, self._factory.settings
        pane = None
        if self._options.attach is not None:
            pane = await self._find_pane(self._options.attach)
            self._size = pane.size
        recorded = settings.record if self._options.record is None else self._options.record
        recording = None
        if recorded:
            recording = await self._shelf.record(run, *self._size, session.state.title, settings.term)
        try:
            command, environment = await self._prepared()
            self._check_open()  # it may have been closed while the recording was made
            self.terminal.launch(
                command,
                cwd=session.state.cwd,
                env=environment,
                size=self._size,
                recording=recording,
                processes=self._factory.processes,
                pane=pane,
            )
        except BaseException:
            if self.driver is not None:
                self.driver.abandoned()
            if recording is not None:
                await recording.close()
                self._shelf.discard_recording()
            raise

    async def _prepared(self) -> tuple[tuple[str, ...], dict[str, str]]:
        """The command and the environment, with what the driver adds so that it hears of the agent."""
        command, environment = self._options.command, self._environment()
        if self.driver is None or self._options.attach is not None:
            return command, environment
        arguments, more = await self.driver.prepare(
            self._shelf.made(), cwd=self._session.state.cwd, command=command, environment=environment
        )
        return (*command, *arguments), {**environment, **more}

    async def _find_pane(self, attach: str) -> Pane:
        options = self._options
        environment = {**os.environ, **self._shelf.private(PRIVATE_OPTIONS["env"])}
        return await find_pane(
            attach, environment, wanted=(options.cols, options.rows), pasting=self.driver is not None
        )

    def _check_open(self) -> None:
        if self._session.closing:
            raise Closed(self._session.id)

    def _started(self, run: int) -> None:
        self._over.clear()
        self._closing = False
        started = self._record(
            AgentStarted(
                pid=self.terminal.pid,
                pid_start=self.terminal.pid_start,
                cols=self._size[0],
                rows=self._size[1],
                tape_offset=self.terminal.tape.end,
                tape_reserved=self._reserve(),
                run=run,
            )
        )
        if self.driver is not None:
            self.driver.launched()
        self._session.tasks.start(self._begin(started.seq), f"begin:{self._session.id}")

    async def _begin(self, seq: int) -> None:
        """Show nobody a byte whose offset a crash would give away again: its reservation comes first (invariant 7)."""
        await self._session.durable(seq)
        self.terminal.begin()

    def _environment(self) -> dict[str, str]:
        session, factory = self._session.id, self._factory
        return child_environment(
            os.environ,
            term=factory.settings.term,
            url=factory.url(session),
            session=session,
            extra=self._shelf.private(PRIVATE_OPTIONS["env"]),
        )

    def check(self, prompt: PromptSubmitted) -> None:
        driver = self._driver()
        if any(it.kind != "file" for it in prompt.attachments):
            raise Unsupported("a program at a terminal is told of files only, not shown pictures")
        if not self.terminal.running:
            raise NotRunning("the program does not run")
        driver.check()

    async def run_turn(self, turn: TurnContext) -> str | None:
        return await self._driver().run_turn(turn)

    def answering(self, decision: str, answer: Answer) -> AbstractAsyncContextManager[None]:
        return nullcontext() if self.driver is None else self.driver.answering(decision, answer)

    def resolved(self, outcome: DecisionResolved, answer: Answer | None) -> None:
        if self.driver is not None:
            self.driver.resolved(outcome, answer)

    def progressed(self, revision: DecisionRevised) -> None:
        if self.driver is not None:
            self.driver.progressed(revision)

    def _driver(self) -> AgentDriver:
        if self.driver is None:
            raise Unsupported("no agent driver configured")
        return self.driver

    async def compact(self) -> None:
        raise Unsupported("the program keeps its own context")

    async def close(self, budget: float) -> None:
        if self._over.is_set():
            return
        self._closing = True
        self.terminal.begin()
        try:
            async with asyncio.timeout(budget):
                await self.terminal.terminate(self._factory.settings.schedule.within(budget))
                await self._over.wait()
        except TimeoutError:
            log.warning("session %s: its program could not be ended within %.1f s", self._session.id, budget)

    # TerminalUser

    def began_to_write(self) -> None:
        if self.driver is None:
            self._move("working", "process:activity")

    def found(self, finding: Finding) -> None:
        if self.driver is not None:
            self.driver.found(finding)
        if isinstance(finding, Title):
            self._note("title", TerminalTitled(title=finding.text, tape_offset=finding.offset))
        elif isinstance(finding, Notification) and finding.kind == "message":
            text = f"{finding.title}: {finding.text}" if finding.title else finding.text
            self._note("notification", Notified(message=text, kind="terminal"))

    def wrote(self, end: int) -> None:
        if end > self._reserved - TAPE_RESERVE // 2:
            self._record(TerminalReserved(tape_reserved=self._reserve()))

    def _reserve(self) -> int:
        self._reserved = self.terminal.tape.end + TAPE_RESERVE
        return self._reserved

    def was_resized(self, cols: int, rows: int, by: str | None) -> None:
        self._size = (cols, rows)
        self._record(TerminalResized(cols=cols, rows=rows, tape_offset=self.terminal.tape.end, by=by))

    def ended(self, code: int | None, signal: int | None) -> None:
        self._session.tasks.start(self._finish(code, signal), f"exit:{self._session.id}")

    async def _finish(self, code: int | None, signal: int | None) -> None:
        """Put tape and picture away, then say that it ended: whoever reads the end finds both."""
        terminal = self.terminal
        if self.driver is not None:
            self.driver.ended()
        for note in self._notes.values():
            note.flush()
        saved = False
        try:
            screen = terminal.freeze()
            recording = terminal.take_recording()
            if recording is not None:
                await recording.close()
            await asyncio.get_running_loop().run_in_executor(None, self._shelf.save_end, terminal.tape, screen)
            saved = True
        except OSError as problem:
            log.warning("session %s: its tape is not kept: %s", self._session.id, problem)
        finally:
            self._factory.running -= 1
            try:
                self._exited(code, signal)
            finally:
                self._over.set()
            if saved:
                terminal.put_tape_away()
            self._factory.memory.soon()

    def _exited(self, code: int | None, signal: int | None) -> None:
        end = self.terminal.tape.end
        self._record(
            AgentExited(
                cause="closed" if self._closing else "signal" if signal is not None else "exit",
                code=code,
                signal=signal,
                tape_offset=end,
                bytes_read=end,
                bytes_written=self.terminal.bytes_written,
            )
        )
        self._move("exited", "process:exit")

    def _move(self, state: str, cause: str) -> None:
        before = self._session.state.status.state
        if state != before:
            self._record(StateChanged(prev=before, next=state, cause=cause, tape_offset=self.terminal.tape.end))

    def _note(self, kind: str, fact: AnyFact) -> None:
        self._notes.setdefault(kind, PacedFacts(self._record_note)).put(fact)

    def _record_note(self, fact: AnyFact) -> None:
        # Compared only now: a title that was set and set back within the interval has not changed.
        if not isinstance(fact, TerminalTitled) or fact.title != self._session.state.window_title:
            self._record(fact)

    def _record(self, fact: AnyFact) -> Event:
        """Record what the program did: it has happened, so it is taken even while the disk does not keep up."""
        return self._session.record(fact, settling=True)
