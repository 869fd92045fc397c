"""Who must show what, by where the server listens and what it was told (design §7)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Literal

import pytest

from dragoman.services.installs import (
    Access,
    AccessProblem,
    Installs,
    InstallSettings,
    InstallsUnavailable,
    InvalidToken,
    MissingToken,
)

from .kit import SERVER_TOKEN, installs, shows_server_token

Auth = Literal["auto", "on", "off"]


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Installs]:
    async with installs(tmp_path / "i") as made:
        yield made


def access(store: Installs, auth: Auth = "auto", *, loopback: bool = True, token: bool = False) -> Access:
    return Access(InstallSettings(auth=auth), store, loopback=loopback, token=shows_server_token if token else None)


@pytest.mark.parametrize(
    ("auth", "loopback", "token", "required"),
    [
        ("auto", True, False, False),
        ("auto", True, True, True),
        ("auto", False, True, True),
        ("on", True, False, True),
        ("on", True, True, True),
        ("on", False, True, True),
        ("off", True, False, False),
        ("off", True, True, False),
    ],
)
async def test_when_install_auth_is_on(
    store: Installs, auth: Auth, loopback: bool, token: bool, required: bool
) -> None:
    assert access(store, auth, loopback=loopback, token=token).required is required


@pytest.mark.parametrize("token", [True, False])
async def test_off_beyond_loopback_is_refused(store: Installs, token: bool) -> None:
    with pytest.raises(AccessProblem, match=r"installs\.auth off"):
        access(store, "off", loopback=False, token=token)


@pytest.mark.parametrize("auth", ["auto", "on"])
async def test_beyond_loopback_there_must_be_a_token(store: Installs, auth: Auth) -> None:
    with pytest.raises(AccessProblem, match="without a token"):
        access(store, auth, loopback=False)


@pytest.mark.parametrize("loopback", [True, False])
async def test_a_server_with_a_token_wants_it_of_who_registers(store: Installs, loopback: bool) -> None:
    policy = access(store, loopback=loopback, token=True)
    assert policy.needs_server_token
    assert policy.may_register(SERVER_TOKEN)
    made = await store.register(None)
    for wrong in (None, "", SERVER_TOKEN + "x", made.token):
        assert not policy.may_register(wrong)


async def test_one_without_lets_anybody_on_this_machine_register(store: Installs) -> None:
    policy = access(store, "on")
    assert not policy.needs_server_token
    assert policy.may_register(None)


async def test_on_wants_a_token_that_is_somebodys(store: Installs) -> None:
    policy, made = access(store, token=True), await store.register(None)
    assert await policy.identify(made.token) == made.install
    with pytest.raises(MissingToken):
        await policy.identify(None)
    for wrong in ("", "wnd_install_" + "x" * 43, SERVER_TOKEN):
        with pytest.raises(InvalidToken):
            await policy.identify(wrong)
    await store.revoke(made.install_id)
    with pytest.raises(InvalidToken):
        await policy.identify(made.token)


async def test_off_lets_all_in_and_knows_whom_it_knows(store: Installs) -> None:
    policy, made = access(store), await store.register(None)
    assert await policy.identify(made.token) == made.install
    assert await policy.identify(None) is None
    assert await policy.identify("wnd_install_" + "x" * 43) is None
    assert await policy.identify("") is None


async def test_off_on_a_server_with_a_token_wants_that_one(store: Installs) -> None:
    policy, made = access(store, "off", token=True), await store.register(None)
    assert await policy.identify(SERVER_TOKEN) is None
    assert await policy.identify(made.token) == made.install
    with pytest.raises(MissingToken):
        await policy.identify(None)
    with pytest.raises(InvalidToken):
        await policy.identify("wrong")


async def test_without_a_store_on_lets_nobody_in_and_off_everybody(tmp_path: Path) -> None:
    (tmp_path / "i").write_text("a file")
    async with installs(tmp_path / "i") as broken:
        with pytest.raises(InstallsUnavailable):
            await access(broken, "on").identify("wnd_install_" + "x" * 43)
        with pytest.raises(MissingToken):
            await access(broken, "on").identify(None)
        assert await access(broken, "off").identify("wnd_install_" + "x" * 43) is None
