"""Looking into folders over HTTP (spec §3.3, ``/browse``): what is listed and read, and that nothing leads out."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.dialects.cin.api import Api, served

WIDE = quote("\uff0e\uff0e\uff0foutside.txt")
"""Dots and a slash of another width."""

SECRET = "the-secret-of-the-neighbour"


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with served(tmp_path_factory.mktemp("files")) as api:
        yield api


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with all that a project may hold, and a neighbour whose name begins like its own."""
    around = tmp_path_factory.mktemp("projects").resolve()
    project, evil = around / "proj", around / "proj-evil"
    for each in (project / "src" / "deep" / "deeper", project / "node_modules" / "x", project / ".git", evil):
        each.mkdir(parents=True)
    (project / "a.txt").write_text("hi\n")
    (project / "b.json").write_text('{"b": 1}')
    (project / "Zoë 日本.md").write_text("ünï")
    (project / ".hidden").write_text("shh")
    (project / "src" / "main.py").write_text("print()\n")
    (project / "src" / "deep" / "deeper" / "bottom.txt").write_text("down")
    (project / "node_modules" / "x" / "index.js").write_text("x")
    (project / ".git" / "config").write_text("[core]")
    (project / "picture.png").write_bytes(b"text, but for its name")
    (project / "nul.txt").write_bytes(b"a\0b")
    (project / "latin.txt").write_bytes(b"caf\xe9")
    (project / "large.txt").write_bytes(b"x" * (1024 * 1024 + 1))
    (project / "largest.txt").write_bytes(b"x" * 1024 * 1024)
    (project / "closed.txt").write_text("x")
    (evil / "x").write_text(SECRET)
    (around / "outside.txt").write_text(SECRET)
    os.mkfifo(project / "pipe")
    (project / "link-in.txt").symlink_to(project / "a.txt")
    (project / "link-folder-in").symlink_to(project / "src")
    (project / "link-out.txt").symlink_to(around / "outside.txt")
    (project / "link-out").symlink_to(around)
    (project / "link-root").symlink_to("/")
    (project / "link-evil").symlink_to(evil)
    (project / "loop").symlink_to(project / "loop")
    (project / "nowhere").symlink_to(project / "not-there")
    os.link(around / "outside.txt", project / "hard.txt")
    return project


@pytest.fixture(scope="module")
def session(api: Api, folder: Path) -> str:
    return str(api.session(folder)["id"])


def names(entries: list[dict[str, Any]]) -> list[str]:
    return [entry["name"] for entry in entries]


# What is listed


def test_a_folder_is_listed_directories_first_and_what_is_hidden_left_out(api: Api, session: str, folder: Path) -> None:
    said = api.good("GET", f"/sessions/{session}/files")

    assert said["path"] == said["cwd"] == str(folder)
    assert names(said["files"]) == [
        "link-folder-in",
        "node_modules",
        "src",
        "a.txt",
        "b.json",
        "closed.txt",
        "hard.txt",
        "large.txt",
        "largest.txt",
        "latin.txt",
        "link-in.txt",
        "nul.txt",
        "picture.png",
        "Zoë 日本.md",
    ]
    entry = next(entry for entry in said["files"] if entry["name"] == "a.txt")
    assert entry == {
        "name": "a.txt",
        "path": str(folder / "a.txt"),
        "type": "file",
        "size": 3,
        "modified": (folder / "a.txt").stat().st_mtime_ns // 1_000_000,
    }


@pytest.mark.parametrize("form", ["src", "/src/", "src/deep/..", "./src", "link-folder-in"])
def test_a_folder_below_is_named_by_a_path_from_the_sessions_folder_or_a_whole_one(
    api: Api, session: str, folder: Path, form: str
) -> None:
    path = f"{folder}{form}" if form.startswith("/") else form

    said = api.good("GET", f"/sessions/{session}/files?path={quote(path)}")

    assert names(said["files"]) == ["deep", "main.py"]


def test_a_tree_nests_to_its_depth_without_what_nobody_wrote(api: Api, session: str, folder: Path) -> None:
    said = api.good("GET", f"/sessions/{session}/files/tree?depth=2")

    top = {node["name"]: node for node in said["tree"]}
    assert "node_modules" not in top
    assert ".hidden" not in top
    assert "children" not in top["link-folder-in"], "a link may lead back"
    assert top["src"] == {
        "name": "src",
        "path": str(folder / "src"),
        "type": "directory",
        "children": [
            {"name": "deep", "path": str(folder / "src/deep"), "type": "directory"},
            {"name": "main.py", "path": str(folder / "src/main.py"), "type": "file"},
        ],
    }


@pytest.mark.parametrize(
    ("depth", "reached"), [("", True), ("?depth=99", True), ("?depth=0", False), ("?depth=1", False)]
)
def test_a_trees_depth_is_three_unless_said_and_never_more_than_five(
    api: Api, session: str, depth: str, reached: bool
) -> None:
    said = api.good("GET", f"/sessions/{session}/files/tree{depth}")

    source = next(node for node in said["tree"] if node["name"] == "src")
    assert ("children" in source) is reached


def test_hidden_names_are_in_a_tree_that_asks_for_them_but_never_git(api: Api, session: str) -> None:
    said = api.good("GET", f"/sessions/{session}/files/tree?hidden=true")

    assert ".hidden" in names(said["tree"])
    assert ".git" not in names(said["tree"])


@pytest.mark.parametrize("query", ["depth=-1", "depth=x", "depth=1.5", "hidden=yes", "depth=" + "9" * 40])
def test_what_is_no_number_or_switch_is_refused(api: Api, session: str, query: str) -> None:
    api.get(f"/sessions/{session}/files/tree?{query}").failed(400)


# What is read


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.txt", "hi\n"),
        ("b.json", '{"b": 1}'),
        ("Zoë 日本.md", "ünï"),
        (".hidden", "shh"),
        ("link-in.txt", "hi\n"),
        ("largest.txt", "x" * 1024 * 1024),
        ("src/deep/../main.py", "print()\n"),
    ],
)
def test_a_file_is_read_as_text(api: Api, session: str, folder: Path, name: str, content: str) -> None:
    said = api.good("GET", f"/sessions/{session}/file?path={quote(name)}")

    assert said["content"] == content
    assert said["size"] == len(content.encode())
    assert said["path"] == os.path.normpath(folder / name)
    assert said["name"] == Path(name).name
    assert isinstance(said["modified"], int)


@pytest.mark.parametrize(
    ("query", "status", "words"),
    [
        ("", 400, "Missing path"),
        ("?path=", 400, "Missing path"),
        ("?path=src", 400, "is a directory"),
        ("?path=.", 400, "is a directory"),
        ("?path=large.txt", 400, "too large"),
        ("?path=picture.png", 400, "binary"),
        ("?path=nul.txt", 400, "binary"),
        ("?path=latin.txt", 400, "binary"),
        ("?path=pipe", 400, "cannot be used"),
        ("?path=gone.txt", 404, "not found"),
        ("?path=a.txt/b", 404, "not found"),
        ("?path=nowhere", 404, "not found"),
    ],
)
def test_what_cannot_be_read_says_why(api: Api, session: str, query: str, status: int, words: str) -> None:
    api.get(f"/sessions/{session}/file{query}").failed(status, words)


@pytest.mark.parametrize("route", ["files", "files/tree"])
@pytest.mark.parametrize(
    ("path", "status", "words"),
    [("gone", 404, "not found"), ("a.txt", 400, "not a directory"), ("a.txt/x", 404, "not found"), ("pipe", 400, "")],
)
def test_what_cannot_be_listed_says_why(api: Api, session: str, route: str, path: str, status: int, words: str) -> None:
    api.get(f"/sessions/{session}/{route}?path={path}").failed(status, words)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_that_the_server_may_not_read_is_denied(api: Api, session: str, folder: Path) -> None:
    (folder / "closed.txt").chmod(0)
    api.get(f"/sessions/{session}/file?path=closed.txt").failed(403)


@pytest.mark.parametrize("route", ["files", "file?path=a.txt", "files/tree"])
def test_an_unknown_session_has_no_files(api: Api, route: str) -> None:
    api.get(f"/sessions/00000000-0000-4000-8000-000000000000/{route}").failed(404, "Session not found")


def test_a_name_that_is_no_text_is_shown_as_far_as_it_is(api: Api, tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"caf\xe9.txt")).write_text("x")
    session = api.session(tmp_path)["id"]

    assert names(api.good("GET", f"/sessions/{session}/files")["files"]) == ["caf\ufffd.txt"]


# What leads out


def leading_out(folder: Path) -> list[str]:
    """Paths by which one might leave ``folder``, as they stand in a query."""
    around = folder.parent
    return [
        "..",
        "../",
        "../outside.txt",
        "../proj-evil",
        "../proj-evil/x",
        "src/../../outside.txt",
        "src/../../../../../../../../etc/passwd",
        "not-there/../../outside.txt",
        "..%2foutside.txt",
        "%2e%2e/outside.txt",
        "%2e%2e%2foutside.txt",
        "....//....//etc/passwd" + "/../" * 12 + "etc/passwd",
        f"{around}",
        f"{around}/outside.txt",
        f"{around}/proj-evil/x",
        f"{folder}-evil/x",
        f"{folder}/../outside.txt",
        f"/{around}/outside.txt",
        "/etc/passwd",
        "//etc/passwd",
        "/proc/self/environ",
        "/proc/self/root/etc/passwd",
        "/",
        "link-out.txt",
        "link-out",
        "link-out/outside.txt",
        "link-out/proj-evil/x",
        "link-root",
        "link-root/etc/passwd",
        "link-evil/x",
        "link-folder-in/../../outside.txt",
        "loop",
        "loop/x",
    ]


ENDLESS = ("a%00b", "%00", "../%00/etc/passwd", "x" * 5000, "../" * 2000 + "etc/passwd", "/x" * 3000)


@pytest.mark.parametrize("route", ["files", "file", "files/tree"])
def test_no_path_leads_out_of_a_sessions_folder(api: Api, session: str, folder: Path, route: str) -> None:
    for path in leading_out(folder):
        reply = api.get(f"/sessions/{session}/{route}?path={path}")
        assert reply.status == 403, (path, reply)
        reply.failed(403, "Access denied")
        assert SECRET not in str(reply)


@pytest.mark.parametrize("route", ["/sessions/{}/files", "/sessions/{}/file", "/sessions/{}/files/tree", "/browse"])
def test_what_is_no_path_is_refused(api: Api, session: str, route: str) -> None:
    for path in ENDLESS:
        reply = api.get(f"{route.format(session)}?path={path}")
        reply.failed(400)
    for path in ("%ff%fe", "%c0%ae%c0%ae/etc/passwd", "%ed%a0%80"):
        api.get(f"{route.format(session)}?path={path}").failed(400, "decoded")
    assert api.get(f"{route.format(session)}?path={WIDE}").status in (403, 404)


def test_no_name_of_a_session_is_a_path(api: Api, session: str) -> None:
    for name in (
        "..",
        ".",
        "%2e%2e",
        "..%2f..%2fetc",
        "%00",
        "a%00",
        "x" * 5000,
        WIDE,
        f"{session}x",
        f"{session}%00",
    ):
        for route in ("files", "file?path=a.txt", "files/tree"):
            api.get(f"/sessions/{name}/{route}").failed(404)


def test_nothing_that_leads_out_is_listed(api: Api, session: str) -> None:
    for route in ("files", "files/tree?depth=5&hidden=true"):
        reply = api.get(f"/sessions/{session}/{route}")
        assert "link-out" not in str(reply.body)
        assert "link-root" not in str(reply.body)
        assert "passwd" not in str(reply.body)
        assert "pipe" not in str(reply.body)


def test_a_folder_that_has_become_a_link_holds_nothing(api: Api, tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / "folder", tmp_path / "elsewhere"
    folder.mkdir()
    elsewhere.mkdir()
    (elsewhere / "x").write_text(SECRET)
    session = api.session(folder)["id"]
    folder.rmdir()
    folder.symlink_to(elsewhere)

    for route in ("files", "file?path=x", "files/tree", f"file?path={folder}/x", f"file?path={elsewhere}/x"):
        api.get(f"/sessions/{session}/{route}").failed(403, "Access denied")
    api.get(f"/browse?path={folder}").failed(403, "Access denied")


def test_a_folder_that_is_gone_is_not_found(api: Api, tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    session = api.session(folder)["id"]
    folder.rmdir()

    api.get(f"/sessions/{session}/files").failed(404)
    api.get(f"/sessions/{session}/file?path=x").failed(404)


def test_what_is_the_servers_own_is_shown_in_no_folder(api: Api) -> None:
    """A session may work in the folder that the server keeps its data in."""
    own = api.bridge.home.parent  # data, log, settings and the person's home lie there
    session = api.session(own)["id"]

    listed = api.good("GET", f"/sessions/{session}/files")["files"]
    assert "work" in names(listed)
    assert "data" not in names(listed)
    assert "data" not in names(api.good("GET", f"/sessions/{session}/files/tree")["tree"])
    data = own / "data"
    assert data.is_dir()
    for path in (data, data / "cin", data / "cin" / "tiles.json", *data.iterdir()):
        for route in ("files", "file", "files/tree"):
            api.get(f"/sessions/{session}/{route}?path={path}").failed(403, "Access denied")
        api.get(f"/browse?path={path}").failed(403, "Access denied")


def test_a_folder_with_more_than_is_looked_at_says_so(tmp_path: Path) -> None:
    folder = tmp_path / "many"
    folder.mkdir()
    for number in range(30):
        (folder / f"{number}").mkdir()
        (folder / f"{number}" / "x").touch()
    with served(tmp_path / "server", settings="folder_entries = 20\n") as api:
        session = api.session(folder)["id"]

        for route, most in ((f"/sessions/{session}/files", 20), (f"/browse?path={folder}", 20)):
            said = api.good("GET", route)
            assert said["truncated"] is True
            assert len(said.get("files", said.get("items"))) == most
        said = api.good("GET", f"/sessions/{session}/files/tree")
        assert said["truncated"] is True
        assert "truncated" not in api.good("GET", f"/sessions/{session}/files?path=1")


# Known folders


def test_browsing_stays_in_known_folders(api: Api, session: str, folder: Path) -> None:
    said = api.good("GET", f"/browse?path={folder}")

    assert said["path"] == str(folder)
    assert said["parent"] is None, "what is above is no known folder"
    assert {"name": "src", "path": str(folder / "src"), "isDirectory": True} in said["items"]
    assert {"name": "a.txt", "path": str(folder / "a.txt"), "isDirectory": False} in said["items"]
    assert api.good("GET", f"/browse?path={folder}/src")["parent"] == str(folder)
    for path in leading_out(folder):
        if path.startswith(("/", "%2f")):
            api.get(f"/browse?path={path}").failed(403, "Access denied")
        else:
            api.get(f"/browse?path={folder}/{path}").failed(403, "Access denied")
    api.get(f"/browse?path={folder}/gone").failed(404, "not found")
    api.get(f"/browse?path={folder}/a.txt").failed(400, "not a directory")
    api.get("/browse?path=/nope").failed(403)


def test_without_a_path_browsing_begins_with_what_is_known(api: Api, session: str, folder: Path) -> None:
    said = api.good("GET", "/browse")

    assert said["parent"] is None
    assert {"name": folder.name, "path": str(folder), "isDirectory": True} in said["items"]
    assert {"name": "work", "path": str(api.work), "isDirectory": True} in said["items"]
