"""End processes on a schedule: ask, insist, kill (invariant 9)."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Iterable, Sequence

import msgspec

from .processes import Handle, Process

_LOOK_AGAIN = 0.02
"""Seconds between two looks where the system cannot tell us of a process's end."""

Find = Callable[[], Awaitable[Sequence[Process]]]
"""Gives what is still alive of the processes to be ended."""


class KillSchedule(msgspec.Struct, frozen=True, kw_only=True):
    """When to become ruder, in seconds after the first signal."""

    terminate: float = 0.3
    """SIGTERM to what is still there."""

    kill: float = 0.8
    """SIGKILL to what is still there."""

    give_up: float = 3.0
    """Stop waiting for what not even SIGKILL ended (it hangs in the kernel, or is not ours to kill)."""

    detached: bool = True
    """Whether processes that left the program's session, but carry its marker in their environment, are ended too."""

    def within(self, budget: float) -> KillSchedule:
        """The same schedule, if need be compressed so that all is over after ``budget`` seconds (KILL at 80 %)."""
        shrink = min(1.0, max(budget, 0.0) * 0.8 / self.kill) if self.kill > 0 else 1.0
        return msgspec.structs.replace(
            self,
            terminate=self.terminate * shrink,
            kill=self.kill * shrink,
            give_up=min(self.give_up, max(budget, 0.0)),
        )


class Ending(msgspec.Struct, frozen=True):
    """What an ending came to: every process met on the way, and those still alive after it."""

    found: tuple[Process, ...]
    left: tuple[Process, ...]


async def end_processes(
    find: Find,
    first: int,
    schedule: KillSchedule,
    *,
    signal_group: Callable[[int], int | None] = lambda _number: None,
) -> Ending:
    """Send ``first``, then SIGTERM, then SIGKILL to what ``find`` gives, until it gives nothing more.

    ``signal_group`` signals one whole process group in one step and returns its id (None: there is none); its
    members get no second copy. It is called with ``first`` before anything is awaited.
    """
    loop = asyncio.get_running_loop()
    began = loop.time()
    found: dict[tuple[int, int], Process] = {}
    stages = (
        ((first,), schedule.terminate),
        # A stopped program would not see its SIGTERM.
        ((signal.SIGTERM, signal.SIGCONT), schedule.kill),
        ((signal.SIGKILL,), schedule.give_up),
    )
    left: Sequence[Process] = ()
    for numbers, until in stages:
        left = await _stage(find, numbers, began + until, found, signal_group)
        if not left:
            break
    return Ending(tuple(found.values()), tuple(left))


async def _stage(
    find: Find,
    numbers: Sequence[int],
    deadline: float,
    found: dict[tuple[int, int], Process],
    signal_group: Callable[[int], int | None],
) -> Sequence[Process]:
    """Signal everybody once, newcomers too, and wait; returns who is alive at the deadline."""
    loop = asyncio.get_running_loop()
    groups = {signal_group(number) for number in numbers}
    told: set[tuple[int, int]] = set()
    while living := await find():
        found.update({_key(process): process for process in living})
        if told and loop.time() >= deadline:
            return living
        handles = [handle for process in living if (handle := Handle.take(process))]
        try:
            for handle in handles:
                if _key(handle.process) not in told and handle.process.group not in groups:
                    _send(handle, numbers)
            told.update(map(_key, living))
            await _gone(handles, deadline)
        finally:
            for handle in handles:
                handle.close()
    return ()


def _key(process: Process) -> tuple[int, int]:
    return process.pid, process.start


def _send(handle: Handle, numbers: Iterable[int]) -> None:
    for number in numbers:
        handle.send(number)


async def _gone(handles: Sequence[Handle], deadline: float) -> None:
    """Wait until all have ended, or the deadline; where that cannot be watched, only for a moment."""
    loop = asyncio.get_running_loop()
    pidfds = {handle.pidfd for handle in handles if handle.pidfd is not None}
    if not handles or len(pidfds) < len(handles):
        await asyncio.sleep(min(_LOOK_AGAIN, max(0.0, deadline - loop.time())))
        return
    all_gone = loop.create_future()

    def ended(pidfd: int) -> None:
        loop.remove_reader(pidfd)
        pidfds.discard(pidfd)
        if not pidfds and not all_gone.done():
            all_gone.set_result(None)

    for pidfd in pidfds:
        loop.add_reader(pidfd, ended, pidfd)
    try:
        await asyncio.wait((all_gone,), timeout=max(0.0, deadline - loop.time()))
    finally:
        for pidfd in pidfds:
            loop.remove_reader(pidfd)
