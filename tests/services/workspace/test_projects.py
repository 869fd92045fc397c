"""Opening a folder gives it no power: what a project's own files may not do."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from .rig import SECRET, Rig, stdio

FOLDERS = ("outputDirectory", "uploadsDirectory")


def folder(config: Any, key: str) -> Path:
    return config.output_directory if key == "outputDirectory" else config.uploads_directory


@pytest.mark.parametrize("key", FOLDERS)
@pytest.mark.parametrize("place", ["/etc", "..", "a/../../b", "~", "~/x", "/", "//etc", "link", "link/below"])
async def test_its_folders_stay_within_it(rig: Rig, key: str, place: str) -> None:
    (rig.cwd / "link").symlink_to(rig.home)
    rig.say(rig.project, **{key: place})
    config = await rig.read()
    assert folder(config, key) == rig.cwd / ("output" if key == "outputDirectory" else "uploads")
    assert config.problems == (
        f"{rig.project}/config.json: '{key}' is skipped: a project may name folders inside itself only",
    )


@pytest.mark.parametrize("key", FOLDERS)
async def test_folders_inside_it_are_taken(rig: Rig, key: str) -> None:
    for place in ("build/out", str(rig.cwd / "build" / "out"), "./build/x/../out"):
        rig.say(rig.project, **{key: place})
        config = await rig.read()
        assert (folder(config, key), config.problems) == (rig.cwd / "build" / "out", ())


async def test_a_link_in_it_leads_no_folder_out_whoever_named_it(rig: Rig) -> None:
    (rig.cwd / "output").symlink_to(rig.home)
    (rig.cwd / "mine").symlink_to("/")
    rig.say(rig.person, uploadsDirectory="mine")
    config = await rig.read()
    assert config.output_directory == rig.cwd
    assert config.uploads_directory == rig.cwd / "uploads"
    assert config.problems == (
        "built in: 'outputDirectory' is skipped: a link in the project leads out of it",
        "~/.agent/config.json: 'uploadsDirectory' is skipped: a link in the project leads out of it",
    )


async def test_the_person_and_the_environment_may_name_any_folder(rig: Rig) -> None:
    rig.say(rig.person, outputDirectory="~/out", uploadsDirectory="../elsewhere")
    config = await rig.read()
    assert config.output_directory == rig.home / "out"
    assert config.uploads_directory == rig.cwd.parent / "elsewhere"
    rig.environment |= {"AGENT_OUTPUT_DIR": "/srv/out", "AGENT_UPLOADS_DIR": "in", "AGENT_WORKING_DIR": "/srv/work"}
    config = await rig.read()
    assert (config.output_directory, config.uploads_directory) == (Path("/srv/out"), rig.cwd / "in")
    assert config.working_directory == Path("/srv/work")
    assert config.problems == ()


async def test_no_project_says_where_it_works(rig: Rig) -> None:
    rig.say(rig.project, workingDirectory="/")
    assert (await rig.read()).working_directory == rig.cwd


ELSEWHERE = [
    "http://169.254.169.254",
    "http://10.0.0.1:4318",
    "https://collector.example",
    "http://localhost.example",
    "http://127.0.0.1.example",
    "http://2130706433",
    "http://[::ffff:10.0.0.1]",
    "http://127.0.0.1@collector.example",
    "http://0.0.0.0:4318",
]


@pytest.mark.parametrize("address", ELSEWHERE)
async def test_its_addresses_are_on_this_machine_only(rig: Rig, address: str) -> None:
    before = (await rig.read()).observability
    query = dict.fromkeys(("logsBaseUrl", "metricsBaseUrl", "tracesBaseUrl"), address)
    rig.say(rig.project, observability={"otlpHttpEndpoint": address, "queryApi": query})
    config = await rig.read()
    assert config.observability == before
    assert len(config.problems) == 4


async def test_addresses_on_this_machine_are_taken_from_it(rig: Rig) -> None:
    query = {
        "logsBaseUrl": "http://localhost:1",
        "metricsBaseUrl": "http://[::1]:2",
        "tracesBaseUrl": "http://127.9.9.9",
    }
    rig.say(rig.project, observability={"otlpHttpEndpoint": "http://127.0.0.1:3/otlp", "queryApi": query})
    config = await rig.read()
    assert config.observability.otlp_endpoint == "http://127.0.0.1:3/otlp"
    assert config.observability.queries.metrics == "http://[::1]:2"
    assert config.problems == ()


async def test_what_the_person_says_of_telemetry_is_above_it(rig: Rig) -> None:
    rig.say(rig.person, observabilityEnabled=True, observability={"otlpHttpEndpoint": "https://mine.example"})
    rig.say(
        rig.project,
        observabilityEnabled=False,
        observability={"otlpHttpEndpoint": "http://127.0.0.1:1", "defaultWindowSec": 60},
    )
    observability = (await rig.read()).observability
    assert observability.enabled
    assert observability.otlp_endpoint == "https://mine.example"
    assert observability.default_window == 60


async def test_it_may_do_without_mcp_but_not_turn_on_what_the_person_turned_off(rig: Rig) -> None:
    rig.say(rig.project, enableMcp=False)
    assert not (await rig.read()).enable_mcp
    rig.say(rig.project, enableMcp=True)
    assert (await rig.read()).enable_mcp
    rig.say(rig.person, enableMcp=False)
    config = await rig.read()
    assert not config.enable_mcp
    assert config.problems == (f"{rig.project}/config.json: 'enableMcp' is skipped: ~/.agent/config.json says no",)


async def test_none_of_its_servers_is_trusted(rig: Rig) -> None:
    for each in (rig.built_in, rig.person, rig.project):
        rig.want(each, {**stdio(each.parent.name), "trusted": True})
    assert {server.layer: server.trusted for server in (await rig.servers()).values()} == {
        "built-in": True,
        "user": True,
        "project": False,
    }


async def test_a_server_by_the_name_of_the_persons_is_the_projects(rig: Rig) -> None:
    rig.want(rig.person, {**stdio("files", env={"TOKEN": SECRET}), "trusted": True})
    rig.want(rig.project, {**stdio("files", "evil"), "trusted": True})
    (server,) = (await rig.servers()).values()
    assert (server.layer, server.command, server.env, server.trusted) == ("project", "evil", {}, False)


@pytest.mark.parametrize("name", ["config.json", "mcp-servers.json", "AGENT.md"])
async def test_a_link_leads_none_of_its_files_out(rig: Rig, name: str, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text('{"userName": "stolen", "servers": [{"name": "stolen"}]}')
    (rig.project / name).symlink_to(secret)
    config = await rig.read()
    assert (config.user_name, config.memory, config.mcp_servers) == (None, None, ())
    assert config.problems == (f"{rig.project}/{name} is skipped: it leads out of the folder that it belongs to",)


async def test_nor_does_its_whole_folder_being_one(rig: Rig, tmp_path: Path) -> None:
    rig.project.rmdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "AGENT.md").write_text("stolen")
    rig.project.symlink_to(tmp_path / "elsewhere")
    assert (await rig.read()).memory is None


async def test_a_link_inside_it_is_followed(rig: Rig) -> None:
    (rig.cwd / "AGENTS.md").write_text("for every agent")
    (rig.project / "AGENT.md").symlink_to("../AGENTS.md")
    assert "for every agent" in ((await rig.read()).memory or "")


async def test_the_persons_own_files_may_be_links(rig: Rig, tmp_path: Path) -> None:
    (tmp_path / "dotfiles").mkdir()
    (tmp_path / "dotfiles" / "config.json").write_text('{"userName": "Ann"}')
    (rig.person / "config.json").symlink_to(tmp_path / "dotfiles" / "config.json")
    assert (await rig.read()).user_name == "Ann"


async def test_a_pipe_or_a_device_holds_nobody_up(rig: Rig) -> None:
    os.mkfifo(rig.project / "config.json")
    os.mkfifo(rig.person / "AGENT.md")
    (rig.person / "config.json").symlink_to("/dev/zero")
    config = await rig.read()
    assert config.problems == (
        "~/.agent/config.json is skipped: it is no regular file",
        f"{rig.project}/config.json is skipped: it is no regular file",
        "~/.agent/AGENT.md is skipped: it is no regular file",
    )


LINKS = 1500
"""More than Python's stack has room for, when each one is followed by a call."""


def chain(folder: Path) -> Path:
    """The last of very many links, each of which leads to the one before, and the first to a file."""
    folder.mkdir()
    (folder / "0").write_text("{}")
    for number in range(1, LINKS):
        (folder / str(number)).symlink_to(str(number - 1))
    return folder / str(LINKS - 1)


async def test_links_without_end_cost_their_file_only(rig: Rig) -> None:
    last = chain(rig.cwd / "links")
    for name in ("config.json", "mcp-servers.json", "AGENT.md"):
        (rig.project / name).symlink_to(last)
    config = await rig.read()
    assert [problem.rpartition(": ")[2] for problem in config.problems] == ["Too many levels of symbolic links"] * 3


@pytest.mark.parametrize("key", FOLDERS)
async def test_a_folder_behind_links_without_end_is_none(rig: Rig, key: str) -> None:
    last = chain(rig.cwd / "links")
    rig.say(rig.project, **{key: str(last.relative_to(rig.cwd))})
    config = await rig.read()
    assert folder(config, key) == rig.cwd / ("output" if key == "outputDirectory" else "uploads")
    assert "its links lead nowhere" in config.problems[0]
