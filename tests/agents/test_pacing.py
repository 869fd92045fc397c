"""A fast reader gets a breath, a slow one holds nobody up (invariant 5)."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import dataclass, field

from dragoman.agents.terminal.pacing import Pacer

CAPACITY = 1000


@dataclass(eq=False)
class Reader:
    offset: int = 0


@dataclass(eq=False)
class Watcher:
    who: list[Reader] = field(default_factory=list)

    def readers(self) -> Collection[Reader]:
        return self.who

    def tape_grew(self) -> None: ...
    def screen_changed(self) -> None: ...
    def resized(self) -> None: ...


class Program:
    """Counts how often it was held, and whether it is."""

    def __init__(self, breath: float = 0.025) -> None:
        self.held = False
        self.breaths = 0
        self.resumed = asyncio.Event()
        self.pacer = Pacer(CAPACITY, breath, pause=self._pause, resume=self._resume)

    def _pause(self) -> None:
        self.held = True
        self.breaths += 1
        self.resumed.clear()

    def _resume(self) -> None:
        self.held = False
        self.resumed.set()


async def test_a_reader_that_catches_up_lets_the_program_go_on_at_once() -> None:
    program, reader = Program(breath=30), Reader()
    program.pacer.wrote(751, [Watcher([reader])])
    assert program.held
    reader.offset = 751
    await asyncio.wait_for(program.resumed.wait(), 5)
    program.pacer.wrote(1600, [Watcher([reader])])
    assert program.breaths == 2


async def test_a_reader_that_never_reads_costs_one_breath_however_much_is_written() -> None:
    program, stuck = Program(), Reader()
    for end in range(800, 100_000, 400):
        program.pacer.wrote(end, [Watcher([stuck])])
        if program.held:
            await asyncio.wait_for(program.resumed.wait(), 5)
    assert program.breaths == 1


async def test_a_slow_reader_does_not_take_the_breath_of_a_fast_one() -> None:
    program, stuck, fast = Program(), Reader(), Reader()
    watchers = [Watcher([stuck]), Watcher([fast])]
    for end in range(800, 8_000, 800):
        program.pacer.wrote(end, watchers)
        if program.held:
            fast.offset = end
            await asyncio.wait_for(program.resumed.wait(), 5)
    assert program.breaths == 9, "once for both, then each time for the fast one"


async def test_one_that_has_caught_up_by_itself_is_waited_for_again() -> None:
    program, reader = Program(), Reader()
    program.pacer.wrote(800, [Watcher([reader])])
    await asyncio.wait_for(program.resumed.wait(), 5)
    program.pacer.wrote(1600, [Watcher([reader])])
    assert program.breaths == 1
    reader.offset = 1600
    program.pacer.wrote(1700, [Watcher([reader])])
    program.pacer.wrote(2500, [Watcher([reader])])
    assert program.breaths == 2
    await asyncio.wait_for(program.resumed.wait(), 5)


async def test_readers_within_three_quarters_of_a_tape_and_no_readers_cost_nothing() -> None:
    program = Program()
    program.pacer.wrote(750, [Watcher([Reader()])])
    program.pacer.wrote(90_000, [Watcher([])])
    program.pacer.wrote(99_000, [])
    assert program.breaths == 0


async def test_without_a_breath_nobody_is_waited_for() -> None:
    program = Program(breath=0)
    program.pacer.wrote(90_000, [Watcher([Reader()])])
    assert program.breaths == 0


async def test_a_new_program_starts_with_a_clean_sheet() -> None:
    program, reader = Program(breath=30), Reader()
    program.pacer.wrote(800, [Watcher([reader])])
    program.pacer.stop()
    program.pacer.wrote(900, [Watcher([reader])])
    assert program.breaths == 2
    program.pacer.stop()
