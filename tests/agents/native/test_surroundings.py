"""What a folder says to its agent: read while a turn begins, used while it is fresh."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dragoman.agents.native.surroundings import FRESH_SECONDS, SurroundingsReader
from dragoman.hub.permissions import LOCAL
from tests.hub.rig import FakeClock, until
from tests.hub.workspaces import KnownConfigs, KnownSkills

from .native_rig import NativeHub, native_hub


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[NativeHub]:
    async with native_hub(tmp_path) as opened:
        yield opened


async def test_what_was_read_ahead_is_used_once_and_while_it_is_fresh(hub: NativeHub) -> None:
    session, skills, configs = await hub.session(), KnownSkills(), KnownConfigs(user_name="Ada")
    clock = session.clock = FakeClock()
    reader = SurroundingsReader(session, skills, configs)

    async def reads(user_name: str) -> int:
        """How often the folder has been read once this is the name that it gives."""
        found = await reader.first()
        assert found.config is not None
        assert found.config.user_name == user_name
        assert len(skills.asked) == len(configs.asked)
        return len(configs.asked)

    reader.read_ahead()
    assert await reads("Ada") == 1
    configs.said["user_name"] = "Grace"
    assert await reads("Grace") == 2, "nothing was read ahead"
    reader.read_ahead()
    assert await reads("Grace") == 3
    reader.read_ahead()
    await until(lambda: len(configs.asked) == 4, "it is read ahead")
    clock.time += round(FRESH_SECONDS * 1000)
    assert await reads("Grace") == 5, "the turn waited too long"


async def test_what_was_read_of_another_folder_is_not_used(hub: NativeHub, tmp_path: Path) -> None:
    session, configs = await hub.session(), KnownConfigs()
    reader = SurroundingsReader(session, None, configs)
    (tmp_path / "elsewhere").mkdir()
    reader.read_ahead()
    await session.change_settings(LOCAL, {"cwd": str(tmp_path / "elsewhere")})
    assert (await reader.first()).cwd == tmp_path / "elsewhere"
    assert [folder.name for folder in configs.asked][-1] == "elsewhere"


async def test_without_anybody_to_ask_there_is_nothing(hub: NativeHub) -> None:
    found = await SurroundingsReader(await hub.session(), None, None).first()
    assert (found.config, found.skills) == (None, ())
