"""Who is here and where, and what there is not, over HTTP (spec §10)."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import AsyncIterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from dragoman.services.trust import TrustSettings

from .http_rig import HOST, TOKEN, A, MakeServer, Server, servers

CAREFUL = "---\nallow: [whitelisted, contact]\ndefault: ask\nonboard:\n  invite_code: [friends]\n---\n"


@pytest.fixture
async def make(tmp_path: Path) -> AsyncIterator[MakeServer]:
    async with servers(tmp_path) as start:
        yield start


@pytest.fixture(params=["root", "prefix"])
async def served(request: pytest.FixtureRequest, make: MakeServer) -> Server:
    """At the root and below its prefix everything is the same."""
    return await make(root="onion" if request.param == "root" else None, token=TOKEN)


# Who is here


async def test_health_is_as_the_original_has_it(served: Server) -> None:
    answer = await served.get("/health")
    assert (answer.status, answer.json) == (200, {"status": "healthy", "agent": "tester", "uptime": 0})


async def test_info_says_what_clients_compare(served: Server) -> None:
    answer = await served.get("/info")
    assert answer.status == 200
    assert list(answer.json) == [
        *("name", "address", "tools", "model", "trust", "version", "skills", "accepted_inputs"),
    ]
    assert answer.json["address"] == HOST.address
    assert answer.json["name"] == "tester"
    assert answer.json["trust"] == "open"
    assert answer.json["skills"] == []
    assert answer.json["accepted_inputs"] == {
        "text": True,
        "images": True,
        "files": {"max_file_size_mb": 10, "max_files_per_request": 10},
    }


@pytest.mark.parametrize(
    ("policy", "onboard"),
    [
        ("open", None),
        ("careful", None),
        ("strict", None),
        (CAREFUL, {"invite_code": True, "payment": None}),
        (CAREFUL.replace("friends", "$NOT_SET"), None),
        # nobody here can tell whether somebody has paid
        (CAREFUL.replace("invite_code: [friends]", "payment: 10"), None),
    ],
    ids=["open", "careful", "strict", "code", "unset", "payment"],
)
async def test_only_doors_that_can_open_are_offered(make: MakeServer, policy: str, onboard: Any) -> None:
    server = await make(trust=TrustSettings(policy=policy))
    assert (await server.get("/info")).json.get("onboard") == onboard


async def test_a_client_that_takes_the_server_for_a_relay_finds_the_agent(served: Server) -> None:
    before = served.registry.clock.now() / 1000
    answer = await served.get(f"/api/agents/{HOST.address}")
    place = f"127.0.0.1:{served.port}{served.prefix}"
    assert answer.json["online"] is True
    assert answer.json["endpoints"] == [f"http://{place}", f"ws://{place}/ws"]
    assert answer.json["last_seen"] >= before
    assert answer.json["profile"]["alias"] == "tester"


async def test_an_endpoint_is_where_the_client_came_to(served: Server) -> None:
    answer = await served.get(f"/api/agents/{HOST.address}", host=f"localhost:{served.port}")
    assert answer.json["endpoints"][0] == f"http://localhost:{served.port}{served.prefix}"
    refused = await served.get(f"/api/agents/{HOST.address}", host="evil.example")
    assert refused.status == 403


@pytest.mark.parametrize(
    ("host", "shown"),
    [
        ("localhost", "localhost"),
        ("LOCALHOST:80", "localhost:80"),
        ("[::1]:80", "[::1]:80"),
        ("evil.example@localhost:80", "localhost:80"),
        ("localhost:80/evil", "localhost:80"),
        ("localhost:80?x=1", "localhost:80"),
        ("localhost:evil", "localhost"),
    ],
    ids=range(7),
)
async def test_nothing_but_name_and_port_is_taken_from_the_host_header(served: Server, host: str, shown: str) -> None:
    answer = await served.get(f"/api/agents/{HOST.address}", host=host)
    assert answer.json["endpoints"][0] == f"http://{shown}{served.prefix}"


@pytest.mark.parametrize("address", [A.address, "", "x", "0x", HOST.address + "0", HOST.address[:-1], "%00", "a/b"])
async def test_there_is_no_other_agent(served: Server, address: str) -> None:
    assert (await served.get(f"/api/agents/{address}")).error == (404, "not found")


async def test_the_page_about_it_brings_everything_along(served: Server) -> None:
    answer = await served.get("/docs")
    page = answer.body.decode()
    assert (answer.status, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert HOST.address in page
    for path in ("/ws", "/input", "/sessions", "/health", "/info", "/api/agents/{address}", "CONNECT", "OUTPUT"):
        assert path in page
    assert not re.search(r"<script|src=|href=|@import|url\(|https?://", page)
    style = re.search(r"<style>(.*?)</style>", page, re.DOTALL)
    assert style is not None
    digest = b64encode(sha256(style[1].encode()).digest()).decode()
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none';")
    assert f"style-src 'sha256-{digest}'" in policy


# What there is not


@pytest.mark.parametrize(
    ("method", "path"),
    [
        *(
            ("GET", path)
            for path in ("/", "/nope", "/ws", "/ws/", "/ws/input", "/input", "/health/", "/Health", "/admin")
        ),
        *(("POST", path) for path in ("/health", "/info", "/sessions", "/docs", "/admin/logs", "/nope")),
        *((method, "/input") for method in ("PUT", "DELETE", "PATCH")),
        ("GET", "/admin/nope"),
        ("DELETE", "/sessions/x"),
    ],
)
async def test_what_is_not_there_is_not_found(served: Server, method: str, path: str) -> None:
    assert (await served.get(path, method)).error == (404, "not found")


async def test_head_is_get_without_a_body(served: Server) -> None:
    answer = await served.get("/health", "HEAD")
    assert (answer.status, answer.body) == (200, b"")


@pytest.mark.parametrize("path", ["/input", "/sessions", "/nope", "/admin/trust/promote"])
async def test_options_are_told_of_every_path_and_no_origin_is_let_in(served: Server, path: str) -> None:
    answer = await served.get(path, "OPTIONS")
    assert (answer.status, answer.body) == (204, b"")
    assert answer.headers["access-control-allow-methods"] == "GET, POST, OPTIONS"
    assert "authorization, content-type" in answer.headers["access-control-allow-headers"]
    assert "access-control-allow-origin" not in answer.headers


async def test_an_origin_is_echoed_only_if_it_passes(served: Server) -> None:
    own = f"http://127.0.0.1:{served.port}"
    assert (await served.get("/info", origin=own)).headers["access-control-allow-origin"] == own
    for origin in ("https://evil.example", "null"):
        answer = await served.get("/info", origin=origin)
        assert answer.status == 403
        assert "access-control-allow-origin" not in answer.headers


async def test_answers_are_kept_by_nobody(served: Server) -> None:
    for path in ("/info", "/health", "/docs", "/sessions", "/nope"):
        answer = await served.get(path)
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-content-type-options"] == "nosniff"
<<<<<<< HEAD


# Results


async def played(server: Server, who: Identity | None = None, name: str | None = None) -> str:
    """A turn over HTTP; the session's id on the wire."""
    body: dict[str, Any] = {"prompt": "say done"} if who is None else server.signed(who, prompt="say done")
    if name is not None:
        body["session"] = {"session_id": name}
    answer = await server.post("/input", body)
    assert answer.status == 200, answer
    return str(answer.json["session_id"])


@pytest.mark.parametrize("who", [HOST, ADMIN], ids=["host", "admin"])
async def test_the_owner_sees_what_came_of_sessions(served: Server, who: Identity) -> None:
    (served.lists / "admins.txt").write_text(f"{ADMIN.address}\n")
    first, second = await played(served, A), await played(served, name="mine")
    answer = await served.get("/sessions", **served.signs(who, "/sessions"))
    assert [row["session_id"] for row in answer.json["sessions"]] == [second, first]
    path = f"/sessions/{first}"
    found = (await served.get(path, **served.signs(who, path))).json
    assert {name: found[name] for name in ("session_id", "status", "prompt", "result")} == {
        "session_id": first,
        "status": "done",
        "prompt": "say done",
        "result": "done",
    }
    assert found["session"]["session_id"] == first
    assert list(found) == [
        *("session_id", "status", "prompt", "created", "expires", "result", "session", "duration_ms"),
    ]
    assert answer.json["sessions"][1] == found


async def test_under_open_whoever_is_on_this_machine_sees_sessions_that_no_key_owns(served: Server) -> None:
    keyed, plain = await played(served, A), await played(served, name="mine")
    answer = await served.get("/sessions")
    assert [row["session_id"] for row in answer.json["sessions"]] == [plain]
    assert (await served.get(f"/sessions/{plain}")).status == 200
    assert (await served.get(f"/sessions/{keyed}")).error == (404, "not found")
    assert (await served.get("/sessions/nope")).error == (404, "not found")


NOBODY = [
    ("careful", False, "unauthorized: signed request required"),
    ("strict", False, "unauthorized: signed request required"),
    ("open", True, "unauthorized: signed request required"),
    ("careful", True, "unauthorized: signed request required"),
]


@pytest.mark.parametrize(("policy", "far", "text"), NOBODY, ids=lambda value: str(value).partition(":")[0])
async def test_nobody_else_is_told_that_there_is_a_session(make: MakeServer, policy: str, far: bool, text: str) -> None:
    server = await make(trust=TrustSettings(policy=policy), far=far, token=TOKEN)
    (server.lists / "whitelist.txt").write_text(f"{A.address}\n")
    there = await played(server, A)
    for path in ("/sessions", f"/sessions/{there}", "/sessions/nope", "/sessions/"):
        assert (await server.get(path)).error == (401, text)
        assert (await server.get(path, **server.signs(A, path))).error == (403, "forbidden: owner only")
        assert (await server.get(path, **server.signs(B, path))).error == (403, "forbidden: owner only")


@pytest.mark.parametrize("how", ["bearer", "query"])
async def test_the_servers_token_opens_results_that_no_key_owns(make: MakeServer, how: str) -> None:
    server = await make(trust=TrustSettings(policy="strict", whitelist=(A.address,)), token=TOKEN, far=True)
    keyed = await played(server, A)
    answer = (
        await server.get("/sessions", authorization=f"Bearer {TOKEN}")
        if how == "bearer"
        else await server.get(f"/sessions?token={TOKEN}")
    )
    assert answer.json == {"sessions": []}
    assert (await server.get(f"/sessions/{keyed}", authorization="Bearer wrong")).status == 401


def forged(server: Server, how: str) -> dict[str, str]:
    """Headers for ``/sessions`` that are not right."""
    good = server.signs(HOST, "/sessions")
    if how == "nothing":
        return {"x-co-from": HOST.address}
    if how == "other key":
        return {**good, "x-co-from": A.address}
    if how == "other path":
        return server.signs(HOST, "/sessions/x")
    if how == "other method":
        return server.signs(HOST, "/sessions", "POST")
    if how == "old":
        return server.signs(HOST, "/sessions", timestamp=server.now() - 400)
    if how == "words":
        return {**good, "x-co-timestamp": "now"}
    if how == "huge":
        return {**good, "x-co-timestamp": "9" * 400}
    return {**good, "x-co-signature": good["x-co-signature"][:-1] + "x"}


@pytest.mark.parametrize(
    ("how", "text"),
    [
        ("nothing", "signed request required"),
        ("other key", "invalid signature"),
        ("other path", "invalid signature"),
        ("other method", "invalid signature"),
        ("old", "signature expired"),
        ("words", "timestamp must be numeric"),
        ("huge", "timestamp must be numeric"),
        ("digits", "invalid signature"),
    ],
)
async def test_a_signature_is_good_for_its_own_request_only(served: Server, how: str, text: str) -> None:
    assert (await served.get("/sessions", **forged(served, how))).error == (401, f"unauthorized: {text}")


async def test_the_newer_signature_with_recipient_and_id_is_taken(served: Server) -> None:
    payload: dict[str, Any] = {
        "query": "a=1&b=x+y",
        "body_sha256": sha256(b"").hexdigest(),
        "request_id": "r1",
        "to": HOST.address,
    }
    headers = {**served.signs(HOST, "/sessions", **payload), "x-co-to": HOST.address, "x-co-request-id": "r1"}
    assert (await served.get("/sessions?b=x%20y&a=1", **headers)).status == 200
    assert (await served.get("/sessions?b=x&a=1", **headers)).error == (401, "unauthorized: invalid signature")
    payload["to"] = A.address
    other = {**served.signs(HOST, "/sessions", **payload), "x-co-to": A.address, "x-co-request-id": "r1"}
    assert (await served.get("/sessions?a=1&b=x+y", **other)).error == (401, "unauthorized: wrong recipient")


async def test_a_signature_that_was_overheard_is_of_no_use_later(make: MakeServer) -> None:
    server = await make(trust=TrustSettings(policy="open", replay="strict"))
    headers = server.signs(HOST, "/sessions")
    assert (await server.get("/sessions", **headers)).status == 200
    status, text = (await server.get("/sessions", **headers)).error
    assert status == 401
    assert "already used" in text


# The server's own pages


async def test_console_lines_and_results_need_the_servers_token(served: Server) -> None:
    await played(served, A)
    for path in ("/admin/logs", "/admin/sessions"):
        assert (await served.get(path)).error == (401, "unauthorized")
        for wrong in (f"Bearer {TOKEN}x", "Bearer ", f"Basic {TOKEN}", TOKEN, "bearer"):
            assert (await served.get(path, authorization=wrong)).error == (401, "unauthorized")
        assert (await served.get(f"{path}?token={TOKEN}")).error == (401, "unauthorized")
        assert (await served.get(path, **served.signs(HOST, path))).error == (401, "unauthorized")
    lines = await served.get("/admin/logs", authorization=f"Bearer {TOKEN}")
    assert lines.headers["content-type"] == "text/plain; charset=utf-8"
    assert f"✓ INPUT identity={A.address[:6]}" in lines.body.decode()
    sessions = await served.get("/admin/sessions", authorization=f"Bearer {TOKEN}")
    assert [row["prompt"] for row in sessions.json["sessions"]] == ["say done"]


async def test_console_lines_hold_no_secret(served: Server) -> None:
    await served.post("/input", {"prompt": f"say {TOKEN} sk-abcdefghijklmnopqrst"})
    lines = (await served.get("/admin/logs", authorization=f"Bearer {TOKEN}")).body.decode()
    assert "prompt=say *** ***" in lines
    assert TOKEN not in lines


async def test_there_may_be_no_lines_yet(served: Server) -> None:
    assert (await served.get("/admin/logs", authorization=f"Bearer {TOKEN}")).error == (404, "No logs found")


async def test_without_a_token_nobody_has_it(make: MakeServer) -> None:
    server = await make()
    for given in ("Bearer ", "Bearer None", ""):
        assert (await server.get("/admin/logs", authorization=given)).error == (401, "unauthorized")


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


async def test_administration_also_where_no_signature_counts_twice(make: MakeServer) -> None:
    server = await make(trust=TrustSettings(policy="open", replay="strict"))
    body = server.signed(HOST, client_id=A.address)
    assert (await server.post("/admin/trust/promote", body)).json["level"] == "contact"
    status, text = (await server.post("/admin/trust/promote", body)).error
    assert (status, "already used" in text) == (401, True)
    answer = await server.get(f"/admin/trust/level/{A.address}", **plainly(server, HOST))
    assert answer.json["level"] == "contact"


async def test_who_is_blocked_over_http_is_shown_nothing_more(make: MakeServer) -> None:
    server = await make()
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
=======
>>>>>>> 04f9a67 (Onion: tests of HTTP and results, a file for each noun; of two results of one moment the later one is the newer)
