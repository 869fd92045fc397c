"""What came of sessions, for ``/sessions``: derived from the journal, kept in ``session_results.jsonl``.

Nothing is queued but the ids of sessions of which something may be new: what is true of one is looked up when its turn
to be written comes. So a slow disk delays no turn and costs no memory, a turn that ends while nobody is connected is
written like any other, and a start puts right what a lost server left behind.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Raw

from dragoman.hub.errors import Closed, Gone, HubError, UnknownSession
from dragoman.hub.events import AnyFact, PromptSubmitted, TurnEnded, TurnStarted
from dragoman.hub.journal import SessionRow
from dragoman.hub.permissions import LOCAL
from dragoman.hub.registry import Registry
from dragoman.hub.session import Session
from dragoman.hub.tasks import TaskOwner

from .results_file import LIVE, Line, ResultsFile, shown

log = logging.getLogger("dragoman.onion")

OWNERS = "onion:"
"""How the principals begin whose sessions are this dialect's."""

RETRY = 5.0
"""Seconds until a disk that took nothing is tried again."""

PATIENCE = 2.0
"""Seconds that a reader waits for what is still to be written."""

_FIRST_PAGE, _PAGE = 32, 256
"""Events that are read at once, backwards, to find how a turn began or ended."""

_PAGES = 400
"""Such pages at most."""

_STATUS = {"completed": "done", "cancelled": "done", "failed": "error", "interrupted": "interrupted"}

_APPROVALS = frozenset({"permission", "plan", "setup"})

T = TypeVar("T")


class Shown(msgspec.Struct, frozen=True):
    """A session as its clients see it: the session object, and what its newest turn came to."""

    session: Raw
    result: str


Show = Callable[[Session, str], Awaitable[Shown]]
"""How a session looks under its clients' own id."""

Name = Callable[[Session], str | None]
"""That id; None where nobody has said it yet."""

Sees = Callable[[str], bool]
"""Whether a reader may know of sessions that belong to this principal."""


class _Begun(msgspec.Struct, frozen=True):
    """How a turn began: with which prompt, and when (seconds since 1970)."""

    turn: str
    prompt: str
    at: float


class Results:
    """The store. ``seconds`` is for how long a result is told, ``most`` bounds the bytes of the file."""

    def __init__(self, registry: Registry, folder: Path, *, name: Name, show: Show, seconds: float, most: int) -> None:
        self._registry = registry
        self._name = name
        self._show = show
        self._seconds = seconds
        self._file = ResultsFile(folder, most=most, now=self._now)
        self._tasks = TaskOwner("onion-results")
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="onion-results")
        self._waiting: dict[str, None] = {}
        self._woken = asyncio.Event()
        self._settled = asyncio.Event()
        self._followed: dict[str, Callable[[], None]] = {}
        self._began: dict[str, _Begun] = {}
        """How the turns began that run now."""
        self._stop_watching: Callable[[], None] = _nothing
        self._failing = False
        self._usable = False

    # Life

    def start(self) -> None:
        """Begin: read the file, put right what a lost server left, and keep up from then on."""
        self._stop_watching = self._registry.watch(self._row_changed)
        self._tasks.start(self._run(), "writer")

    async def close(self, budget: float) -> None:
        """Write what is still to be written, within ``budget`` seconds, and let go."""
        self._stop_watching()
        await self._wait_settled(budget * 0.7)
        for stop in self._followed.values():
            stop()
        self._followed.clear()
        await self._tasks.close(budget * 0.3)
        self._thread.submit(self._file.close)
        self._thread.shutdown(wait=False)

    # Reading

    async def find(self, name: str, sees: Sees) -> bytes | None:
        """The newest result of the session that a client's id or our own names, as JSON; None where there is none that
        this reader may see."""
        await self._wait_settled(PATIENCE)
        return await self._in_thread(lambda: self._find(name, sees)) if self._usable else None

    async def newest(self, sees: Sees, *, count: int, most: int) -> list[bytes]:
        """Results as JSON, the newest first: ``count`` of them and ``most`` bytes at most."""
        await self._wait_settled(PATIENCE)
        return await self._in_thread(lambda: self._newest(sees, count, most)) if self._usable else []

    # Inside: watching

    def _now(self) -> float:
        return self._registry.clock.now() / 1000

    def _row_changed(self, row: SessionRow) -> None:
        if row.owner.startswith(OWNERS):
            self._mark(row.session)

    def _mark(self, session: str) -> None:
        self._waiting[session] = None
        self._settled.clear()
        self._woken.set()

    def _follow(self, session: Session) -> None:
        """While a turn runs its session is watched: the row says nothing of a turn that another one follows at once."""
        if session.id not in self._followed:
            self._followed[session.id] = session.watch(lambda: self._moved(session))

    def _moved(self, session: Session) -> None:
        if self._standing(session) != self._written(session.id):
            self._mark(session.id)

    def _unfollow(self, session: str) -> None:
        self._followed.pop(session, _nothing)()

    # Inside: writing

    async def _run(self) -> None:
        try:
            await self._in_thread(self._file.open)
        except OSError as problem:
            log.warning("results of onion sessions are not kept: %s", problem)
            self._stop_watching()
            self._waiting.clear()
            self._settled.set()
            return
        self._usable = True
        self._look_back()
        while True:
            if not self._waiting:
                await self._purge()
            if not self._waiting:
                self._settled.set()
                self._woken.clear()
                await self._woken.wait()
            name = next(iter(self._waiting))
            del self._waiting[name]
            await self._write(name)

    def _look_back(self) -> None:
        """Of which sessions something may be new since the server that wrote the file."""
        oldest = (self._now() - self._seconds) * 1000
        for row in self._registry.rows(LOCAL):
            if row.owner.startswith(OWNERS) and row.changed_at > oldest:
                self._mark(row.session)
        there = {row.session for row in self._registry.rows(LOCAL)}
        for entry in self._file.entries():
            if entry.status in LIVE or entry.hub not in there:
                self._mark(entry.hub)

    async def _purge(self) -> None:
        try:
            await self._in_thread(self._file.purge)
        except OSError as problem:
            log.warning("what came of deleted sessions cannot be removed now: %s", problem)

    async def _write(self, name: str) -> None:
        try:
            await self._write_now(name)
        except OSError as problem:
            if not self._failing:
                log.warning("results of onion sessions cannot be written: %s", problem)
            self._failing = True
            self._waiting[name] = None
            self._settled.set()  # whoever reads is told what there is
            await asyncio.sleep(RETRY)
        except HubError as problem:
            log.warning("the result of session %s is not kept: %s", name, problem)
        except Exception:
            log.exception("the result of session %s is not kept", name)

    async def _write_now(self, name: str) -> None:
        try:
            session = await self._registry.get(LOCAL, name)
        except Closed:  # the server stops; the next one finds it
            return
        except (UnknownSession, Gone):
            self._unfollow(name)
            self._began.pop(name, None)
            await self._in_thread(lambda: self._file.forget(name))
            return
        if session.shown.turn is not None:
            self._follow(session)
        else:
            self._unfollow(name)
        standing = self._standing(session)
        if standing is not None and standing == self._written(name):
            return
        line = await self._line(session)
        if line is not None:
            await self._in_thread(lambda: self._file.append(line))
            self._failing = False

    def _standing(self, session: Session) -> tuple[str, str] | None:
        """The open turn and what it does; None while none is open."""
        turn = session.shown.turn
        if turn is None:
            return None
        waits = any(opened.kind in _APPROVALS for opened in session.shown.decisions.values())
        return turn.turn, "waiting_approval" if waits else "running"

    def _written(self, name: str) -> tuple[str, str] | None:
        """The same, as the file has it."""
        entry = self._file.entry(name)
        return (entry.turn, entry.status) if entry is not None and entry.status in LIVE else None

    async def _line(self, session: Session) -> Line | None:
        """What is true of the session now; None where no turn of it is known that is not written already."""
        standing = self._standing(session)
        if standing is not None:
            return await self._running(session, *standing)
        ended = await self._ended(session)
        entry = self._file.entry(session.id)
        if ended is None or (entry is not None and entry.turn == ended.turn and entry.status not in LIVE):
            return None
        begun = await self._beginning(session, ended.turn)
        self._began.pop(session.id, None)
        name = self._name_of(session)
        as_shown = await self._show(session, name)
        return Line(
            session_id=name,
            status=_STATUS[ended.outcome],
            prompt=begun.prompt,
            result=ended.problem.message if ended.problem is not None else as_shown.result,
            session=as_shown.session,
            created=begun.at,
            expires=self._now() + self._seconds,
            duration_ms=ended.duration_ms,
            hub=session.id,
            owner=session.shown.owner,
            turn=ended.turn,
        )

    async def _running(self, session: Session, turn: str, status: str) -> Line:
        begun = self._began[session.id] = await self._beginning(session, turn)
        name = self._name_of(session)
        waits = status == "waiting_approval"
        return Line(
            session_id=name,
            status=status,
            prompt=begun.prompt,
            session=(await self._show(session, name)).session if waits else Raw(b"null"),
            created=begun.at,
            expires=self._now() + self._seconds,
            hub=session.id,
            owner=session.shown.owner,
            turn=turn,
        )

    def _name_of(self, session: Session) -> str:
        """What clients call it; for one that nobody has named since the server began, what it was called before."""
        name = self._name(session)
        if name is None:
            known = self._file.entry(session.id)
            name = known.session_id if known is not None else session.id
        return name

    async def _ended(self, session: Session) -> TurnEnded | None:
        """How the newest turn ended."""
        if not session.shown.prompts:
            return None
        async for fact, _ in _backwards(session):
            if isinstance(fact, TurnEnded):
                return fact
        return None

    async def _beginning(self, session: Session, turn: str) -> _Begun:
        begun, entry = self._began.get(session.id), self._file.entry(session.id)
        if begun is not None and begun.turn == turn:
            return begun
        if entry is not None and entry.turn == turn:
            known = await self._in_thread(lambda: self._file.read(entry))
            if known is not None:
                return _Begun(turn, known.prompt, known.created)
        prompt, created = None, self._now()
        async for fact, at in _backwards(session):
            if isinstance(fact, TurnStarted) and fact.turn == turn:
                prompt, created = fact.prompt, at / 1000
            if isinstance(fact, PromptSubmitted) and fact.prompt == prompt:
                return _Begun(turn, fact.text, created)
        return _Begun(turn, "", created)

    # Inside: the thread

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    async def _wait_settled(self, limit: float) -> None:
        if self._failing:
            return
        try:
            async with asyncio.timeout(limit):
                await self._settled.wait()
        except TimeoutError:
            return

    def _find(self, name: str, sees: Sees) -> bytes | None:
        for entry in self._file.entries():
            if name in (entry.session_id, entry.hub) and sees(entry.owner):
                line = self._file.read(entry)
                return shown(line) if line is not None else None
        return None

    def _newest(self, sees: Sees, count: int, most: int) -> list[bytes]:
        found: list[bytes] = []
        for entry in self._file.entries():
            if len(found) >= count:
                break
            if not sees(entry.owner) or entry.length > most:
                continue
            most -= entry.length
            line = self._file.read(entry)
            if line is not None:
                found.append(shown(line))
        return found


async def _backwards(session: Session) -> AsyncIterator[tuple[AnyFact, int]]:
    """The facts of a session's log with their times, the newest first, as far back as is reasonable. The newest are in
    memory mostly."""
    before, page = session.shown.seq + 1, _FIRST_PAGE
    for _ in range(_PAGES):
        events = session.recent(max(0, before - 1 - page), min(page, before - 1))
        if events is None:
            events = await session.read_back(before, page)
        if not events:
            return
        for event in reversed(events):
            yield event.fact, event.at
        before, page = events[0].seq, _PAGE


def _nothing() -> None:
    """For whoever follows nothing."""
