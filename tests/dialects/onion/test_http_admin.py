"""Whom the agent trusts, changed over HTTP (spec §5, §10)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.services.identity import Identity
from dragoman.services.trust import TrustSettings

from .http_rig import ADMIN, HOST, TOKEN, A, B, MakeServer, Server


@pytest.fixture(params=["root", "prefix"])
async def served(request: pytest.FixtureRequest, make_http: MakeServer) -> Server:
    """At the root and below its prefix everything is the same."""
    return await make_http(root="onion" if request.param == "root" else None, token=TOKEN)


# Administration


async def test_an_administrator_changes_whom_the_agent_trusts(served: Server) -> None:
    (served.lists / "admins.txt").write_text(f"{ADMIN.address}\n")
    steps: list[tuple[str, dict[str, Any]]] = [
        ("promote", {"success": True, "level": "contact"}),
        ("promote", {"success": True, "level": "whitelist"}),
        ("promote", {"error": "Already at highest level", "level": "whitelist"}),
        ("demote", {"success": True, "level": "contact"}),
        ("block", {"success": True, "level": "blocked"}),
        ("promote", {"error": "Client is blocked. Unblock first.", "level": "blocked"}),
        ("unblock", {"success": True}),
        ("demote", {"success": True, "level": "stranger"}),
        ("demote", {"error": "Already at lowest level", "level": "stranger"}),
    ]
    for number, (action, expected) in enumerate(steps):
        body = served.signed(ADMIN, client_id=A.address, nonce=number)
        answer = await served.post(f"/admin/trust/{action}", body)
        assert answer.status == 200, answer
        assert expected.items() <= answer.json.items(), (action, answer.json)
        assert "client_id" not in answer.json
    headers = plainly(served, ADMIN)
    answer = await served.get(f"/admin/trust/level/{A.address}", **headers)
    assert answer.json == {"client_id": A.address, "level": "stranger"}


async def test_administration_also_where_no_signature_counts_twice(make_http: MakeServer) -> None:
    server = await make_http(trust=TrustSettings(policy="open", replay="strict"))
    body = server.signed(HOST, client_id=A.address)
    assert (await server.post("/admin/trust/promote", body)).json["level"] == "contact"
    status, text = (await server.post("/admin/trust/promote", body)).error
    assert (status, "already used" in text) == (401, True)
    answer = await server.get(f"/admin/trust/level/{A.address}", **plainly(server, HOST))
    assert answer.json["level"] == "contact"


async def test_who_is_blocked_over_http_is_shown_nothing_more(make_http: MakeServer) -> None:
    server = await make_http()
    async with server.socket(**server.signed(A)) as socket:
        answer = await server.post("/admin/trust/block", server.signed(HOST, client_id=A.address))
        assert answer.json["level"] == "blocked"
        assert (await socket.until("ERROR"))["message"] == "forbidden: Denied by fast rules"


def plainly(server: Server, who: Identity, timestamp: float | None = None) -> dict[str, str]:
    """The original's headers of a signed GET."""
    seconds = float(server.now()) if timestamp is None else timestamp
    signature = who.sign({"timestamp": seconds})
    return {"x-from": who.address, "x-signature": signature, "x-timestamp": str(int(seconds))}


async def test_only_the_host_makes_administrators(served: Server) -> None:
    (served.lists / "admins.txt").write_text(f"{ADMIN.address}\n")
    refused = await served.post("/superadmin/add", served.signed(ADMIN, admin_id=A.address))
    assert refused.error == (403, "forbidden: super admin only")
    assert (await served.post("/superadmin/add", served.signed(HOST, admin_id=A.address))).json["success"] is True
    level = f"/admin/trust/level/{B.address}"
    assert (await served.get(level, **served.signs(A, level))).json == {"client_id": B.address, "level": "stranger"}
    removed = await served.post("/superadmin/remove", served.signed(HOST, admin_id=A.address, nonce=1))
    assert removed.json["success"] is True
    assert (await served.get(level, **plainly(served, A))).error == (403, "forbidden: admin only")


@pytest.mark.parametrize("path", ["promote", "demote", "block", "unblock"])
async def test_whoever_is_no_administrator_changes_nothing(served: Server, path: str) -> None:
    path = f"/admin/trust/{path}"
    assert (await served.post(path, served.signed(A, client_id=A.address))).error == (403, "forbidden: admin only")
    assert (await served.post(path, {"payload": {"client_id": A.address}})).error == (
        401,
        "unauthorized: signed request required",
    )
    assert (await served.post(path, b"")).error == (401, "unauthorized: signed request required")
    assert (await served.post(path, b"{bad")).error == (400, "Invalid JSON")
    assert (await served.post(path, [1])).error == (400, "the body must be a JSON object")
    assert (await served.post(path, served.signed(HOST))).error == (400, "client_id required")
    assert not list(served.lists.iterdir())


async def test_near_and_with_the_token_is_no_administrator(served: Server) -> None:
    path = "/admin/trust/promote"
    answer = await served.post(path, {"client_id": A.address}, authorization=f"Bearer {TOKEN}")
    assert answer.error == (401, "unauthorized: signed request required")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/superadmin/x"),
        ("POST", "/superadmin/x"),
        ("GET", "/admin/trust/level/"),
        ("GET", "/admin/trust/promote"),
    ],
)
async def test_who_signs_nothing_is_not_told_what_there_is_to_administer(
    served: Server, method: str, path: str
) -> None:
    assert (await served.get(path, method)).error == (401, "unauthorized: signed request required")
    assert (await served.ask(method, path, served.signed(HOST))).error == (404, "not found")


@pytest.mark.parametrize("timestamp", ["soon", "nan", "inf", "-inf", "1e400"])
async def test_a_time_that_is_none_is_said(served: Server, timestamp: str) -> None:
    headers = {**plainly(served, HOST), "x-timestamp": timestamp}
    answer = await served.get(f"/admin/trust/level/{A.address}", **headers)
    assert answer.error == (400, "Invalid X-Timestamp header")


async def test_a_signature_that_names_its_request_is_good_for_no_other(served: Server) -> None:
    path = f"{served.prefix}/admin/trust/promote"
    body = served.signed(HOST, client_id=A.address, method="POST", path=path)
    assert (await served.post("/admin/trust/block", body)).error == (401, "unauthorized: signed for another request")
    assert (await served.post("/admin/trust/promote", body)).json["level"] == "contact"


async def test_a_list_that_cannot_be_read_fails_closed(served: Server) -> None:
    (served.lists / "admins.txt").write_bytes(b"\xff\xfe")
    status, text = (await served.post("/admin/trust/promote", served.signed(ADMIN, client_id=A.address))).error
    assert status == 503
    assert text.startswith("misconfigured: ")


async def test_a_body_of_a_stranger_is_bounded(served: Server) -> None:
    body = json.dumps({"payload": "x" * 1024 * 1024}).encode()
    status, text = (await served.post("/admin/trust/promote", body)).error
    assert status == 413
    assert "larger than 1048576 bytes" in text
