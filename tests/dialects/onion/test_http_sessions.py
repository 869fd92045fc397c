"""What came of sessions, and the server's own pages, over HTTP: who is shown them (spec §10)."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import pytest

from dragoman.services.identity import Identity
from dragoman.services.trust import TrustSettings

from .http_rig import ADMIN, HOST, TOKEN, A, B, MakeServer, Server


@pytest.fixture(params=["root", "prefix"])
async def served(request: pytest.FixtureRequest, make_http: MakeServer) -> Server:
    """At the root and below its prefix everything is the same."""
    return await make_http(root="onion" if request.param == "root" else None, token=TOKEN)


# Results


def _shown(server: Server) -> dict[str, str]:
    """The server's token, where it has one."""
    return {"authorization": f"Bearer {TOKEN}"} if server.has_token else {}


async def played(server: Server, who: Identity | None = None, name: str | None = None) -> str:
    """A turn over HTTP; the session's id on the wire."""
    body: dict[str, Any] = {"prompt": "say done"} if who is None else server.signed(who, prompt="say done")
    if name is not None:
        body["session"] = {"session_id": name}
    answer = await server.post("/input", body, **_shown(server) if who is None else {})
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


async def test_under_open_whoever_is_on_this_machine_sees_sessions_that_no_key_owns(make_http: MakeServer) -> None:
    served = await make_http()
    keyed, plain = await played(served, A), await played(served, name="mine")
    answer = await served.get("/sessions")
    assert [row["session_id"] for row in answer.json["sessions"]] == [plain]
    assert (await served.get(f"/sessions/{plain}")).status == 200
    assert (await served.get(f"/sessions/{keyed}")).error == (404, "not found")
    assert (await served.get("/sessions/nope")).error == (404, "not found")


@pytest.mark.parametrize(
    ("policy", "far", "token"),
    [
        ("careful", False, None),
        ("strict", False, None),
        ("open", True, None),
        ("careful", True, None),
        ("open", False, TOKEN),
    ],
)
async def test_nobody_else_is_told_that_there_is_a_session(
    make_http: MakeServer, policy: str, far: bool, token: str | None
) -> None:
    text = "unauthorized: signed request required"
    server = await make_http(trust=TrustSettings(policy=policy), far=far, token=token)
    (server.lists / "whitelist.txt").write_text(f"{A.address}\n")
    there = await played(server, A)
    for path in ("/sessions", f"/sessions/{there}", "/sessions/nope", "/sessions/"):
        assert (await server.get(path)).error == (401, text)
        assert (await server.get(path, **server.signs(A, path))).error == (403, "forbidden: owner only")
        assert (await server.get(path, **server.signs(B, path))).error == (403, "forbidden: owner only")


@pytest.mark.parametrize("how", ["bearer", "query"])
async def test_the_servers_token_opens_results_that_no_key_owns(make_http: MakeServer, how: str) -> None:
    server = await make_http(trust=TrustSettings(policy="strict", whitelist=(A.address,)), token=TOKEN, far=True)
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


async def test_a_signature_that_was_overheard_is_of_no_use_later(make_http: MakeServer) -> None:
    server = await make_http(trust=TrustSettings(policy="open", replay="strict"))
    headers = server.signs(HOST, "/sessions")
    assert (await server.get("/sessions", **headers)).status == 200
    status, text = (await server.get("/sessions", **headers)).error
    assert status == 401
    assert "already used" in text


# The server's own pages


async def test_console_lines_and_results_need_the_servers_token(served: Server) -> None:
    await played(served, A)
    await played(served, name="mine")
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
    assert [row["session_id"] for row in sessions.json["sessions"]] == ["mine"], "a key's sessions are its own"


async def test_console_lines_hold_no_secret(served: Server) -> None:
    await served.post("/input", {"prompt": f"say {TOKEN} sk-abcdefghijklmnopqrst"}, **_shown(served))
    lines = (await served.get("/admin/logs", authorization=f"Bearer {TOKEN}")).body.decode()
    assert "prompt=say *** ***" in lines
    assert TOKEN not in lines


async def test_there_may_be_no_lines_yet(served: Server) -> None:
    assert (await served.get("/admin/logs", authorization=f"Bearer {TOKEN}")).error == (404, "No logs found")


async def test_without_a_token_nobody_has_it(make_http: MakeServer) -> None:
    server = await make_http()
    for given in ("Bearer ", "Bearer None", ""):
        assert (await server.get("/admin/logs", authorization=given)).error == (401, "unauthorized")
