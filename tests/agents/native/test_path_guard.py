# ruff: noqa: RUF001 - look-alikes are what is tested
"""Which files the native agent's tools may touch, and that what was checked is what is opened."""

import os
import stat
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dragoman.agents.native import path_guard
from dragoman.agents.native.path_guard import PathBlocked, PathGuard, PathInvalid
from dragoman.agents.native.permissions.scope import Scope

from .folders import names, read

LEXICAL = "blocked: path is outside workingDirectory/outputDirectory/project root: "
CANONICAL = "blocked: canonical target resolves outside allowed directories: "


@pytest.mark.parametrize(
    "path",
    [
        *("file", "./file", "sub/../file", "sub//file", "to_file", "to_file_absolute", "to_sub/file"),
        *("{root}/file", "/{root}/file", "//{root}/file", "to_sub/../file", "../root/file"),
    ],
)
def test_inside_is_read(guard: PathGuard, place: Path, path: str) -> None:
    assert read(guard, path.format(root=place / "root")) == b"inside"


@pytest.mark.parametrize(
    "path",
    [
        *("..", "../outside/secret", "sub/../../outside/secret", "{top}/outside/secret", "/etc/passwd"),
        *("/", "~", "~/x", "~root/.profile", "../root-two/secret", "{top}/root-two/secret"),
        *("/proc/self/root{top}/root/file", "/proc/self/environ", "/dev/null", "/dev/stdin"),
        *("//etc/passwd", "{top}/ROOT/file", "out_folder/../../x"),
    ],
)
def test_a_path_that_is_spelled_outside_is_refused(guard: PathGuard, place: Path, path: str) -> None:
    asked = path.format(top=place)
    for act in (read, lambda g, p: g.write_file("read", p, b"x")):
        with pytest.raises(PathBlocked) as blocked:
            act(guard, asked)
        assert str(blocked.value) == f"read {LEXICAL}{asked}"


@pytest.mark.parametrize(
    "path",
    [
        *("out_file", "out_folder/secret", "out_twice/secret", "dangling_out", "to_slash/etc/passwd"),
        *("to_proc_root/secret", "to_proc_cwd/x", "sub/../out_file", "to_sub/../out_folder/secret"),
        *("out_folder/../file", "out_folder/new/deep"),
    ],
)
def test_a_path_that_leads_outside_is_refused(guard: PathGuard, place: Path, path: str) -> None:
    for act in (read, lambda g, p: g.write_file("read", p, b"x")):
        with pytest.raises(PathBlocked) as blocked:
            act(guard, path)
        assert str(blocked.value) == f"read {CANONICAL}{path}"
    assert names(place / "outside") == ["secret"]
    assert (place / "outside" / "secret").read_text() == "secret"


def test_a_loop_of_links_is_refused(guard: PathGuard) -> None:
    with pytest.raises(PathBlocked):
        read(guard, "loop")


def test_links_without_end_are_refused(guard: PathGuard, place: Path) -> None:
    chain = place / "root" / "chain"
    chain.mkdir()
    (chain / "0").write_text("x")
    for number in range(1, 1500):
        (chain / str(number)).symlink_to(str(number - 1))
    with pytest.raises(PathBlocked):
        read(guard, "chain/1499")
    assert not Scope(place / "root", [place / "root"]).holds("chain/1499")


@pytest.mark.parametrize("path", ["", "a\0b", "\0", "file\0.txt", "\ud800"])
def test_what_names_no_file_is_invalid(guard: PathGuard, path: str) -> None:
    with pytest.raises(PathInvalid, match=r"invalid path"):
        guard.check("read", path)


@pytest.mark.parametrize(
    "path", ["．．/outside/secret", "..\\outside\\secret", "․․/x", "..／outside", "%2e%2e/x", "...", ".. /x"]
)
def test_look_alikes_of_dots_and_slashes_are_plain_names(guard: PathGuard, place: Path, path: str) -> None:
    assert guard.check("read", path).path == place / "root" / path


def test_pipes_sockets_devices_and_folders_are_not_read_and_nothing_hangs(guard: PathGuard, place: Path) -> None:
    os.mkfifo(place / "root" / "pipe")
    for act in (read, lambda g, p: g.write_file("read", p, b"x")):
        with pytest.raises(PathBlocked, match="not a regular file"):
            act(guard, "pipe")
        with pytest.raises(IsADirectoryError):
            act(guard, "sub")


def test_devices_and_proc_are_refused_even_below_a_root(place: Path) -> None:
    everything = PathGuard(place, [Path("/")])
    with pytest.raises(PathBlocked, match="not a regular file"):
        read(everything, "/dev/zero")
    for path in ("/proc/self/environ", "/proc/self/root/etc/passwd/../../proc/1/environ", "/sys/kernel/notes"):
        with pytest.raises((PathBlocked, NotADirectoryError)):
            read(everything, path)
    with pytest.raises(IsADirectoryError):
        everything.write_file("write", "/", b"x")
    with pytest.raises(IsADirectoryError):
        read(everything, "/")
    assert read(everything, str(place / "outside" / "secret")) == b"secret"


def test_a_root_may_be_given_through_a_link(place: Path) -> None:
    (place / "alias").symlink_to("root")
    guard = PathGuard(place / "alias", [place / "alias"])
    for path in ("file", str(place / "alias" / "file"), str(place / "root" / "file")):
        assert read(guard, path) == b"inside"


def test_a_root_that_became_a_link_opens_nothing(guard: PathGuard, place: Path) -> None:
    (place / "root").rename(place / "was")
    (place / "root").symlink_to("outside")
    with pytest.raises(PathBlocked):
        read(guard, "secret")


def test_another_spelling_of_a_root_counts_only_if_it_is_the_same_folder(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A case-insensitive file system, played by `lstat`: it knows `ROOT` and the other Unicode form too."""
    real = os.lstat
    decomposed, composed = place / "e\u0301", place / "\u00e9"
    decomposed.mkdir()
    guard = PathGuard(place / "root", [place / "root", decomposed])
    same = {str(place / "ROOT"): place / "root", str(composed): decomposed}
    for path in (place / "ROOT" / "file", composed / "file"):
        with pytest.raises(PathBlocked):
            guard.check("read", str(path))
    monkeypatch.setattr(path_guard.os, "lstat", lambda p, **k: real(same.get(str(p), p), **k))
    for path in (place / "ROOT" / "file", composed / "file"):
        assert guard.check("read", str(path)).path == path
    with pytest.raises(PathBlocked):
        guard.check("read", str(place / "ROOT-two" / "secret"))


def test_write_makes_folders_and_leaves_nothing_behind(guard: PathGuard, place: Path) -> None:
    target = guard.write_file("write", "new/deep/file", b"text")
    assert target.path == place / "root/new/deep/file"
    assert target.path.read_bytes() == b"text"
    assert names(target.path.parent) == ["file"]


def test_a_root_that_does_not_exist_yet_is_made_by_the_first_write(place: Path) -> None:
    guard = PathGuard(place / "root", [place / "output" / "here"])
    guard.write_file("write", str(place / "output/here/file"), b"text")
    assert (place / "output/here/file").read_bytes() == b"text"


def test_write_keeps_the_mode_and_the_links(guard: PathGuard, place: Path) -> None:
    (place / "root/sub/file").chmod(0o750)
    guard.write_file("write", "to_file", b"new")
    guard.write_file("write", "dangling_in", b"made")
    assert (place / "root/to_file").is_symlink()
    assert (place / "root/sub/file").read_bytes() == b"new"
    assert stat.S_IMODE((place / "root/sub/file").stat().st_mode) == 0o750
    assert (place / "root/sub/absent").read_bytes() == b"made"


def test_write_does_not_reach_through_a_hard_link(guard: PathGuard, place: Path) -> None:
    os.link(place / "outside/secret", place / "root/hard")
    guard.write_file("write", "hard", b"new")
    assert (place / "root/hard").read_bytes() == b"new"
    assert (place / "outside/secret").read_text() == "secret"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everything")
def test_write_heeds_a_read_only_file(guard: PathGuard, place: Path) -> None:
    (place / "root/file").chmod(0o444)
    with pytest.raises(PermissionError):
        guard.write_file("write", "file", b"new")
    assert (place / "root/file").read_text() == "inside"


def test_a_write_that_fails_leaves_the_old_file_alone(
    guard: PathGuard, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(path_guard.os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        guard.write_file("write", "sub/file", b"new")
    assert names(place / "root/sub") == ["file"]
    assert (place / "root/sub/file").read_text() == "inside"


def test_no_descriptor_is_left_open(guard: PathGuard) -> None:
    before = len(names(Path("/proc/self/fd")))
    for path in ("file", "sub", "out_file", "absent", "sub/file/x", "to_sub/absent"):
        try:
            read(guard, path)
            guard.write_file("write", path, b"x")
        except OSError:
            continue
    assert len(names(Path("/proc/self/fd"))) == before


def test_a_folder_is_opened_as_safely(guard: PathGuard) -> None:
    with guard.open_folder("glob", "to_sub") as fd:
        assert stat.S_ISREG(os.stat("file", dir_fd=fd).st_mode)
    with pytest.raises(PathBlocked), guard.open_folder("glob", "out_folder"):
        pass


PARTS = st.sampled_from(
    [
        *(
            "..",
            ".",
            "",
            "file",
            "sub",
            "to_sub",
            "out_folder",
            "out_twice",
            "loop",
            "to_slash",
            "secret",
        ),
        *(
            "outside",
            "root",
            "to_proc_root",
            "to_proc_cwd",
            "dangling_out",
            "~",
            "new",
            "root-two",
        ),
    ]
)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(parts=st.lists(PARTS, max_size=7), absolute=st.sampled_from(["", "/", "{top}/", "{top}/root/", "/{top}/root/"]))
def test_no_path_ever_reads_outside(guard: PathGuard, place: Path, parts: list[str], absolute: str) -> None:
    asked = absolute.format(top=place) + "/".join(parts)
    try:
        assert read(guard, asked) == b"inside"
        # An independent judge: the kernel's own idea of where that path leads.
        assert os.path.realpath(place / "root" / asked).startswith(str(place / "root") + "/")
    except (PathInvalid, OSError):
        pass


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(path=st.text(max_size=40))
def test_any_text_is_inside_invalid_or_blocked(guard: PathGuard, place: Path, path: str) -> None:
    try:
        target = guard.check("read", path)
    except (PathInvalid, PathBlocked):
        return
    assert target.path.is_relative_to(place / "root")


@pytest.mark.parametrize(
    "way", ["{place}/root/own/keys", "own/keys", "sub/../own/keys", "to_own/keys", "to_keys", "own"]
)
def test_what_is_the_servers_is_refused_below_a_root_too(place: Path, way: str) -> None:
    own = place / "root" / "own"
    own.mkdir()
    (own / "keys").write_text("a key")
    (place / "root" / "to_own").symlink_to("own")
    (place / "root" / "to_keys").symlink_to(own / "keys")
    (place / "own").symlink_to(own)
    guard = PathGuard(place / "root", [place / "root"], private=[place / "own"])
    asked = way.format(place=place)
    for act in (read, lambda g, p: g.write_file("read", p, b"x"), lambda g, p: g.check("read", p)):
        with pytest.raises(PathBlocked, match="canonical target"):
            act(guard, asked)
    with pytest.raises(PathBlocked), guard.open_folder("glob", "own"):
        pass
    assert read(guard, "file") == b"inside"
    assert names(own) == ["keys"]
