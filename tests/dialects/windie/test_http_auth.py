"""What stands before windie's HTTP routes (spec §2)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

import pytest

from dragoman.dialects.windie.http_auth import Denied, authorise, authorise_registration
from dragoman.services.installs import Access, Installs, InstallSettings
from tests.services.installs.kit import SERVER_TOKEN, installs, shows_server_token

GUARDED = ["/api/", "/api/install/me", "/api/install/register/", "/api/install/registers", "/api/runs/", "/api/health"]
OPEN = ["/api/install/register", "/", "/api", "/ws", "/ws/transcription", "/health", "/apis/x", "/x/api/"]


def access(store: Installs, auth: Literal["on", "off"], *, token: bool = False) -> Access:
    return Access(InstallSettings(auth=auth), store, loopback=True, token=shows_server_token if token else None)


def bearer(*tokens: str) -> list[tuple[bytes, bytes]]:
    return [(b"authorization", f"Bearer {token}".encode()) for token in tokens]


@pytest.mark.parametrize("path", GUARDED)
async def test_guarded_paths_want_a_token(tmp_path: Path, path: str) -> None:
    async with installs(tmp_path / "i") as store:
        policy, made = access(store, "on"), await store.register(None)
        assert await authorise(policy, bearer(made.token), path) == made.install
        assert await authorise(policy, [], path) == Denied(401, b'{"detail":"Missing install bearer token"}')
        wrong = Denied(401, b'{"detail":"Invalid install bearer token"}')
        assert await authorise(policy, bearer("wnd_install_" + "x" * 43), path) == wrong
        assert await authorise(policy, bearer(made.token, made.token), path) == wrong


@pytest.mark.parametrize("path", OPEN)
async def test_others_do_not(tmp_path: Path, path: str) -> None:
    async with installs(tmp_path / "i") as store:
        assert await authorise(access(store, "on"), [], path) is None
        assert await authorise(access(store, "on"), bearer("wrong"), path) is None


async def test_without_a_store_nobody_is_let_in(tmp_path: Path) -> None:
    (tmp_path / "i").write_text("a file")
    async with installs(tmp_path / "i") as store:
        answer = await authorise(access(store, "on"), bearer("wnd_install_" + "x" * 43), "/api/runs/")
    assert answer == Denied(503, b'{"detail":"Install auth service not available"}')


async def test_off_lets_all_in_and_says_whose_token_it_was(tmp_path: Path) -> None:
    async with installs(tmp_path / "i") as store:
        policy, made = access(store, "off"), await store.register(None)
        assert await authorise(policy, [], "/api/runs/") is None
        assert await authorise(policy, bearer("wrong"), "/api/runs/") is None
        assert await authorise(policy, bearer(made.token), "/api/install/me") == made.install


async def test_a_stale_token_can_be_told_and_replaced(tmp_path: Path) -> None:
    """Spec §11, row 19."""
    async with installs(tmp_path / "i") as store:
        policy, stale = access(store, "on"), await store.register(None)
        await store.revoke(stale.install_id)
        answer = await authorise(policy, bearer(stale.token), "/api/install/me")
        assert isinstance(answer, Denied)
        assert (answer.status, json.loads(answer.body)) == (401, {"detail": "Invalid install bearer token"})
        fresh = await store.register(None)
        assert await authorise(policy, bearer(fresh.token), "/api/install/me") == fresh.install


async def test_registering_where_the_server_has_a_token_wants_it(tmp_path: Path) -> None:
    async with installs(tmp_path / "i") as store:
        policy = access(store, "on", token=True)
        assert authorise_registration(policy, bearer(SERVER_TOKEN), None) is None
        assert authorise_registration(policy, [], SERVER_TOKEN) is None
        for headers, query in (([], None), (bearer("wrong"), SERVER_TOKEN), ([], "wrong"), (bearer("a", "a"), None)):
            answer = authorise_registration(policy, headers, query)
            assert answer == Denied(401, b'{"detail":"Registering needs the server\'s token"}')
        assert authorise_registration(access(store, "on"), [], None) is None
