"""Sessions of agents elsewhere, over HTTP: what is shown of them; what they say of their folder opens nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dragoman.hub.events import ToolCalled
from tests.dialects.cin.played import Play, played


@pytest.fixture
async def play(tmp_path: Path) -> AsyncIterator[Play]:
    async with played(tmp_path) as play:
        yield play


async def test_a_session_elsewhere_is_shown_as_one(play: Play) -> None:
    outsider = await play.outsider("/their/folder", "codex")
    await play.says(outsider, ToolCalled(call="c", tool="Bash", input={"command": "ls"}))

    (shown,) = (await play.good("GET", "/sessions"))["sessions"]
    assert (shown["id"], shown["type"], shown["agent"], shown["cwd"]) == (
        outsider.id,
        "external",
        "codex",
        "/their/folder",
    )
    assert shown["currentTool"] == "Bash"
    changed = (await play.good("PATCH", f"/sessions/{outsider.id}", {"name": "theirs"}))["session"]
    assert changed["name"] == "theirs"
    await play.good("DELETE", f"/sessions/{outsider.id}")
    assert (await play.good("GET", "/sessions"))["sessions"] == []


async def test_what_a_hook_says_of_its_folder_opens_nothing(play: Play, tmp_path: Path) -> None:
    """Whoever may post a hook may name any folder in it."""
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "key").write_text("the key")
    link = play.folder / "link"
    link.symlink_to(secret)
    for cwd in (
        str(secret),
        "/",
        "/etc",
        str(tmp_path),
        f"{play.folder}/../secret",
        str(link),
        f"{play.folder}/../../etc",
    ):
        outsider = await play.outsider(cwd)
        for route in ("files", "files/tree", "file?path=key", f"file?path={secret}/key", "file?path=/etc/passwd"):
            reply = await play.ask("GET", f"/sessions/{outsider.id}/{route}")
            reply.failed(403, "Access denied")
            assert "the key" not in str(reply.body)
        (await play.ask("GET", f"/browse?path={cwd}")).failed(403) if cwd != str(link) else None
        assert str(secret) not in (await play.good("GET", f"/projects/autocomplete?q={tmp_path}"))["suggestions"]
    known = [item["path"] for item in (await play.good("GET", "/browse"))["items"]]
    assert known == [str(play.folder)]
    assert (await play.good("GET", "/projects"))["projects"] == []


async def test_a_session_elsewhere_in_a_known_folder_has_its_files(play: Play, tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / "inner").mkdir(parents=True)
    (project / "inner" / "a.txt").write_text("a")
    (project / "b.txt").write_text("b")
    outsider = await play.outsider(str(project.resolve() / "inner"))
    (await play.ask("GET", f"/sessions/{outsider.id}/files")).failed(403, "dialects.cin.projects")

    await play.made(cwd=str(project))
    said = await play.good("GET", f"/sessions/{outsider.id}/files")
    assert [entry["name"] for entry in said["files"]] == ["a.txt"]
    assert (await play.good("GET", f"/sessions/{outsider.id}/file?path=a.txt"))["content"] == "a"
    (await play.ask("GET", f"/sessions/{outsider.id}/file?path=../b.txt")).failed(403)


async def test_an_agent_elsewhere_in_the_servers_own_folder_has_its_files(play: Play) -> None:
    (play.folder / "a.txt").write_text("a")
    outsider = await play.outsider(str(play.folder))
    assert (await play.good("GET", f"/sessions/{outsider.id}/file?path=a.txt"))["content"] == "a"


async def test_the_persons_own_agents_elsewhere_have_their_files_but_never_the_whole_system(
    play: Play, tmp_path: Path
) -> None:
    """What came through the person's own socket is their own word."""
    project = tmp_path.resolve() / "project"
    project.mkdir()
    (project / "a.txt").write_text("a")
    outsider = await play.outsider(str(project), vouched=True)

    assert (await play.good("GET", f"/sessions/{outsider.id}/file?path=a.txt"))["content"] == "a"
    assert (await play.good("GET", f"/browse?path={project}"))["items"][0]["name"] == "a.txt"
    assert (await play.good("GET", f"/projects/autocomplete?q={project}"))["suggestions"] == [str(project)]
    (await play.ask("GET", f"/sessions/{outsider.id}/file?path=/etc/passwd")).failed(403)

    project.rename(tmp_path / "moved")
    project.symlink_to("/etc")
    (await play.ask("GET", f"/sessions/{outsider.id}/files")).failed(403)
    everything = await play.outsider("/", vouched=True)
    (await play.ask("GET", f"/sessions/{everything.id}/files")).failed(403)
    (await play.ask("GET", "/browse?path=/etc")).failed(403)
