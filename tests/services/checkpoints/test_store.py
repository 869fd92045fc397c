"""The store as its caller sees it: what is saved, what it costs, what people find on disk, and what it refuses."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import stat
from pathlib import Path

import pytest

from dragoman.hub.checkpoints import CheckpointGone, CheckpointProblem, Saved
from dragoman.services.checkpoints import CheckpointStore

from .store_rig import Desk, names, quick, shape, stored, unfinished, until


def furnish(work: Path) -> None:
    """Something of every kind."""
    (work / "plain").write_text("text\n-- gone //\n")
    (work / "ünïcödé").write_text("name")
    (work / "tool").write_bytes(os.urandom(5000))
    (work / "tool").chmod(0o4750)
    (work / "empty").mkdir(mode=0o2711)
    (work / "deep" / "er").mkdir(parents=True)
    (work / "deep" / "er" / "file").write_text("below")
    (work / "deep" / "er" / "file").chmod(0o600)
    os.link(work / "plain", work / "deep" / "same")
    (work / "link").symlink_to("deep/er/file")
    (work / "dangling").symlink_to("/nowhere/../at all")
    os.mkfifo(work / "pipe", 0o620)
    (work / "nested" / ".git" / "refs").mkdir(parents=True)
    (work / "nested" / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    for name in (b"\xff\xfe", b"two\nlines", b"-rf", b" "):
        Path(os.fsdecode(os.fsencode(work) + b"/" + name)).write_bytes(name)
    os.utime(work / "deep", ns=(1, 123456789))
    os.utime(work / "link", ns=(1, 987654321), follow_symlinks=False)


async def test_everything_comes_back(desk: Desk) -> None:
    furnish(desk.work)
    before = shape(desk.work)
    first, _ = await desk.take()
    for name in names(desk.work):
        (desk.work / name).rename(desk.work / f"{name}.moved")
    (desk.work / "plain").mkdir()
    (desk.work / "plain" / "new").write_text("new")
    after = shape(desk.work)
    safety, _ = await desk.restore(first)
    assert shape(desk.work) == before
    await desk.restore(safety)
    assert shape(desk.work) == after
    assert unfinished(desk.folder) == []


async def test_a_restore_leaves_alone_what_is_right_already(desk: Desk) -> None:
    furnish(desk.work)
    first, _ = await desk.take()
    inodes = {name: (desk.work / name).lstat().st_ino for name in names(desk.work)}
    (desk.work / "plain.new").write_text("new")
    (desk.work / "tool").write_text("changed")
    del inodes["tool"]
    root = desk.work.stat().st_ino
    await desk.restore(first)
    assert {name: (desk.work / name).lstat().st_ino for name in inodes} == inodes
    assert desk.work.stat().st_ino == root


@pytest.mark.parametrize("change", ["mode", "owner's bits", "xattr", "time"])
async def test_what_is_not_content_comes_back_too(desk: Desk, change: str) -> None:
    file, folder = desk.work / "file", desk.work / "folder"
    file.write_text("text")
    folder.mkdir()
    try:
        os.setxattr(file, "user.kept", b"1")
        os.setxattr(folder, "user.kept", b"1")
    except OSError:
        pytest.skip("no attributes on this filesystem")
    before = shape(desk.work)
    first, _ = await desk.take()
    for path in (file, folder):
        if change == "mode":
            path.chmod(0o700)
        elif change == "owner's bits":
            path.chmod(0o6755)
        elif change == "xattr":
            os.setxattr(path, "user.kept", b"2")
            os.setxattr(path, "user.more", b"2")
        else:
            os.utime(path, ns=(5, 5))
    _, saved = await desk.restore(first)
    assert shape(desk.work) == before
    assert [os.listxattr(path) for path in (file, folder)] == [["user.kept"]] * 2
    assert [os.getxattr(path, "user.kept") for path in (file, folder)] == [b"1"] * 2
    assert saved.changed is (change != "time")


async def test_times_alone_are_no_change(desk: Desk) -> None:
    (desk.work / "file").write_text("text")
    await desk.take()
    os.utime(desk.work / "file", ns=(7, 7))
    os.utime(desk.work, ns=(7, 7))
    assert (await desk.take())[1].changed is False
    (desk.work / "file").write_text("other")
    assert (await desk.take())[1].changed is True


async def test_an_unchanged_workspace_costs_nothing(desk: Desk) -> None:
    """Defect 20 of the original: unchanged checkpoints were stored again, and deleting one broke what others shared."""
    (desk.work / "file").write_text("text")
    first, saved = await desk.take()
    assert saved.size > 0
    objects = stored(desk.folder)
    second, saved = await desk.take()
    assert saved == Saved(changed=False, size=0)
    assert stored(desk.folder) == objects
    await desk.store.delete("s1", second)
    assert await desk.store.sweep()
    assert stored(desk.folder) == objects
    (desk.work / "file").unlink()
    await desk.restore(first)
    assert (desk.work / "file").read_text() == "text"


async def test_what_only_a_deleted_checkpoint_needed_goes(desk: Desk) -> None:
    await desk.take()
    assert await desk.store.sweep()
    before = stored(desk.folder)
    (desk.work / "large").write_bytes(os.urandom(100_000))
    second, _ = await desk.take()
    assert stored(desk.folder) > before
    await desk.store.delete("s1", second)
    await until(lambda: stored(desk.folder) == before)
    with pytest.raises(CheckpointGone, match="nothing is kept"):
        await desk.store.delete("s1", second)
    with pytest.raises(CheckpointGone, match="nothing is kept"):
        await desk.restore(second)


async def test_folders_are_for_this_user_only_and_records_are_readable(desk: Desk) -> None:
    await desk.take()
    (desk.work / "file").write_text("text")
    await desk.take()
    for folder, _, files in os.walk(desk.folder):
        assert stat.S_IMODE(Path(folder).stat().st_mode) == 0o700
        assert all(stat.S_IMODE((Path(folder) / it).stat().st_mode) == 0o600 for it in files)
    record = json.loads((desk.store.folder("s1") / "metadata.json").read_text())
    assert desk.store.folder("s1") == desk.folder / "s1"
    assert (record["sessionId"], record["workingDirectory"], record["state"]) == ("s1", str(desk.work), "active")
    assert record["originalSnapshot"]["kind"] == "directory"
    assert [(it["id"], it["index"], it["changed"]) for it in record["checkpoints"]] == [("cp-0001", 1, True)]


async def test_a_closed_session_is_noted_and_a_dropped_one_is_gone(desk: Desk) -> None:
    (desk.work / "file").write_text("text")
    await desk.take()
    metadata = desk.folder / "s1" / "metadata.json"
    desk.store.closed("s1")
    await until(lambda: json.loads(metadata.read_text())["state"] == "closed")
    assert json.loads(metadata.read_text())["closedAt"]
    desk.store.dropped("s1")
    await until(lambda: not metadata.parent.exists() and not stored(desk.folder))
    desk.store.closed("never")
    desk.store.dropped("never")


@pytest.mark.parametrize("name", ["", ".", "..", ".store", "a/b", "../s2", "a\0b", "x" * 200, "-"])
async def test_a_name_that_leads_elsewhere_is_refused(desk: Desk, name: str) -> None:
    """Defect 10 of the original: the checkpoint's id was used as it came."""
    await desk.take()
    with pytest.raises(CheckpointProblem):
        await desk.store.take(name, desk.work, "cp-0001", first=None)
    with pytest.raises(CheckpointProblem):
        await desk.store.take("s1", desk.work, name, first="cp-0000")
    with pytest.raises(CheckpointProblem):
        await desk.store.restore("s1", desk.work, name, safety="cp-0001", first="cp-0000")
    with pytest.raises(CheckpointProblem):
        await desk.store.delete("s1", name)
    with pytest.raises(CheckpointProblem):
        desk.store.folder(name)


async def test_an_id_that_the_log_never_learned_of_is_taken_again(tmp_path: Path) -> None:
    """The server was killed between a checkpoint and its event. Nobody's work is thrown away for that."""
    desk = Desk(tmp_path, quick(per_session=2))
    await desk.take()
    for text in ("lost", "lost too", "new"):
        (desk.work / "file").write_text(text)
        await desk.store.take("s1", desk.work, "cp-0001", first="cp-0000")
    (desk.work / "file").unlink()
    await desk.store.restore("s1", desk.work, "cp-0001", safety="cp-0002", first="cp-0000")
    assert (desk.work / "file").read_text() == "new"
    record = json.loads((desk.folder / "s1" / "metadata.json").read_text())
    assert [it["id"] for it in record["checkpoints"]] == ["cp-0001", "cp-0002"]
    await desk.store.close()


async def test_what_the_log_never_learned_of_is_set_aside_until_it_is_among_the_oldest(tmp_path: Path) -> None:
    desk = Desk(tmp_path, quick(per_session=2))
    await desk.take()
    for text in ("work", "new"):
        (desk.work / "file").write_text(text)
        await desk.store.take("s1", desk.work, "cp-0001", first="cp-0000")
    await desk.store.restore("s1", desk.work, "cp-0001-lost", safety="cp-0002", first="cp-0000")
    assert (desk.work / "file").read_text() == "work"
    saved = [await desk.store.take("s1", desk.work, f"cp-{it:04}", first="cp-0000") for it in range(3, 6)]
    assert [it.dropped for it in saved] == [(), ("cp-0002",), ("cp-0003",)]
    await desk.store.close()


async def test_a_damaged_record_harms_no_other_session(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    (desk.work / "file").write_text("text")
    await desk.take()
    await desk.store.take("s2", desk.work, "cp-0000", first=None)
    (desk.folder / "s1" / "metadata.json").write_text("{")
    with pytest.raises(CheckpointProblem, match="cannot be used"):
        await desk.take()
    assert await desk.store.sweep()
    (desk.work / "file").unlink()
    await desk.store.restore("s2", desk.work, "cp-0000", safety="cp-0001", first="cp-0000")
    assert (desk.work / "file").read_text() == "text"
    assert "checkpoints of session s1 are lost" in caplog.text


async def test_what_a_newer_server_wrote_is_not_thrown_away(desk: Desk) -> None:
    await desk.take()
    metadata = desk.folder / "s1" / "metadata.json"
    metadata.write_text(metadata.read_text().replace('"version": 2', '"version": 3'))
    objects = stored(desk.folder)
    assert await desk.store.sweep() is False
    assert stored(desk.folder) == objects


async def test_what_the_original_server_keeps_there_is_left_alone(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    await desk.take()
    theirs = desk.folder / "74004bf4-f892-4c42-8275-00ca2b56c686"
    (theirs / "original").mkdir(parents=True)
    record = {"version": 1, "sessionId": theirs.name, "originalSnapshot": {"kind": "directory", "path": "original"}}
    (theirs / "metadata.json").write_text(json.dumps({**record, "checkpoints": []}))
    before = shape(theirs)
    assert await desk.store.sweep()
    assert shape(theirs) == before
    assert caplog.text == ""
    with pytest.raises(CheckpointProblem, match="version 1"):
        await desk.store.take(theirs.name, desk.work, "cp-0000", first=None)


async def test_the_oldest_go_when_there_are_too_many_but_never_the_first(tmp_path: Path) -> None:
    desk = Desk(tmp_path, quick(per_session=2))
    await desk.take()
    dropped = []
    for text in "abcd":
        (desk.work / "file").write_text(text)
        dropped.append((await desk.take())[1].dropped)
    assert dropped == [(), (), ("cp-0001",), ("cp-0002",)]
    assert (await desk.restore("cp-0003"))[1].dropped == ("cp-0004",)  # what is being restored stays
    await desk.restore("cp-0000")
    assert shape(desk.work).keys() == {"."}
    await desk.store.close()


async def test_the_oldest_go_when_all_takes_too_much(tmp_path: Path) -> None:
    desk = Desk(tmp_path, quick(quota=250_000))
    await desk.take()
    dropped = []
    for _ in range(4):
        (desk.work / "file").write_bytes(os.urandom(100_000))
        dropped.append((await desk.take())[1].dropped)
    assert dropped == [(), (), ("cp-0001",), ("cp-0002",)]
    assert sum(it.stat().st_size for it in desk.folder.glob(".store/objects/*/*")) < 250_000
    await desk.store.close()


async def test_what_has_no_room_is_not_taken_and_leaves_nothing(tmp_path: Path) -> None:
    desk = Desk(tmp_path, quick(quota=250_000))
    (desk.work / "first").write_bytes(os.urandom(100_000))
    await desk.take()
    await desk.store.take("s2", desk.work, "cp-0000", first=None)
    objects = stored(desk.folder)
    (desk.work / "more").write_bytes(os.urandom(200_000))
    with pytest.raises(CheckpointProblem, match=r"checkpoints\.quota"):
        await desk.take()
    (desk.work / "more").write_bytes(os.urandom(300_000))
    with pytest.raises(CheckpointProblem, match=r"checkpoints\.quota"):
        await desk.take()
    assert stored(desk.folder) == objects
    assert unfinished(desk.folder) == []
    (desk.work / "more").unlink()
    assert (await desk.take())[1].changed is False
    await desk.store.close()


async def test_a_disk_that_is_as_good_as_full_is_left_alone(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.statvfs(desk.work)
    full = os.statvfs_result((*real[:3], real.f_blocks // 60, real.f_blocks // 60, *real[5:]))
    monkeypatch.setattr(os, "statvfs", lambda path: full)
    await desk.again(quick(spare=1 << 60))
    with pytest.raises(CheckpointProblem, match=r"checkpoints\.spare"):
        await desk.take()
    assert stored(desk.folder) == set()


async def test_what_is_private_is_neither_saved_nor_restored(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    inside = desk.work / "home" / ".cowork" / "backups"
    data = desk.work / "data"
    data.mkdir()
    await desk.store.close()
    desk.store = CheckpointStore(desk.settings, inside, apart=(data,))
    (desk.work / ".co").mkdir()
    (desk.work / ".co" / "ours").write_text("1")
    (data / "journal").write_text("1")
    (desk.work / "file").write_text("1")
    first, _ = await desk.take()
    (desk.work / ".co" / "ours").write_text("2")
    (data / "journal").write_text("2")
    (desk.work / "file").write_text("2")
    await desk.restore(first)
    assert [it.read_text() for it in (desk.work / ".co" / "ours", data / "journal", desk.work / "file")] == [
        "2",
        "2",
        "1",
    ]
    assert (inside / "s1" / "metadata.json").exists()
    await desk.store.close()


async def test_a_folder_that_holds_what_is_private_is_never_removed(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    await desk.take()
    await desk.store.close()
    # The same checkpoints, moved into the workspace: no image of it ever had that folder.
    (desk.work / "home").mkdir()
    (desk.work / "home" / "file").write_text("1")
    desk.folder.rename(desk.work / "home" / "backups")
    desk.store = CheckpointStore(desk.settings, desk.work / "home" / "backups")
    await desk.restore("cp-0000")
    assert names(desk.work / "home") == ["backups"]
    await desk.store.close()


@pytest.mark.parametrize("private", [(".co",), ()], ids=["usual", "none"])
@pytest.mark.parametrize("where", [".co/uploads", "sub/.co/uploads"])
async def test_what_is_left_out_everywhere_is_neither_saved_nor_restored(
    tmp_path: Path, where: str, private: tuple[str, ...]
) -> None:
    desk = Desk(tmp_path, quick(private=private))
    await desk.store.close()
    desk.store = CheckpointStore(desk.settings, desk.folder, everywhere=(".co/uploads",))
    sent, beside = desk.work / where, desk.work / "x.co" / "uploads"
    none, _ = await desk.take()
    for folder in (sent, beside):
        folder.mkdir(parents=True)
        (folder / "a").write_text("1")
    some, _ = await desk.take()
    for folder in (sent, beside):
        (folder / "a").write_text("2")
        (folder / "b").write_text("2")
    await desk.restore(some)
    assert (names(sent), (sent / "a").read_text()) == (["a", "b"], "2")
    assert (names(beside), (beside / "a").read_text()) == (["a"], "1")
    await desk.restore(none)
    assert names(desk.work) == [where.partition("/")[0]], "what holds it stays, and nothing else"
    assert names(sent) == ["a", "b"]
    shutil.rmtree(desk.work / where.partition("/")[0])
    await desk.restore(some)
    assert not (sent / "a").exists()
    await desk.store.close()


async def test_a_workspace_within_the_store_is_refused(desk: Desk) -> None:
    await desk.take()
    (desk.folder / "work").mkdir()
    for work in (desk.folder, desk.folder / "work", desk.folder / "s1"):
        with pytest.raises(CheckpointProblem, match="where the server keeps its own"):
            await desk.store.take("s2", work, "cp-0000", first=None)


async def test_a_workspace_within_another_folder_of_the_server_is_saved(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    await desk.store.close()
    desk.store = CheckpointStore(desk.settings, desk.folder, apart=(tmp_path, desk.work / "data"))
    (desk.work / "file").write_text("1")
    first, _ = await desk.take()
    (desk.work / "file").unlink()
    await desk.restore(first)
    assert (desk.work / "file").read_text() == "1"
    with pytest.raises(CheckpointProblem, match="where the server keeps its own"):
        await desk.store.take("s2", tmp_path, "cp-0000", first=None)
    await desk.store.close()


async def test_sockets_are_said_to_be_skipped_and_stay(desk: Desk) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        with contextlib.chdir(desk.work):  # the whole path may be too long for one
            listening.bind("socket")
        first, saved = await desk.take()
        assert saved.detail == {"sockets": 1, "skipped": ["socket"]}
        (desk.work / "file").write_text("text")
        await desk.restore(first)
    assert names(desk.work) == ["socket"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes devices")
async def test_a_device_cannot_be_saved(desk: Desk) -> None:
    try:
        os.mknod(desk.work / "null", stat.S_IFCHR | 0o600, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("not permitted here")
    with pytest.raises(CheckpointProblem, match="null is a device"):
        await desk.take()


async def test_a_workspace_that_is_gone_cannot_be_saved(desk: Desk) -> None:
    desk.work.rmdir()
    with pytest.raises(CheckpointProblem, match="is gone"):
        await desk.take()
    desk.work.write_text("a file")
    with pytest.raises(CheckpointProblem, match="Not a directory"):
        await desk.take()


async def test_a_workspace_that_is_too_deep_cannot_be_saved(tmp_path: Path) -> None:
    desk = Desk(tmp_path, quick(depth=3))
    (desk.work / "a/b/c").mkdir(parents=True)
    await desk.take()
    (desk.work / "a/b/c/d").mkdir()
    with pytest.raises(CheckpointProblem, match="a/b/c/d: more than 3 folders"):
        await desk.take()
    await desk.store.close()


async def test_a_workspace_of_too_many_files_cannot_be_saved(tmp_path: Path) -> None:
    desk = Desk(tmp_path, quick(files=3))
    for name in "abc":
        (desk.work / name).touch()
    await desk.take()
    (desk.work / "d").touch()
    with pytest.raises(CheckpointProblem, match=r"more than 3 files \(checkpoints\.files\)"):
        await desk.take()
    await desk.store.close()


async def test_a_store_that_cannot_be_made_says_so_each_time(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = CheckpointStore(quick(), tmp_path / "file" / "store")
    for _ in range(2):
        with pytest.raises(CheckpointProblem, match="store cannot be used"):
            await store.take("s1", tmp_path, "cp-0000", first=None)
    await store.close()
