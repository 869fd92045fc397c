"""``mcp-servers.json``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dragoman.hub.workspace_config import McpServer
from dragoman.services.workspace import WorkspaceSettings

from .rig import SECRET, Rig, http, stdio


async def test_a_program(rig: Rig) -> None:
    rig.want(rig.person, {**stdio("files", "npx", args=["-y", "x"], env={"A": "b"}, cwd="sub"), "required": True})
    assert await rig.servers() == {
        "files": McpServer(
            name="files",
            layer="user",
            transport="stdio",
            command="npx",
            args=("-y", "x"),
            env={"A": "b"},
            cwd=str(rig.cwd / "sub"),
            required=True,
        )
    }


async def test_services(rig: Rig) -> None:
    old = {"name": "old", "retries": 0, "transport": {"type": "sse", "url": "http://127.0.0.1:1/sse"}}
    rig.want(rig.person, http("new", "https://mcp.example/x?y=1", headers={"Authorization": "Bearer b"}), old)
    assert await rig.servers() == {
        "new": McpServer(
            name="new",
            layer="user",
            transport="http",
            url="https://mcp.example/x?y=1",
            headers={"Authorization": "Bearer b"},
        ),
        "old": McpServer(name="old", layer="user", transport="sse", url="http://127.0.0.1:1/sse", retries=0),
    }


async def test_the_highest_layer_overrides_the_whole_entry(rig: Rig) -> None:
    rig.want(rig.built_in, stdio("a", "built-in"), stdio("b", "built-in"))
    rig.want(rig.person, stdio("b", "person", env={"KEY": "x"}), stdio("c", "person"))
    rig.want(rig.project, stdio("c", "project"))
    servers = await rig.servers()
    assert [(name, server.layer, server.command) for name, server in servers.items()] == [
        ("a", "built-in", "built-in"),
        ("b", "user", "person"),
        ("c", "project", "project"),
    ]


@pytest.mark.parametrize(("asked", "given"), [(0, 0), (7, 7), (3.9, 3), (-1, 0), (1_000_000, 10), (1e300, 10)], ids=str)
async def test_retries_are_within_bounds(rig: Rig, asked: float, given: int) -> None:
    rig.want(rig.person, {**stdio("a"), "retries": asked})
    assert (await rig.servers())["a"].retries == given


async def test_three_retries_unless_it_says(rig: Rig) -> None:
    rig.want(rig.person, stdio("a"))
    assert (await rig.servers())["a"].retries == 3


async def test_a_home_folder_may_be_meant(rig: Rig) -> None:
    rig.want(rig.person, stdio("a", cwd="~/src"), stdio("b", cwd="/srv"))
    servers = await rig.servers()
    assert (servers["a"].cwd, servers["b"].cwd) == (str(rig.home / "src"), "/srv")


WRONG: dict[str, tuple[Any, str]] = {
    "no object": (SECRET, "server 1 is skipped: Expected `object`, got `str`"),
    "no name": ({"transport": {"type": "stdio", "command": "x"}}, "missing required field `name`"),
    "a blank name": (stdio("  "), "its name"),
    "a name with a line break": (stdio("a\nb"), "its name"),
    "a name that is too long": (stdio("a" * 101), "length <= 100"),
    "no transport": ({"name": "a"}, "missing required field `transport`"),
    "an unknown transport": ({"name": "a", "transport": {"type": SECRET}}, "a value that cannot be used"),
    "no type": ({"name": "a", "transport": {"command": SECRET}}, "missing required field `type`"),
    "no command": ({"name": "a", "transport": {"type": "stdio"}}, "missing required field `command`"),
    "a blank command": (stdio("a", " "), "its command is blank"),
    "NUL in an argument": (stdio("a", args=[SECRET + "\0"]), "cannot hold NUL"),
    "an argument that is no text": (stdio("a", args=[1]), "Expected `str`, got `int` - at `$.transport.args[0]`"),
    "a secret of another kind": (stdio("a", env={SECRET: 1}), "Expected `str`, got `int` - at `$.transport.env[...]`"),
    "a variable that there cannot be": (stdio("a", env={f"A={SECRET}": "x"}), "its environment"),
    "no URL": (http("a", SECRET), "its URL cannot be used"),
    "a URL of another kind": (http("a", f"ftp://me:{SECRET}@x/"), "its URL cannot be used"),
    "a URL of rubbish": (http("a", f"http://[{SECRET}"), "its URL cannot be used"),
    "a header with a line break": (http("a", headers={"X": f"a\r\nY: {SECRET}"}), "its headers"),
    "required in words": ({**stdio("a"), "required": "yes"}, "Expected `bool`, got `str`"),
}


@pytest.mark.parametrize(("entry", "why"), WRONG.values(), ids=WRONG.keys())
async def test_an_entry_that_cannot_be_used_costs_itself_alone(rig: Rig, entry: object, why: str) -> None:
    rig.want(rig.person, entry, stdio("good"))
    config = await rig.read()
    assert [server.name for server in config.mcp_servers] == ["good"]
    (problem,) = config.problems
    assert why in problem
    assert "\n" not in problem


async def test_of_two_with_one_name_the_later_counts(rig: Rig) -> None:
    rig.want(rig.person, stdio("a", "one"), stdio("a", "two"))
    config = await rig.read()
    assert [server.command for server in config.mcp_servers] == ["two"]
    assert config.problems == ("~/.agent/mcp-servers.json: server 2 ('a') takes the place of an earlier one",)


@pytest.mark.parametrize("text", ["[]", "{", '{"servers": {}}', '{"servers": "all"}', "null", "\x00"])
async def test_a_broken_file_costs_its_layer_alone(rig: Rig, text: str) -> None:
    rig.want(rig.person, stdio("mine"))
    (rig.project / "mcp-servers.json").write_text(text)
    config = await rig.read()
    assert [server.name for server in config.mcp_servers] == ["mine"]
    assert len(config.problems) == 1


async def test_a_layer_has_so_many_at_most(tmp_path: Path) -> None:
    rig = Rig(tmp_path, WorkspaceSettings(servers=2))
    rig.want(rig.person, *(stdio(name) for name in "abc"))
    rig.want(rig.project, stdio("d"))
    config = await rig.read()
    assert [server.name for server in config.mcp_servers] == ["a", "b", "d"]
    assert config.problems == ("~/.agent/mcp-servers.json: servers after the first 2 are skipped",)
