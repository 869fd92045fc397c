"""Warnings that others cause at will: the first at once, then how many there were."""

from __future__ import annotations

import logging

import pytest

from dragoman.agents.common.paced_log import PacedLog
from tests.hub.rig import until

log = logging.getLogger("dragoman.test")


async def test_the_first_is_said_at_once_and_the_rest_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    paced = PacedLog(log, interval=3600)
    for number in range(1000):
        paced.warn("a", f"a{number}")
    paced.warn("b", "b")
    assert caplog.messages == ["a0", "b"]
    paced.close()
    assert caplog.messages == ["a0", "b", "a999 (999 more since the last such line)"]
    paced.close()
    assert len(caplog.messages) == 3


async def test_what_was_counted_is_said_when_the_time_has_come(caplog: pytest.LogCaptureFixture) -> None:
    paced = PacedLog(log, interval=0.01)
    for _ in range(2):
        caplog.clear()
        paced.warn("a", "one")
        paced.warn("a", "two")
        await until(lambda: any("two (" in message for message in caplog.messages))
    paced.close()


async def test_a_quiet_time_makes_the_next_one_the_first_again(caplog: pytest.LogCaptureFixture) -> None:
    paced = PacedLog(log, interval=0.01)
    for _ in range(2):
        paced.warn("a", "one")
        await until(lambda: paced.quiet)
    assert caplog.messages == ["one", "one"]
