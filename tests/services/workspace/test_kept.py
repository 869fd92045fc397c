"""What was read of a folder is kept, and is what reading it again would give, whatever changes meanwhile."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from dragoman.hub.workspace_config import WorkspaceConfig
from dragoman.services.workspace import LayeredConfigs

from .rig import PROVIDERS, Rig, stdio

LATER = 10_000_000_000


def later() -> int:
    """A clock by which every file of a test changed long ago."""
    return time.time_ns() + LATER


@pytest.fixture
def kept(rig: Rig) -> LayeredConfigs:
    return LayeredConfigs(rig.home, rig.environment, PROVIDERS, now=later)


async def test_a_folder_in_which_nothing_changed_is_not_read_again(rig: Rig, kept: LayeredConfigs) -> None:
    rig.say(rig.project, model="m")
    first = await kept.read(rig.cwd)
    assert await kept.read(rig.cwd) is first
    rig.say(rig.project, model="another")
    assert (await kept.read(rig.cwd)).model == "another"


def _link(path: Path, to: Path) -> None:
    path.symlink_to(to)


def _instead(folder: Path, other: Path) -> None:
    shutil.rmtree(folder)
    folder.symlink_to(other)


CHANGES: dict[str, Callable[[Rig], object]] = {
    "the project says something": lambda rig: rig.say(rig.project, model="m"),
    "the person says something": lambda rig: rig.say(rig.person, userName="Ada"),
    "the built-in layer says something": lambda rig: rig.say(rig.built_in, userName="Ada"),
    "the person writes a memory": lambda rig: (rig.person / "AGENT.md").write_text("know this"),
    "the project writes a memory": lambda rig: (rig.project / "AGENT.md").write_text("know this"),
    "a server is wanted": lambda rig: rig.want(rig.project, stdio("s")),
    "a layer breaks": lambda rig: (rig.project / "config.json").write_text("{"),
    "a variable is set": lambda rig: rig.environment.update(AGENT_MODEL="m"),
    "the output folder becomes a link that leads out": lambda rig: _link(rig.cwd / "output", rig.home),
    "the project becomes the person's": lambda rig: _instead(rig.project, rig.person),
    "a file goes": lambda rig: (rig.person / "config.json").unlink(),
}


@pytest.mark.parametrize("change", CHANGES)
async def test_what_changes_counts_at_once(rig: Rig, kept: LayeredConfigs, change: str) -> None:
    rig.say(rig.person, provider="openai", model="usual")
    rig.say(rig.project, knowledgeCutoff="May")

    async def as_new() -> WorkspaceConfig:
        return await LayeredConfigs(rig.home, rig.environment, PROVIDERS).read(rig.cwd)

    for _ in range(2):
        assert await kept.read(rig.cwd) == await as_new()
    before = await as_new()
    CHANGES[change](rig)
    for _ in range(2):
        assert await kept.read(rig.cwd) == await as_new()
    assert msgspec.json.encode(await as_new(), enc_hook=str) != msgspec.json.encode(before, enc_hook=str)


async def test_a_folder_whose_files_have_just_changed_is_read_again(rig: Rig) -> None:
    """Their times are not fine enough to tell the next change."""
    configs = LayeredConfigs(rig.home, rig.environment, PROVIDERS)
    rig.say(rig.project, model="m")
    assert await configs.read(rig.cwd) is not await configs.read(rig.cwd)
