"""Registering, being known again, being listed and revoked (windie, spec §2)."""

from __future__ import annotations

import asyncio
import hashlib
import re
import stat
from pathlib import Path

import msgspec
import pytest

from dragoman.services.installs import Install, InstallSettings, InvalidInstall, TooManyInstalls, TooOften
from tests.hub.rig import FakeClock

from .kit import holds, installs, rows, until


async def test_who_registered_is_known_by_the_token(tmp_path: Path) -> None:
    async with installs(tmp_path / "i") as store:
        made = await store.register("Windows")
        assert re.fullmatch(r"user_[0-9a-f]{32}", made.user_id)
        assert re.fullmatch(r"install_[0-9a-f]{32}", made.install_id)
        assert re.fullmatch(r"wnd_install_[A-Za-z0-9_-]{43}", made.token)
        assert await store.identify(made.token) == Install(made.user_id, made.install_id)


async def test_and_still_after_a_restart(tmp_path: Path) -> None:
    async with installs(tmp_path / "i") as store:
        made = [await store.register(None) for _ in range(3)]
    async with installs(tmp_path / "i") as store:
        assert [await store.identify(each.token) for each in made] == [each.install for each in made]


async def test_two_hundred_at_once_are_two_hundred_users(tmp_path: Path) -> None:
    async with installs(tmp_path / "i") as store:
        made = await asyncio.gather(*(store.register("Linux") for _ in range(200)))
        assert len({each.user_id for each in made}) == 200
        assert len({each.install_id for each in made}) == 200
        assert len({each.token for each in made}) == 200
        for each in made:
            assert await store.identify(each.token) == each.install
    assert {row["user_id"] for row in rows(tmp_path / "i")} == {each.user_id for each in made}


async def test_only_a_hash_of_the_token_is_on_disk(tmp_path: Path) -> None:
    async with installs(tmp_path / "i") as store:
        made = await store.register("macOS")
        assert not holds(tmp_path, made.token)
        assert not holds(tmp_path, made.token.removeprefix("wnd_install_"))
        assert holds(tmp_path, made.user_id), "this would find it"
    assert [row["digest"] for row in rows(tmp_path / "i")] == [hashlib.sha256(made.token.encode()).digest()]


async def test_files_are_for_their_owner_only(tmp_path: Path) -> None:
    async with installs(tmp_path / "i") as store:
        await store.register(None)
        assert stat.S_IMODE((tmp_path / "i").stat().st_mode) == 0o700
        assert [stat.S_IMODE(file.stat().st_mode) for file in (tmp_path / "i").iterdir()] == [0o600]


async def test_and_become_so_again(tmp_path: Path) -> None:
    async with installs(tmp_path / "i") as store:
        await store.register(None)
    (tmp_path / "i").chmod(0o755)
    (tmp_path / "i" / "installs.db").chmod(0o644)
    async with installs(tmp_path / "i") as store:
        await store.open()
    assert stat.S_IMODE((tmp_path / "i").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "i" / "installs.db").stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "change",
    [
        lambda token: token[:-1],
        lambda token: token + "A",
        lambda token: token[:-1] + ("A" if token[-1] != "A" else "B"),
        lambda token: token.upper(),
        lambda token: token + "\n",
        lambda token: token + "\ud800",
        lambda token: " " + token,
        lambda token: token.removeprefix("wnd_install_"),
        lambda token: hashlib.sha256(token.encode()).hexdigest(),
        lambda _: "",
        lambda _: "wnd_install_" + "\N{FULLWIDTH DIGIT ONE}" * 43,
        lambda _: "wnd_install_" + "x" * 1_000_000,
        lambda _: "\ud800",
    ],
)
async def test_what_is_nearly_a_token_is_nobodys(tmp_path: Path, change: type[str]) -> None:
    async with installs(tmp_path / "i") as store:
        made = await store.register(None)
        assert await store.identify(change(made.token)) is None
        assert await store.identify(made.token) == made.install


async def test_a_revoked_token_is_nobodys(tmp_path: Path) -> None:
    async with installs(tmp_path / "i") as store:
        kept, gone = await store.register(None), await store.register(None)
        assert await store.revoke(gone.install_id) is True
        assert await store.identify(gone.token) is None
        assert await store.identify(kept.token) == kept.install
        assert await store.revoke(gone.install_id) is False
        assert await store.revoke("install_unknown") is False
    async with installs(tmp_path / "i") as store:
        assert await store.identify(gone.token) is None
        assert await store.identify(kept.token) == kept.install


async def test_all_are_listed_in_their_order(tmp_path: Path) -> None:
    clock = FakeClock()
    async with installs(tmp_path / "i", clock=clock) as store:
        first = await store.register(" Windows ")
        clock.time += 5
        second = await store.register("  ")
        clock.time += 5
        await store.identify(first.token)
        listed = await store.records()
    assert [record.install for record in listed] == [first.install, second.install]
    assert [record.operating_system for record in listed] == ["Windows", None]
    assert [record.used_at - record.registered_at for record in listed] == [10, 0]


@pytest.mark.parametrize("system", ["x" * 65, "a\x1b[2Jb", "a\nb", "\ud800"], ids=["long", "escape", "lines", "half"])
async def test_what_is_no_name_of_a_system_is_refused(tmp_path: Path, system: str) -> None:
    async with installs(tmp_path / "i") as store:
        with pytest.raises(InvalidInstall, match="operating_system"):
            await store.register(system)
        assert await store.records() == []
        await store.register("x" * 64)


async def test_no_more_are_kept_than_may_be(tmp_path: Path) -> None:
    async with installs(tmp_path / "i", kept=3) as store:
        made = await asyncio.gather(*(store.register(None) for _ in range(5)), return_exceptions=True)
        refused = [each for each in made if isinstance(each, BaseException)]
        assert [type(each) for each in refused] == [TooManyInstalls] * 2
        assert "installs.kept" in str(refused[0])
        assert len(await store.records()) == 3
        await store.revoke((await store.records())[0].install.install_id)
        await store.register(None)
    assert len(rows(tmp_path / "i")) == 3


async def test_one_address_registers_so_often_and_no_more(tmp_path: Path) -> None:
    clock = FakeClock()
    async with installs(tmp_path / "i", clock=clock, registrations_per_minute=2) as store:
        await store.register(None, peer="192.0.2.1")
        clock.time += 10_500
        await store.register(None, peer="192.0.2.1")
        with pytest.raises(TooOften) as refused:
            await store.register(None, peer="192.0.2.1")
        assert refused.value.seconds == 50
        with pytest.raises(TooOften):
            await store.register(None, peer="::ffff:192.0.2.1")
        await store.register(None, peer="192.0.2.2")
        clock.time += 49_000
        with pytest.raises(TooOften) as refused:
            await store.register(None, peer="192.0.2.1")
        assert refused.value.seconds == 1
        clock.time += 500
        await store.register(None, peer="192.0.2.1")
        assert len(await store.records()) == 4


async def test_a_network_of_ipv6_counts_as_one_address(tmp_path: Path) -> None:
    async with installs(tmp_path / "i", registrations_per_minute=1) as store:
        await store.register(None, peer="2001:db8::1")
        with pytest.raises(TooOften):
            await store.register(None, peer="2001:db8::2:3:4:5")
        await store.register(None, peer="2001:db8:0:1::1")


async def test_what_is_not_used_for_long_expires(tmp_path: Path) -> None:
    clock = FakeClock()
    async with installs(tmp_path / "i", clock=clock, idle_days=10, kept=2) as store:
        idle, used = await store.register(None), await store.register(None)
        clock.pass_days(9)
        assert await store.identify(used.token) == used.install
        clock.pass_days(2)
        assert [record.install for record in await store.records()] == [used.install]
        assert await store.identify(idle.token) is None
        assert await store.identify(used.token) == used.install
        await store.register(None)
        await until(lambda: len(rows(tmp_path / "i")) == 2)
    assert idle.install_id not in {row["install_id"] for row in rows(tmp_path / "i")}


async def test_those_that_expired_make_room(tmp_path: Path) -> None:
    clock = FakeClock()
    async with installs(tmp_path / "i", clock=clock, idle_days=10, kept=1) as store:
        await store.register(None)
        clock.pass_days(11)
        fresh = await store.register(None)
        await until(lambda: [row["install_id"] for row in rows(tmp_path / "i")] == [fresh.install_id])


async def test_use_outlives_a_restart(tmp_path: Path) -> None:
    clock = FakeClock()
    async with installs(tmp_path / "i", clock=clock, idle_days=10) as store:
        made = await store.register(None)
        clock.pass_days(9)
        await store.identify(made.token)
        await until(lambda: rows(tmp_path / "i")[0]["used_at"] == clock.now())
    clock.pass_days(9)
    async with installs(tmp_path / "i", clock=clock, idle_days=10) as store:
        assert await store.identify(made.token) == made.install


async def test_without_a_limit_nothing_expires(tmp_path: Path) -> None:
    clock = FakeClock()
    async with installs(tmp_path / "i", clock=clock) as store:
        made = await store.register(None)
        clock.pass_days(10_000)
        assert await store.identify(made.token) == made.install


@pytest.mark.parametrize("given", [{"auth": "never"}, {"kept": "many"}, {"typo": 1}], ids=str)
def test_what_is_no_setting_is_refused(given: dict[str, object]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(given, InstallSettings)
