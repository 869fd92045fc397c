"""Artifacts on a real disk: whole or not at all, by content, each session's own."""

from __future__ import annotations

import asyncio
import hashlib
import os
import resource
import stat
import subprocess
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from dragoman.hub.artifacts import ArtifactGone, ArtifactProblem
from dragoman.services.artifacts import ArtifactSettings, ArtifactStore
from tests.hub.rig import until

ONE, OTHER = b"one picture", b"another one"


def name_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def files(folder: Path) -> list[str]:
    """All that lies there, folders apart. A folder that a thread removes meanwhile has nothing."""
    return sorted(
        str((Path(place) / name).relative_to(folder)) for place, _, names in os.walk(folder) for name in names
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data" / "artifacts"


@pytest.fixture
async def store(folder: Path) -> AsyncIterator[ArtifactStore]:
    opened = ArtifactStore(ArtifactSettings(spare=0), folder)
    yield opened
    await opened.close()


async def test_what_is_put_is_there_for_its_session_alone(store: ArtifactStore, folder: Path) -> None:
    kept = await store.put("s1", [ONE[:4], ONE[4:]])
    assert (kept.id, kept.size) == (name_of(ONE), len(ONE))
    assert await store.read("s1", kept.id) == ONE
    assert await store.stat("s1", kept.id) == kept
    for session, name in (("s2", kept.id), ("s1", name_of(OTHER)), ("s1", "../s1/x"), ("..", kept.id), ("s1", "")):
        for asked in (store.read, store.stat, store.open):
            with pytest.raises(ArtifactGone):
                await asked(session, name)
    assert files(folder) == [f"s1/{kept.id}"]
    assert stat.S_IMODE((folder / "s1" / kept.id).stat().st_mode) == 0o600
    assert {stat.S_IMODE(it.stat().st_mode) for it in (folder, folder / "s1", folder / ".new")} == {0o700}


async def test_one_can_be_read_in_part_and_to_its_end_after_it_went(store: ArtifactStore) -> None:
    kept = await store.put("s1", [ONE])
    with await store.open("s1", kept.id) as file:
        file.seek(4)
        assert file.read(3) == ONE[4:7]
        await store.release("s1", kept.id)
        with pytest.raises(ArtifactGone):
            await store.stat("s1", kept.id)
        assert file.read() == ONE[7:]


async def test_the_same_bytes_are_one_artifact_until_nobody_refers_to_it(store: ArtifactStore, folder: Path) -> None:
    first, second = await store.put("s1", [ONE]), await store.put("s1", [ONE])
    assert first == second
    assert files(folder) == [f"s1/{first.id}"]
    await store.release("s1", first.id)
    assert await store.read("s1", first.id) == ONE
    await store.release("s1", first.id)
    assert files(folder) == []
    await store.release("s1", first.id)  # fine


async def test_one_from_before_the_server_began_stays_whoever_lets_go(store: ArtifactStore, folder: Path) -> None:
    kept = await store.put("s1", [ONE])
    again = ArtifactStore(ArtifactSettings(spare=0), folder)
    await again.release("s1", kept.id)
    assert await again.put("s1", [ONE]) == kept
    await again.release("s1", kept.id)
    await again.release("s1", kept.id)
    await again.close()
    assert await store.read("s1", kept.id) == ONE


@pytest.mark.parametrize(
    ("settings", "why"),
    [({"size": 10}, "artifacts.size"), ({"per_session": 20}, "artifacts.per_session")],
    ids=["one", "session"],
)
async def test_a_limit_that_is_passed_leaves_nothing_behind(folder: Path, settings: dict[str, int], why: str) -> None:
    store = ArtifactStore(ArtifactSettings(spare=0, **settings), folder)
    first = await store.put("s1", [b"0123456789"])
    with pytest.raises(ArtifactProblem, match=why):
        await store.put("s1", [b"ab"] * 8)
    assert files(folder) == [f"s1/{first.id}"]
    await store.close()


async def test_a_source_that_fails_leaves_nothing_behind(store: ArtifactStore, folder: Path) -> None:
    def pieces() -> Iterator[bytes]:
        yield ONE
        raise ValueError("torn")

    with pytest.raises(ValueError, match="torn"):
        await store.put("s1", pieces())
    assert files(folder) == []


@pytest.mark.parametrize("late", [False, True], ids=["while_it_is_written", "once_it_is_written"])
async def test_one_whose_caller_went_leaves_nothing_behind(store: ArtifactStore, folder: Path, late: bool) -> None:
    reached, go = threading.Event(), threading.Event()

    def pieces() -> Iterator[bytes]:
        yield ONE
        reached.set()
        assert go.wait(10)
        if not late:
            yield OTHER

    putting = asyncio.create_task(store.put("s1", pieces()))
    await until(reached.is_set)
    putting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await putting
    go.set()
    kept = await store.put("s2", [OTHER])
    await until(lambda: files(folder) == [f"s2/{kept.id}"], lambda: files(folder))


async def test_a_damaged_one_is_gone(store: ArtifactStore, folder: Path) -> None:
    kept = await store.put("s1", [ONE])
    (folder / "s1" / kept.id).write_bytes(OTHER)
    with pytest.raises(ArtifactGone, match="damaged"):
        await store.read("s1", kept.id)


async def test_a_link_in_its_place_is_not_followed(store: ArtifactStore, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(ONE)
    kept = await store.put("s1", [OTHER])
    (folder / "s1" / kept.id).unlink()
    (folder / "s1" / kept.id).symlink_to(tmp_path / "secret")
    with pytest.raises(ArtifactProblem):
        await store.read("s1", kept.id)


async def test_a_sweep_takes_what_no_session_has_and_what_was_never_finished(folder: Path) -> None:
    before = ArtifactStore(ArtifactSettings(spare=0), folder)
    for session in ("kept", "gone"):
        await before.put(session, [ONE])
    (folder / ".new" / "torn").write_bytes(b"half")
    await before.close()
    store = ArtifactStore(ArtifactSettings(spare=0), folder)
    await store.sweep(lambda session: session == "kept")
    await until(lambda: files(folder) == [f"kept/{name_of(ONE)}"], lambda: files(folder))
    await store.close()


async def test_a_sweep_where_there_is_nothing_yet_makes_nothing(store: ArtifactStore, folder: Path) -> None:
    await store.sweep(lambda _session: False)
    assert not folder.exists()


async def test_a_store_that_is_closed_says_so(folder: Path) -> None:
    store = ArtifactStore(ArtifactSettings(spare=0), folder)
    kept = await store.put("s1", [ONE])
    await store.close()
    for asked in (store.put("s1", [OTHER]), store.read("s1", kept.id), store.release("s1", kept.id)):
        with pytest.raises(ArtifactProblem, match="the server stops"):
            await asked
    store.dropped("s1")
    assert files(folder) == [f"s1/{kept.id}"]


async def test_a_file_that_may_not_grow_is_refused(store: ArtifactStore, folder: Path) -> None:
    await store.put("s1", [OTHER])
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, hard))
    try:
        with pytest.raises(ArtifactProblem, match="File too large"):
            await store.put("s1", [bytes(40_000)] * 2)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert files(folder) == [f"s1/{name_of(OTHER)}"]


@pytest.mark.parametrize("spare", [0, 1 << 30], ids=["no_space", "as_good_as_none"])
async def test_a_full_disk_is_said_and_nothing_is_left(tmp_path: Path, spare: int) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", disk], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip("mounting is not permitted here")
    try:
        store = ArtifactStore(ArtifactSettings(spare=spare), disk / "artifacts")
        kept = await store.put("s1", [ONE])
        with pytest.raises(ArtifactProblem, match=r"as good as full|No space left"):
            await store.put("s1", [bytes([number]) * 100_000 for number in range(20)])
        assert files(disk / "artifacts") == [f"s1/{kept.id}"]
        await store.close()
    finally:
        subprocess.run(["umount", disk], check=True)
