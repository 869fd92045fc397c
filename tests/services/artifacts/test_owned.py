"""Artifacts of users on a real disk: typed by content, each owner's own, whole or not at all."""

from __future__ import annotations

import asyncio
import hashlib
import os
import random
import re
import signal
import stat
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.hub.artifacts import ArtifactGone, ArtifactProblem
from dragoman.services.artifacts import OwnedArtifacts, OwnedArtifactSettings
from dragoman.services.artifacts.incoming import Incoming
from dragoman.services.artifacts.kinds import may_be
from dragoman.services.artifacts.refused import NoRoom, OverQuota, TooLarge, UnknownType, UnsafeId
from tests.hub.rig import FakeClock, until

PNG = b"\x89PNG\r\n\x1a\n" + b"a picture"
KINDS = {
    "image/png": (PNG, ".png"),
    "image/jpeg": (b"\xff\xd8\xff\xe0 and more of it", ".jpg"),
    "image/gif": (b"GIF89a and more", ".gif"),
    "image/webp": (b"RIFF\x10\0\0\0WEBPVP8 ", ".webp"),
    "application/pdf": (b"%PDF-1.7\n%%EOF", ".pdf"),
}
Make = Callable[..., OwnedArtifacts]


async def sent(pieces: Iterable[bytes]) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


def files(folder: Path) -> list[str]:
    """What lies there of artifacts, kept or not."""
    return sorted(it.name for part in ("kept", "new") for it in (folder / part).glob("*"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data" / "owned"


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def make(folder: Path, clock: FakeClock) -> AsyncIterator[Make]:
    made: list[OwnedArtifacts] = []

    def opened(**settings: int) -> OwnedArtifacts:
        made.append(OwnedArtifacts(OwnedArtifactSettings(**{"spare": 0, **settings}), folder, clock))
        return made[-1]

    yield opened
    for one in made:
        await one.close()


@pytest.mark.parametrize("kind", KINDS)
async def test_one_is_what_its_content_says_and_there_for_its_owner(make: Make, folder: Path, kind: str) -> None:
    store, (data, ending) = make(), KINDS[kind]
    kept = await store.put("ann", sent([data[:3], b"", data[3:]]), claimed_type="text/html")
    assert re.fullmatch(r"[0-9a-f]{32}" + re.escape(ending), kept.id)
    assert (kept.owner, kept.media_type, kept.size) == ("ann", kind, len(data))
    assert kept.sha256 == hashlib.sha256(data).hexdigest()
    assert await store.get("ann", kept.id) == kept
    with await store.open("ann", kept.id) as file:
        assert file.read() == data
    assert files(folder) == [kept.id]
    assert stat.S_IMODE((folder / "kept" / kept.id).stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(it.stat().st_mode) for it in folder.glob("owned.sqlite*")} == {0o600}


async def test_unknown_anothers_and_expired_are_the_same(make: Make, clock: FakeClock) -> None:
    store = make(days=2)
    kept = await store.put("ann", sent([PNG]))
    said = set()
    asks = (store.get, store.open, store.remove)
    for owner, name in (("bob", kept.id), ("", kept.id), ("ann", "0" * 32 + ".png"), ("ann", "shot.png")):
        for ask in asks:
            with pytest.raises(ArtifactGone) as refused:
                await ask(owner, name)
            said.add((type(refused.value), str(refused.value)))
    assert await store.get("ann", kept.id) == kept
    clock.pass_days(2)
    for ask in asks:
        with pytest.raises(ArtifactGone) as refused:
            await ask("ann", kept.id)
        said.add((type(refused.value), str(refused.value)))
    assert len(said) == 1


@pytest.mark.parametrize("name", ["", ".", "..", "../x.png", "a/b", "a\0", ".png", "a..png", "a.png\n", "ä.png", "%2e"])
async def test_an_unsafe_id_touches_no_disk(make: Make, folder: Path, name: str) -> None:
    store = make()
    for ask in (store.get, store.open, store.remove):
        with pytest.raises(UnsafeId):
            await ask("ann", name)
    assert not folder.exists()


@given(st.text() | st.from_regex(r"[0-9a-f]{32}\.(png|jpg|gif|webp|pdf)", fullmatch=True))
def test_what_may_be_an_id_is_a_plain_name(name: str) -> None:
    try:
        ours = may_be(name)
    except UnsafeId:
        assert not re.fullmatch(r"[0-9a-f]{32}\.(png|jpg|gif|webp|pdf)", name)
        return
    assert os.path.basename(name) == name not in {"", ".", ".."}  # noqa: PTH119
    assert ours == (re.fullmatch(r"[0-9a-f]{32}\.(png|jpg|gif|webp|pdf)", name) is not None)


@pytest.mark.parametrize(
    ("pieces", "settings", "error"),
    [
        ([b"hello"], {}, UnknownType),
        ([], {}, UnknownType),
        ([b"%PD", b"F"], {}, UnknownType),
        ([b"<svg>" * 500_000], {}, UnknownType),
        ([PNG, bytes(84)], {"size": 100}, TooLarge),
        ([PNG] + [bytes(1 << 20)] * 4, {"size": 3 << 20}, TooLarge),
        ([PNG] + [bytes(1 << 20)] * 4, {"per_owner": 3 << 20}, OverQuota),
        ([PNG], {"count_per_owner": 0}, OverQuota),
    ],
)
async def test_a_refused_one_leaves_nothing(
    make: Make, folder: Path, pieces: list[bytes], settings: dict[str, int], error: type[ArtifactProblem]
) -> None:
    store = make(**settings)
    with pytest.raises(error) as refused:
        await store.put("ann", sent(pieces))
    assert files(folder) == []
    if isinstance(refused.value, TooLarge):
        assert refused.value.limit == settings["size"]
    assert store._table is not None
    assert store._table.held("ann", 0) == (0, 0)


async def test_a_full_disk_is_said_and_nothing_is_left(
    make: Make, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dragoman.services.artifacts.owned.free_beyond", lambda folder, spare: (1 << 20) - spare)
    store = make(spare=1 << 19)
    await store.put("ann", sent([PNG]))
    with pytest.raises(NoRoom):
        await store.put("ann", sent([PNG, bytes(1 << 19)]))
    assert len(files(folder)) == 1


async def test_a_disk_that_fails_at_the_end_leaves_nothing(
    make: Make, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(number: int) -> None:
        raise OSError(28, "No space left on device")

    store = make()
    await store.start()
    monkeypatch.setattr("dragoman.services.artifacts.incoming.os.fsync", failing)
    with pytest.raises(ArtifactProblem, match="No space left"):
        await store.put("ann", sent([PNG]))
    assert files(folder) == []


async def test_a_source_that_fails_leaves_nothing(make: Make, folder: Path) -> None:
    async def torn() -> AsyncIterator[bytes]:
        yield PNG
        yield bytes(2 << 20)
        assert len(files(folder)) == 1
        raise ValueError("torn")

    with pytest.raises(ValueError, match="torn"):
        await make().put("ann", torn())
    assert files(folder) == []


async def test_quotas_are_each_owners_own_and_hold_among_parallel_uploads(make: Make, folder: Path) -> None:
    store = make(per_owner=10 * len(PNG), count_per_owner=50, threads=4)
    came = await asyncio.gather(
        *(store.put(f"owner{number % 4}", sent([PNG])) for number in range(100)), return_exceptions=True
    )
    kept = [one for one in came if not isinstance(one, BaseException)]
    assert {type(one) for one in came if isinstance(one, BaseException)} == {OverQuota}
    assert [sum(one.owner == f"owner{number}" for one in kept) for number in range(4)] == [10] * 4
    assert files(folder) == sorted(one.id for one in kept)
    await store.remove("owner0", next(one.id for one in kept if one.owner == "owner0"))
    await store.put("owner0", sent([PNG]))
    assert len(files(folder)) == 40


async def test_whoever_cancels_at_whatever_point_leaves_nothing(make: Make, folder: Path) -> None:
    store, chance = make(threads=4), random.Random(7)
    await store.start()
    outcomes: list[bool] = []
    for _ in range(80):
        upload = asyncio.create_task(store.put("ann", sent([PNG, bytes(1 << 20), bytes(9)])))
        turns, ready = chance.randrange(40), asyncio.Event()
        for _ in range(turns):
            asyncio.get_running_loop().call_soon(ready.set)
            await ready.wait()
            ready.clear()
            await asyncio.get_running_loop().run_in_executor(None, threading.Event().is_set)
        upload.cancel()
        try:
            await store.remove("ann", (await upload).id)
            outcomes.append(True)
        except asyncio.CancelledError:
            outcomes.append(False)
        assert files(folder) == []
        assert store._table is not None
        assert store._table.held("ann", 0) == (0, 0)
    assert False in outcomes


async def test_one_whose_answer_nobody_awaits_any_more_goes_again(
    make: Make, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, go, keep = threading.Event(), threading.Event(), Incoming.keep

    def slow(*given: object) -> object:
        row = keep(*given)  # type: ignore[arg-type]
        kept.set()
        assert go.wait(10)
        return row

    monkeypatch.setattr(Incoming, "keep", slow)
    store = make()
    upload = asyncio.create_task(store.put("ann", sent([PNG])))
    await until(kept.is_set)
    assert len(files(folder)) == 1
    upload.cancel()
    go.set()
    with pytest.raises(asyncio.CancelledError):
        await upload
    assert files(folder) == []
    assert store._table is not None
    assert store._table.held("ann", 0) == (0, 0)


async def test_a_server_that_stops_takes_back_what_is_on_its_way(make: Make, folder: Path) -> None:
    store, reached, go = make(), asyncio.Event(), asyncio.Event()

    async def stuck() -> AsyncIterator[bytes]:
        yield PNG + bytes(1 << 20)
        reached.set()
        await go.wait()
        yield b"more"

    kept = await store.put("ann", sent([PNG]))
    upload = asyncio.create_task(store.put("ann", stuck()))
    await reached.wait()
    await store.close()
    assert files(folder) == [kept.id]
    go.set()
    for late in (upload, store.get("ann", kept.id), store.put("ann", sent([PNG]))):
        with pytest.raises(ArtifactProblem, match="the server stops"):
            await late
    assert await make().get("ann", kept.id) == kept


async def test_a_sweep_takes_those_whose_days_are_over(make: Make, folder: Path, clock: FakeClock) -> None:
    store = make(days=3, count_per_owner=205)
    for _ in range(205):
        await store.put("ann", sent([PNG]))
    clock.pass_days(1)
    young = await store.put("bob", sent([PNG]))
    assert await store.sweep() == 0
    clock.pass_days(2)
    await store.put("ann", sent([PNG]))  # what is over counts for no quota
    sweeping = asyncio.create_task(store.keep_sweeping())
    await until(lambda: len(files(folder)) == 2)
    sweeping.cancel()
    assert await store.get("bob", young.id) == young


async def test_without_days_nothing_is_ever_swept(make: Make, clock: FakeClock) -> None:
    store = make()
    kept = await store.put("ann", sent([PNG]))
    clock.pass_days(100_000)
    assert await store.sweep() == 0
    await store.keep_sweeping()
    assert await store.get("ann", kept.id) == kept


async def test_a_file_can_be_read_to_its_end_after_the_artifact_went(make: Make, folder: Path) -> None:
    store = make()
    kept = await store.put("ann", sent([PNG]))
    with await store.open("ann", kept.id) as file:
        await store.remove("ann", kept.id)
        assert files(folder) == []
        file.seek(4)
        assert file.read() == PNG[4:]


async def test_a_link_in_its_place_is_not_followed(make: Make, folder: Path, tmp_path: Path) -> None:
    store = make()
    kept = await store.put("ann", sent([PNG]))
    (tmp_path / "secret").write_bytes(b"secret")
    (folder / "kept" / kept.id).unlink()
    (folder / "kept" / kept.id).symlink_to(tmp_path / "secret")
    with pytest.raises(ArtifactProblem):
        await store.open("ann", kept.id)


CHILD = """
import asyncio, sys
from pathlib import Path
from dragoman.hub.clock import SystemClock
from dragoman.services.artifacts import OwnedArtifacts, OwnedArtifactSettings
from dragoman.services.artifacts.owned_table import OwnedTable

async def pieces(stuck):
    yield b"\\x89PNG\\r\\n\\x1a\\n" + bytes(2 << 20)
    if stuck:
        yield bytes(2 << 20)
        print("half", flush=True)
        await asyncio.Event().wait()

def never(*given):
    print("half", flush=True)
    import time
    time.sleep(600)

async def main():
    store = OwnedArtifacts(OwnedArtifactSettings(spare=0), Path(sys.argv[1]), SystemClock())
    print((await store.put("ann", pieces(False))).id, flush=True)
    if sys.argv[2] == "named":
        OwnedTable.add = never
    await store.put("ann", pieces(sys.argv[2] == "written"))

asyncio.run(main())
"""


@pytest.mark.parametrize("moment", ["written", "named"])
async def test_what_a_killed_server_left_goes_when_the_next_starts(make: Make, folder: Path, moment: str) -> None:
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", CHILD, folder, moment, stdout=asyncio.subprocess.PIPE, env=os.environ
    )
    try:
        assert child.stdout is not None
        async with asyncio.timeout(30):
            kept = (await child.stdout.readline()).decode().strip()
            assert (await child.stdout.readline()).strip() == b"half"
    finally:
        child.send_signal(signal.SIGKILL)
        await child.wait()
    assert len(files(folder)) == 2
    store = make()
    await store.start()
    assert files(folder) == [kept]
    assert (await store.get("ann", kept)).size == (2 << 20) + 8
    assert store._table is not None
    assert store._table.held("ann", 0)[0] == 1
