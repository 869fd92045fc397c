"""Work that is not left behind."""

import asyncio
import threading

import pytest

from dragoman.agents.native.tools.settled import settled
from dragoman.agents.native.tools.tool import in_thread


async def test_its_result_and_its_failure_are_the_callers() -> None:
    assert await settled(in_thread(lambda: 7)) == 7
    with pytest.raises(ZeroDivisionError):
        await settled(in_thread(lambda: 1 // 0))


@pytest.mark.parametrize("fails", [False, True])
async def test_a_cancelled_caller_waits_for_the_end_however_often_it_is_cancelled(fails: bool) -> None:
    begun, may_end, ended = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        may_end.wait()
        ended.set()
        if fails:
            raise ValueError

    task = asyncio.create_task(settled(in_thread(work)))
    await in_thread(begun.wait)
    for _ in range(3):
        task.cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not task.done()
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()


async def test_work_that_can_be_hurried_is() -> None:
    begun, hurry = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        hurry.wait()

    task = asyncio.create_task(settled(in_thread(work), on_cancel=hurry.set))
    await in_thread(begun.wait)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
