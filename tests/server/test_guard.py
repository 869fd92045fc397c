"""Who may talk to us at all (invariant 11), without a socket."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from dragoman.dialects.base import BODY
from dragoman.server.guard import Guard, host_name

OWN = "127.0.0.1:7337"


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """Reads the whole body, says hello."""
    if scope["type"] == "http":
        while (await receive()).get("more_body"):
            continue
    prefix = "websocket." if scope["type"] == "websocket" else ""
    await send({"type": f"{prefix}http.response.start", "status": 200, "headers": []})
    await send({"type": f"{prefix}http.response.body", "body": b"hello"})


async def ask(
    guard: Guard, kind: str = "http", *, method: str = "GET", path: str = "/", body: bytes = b"", **headers: str
) -> tuple[int, dict[bytes, bytes]]:
    """Status and headers of one request; header names are written with underscores."""
    named = {"host": OWN, **{name.replace("_", "-"): value for name, value in headers.items()}}
    scope: dict[str, Any] = {
        "type": kind,
        "method": method,
        "path": path,
        "headers": [(name.encode(), value.encode()) for name, value in named.items() if value],
    }
    pieces = [body[start : start + 1000] for start in range(0, len(body), 1000)] or [b""]
    sent: list[Message] = []

    async def receive() -> Message:
        piece = pieces.pop(0)
        return {"type": "http.request", "body": piece, "more_body": bool(pieces)}

    async def send(message: Message) -> None:
        sent.append(message)

    await guard(scope, receive, send)
    return sent[0]["status"], dict(sent[0]["headers"])


@pytest.mark.parametrize("kind", ["http", "websocket"])
@pytest.mark.parametrize(
    ("host", "status"),
    [
        (OWN, 200),
        ("localhost:1", 200),
        ("LOCALHOST", 200),
        ("[::1]:7337", 200),
        ("nas.example", 200),
        ("evil.example", 403),
        ("127.0.0.1.evil.example", 403),
        ("localhost.evil.example:7337", 403),
        ("", 403),
        ("127.0.0.1@evil.example", 403),
    ],
)
async def test_only_known_host_names_are_served(kind: str, host: str, status: int) -> None:
    guard = Guard(app, bound="127.0.0.1", allow_host=["nas.example"])
    assert (await ask(guard, kind, host=host))[0] == status


@pytest.mark.parametrize("kind", ["http", "websocket"])
@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS"])
@pytest.mark.parametrize(
    ("origin", "status"),
    [
        (f"http://{OWN}", 200),
        (f"https://{OWN}", 403),
        ("https://ui.example", 200),
        ("HTTPS://UI.EXAMPLE", 200),
        ("https://ui.example.evil", 403),
        ("http://ui.example", 403),
        ("http://127.0.0.1:3000", 403),
        ("http://localhost:7337", 403),
        ("null", 403),
        ("NULL", 403),
        ("http://evil.example", 403),
        (" ", 403),
    ],
)
async def test_a_foreign_origin_is_refused(kind: str, method: str, origin: str, status: int) -> None:
    guard = Guard(app, bound="127.0.0.1", allow_origin=["https://ui.example"])
    assert (await ask(guard, kind, method=method, origin=origin))[0] == status


@pytest.mark.parametrize("allowed", ["file://", "tauri://localhost", "app://-/", "http://localhost:3000/"])
async def test_pages_of_a_desktop_program_are_let_in_by_their_origin(allowed: str) -> None:
    guard = Guard(app, bound="127.0.0.1", allow_origin=[allowed])
    named = allowed if allowed == "file://" else allowed.rstrip("/")
    assert (await ask(guard, "websocket", origin=named))[0] == 200
    assert (await ask(guard, "websocket", origin="null"))[0] == 403
    assert (await ask(guard, "websocket", origin="http://evil.example"))[0] == 403


async def test_a_dialects_own_rule_opens_its_paths_only() -> None:
    guard = Guard(app, bound="127.0.0.1", origin_rule=lambda path, origin: path == "/cin" and "localhost" in origin)
    assert (await ask(guard, origin="http://localhost:3000", path="/cin"))[0] == 200
    assert (await ask(guard, origin="http://localhost:3000", path="/coop"))[0] == 403


async def test_cors_echoes_an_origin_that_passes_and_never_a_star() -> None:
    guard = Guard(app, bound="127.0.0.1", allow_origin=["https://ui.example"])
    _, headers = await ask(guard, origin="https://ui.example")
    assert headers[b"access-control-allow-origin"] == b"https://ui.example"
    status, headers = await ask(
        guard, method="OPTIONS", origin="https://ui.example", access_control_request_method="POST"
    )
    assert (status, headers[b"access-control-allow-origin"]) == (204, b"https://ui.example")
    _, headers = await ask(guard)
    assert b"access-control-allow-origin" not in headers


@pytest.mark.parametrize("declared", [True, False])
async def test_a_body_over_the_limit_is_refused(declared: bool) -> None:
    guard = Guard(app, bound="127.0.0.1", max_body=5000)
    length = {"content_length": "5001"} if declared else {}
    assert (await ask(guard, method="POST", body=b"x" * 5001, **length))[0] == 413
    length = {"content_length": "5000"} if declared else {}
    assert (await ask(guard, method="POST", body=b"x" * 5000, **length))[0] == 200


@pytest.mark.parametrize("declared", [True, False])
async def test_who_serves_a_request_may_set_another_limit(declared: bool) -> None:
    async def patient(scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["extensions"][BODY].size == 5000
        scope["extensions"][BODY].size = 9000
        await app(scope, receive, send)

    guard = Guard(patient, bound="127.0.0.1", max_body=5000)
    for size, status in ((5001, 200), (9000, 200), (9001, 413)):
        length = {"content_length": str(size)} if declared else {}
        assert (await ask(guard, method="POST", body=b"x" * size, **length))[0] == status


@pytest.mark.parametrize("header", ["[::1", "[", "a b", "::::", "\u00e9"])
def test_a_host_header_that_is_none_is_no_crash(header: str) -> None:
    assert host_name(header) not in ("localhost", "127.0.0.1", "::1")
