"""Folders to begin a session in (spec §3.4): remembered by use, completed inside known folders only."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.dialects.cin.api import Api, served


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that the settings name."""
    around = tmp_path_factory.mktemp("around").resolve()
    named = around / "named"
    (named / "inner" / "deep").mkdir(parents=True)
    (named / ".dotted").mkdir()
    (named / "Interior").mkdir()
    (named / "index.html").touch()
    (around / "named-not").mkdir()
    (named / "way-out").symlink_to(around / "named-not")
    return named


@pytest.fixture(scope="module")
def server(named: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    settings = f"projects = [{json.dumps(str(named))}]\nprojects_kept = 3\n"
    with served(tmp_path_factory.mktemp("projects"), settings=settings) as api:
        yield api


@pytest.fixture
def api(server: Api) -> Api:
    """A server without a session, and none remembered."""
    for session in server.good("GET", "/sessions")["sessions"]:
        server.good("DELETE", f"/sessions/{session['id']}")
    for project in projects(server):
        server.good("DELETE", "/projects" + quote(project["path"]))
    return server


def made(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder


def projects(api: Api) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = api.good("GET", "/projects")["projects"]
    return found


def suggested(api: Api, q: object = "", more: str = "") -> list[str]:
    found: list[str] = api.good("GET", f"/projects/autocomplete?q={quote(str(q))}{more}")["suggestions"]
    return found


def test_folders_of_sessions_are_remembered_the_newest_first_with_their_use(api: Api, tmp_path: Path) -> None:
    one, two = made(tmp_path / "one"), made(tmp_path / "two")
    assert projects(api) == []
    for folder in (one, two, one):
        api.session(folder)

    found = projects(api)
    assert [(each["path"], each["name"], each["useCount"]) for each in found] == [
        (str(one), "one", 2),
        (str(two), "two", 1),
    ]
    assert found[0]["lastUsed"] >= found[1]["lastUsed"] > 1_700_000_000_000


def test_only_so_many_are_kept_and_they_outlive_the_server(api: Api, tmp_path: Path) -> None:
    folders = [made(tmp_path / f"p{number}") for number in range(4)]
    for folder in folders:
        api.session(folder)
    newest = [str(folder) for folder in reversed(folders[1:])]
    assert [each["path"] for each in projects(api)] == newest

    before = projects(api)
    api.close()
    api.bridge.kill()
    asyncio.run(api.bridge.start())
    api.connected()
    assert projects(api) == before


def test_a_session_that_cannot_be_made_leaves_no_project(api: Api, tmp_path: Path) -> None:
    api.ask("POST", "/sessions", {"cwd": str(tmp_path / "gone")}).failed(400, "does not exist")
    api.ask("POST", "/sessions", {"cwd": str(tmp_path), "agent": "nobody"}).failed(400)
    assert projects(api) == []


def test_a_project_can_be_forgotten(api: Api, tmp_path: Path) -> None:
    folder = made(tmp_path / "a folder")
    api.session(folder)

    api.ask("DELETE", "/projects/not/there").failed(404)
    api.good("DELETE", "/projects/" + quote(str(folder), safe=""))
    assert projects(api) == []
    assert folder.is_dir()


def test_the_default_is_where_a_session_was_started_last_else_the_servers_own_folder(api: Api, tmp_path: Path) -> None:
    assert api.good("GET", "/projects/default")["path"] == str(api.work)
    one, two = made(tmp_path / "one"), made(tmp_path / "two")
    api.session(one)
    api.session(two)
    assert api.good("GET", "/projects/default")["path"] == str(two)
    two.rmdir()
    assert api.good("GET", "/projects/default")["path"] == str(one)


def test_known_folders_are_completed_by_any_part_of_their_name(api: Api, tmp_path: Path) -> None:
    alpha, beta = made(tmp_path / "Alpha"), made(tmp_path / "beta")
    api.session(alpha)
    api.session(beta)

    assert suggested(api)[:2] == [str(beta), str(alpha)]
    assert suggested(api, "alph") == [str(alpha)]
    assert suggested(api, "ALPHA") == [str(alpha)]
    assert suggested(api, "", "&limit=1") == [str(beta)]
    assert suggested(api, "", "&limit=0") == []
    assert suggested(api, "no such thing") == []


def test_folders_on_disk_are_completed_where_they_lie_in_known_ones(api: Api, named: Path) -> None:
    assert suggested(api, f"{named}/") == [str(named / "inner"), str(named / "Interior"), str(named)]
    assert suggested(api, named / "in") == [str(named / "inner"), str(named / "Interior")]
    assert suggested(api, f"{named}/inner/") == [str(named / "inner" / "deep")]
    assert suggested(api, f"{named}/inner/../in") == [str(named / "inner"), str(named / "Interior")]


def test_nothing_is_completed_outside(api: Api, named: Path) -> None:
    for q in (
        "/",
        "/e",
        "/etc/",
        "/etc/pass",
        "/proc/self/",
        "~/",
        "~root/",
        f"{named.parent}/",
        f"{named.parent}/named-",
        f"{named}-not/",
        f"{named}/way-out/",
        f"{named}/../",
        f"{named}/../named-",
        f"{named}/inner/../../",
        "../",
        "x" * 4000,
    ):
        for found in suggested(api, q):
            inside = (named, api.work)
            assert any(Path(found).is_relative_to(each) for each in inside), (q, found)


@pytest.mark.parametrize("query", ["q=%00", "q=" + "x" * 5000, "q=%ff", "limit=-1", "limit=x", "limit=1e3"])
def test_what_is_no_query_is_refused(api: Api, query: str) -> None:
    api.get(f"/projects/autocomplete?{query}").failed(400)


def test_no_project_is_a_way_to_a_file(api: Api) -> None:
    for path in ("/projects/../../etc/passwd", "/projects/..%2f..%2fetc%2fpasswd", "/projects/%2fetc%2fpasswd"):
        reply = api.get(path)
        assert reply.status in (404, 405)
        assert b"root:" not in str(reply.body).encode()


def test_what_the_settings_name_may_be_browsed_and_a_link_out_of_it_not(api: Api, named: Path) -> None:
    assert [item["name"] for item in api.good("GET", f"/browse?path={named}")["items"]] == [
        "inner",
        "Interior",
        "index.html",
    ]
    api.get(f"/browse?path={named}/way-out").failed(403)
    api.get(f"/browse?path={named}-not").failed(403)
