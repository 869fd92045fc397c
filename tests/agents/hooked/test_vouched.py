"""Whose word it is where an agent works: the person's own, through their own socket, or anybody's."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.hub.ports import HookChannel
from tests.agents.hooked.kit import kit
from tests.agents.hooked.manual_time import timed
from tests.agents.hooked.posts import Life

LIFE = Life()


@pytest.mark.parametrize(("channel", "vouched"), [("socket", True), ("http", False), ("file", False)])
@timed
async def test_only_the_persons_own_socket_vouches_for_a_folder(
    channel: HookChannel, vouched: bool, tmp_path: Path
) -> None:
    async with kit(tmp_path) as k:
        await k.take(LIFE.start(), channel)
        assert (k.row(LIFE.session).detail.get("vouched") is True) is vouched


@timed
async def test_a_folder_that_somebody_else_named_first_is_not_vouched_for_later(tmp_path: Path) -> None:
    async with kit(tmp_path) as k:
        await k.take(LIFE.start(), "http")
        await k.take(LIFE.prompt(), "socket")
        assert "vouched" not in k.row(LIFE.session).detail


@timed
async def test_no_folder_is_none_that_is_vouched_for(tmp_path: Path) -> None:
    async with kit(tmp_path) as k:
        await k.take(LIFE.hook("SessionStart", source="startup", cwd=None), "socket")
        assert (k.row(LIFE.session).cwd, k.row(LIFE.session).detail) == ("/", {})
