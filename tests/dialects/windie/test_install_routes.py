"""Registering, and whose token it is (seed: "install register"; spec §1, §2)."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from tests.services.installs.kit import holds

from .http_rig import SERVER_TOKEN, WindieServer, serving_windie

ME = "/api/install/me"
REGISTER = "/api/install/register"


async def test_an_install_registers_and_is_known_by_its_token(closed_server: WindieServer) -> None:
    reply = await closed_server.post(REGISTER, {"operating_system": "Windows"})
    made = reply.json
    assert reply.status == 200
    assert reply.headers["cache-control"] == "no-store"
    assert set(made) == {"success", "user_id", "install_id", "install_token"}
    assert made["success"] is True
    assert re.fullmatch(r"wnd_install_[A-Za-z0-9_-]{43}", made["install_token"])
    known = await closed_server.get(ME, made["install_token"])
    told = {"success": True, "user_id": made["user_id"], "install_id": made["install_id"]}
    assert (known.status, known.json) == (200, told)
    assert not holds(closed_server.data, made["install_token"])


@pytest.mark.parametrize("body", [None, b"", {}, {"operating_system": None}])
async def test_what_system_it_is_need_not_be_said(closed_server: WindieServer, body: object) -> None:
    assert (await closed_server.post(REGISTER, body)).status == 200


async def test_a_token_that_is_missing_wrong_or_revoked(closed_server: WindieServer) -> None:
    made = await closed_server.register()
    missing = await closed_server.get(ME)
    assert missing.refused == (401, "Missing install bearer token")
    assert missing.headers["www-authenticate"] == "Bearer"
    wrong = (401, "Invalid install bearer token")
    assert (await closed_server.get(ME, made["install_token"][:-1])).refused == wrong
    assert (await closed_server.get(ME, made["install_token"], method="DELETE")).json == {
        "success": True,
        "user_id": made["user_id"],
        "install_id": made["install_id"],
    }
    assert (await closed_server.get(ME, made["install_token"])).refused == wrong
    assert (await closed_server.get(ME, made["install_token"], method="DELETE")).refused == wrong


async def test_a_revoked_install_is_told_at_once_to_its_open_link(closed_server: WindieServer) -> None:
    made = await closed_server.register()
    async with closed_server.socket(made["install_token"]) as socket:
        await socket.until("remote-tool-catalog")
        await closed_server.get(ME, made["install_token"], method="DELETE")
        async with asyncio.timeout(10):
            await socket.connection.wait_closed()
        assert socket.connection.close_code == 1008


async def test_where_no_token_must_be_shown_one_is_known_all_the_same(open_server: WindieServer) -> None:
    made = await open_server.register()
    assert (await open_server.get(ME, made["install_token"])).json["user_id"] == made["user_id"]
    assert (await open_server.get(ME)).refused == (401, "No install bearer token was shown")


@pytest.mark.parametrize(
    ("body", "loc"),
    [
        ({"operating_system": 7}, ["body", "operating_system"]),
        ({"operating_system": "x" * 65}, ["body", "operating_system"]),
        ({"operating_system": "Win\x1b[2Jdows"}, ["body", "operating_system"]),
        ({"system": "Linux"}, ["body", "system"]),
        ([], ["body"]),
        (b"{", ["body"]),
        (b'"\xff"', ["body"]),
    ],
)
async def test_a_body_that_is_none_is_told_where(closed_server: WindieServer, body: object, loc: list[str]) -> None:
    status, (fault,) = (await closed_server.post(REGISTER, body)).refused
    assert (status, fault["loc"]) == (422, loc)
    assert set(fault) == {"loc", "msg", "type"}


async def test_a_body_of_another_type_is_not_read(closed_server: WindieServer) -> None:
    reply = await closed_server.post(REGISTER, b"operating_system=x", content_type="application/x-www-form-urlencoded")
    assert reply.refused == (415, "Content-Type must be application/json")


async def test_where_the_server_has_a_token_it_is_shown_to_register(tmp_path: Path) -> None:
    async with serving_windie(tmp_path, token=SERVER_TOKEN) as server:
        refused = (401, "Registering needs the server's token")
        assert (await server.post(REGISTER, {})).refused == refused
        assert (await server.post(REGISTER, {}, "wrong")).refused == refused
        assert (await server.post(f"{REGISTER}?token={SERVER_TOKEN}", {})).status == 200
        made = (await server.post(REGISTER, {}, SERVER_TOKEN)).json
        assert (await server.get(ME, made["install_token"])).status == 200


async def test_too_often_and_too_many(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    async with serving_windie(tmp_path / "a", installs={"registrations_per_minute": 1}) as server:
        await server.register()
        reply = await server.post(REGISTER, {})
        assert reply.status == 429
        assert 1 <= int(reply.headers["retry-after"]) <= 60
    (tmp_path / "b").mkdir()
    async with serving_windie(tmp_path / "b", installs={"kept": 1}) as server:
        await server.register()
        assert (await server.post(REGISTER, {})).status == 503


@pytest.mark.parametrize(
    ("method", "path", "refused", "allow"),
    [
        ("GET", REGISTER, (405, "Method Not Allowed"), "POST"),
        ("POST", ME, (405, "Method Not Allowed"), "DELETE, GET, HEAD"),
        ("OPTIONS", ME, (405, "Method Not Allowed"), "DELETE, GET, HEAD"),
        ("POST", f"{REGISTER}/", (404, "Not Found"), None),
        ("GET", f"{ME}/", (404, "Not Found"), None),
        ("GET", "/api", (404, "Not Found"), None),
        ("GET", "/", (404, "Not Found"), None),
        ("GET", "/api/sdk/debug/models", (404, "Not Found"), None),
    ],
)
async def test_paths_and_methods(
    open_server: WindieServer, method: str, path: str, refused: tuple[int, str], allow: str | None
) -> None:
    reply = await open_server.ask(method, path)
    assert reply.refused == refused
    assert reply.headers.get("allow") == allow


async def test_a_token_comes_before_the_path(closed_server: WindieServer) -> None:
    assert (await closed_server.get("/api/nothing")).refused == (401, "Missing install bearer token")
    assert (await closed_server.get("/nothing")).refused == (404, "Not Found")


async def test_head_is_get_without_a_body(closed_server: WindieServer) -> None:
    made = await closed_server.register()
    reply = await closed_server.get(ME, made["install_token"], method="HEAD")
    assert (reply.status, reply.body) == (200, b"")
    assert int(reply.headers["content-length"]) == len((await closed_server.get(ME, made["install_token"])).body)
