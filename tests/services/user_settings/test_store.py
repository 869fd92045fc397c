"""What users set is theirs, folds to the newest, and does not grow without a bound."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from dragoman.hub.errors import LimitReached
from dragoman.services.user_settings import file as file_module
from dragoman.services.user_settings.file import KEPT, SETTINGS_BYTES

from .kit import numbers, user_settings


async def test_the_newest_of_each_setting_holds_and_null_takes_one_away(tmp_path: Path) -> None:
    async with user_settings(tmp_path / "u") as store:
        assert await store.read("a") == {}
        await store.change("a", {"model": "x", "speech": True})
        await store.change("a", {"model": "y"})
        assert await store.read("a") == {"model": "y", "speech": True}
        await store.change("a", {"speech": None})
        assert await store.read("a") == {"model": "y"}
    async with user_settings(tmp_path / "u") as store:
        assert await store.read("a") == {"model": "y"}, "after a restart"


async def test_two_users_have_settings_of_their_own(tmp_path: Path) -> None:
    async with user_settings(tmp_path / "u") as store:
        await asyncio.gather(*(store.change(user, {"model": user}) for user in "abcdefgh"))
        assert [(await store.read(user))["model"] for user in "abcdefgh"] == list("abcdefgh")
        (await store.read("a"))["model"] = "spoilt"
        assert await store.read("a") == {"model": "a"}, "what was read is the reader's"


async def test_old_changes_are_one_row_that_has_all_of_them_and_numbers_stay_without_a_gap(tmp_path: Path) -> None:
    async with user_settings(tmp_path / "u") as store:
        await store.change("a", {"gone": 1})
        await store.change("a", {"gone": None})
        for count in range(3, 5 * KEPT):
            await store.change("a", {f"s{count}": count})
            kept = numbers(tmp_path / "u", "a") if count % KEPT == 0 else [count]
            assert kept == list(range(kept[0], count + 1))
            assert len(kept) < 2 * KEPT
        await store.change("b", {"count": 0})
    async with user_settings(tmp_path / "u") as store:
        assert await store.read("a") == {f"s{count}": count for count in range(3, 5 * KEPT)}
        assert await store.read("b") == {"count": 0}
    assert numbers(tmp_path / "u", "b") == [1]


@pytest.mark.parametrize("pieces", [1, 4])
async def test_too_much_of_one_user_is_refused_and_changes_nothing(tmp_path: Path, pieces: int) -> None:
    piece = "x" * (SETTINGS_BYTES // pieces)
    async with user_settings(tmp_path / "u") as store:
        for number in range(pieces - 1):
            await store.change("a", {f"s{number}": piece})
        before = await store.read("a")
        with pytest.raises(LimitReached, match=str(SETTINGS_BYTES)):
            await store.change("a", {"last": piece})
        assert await store.read("a") == before
        await store.change("a", {"last": 1})
        assert await store.read("a") == {**before, "last": 1}


async def test_only_so_many_users_have_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_module, "USERS", 2)
    async with user_settings(tmp_path / "u") as store:
        await store.change("a", {"s": 1})
        await store.change("b", {"s": 1})
        with pytest.raises(LimitReached, match="2 users"):
            await store.change("c", {"s": 1})
        await store.change("a", {"s": 2})
        assert [await store.read(user) for user in "abc"] == [{"s": 2}, {"s": 1}, {}]


async def test_memory_holds_so_many_users_and_forgets_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_module, "REMEMBERED", 3)
    async with user_settings(tmp_path / "u") as store:
        for user in map(str, range(10)):
            await store.change(user, {"s": user})
        assert len(store._file._remembered) == 3
        assert [await store.read(user) for user in map(str, range(10))] == [{"s": str(each)} for each in range(10)]


async def test_who_reads_during_a_change_is_told_what_it_became(tmp_path: Path) -> None:
    async with user_settings(tmp_path / "u") as store:
        async with store.changing("a") as change:
            asked = asyncio.ensure_future(store.read("a"))
            assert await store.read("b") == {}, "others do not wait"
            assert not asked.done()
            await change({"s": 1})
        assert await asked == {"s": 1}


async def test_only_its_owner_can_read_the_file(tmp_path: Path) -> None:
    (tmp_path / "u").mkdir(mode=0o755)
    async with user_settings(tmp_path / "u") as store:
        await store.change("a", {"s": 1})
        for path in (tmp_path / "u", *(tmp_path / "u").iterdir()):
            assert path.stat().st_mode & 0o077 == 0, path
