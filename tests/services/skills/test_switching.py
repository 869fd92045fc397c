"""Disabling, enabling and deleting global skills."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from dragoman.hub.errors import InvalidRequest, StorageUnavailable
from dragoman.services.skills import moves

from .rig import Rig

VERBS = {"disable": "disabled", "enable": "enabled", "delete": "deleted"}


def call(rig: Rig, verb: str, name: str) -> Any:
    return getattr(rig.service, verb)(rig.cwd, name)


async def test_a_skill_is_switched_off_and_on_as_a_whole(rig: Rig) -> None:
    folder = rig.put(rig.enabled, "deploy", "text")
    (folder / "script").write_text("x")
    await rig.service.disable(rig.cwd, " deploy ")
    assert await rig.names() == ["(deploy)"]
    assert await rig.in_use() == []
    assert not folder.exists()
    assert (rig.disabled / "deploy" / "script").read_text() == "x"
    await rig.service.enable(rig.cwd, "deploy")
    assert await rig.names() == ["deploy"]
    assert await rig.in_use() == ["deploy"]
    assert not (rig.disabled / "deploy").exists()


async def test_what_is_so_already_is_no_problem(rig: Rig) -> None:
    rig.put(rig.enabled, "on")
    rig.put(rig.disabled, "off")
    await rig.service.enable(rig.cwd, "on")
    await rig.service.disable(rig.cwd, "off")
    assert await rig.names() == ["on", "(off)"]


@pytest.mark.parametrize("place", ["enabled", "disabled"])
async def test_a_skill_is_deleted_switched_on_or_off(rig: Rig, place: str) -> None:
    folder = rig.put(getattr(rig, place), "old")
    (folder / "below").mkdir()
    (folder / "below" / "file").write_text("x")
    await rig.service.delete(rig.cwd, "old")
    assert await rig.names() == []
    assert list(getattr(rig, place).iterdir()) == []


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("name", ["none", "", "..", "../../x", "a\0b", ".hidden"], ids=ascii)
async def test_unknown_ones(rig: Rig, verb: str, name: str) -> None:
    rig.put(rig.enabled, ".hidden")
    rig.put(rig.home, "x")
    with pytest.raises(InvalidRequest) as caught:
        await call(rig, verb, name)
    assert str(caught.value) == f'Skill "{name}" not found.'
    assert (rig.home / "x").exists()


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("place", ["project", "person", "built_in"])
async def test_only_global_ones(rig: Rig, verb: str, place: str) -> None:
    rig.put(getattr(rig, place), "mine")
    with pytest.raises(InvalidRequest) as caught:
        await call(rig, verb, "mine")
    assert str(caught.value) == f"Only global skills can be {VERBS[verb]} in v1."
    assert await rig.names() == ["mine"]


async def test_another_one_in_the_way_is_not_replaced(rig: Rig) -> None:
    rig.put(rig.enabled, "twice", "on")
    rig.put(rig.disabled, "twice", "off")
    assert await rig.names() == ["twice"]
    with pytest.raises(InvalidRequest) as caught:
        await rig.service.disable(rig.cwd, "twice")
    assert str(caught.value) == f"Failed to disable skill: {rig.disabled} has another one of that name."
    assert (rig.disabled / "twice" / "SKILL.md").read_text() == "off"


@pytest.mark.parametrize("way", ["empty folder", "link", "file"])
async def test_nor_is_anything_else(rig: Rig, way: str) -> None:
    rig.put(rig.disabled, "a")
    rig.enabled.mkdir(parents=True)
    blocking = rig.enabled / "a"
    if way == "empty folder":
        blocking.mkdir()
    elif way == "link":
        blocking.symlink_to("nowhere")
    else:
        blocking.write_text("x")
    with pytest.raises(InvalidRequest):
        await rig.service.enable(rig.cwd, "a")
    assert await rig.names() == ["(a)"]


async def test_a_link_is_moved_and_removed_itself_never_what_it_leads_to(rig: Rig, tmp_path: Path) -> None:
    source = rig.put(tmp_path / "src", "linked", "text")
    rig.enabled.mkdir(parents=True)
    (rig.enabled / "linked").symlink_to(source)
    await rig.service.disable(rig.cwd, "linked")
    assert await rig.names() == ["(linked)"]
    await rig.service.delete(rig.cwd, "linked")
    assert await rig.names() == []
    assert (source / "SKILL.md").read_text() == "text"


async def test_links_inside_are_not_followed_when_it_is_removed(rig: Rig, tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").write_text("x")
    (rig.put(rig.enabled, "old") / "link").symlink_to(tmp_path / "precious")
    await rig.service.delete(rig.cwd, "old")
    assert (tmp_path / "precious" / "file").exists()


async def test_what_could_not_be_erased_is_no_skill_and_is_swept_next_time(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.put(rig.enabled, "old")
    rig.put(rig.enabled, "older")
    with monkeypatch.context() as patched:

        def refuse(path: Path) -> None:
            raise PermissionError(13, "Permission denied", str(path))

        patched.setattr(moves.shutil, "rmtree", refuse)
        with pytest.raises(StorageUnavailable) as caught:
            await rig.service.delete(rig.cwd, "old")
    assert str(caught.value) == "Failed to delete skill: Permission denied"
    assert await rig.names() == ["older"]
    assert len(list(rig.enabled.iterdir())) == 2
    await rig.service.delete(rig.cwd, "older")
    assert list(rig.enabled.iterdir()) == []


async def test_a_disk_that_refuses_is_told_of_and_nothing_has_changed(rig: Rig) -> None:
    rig.put(rig.enabled, "a")
    rig.disabled.write_text("a file where the folder should be")
    with pytest.raises(StorageUnavailable) as caught:
        await rig.service.disable(rig.cwd, "a")
    assert str(caught.value) == "Failed to disable skill: File exists"
    assert await rig.names() == ["a"]


@pytest.mark.parametrize("verb", ["disable", "delete"])
async def test_one_that_went_meanwhile_is_not_found(rig: Rig, verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = rig.put(rig.enabled, "a")
    real = os.rename

    def first_gone(source: Any, target: Any, **more: Any) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        real(source, target, **more)

    monkeypatch.setattr(os, "rename", first_gone)
    with pytest.raises(InvalidRequest) as caught:
        await call(rig, verb, "a")
    assert str(caught.value) == 'Skill "a" not found.'


async def test_many_at_once_leave_one_folder(rig: Rig) -> None:
    rig.put(rig.enabled, "a", "text")
    calls = [call(rig, verb, "a") for _ in range(20) for verb in ("disable", "enable")]
    await asyncio.gather(*calls)
    (name,) = await rig.names()
    assert name in ("a", "(a)")
    folders = [place / "a" / "SKILL.md" for place in (rig.enabled, rig.disabled)]
    assert [path.read_text() for path in folders if path.exists()] == ["text"]


async def test_the_folders_themselves_may_be_links(rig: Rig, tmp_path: Path) -> None:
    (tmp_path / "dotfiles" / "skills").mkdir(parents=True)
    (rig.home / ".cowork").symlink_to(tmp_path / "dotfiles")
    rig.put(rig.enabled, "a")
    await rig.service.disable(rig.cwd, "a")
    assert (tmp_path / "dotfiles" / "disabled-skills" / "a" / "SKILL.md").exists()
