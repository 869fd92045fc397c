"""The folder that a server works in, and what is made in it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dragoman.server.use import UseError
from dragoman.server.workplace import WORKING_FOLDER, enter, make_folders, workplace
from dragoman.services.workspace import LayeredConfigs


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current folder that the test may leave."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def test_a_folder_is_entered(here: Path) -> None:
    (here / "w").mkdir()
    assert enter("w", {}) == here / "w"
    assert Path.cwd() == here / "w"


def test_a_folder_keeps_the_name_that_it_was_given(here: Path) -> None:
    (here / "w").mkdir()
    (here / "link").symlink_to("w")
    assert enter("./w/../link", {}) == here / "link"
    assert Path.cwd() == here / "w"


def test_the_folder_that_is_entered_wins_over_the_environment(here: Path) -> None:
    environment = {WORKING_FOLDER: "/elsewhere", "HOME": "/h"}
    enter(str(here), environment)
    assert environment == {"HOME": "/h"}


@pytest.mark.parametrize("name", ["file", "nowhere", "dangling", "file/below", ""])
def test_what_is_no_folder_is_not_entered(here: Path, name: str) -> None:
    (here / "file").touch()
    (here / "dangling").symlink_to("gone")
    with pytest.raises(UseError, match=f"'{name}' is not a directory: give"):
        enter(name, {})
    assert Path.cwd() == here


def test_a_folder_that_may_not_be_entered(here: Path) -> None:
    (here / "locked").mkdir(0o000)
    if os.access(here / "locked", os.X_OK):
        pytest.skip("this user may enter every folder")
    with pytest.raises(UseError, match="Permission denied"):
        enter("locked", {})


@pytest.mark.parametrize(
    ("named", "folder"), [(None, ""), ("", ""), (" ", ""), ("w", "w"), ("../here/w", "w"), ("~", "../home")]
)
def test_the_environment_names_the_folder_else_it_is_the_current_one(
    here: Path, named: str | None, folder: str
) -> None:
    (here / "w").mkdir()
    home = here.parent / "home"
    home.mkdir()
    environment = {} if named is None else {WORKING_FOLDER: named}
    assert workplace(environment, home) == Path(os.path.normpath(here / folder))
    assert Path.cwd() == here
    assert workplace(environment, home) == Path(os.path.normpath(here / folder)), "named from there it is the same"


async def test_configuration_means_the_same_folder(here: Path) -> None:
    (here / "w").mkdir()
    environment = {WORKING_FOLDER: "w"}
    folder = workplace(environment, here.parent)
    assert (await configs(here.parent, environment).read(folder)).working_directory == folder


def test_a_folder_of_the_environment_that_is_not_there(here: Path) -> None:
    with pytest.raises(UseError, match="AGENT_WORKING_DIR names 'gone', which is not a directory"):
        workplace({WORKING_FOLDER: "gone"}, here)


def test_a_current_folder_that_is_gone(here: Path) -> None:
    here.rmdir()
    with pytest.raises(UseError, match="the current folder is gone"):
        workplace({}, here)


# What is made


def configs(home: Path, environment: dict[str, str] | None = None) -> LayeredConfigs:
    return LayeredConfigs(home, environment or {}, ())


def inside(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_dir())


async def test_three_folders_are_made_once(here: Path) -> None:
    await make_folders(here, configs(here.parent))
    assert inside(here) == [".agent", "output", "uploads"]
    (here / "output" / "kept").touch()
    await make_folders(here, configs(here.parent))
    assert (here / "output" / "kept").exists()


async def test_the_configuration_of_the_folder_says_which(here: Path) -> None:
    (here / ".agent").mkdir()
    (here / ".agent" / "config.json").write_text('{"outputDirectory": "deep/out", "uploadsDirectory": "../out"}')
    await make_folders(here, configs(here.parent))
    assert inside(here) == [".agent", "deep", "deep/out", "uploads"], "a project may name folders inside itself only"
    assert inside(here.parent) == ["here", *(f"here/{name}" for name in inside(here))]


async def test_the_environment_may_name_folders_elsewhere(here: Path) -> None:
    there = here.parent / "there"
    await make_folders(here, configs(here.parent, {"AGENT_OUTPUT_DIR": str(there)}))
    assert inside(here) == [".agent", "uploads"]
    assert there.is_dir()


@pytest.mark.parametrize(("name", "why"), [(".agent", "File exists"), ("output", "File exists")])
async def test_a_folder_that_cannot_be_made_is_named(here: Path, name: str, why: str) -> None:
    (here / name).touch()
    with pytest.raises(UseError, match=f"{name}' cannot be made: {why} .--make-folders asks for it"):
        await make_folders(here, configs(here.parent))
