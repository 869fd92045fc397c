"""Whether the agent is there: by its process where a hook could tell which that is, else by when it was last heard."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path

from dragoman.agents.common.processes import Handle, Process
from dragoman.hub.clock import Clock
from dragoman.hub.standing import Executor

PROC = Path("/proc")

_BETWEEN = frozenset({"sh", "bash", "dash", "zsh", "ksh", "fish", "ash", "busybox", "env", "timeout"})
"""What agents run their hooks through."""

WORDS_OF_PROGRAM = 3
"""Of a command line, that may name the program: an interpreter and its flags may stand before it."""

_HEADLESS = frozenset({"-p", "--print"})
"""Arguments with which nobody sits at Claude Code's terminal."""


class Presence:
    """Of one session's agent. ``gone`` is called once when its process ends."""

    def __init__(self, clock: Clock, gone: Callable[[], None]) -> None:
        self._clock = clock
        self._gone = gone
        self._handle: Handle | None = None
        self._watched: int | None = None
        self.heard_at = clock.monotonic()

    @property
    def known(self) -> bool:
        """Whether its process is known."""
        return self._handle is not None

    @property
    def pid(self) -> int | None:
        return self._handle.process.pid if self._handle is not None else None

    @property
    def pid_start(self) -> int | None:
        return self._handle.process.start if self._handle is not None else None

    @property
    def quiet(self) -> float:
        """Seconds since it was last heard of."""
        return self._clock.monotonic() - self.heard_at

    @property
    def headless(self) -> bool:
        """Whether Claude Code was started with nobody at its terminal, as far as its command line tells."""
        words = _arguments(self.pid) if self.pid is not None else ()
        return any("claude" in word for word in words[:WORDS_OF_PROGRAM]) and not _HEADLESS.isdisjoint(words)

    def last_heard(self, at: int) -> None:
        """The last sign of life was then, before this server was there."""
        self.heard_at = float("-inf")
        self.heard_before(at)

    def heard(self) -> None:
        """There was a sign of life just now."""
        self.heard_at = self._clock.monotonic()

    def heard_before(self, at: int) -> None:
        """There was a sign of life then, in milliseconds since 1970: before this server was there, say."""
        self.heard_at = max(self.heard_at, self._clock.monotonic() - max(0, self._clock.now() - at) / 1000)

    def seen_above(self, parents: Iterable[tuple[int, int]]) -> None:
        """These are the ancestors of a hook, the nearest first, with their start times: one of them is the agent."""
        chain = tuple(parents)
        if not chain or (self._handle is not None and (self.pid, self.pid_start) in chain):
            return
        for pid, start in chain:
            if _name(pid) not in _BETWEEN:
                self.hold(pid, start)
                return

    def hold(self, pid: int, start: int) -> bool:
        """That process is the agent. False where it is there no more."""
        handle = Handle.take(Process(pid, 0, 0, 0, start))
        if handle is None:
            return False
        self.let_go()
        self._handle = handle
        if handle.pidfd is not None:
            self._watched = handle.pidfd
            asyncio.get_running_loop().add_reader(handle.pidfd, self._ended)
        return True

    def hold_again(self, executor: Executor) -> bool | None:
        """After a lost server: whether the process still runs; None where it never was known."""
        if executor.pid is None or executor.pid_start is None:
            return None
        return self.hold(executor.pid, executor.pid_start)

    def look(self) -> None:
        """Where the system tells nobody of an end, see whether there was one."""
        if self._handle is not None and self._watched is None and not self._handle.alive:
            self._ended()

    def let_go(self) -> None:
        """Hold no process."""
        if self._watched is not None:
            asyncio.get_running_loop().remove_reader(self._watched)
            self._watched = None
        if self._handle is not None:
            self._handle.close()
            self._handle = None

    def _ended(self) -> None:
        self.let_go()
        self._gone()


def _name(pid: int) -> str:
    try:
        return (PROC / str(pid) / "comm").read_text("utf-8", "replace").strip()
    except OSError:
        return "sh"  # gone already: it was only between


def _arguments(pid: int) -> tuple[str, ...]:
    try:
        return tuple((PROC / str(pid) / "cmdline").read_bytes().decode("utf-8", "replace").split("\0"))
    except OSError:
        return ()
