"""What is told after a restart of the server: what was recorded before it is known, and is no news only once."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.hub.ports import HookChannel
from tests.agents.hooked.kit import kinds, kit
from tests.agents.hooked.lives import CLAUDE, DONE, SECOND
from tests.agents.hooked.manual_time import timed

WAYS: tuple[tuple[HookChannel, HookChannel], ...] = (("http", "file"), ("http", "socket"), ("http", "http"))


@pytest.mark.parametrize("away", [None, 30, 200])
@pytest.mark.parametrize("way", ["socket", "http"])
@timed
async def test_the_same_prompt_again_is_another_one(away: int | None, way: HookChannel, tmp_path: Path) -> None:
    async with kit(tmp_path, disk=True) as k:
        await k.take_all([CLAUDE.start(), CLAUDE.prompt("go on"), CLAUDE.stop()], way)
        if away is not None:
            await k.restart(crash=False, away=away)
        await k.advance(30)
        await k.take(SECOND.prompt("go on"), way)
        assert k.status(CLAUDE.session).startswith("working")
        assert kinds(await k.events(CLAUDE.session))["user_prompt_submit"] == 2


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize(("first", "then"), WAYS)
@timed
async def test_a_stop_by_another_way_long_after_is_another_one(
    restart: bool, first: HookChannel, then: HookChannel, tmp_path: Path
) -> None:
    async with kit(tmp_path, disk=True) as k:
        await k.take_all(DONE, first)
        if restart:
            await k.restart(crash=False, away=200)
        else:
            await k.advance(200)
        before = kinds(await k.events(CLAUDE.session))["stop"]
        await k.take(SECOND.prompt("more"), then)
        await k.advance(5)
        await k.take(SECOND.stop(), then)
        assert k.status(CLAUDE.session) == "waiting (prompt)"
        assert kinds(await k.events(CLAUDE.session))["stop"] == before + 1
