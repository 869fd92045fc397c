"""Invariant 10: a token is in no log, repr, traceback or exception."""

from __future__ import annotations

import logging
import traceback
from pathlib import Path

import pytest

from dragoman.services.installs import (
    Access,
    InstallSettings,
    InstallsUnavailable,
    InvalidToken,
    MissingToken,
)

from .kit import SERVER_TOKEN, installs, shows_server_token

MADE = "wnd_install_" + "s" * 43
"""A token that can be looked for in everything, and that no variable of a test holds."""


def secret(text: str, token: str) -> bool:
    """Whether nothing of a token is in a text."""
    return token not in text and token.removeprefix("wnd_install_") not in text and "wnd_install_" not in text


async def test_no_log_has_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with installs(tmp_path / "i") as store:
        made = await store.register("Linux")
        await store.identify(made.token)
        await store.revoke(made.install_id)
        await store.identify(made.token)
    assert made.install_id in caplog.text, "something was logged"
    assert secret(caplog.text, made.token)


async def test_no_repr_has_it(tmp_path: Path) -> None:
    async with installs(tmp_path / "i") as store:
        made = await store.register("Linux")
        access = Access(InstallSettings(auth="on"), store, loopback=True, token=shows_server_token)
        shown = [made, store, await store.identify(made.token), await store.records(), access]
        for text in (*map(repr, shown), *map(str, shown)):
            assert secret(text, made.token)
        assert made.user_id in repr(made)


async def test_no_refusal_has_it(tmp_path: Path) -> None:
    async with installs(tmp_path / "i") as store:
        made = await store.register("Linux")
        await store.revoke(made.install_id)
        access = Access(InstallSettings(auth="on"), store, loopback=True, token=None)
        with pytest.raises(InvalidToken) as refused:
            await access.identify(made.token)
        with pytest.raises(MissingToken):
            await access.identify(None)
    assert refused.value.args == ()
    assert secret("".join(traceback.format_exception(refused.value)), made.token)


async def test_nor_the_traceback_of_a_disk_that_fails_even_with_its_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dragoman.services.installs.installs.new_token", lambda: MADE)
    async with installs(tmp_path / "i") as store:
        await store.open()
        (tmp_path / "i" / "installs.db-journal").mkdir()
        with pytest.raises(InstallsUnavailable) as failed:
            await store.register("Linux")
    whole = traceback.TracebackException.from_exception(failed.value, capture_locals=True)
    text = "".join(whole.format())
    assert "sqlite3.OperationalError" in text
    assert "made = " in text, "variables are shown"
    assert secret(text, MADE)


async def test_nor_is_the_servers_own_in_what_checks_it(tmp_path: Path) -> None:
    async with installs(tmp_path / "i") as store:
        access = Access(InstallSettings(), store, loopback=False, token=shows_server_token)
        assert SERVER_TOKEN not in repr(vars(access))
