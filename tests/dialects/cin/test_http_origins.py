"""Who may ask (invariant 11): pages of this machine and programs, and no page of anybody else, on every route."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.dialects.cin.api import PAGE, STRANGER, Api, served
from tests.dialects.cin.recorded.bridge import Link
from tests.dialects.cin.routes_table import EVERY, HOOKS, ROUTES

ALLOWED = (
    "http://localhost",
    "http://localhost:1",
    "https://localhost:8443",
    "http://127.0.0.1:4002",
    "https://127.0.0.1",
    "HTTP://LOCALHOST:4002",
)
REFUSED = (
    "null",
    STRANGER,
    "http://localhost.evil.example",
    "http://evil.localhost",
    "http://127.0.0.1.evil.example",
    "http://127.0.0.2:4002",
    "http://[::1]:4002",
    "http://0.0.0.0:4002",
    "http://localhost:1@evil.example",
    "http://localhost@evil.example",
    "http://user@localhost",
    "http://localhost:99999",
    "http://localhost:x",
    "http://localhost/",
    "http://localhost?x",
    "http://localhost#",
    "ws://localhost",
    "file://",
    "file://localhost",
    "https://cin-interface.local",
    "chrome-extension://localhost",
    "localhost",
    "//localhost",
    "http://",
    "",
    " ",
    "http://loc\u0430lhost".encode().decode("latin-1"),
)


@pytest.fixture(scope="module", params=["", "/cin"], ids=["root", "prefix"])
def api(request: pytest.FixtureRequest, server: Api) -> Iterator[Api]:
    own = Api(server.bridge, request.param)
    yield own
    own.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with served(tmp_path_factory.mktemp("origins")) as server:
        yield server


def body_of(path: str) -> dict[str, Any] | None:
    """What would do something, if it were taken."""
    if path in HOOKS:
        return {"hook_event_name": "Stop", "session_id": "forged", "cwd": "/tmp"}
    if path == "/tiles":
        return {"text": "forged", "position": {"q": 1, "r": 1}}
    if path == "/feedback":
        return {"type": "bug", "description": "forged"}
    return {}


@pytest.mark.parametrize(("method", "path"), EVERY)
def test_a_page_of_another_site_can_ask_nothing(api: Api, method: str, path: str) -> None:
    for origin in (STRANGER, "null", "http://localhost.evil.example"):
        reply = api.ask(method, path, body_of(path) if method != "GET" else None, origin=origin)
        assert reply.status == 403, (origin, reply)
        assert "access-control-allow-origin" not in reply.headers
        # As a form or a script without leave would send it.
        reply = api.ask(method, path, body_of(path), origin=origin, content_type="text/plain")
        assert reply.status == 403


def test_nothing_that_another_site_sent_has_happened(api: Api) -> None:
    for method, path in EVERY:
        api.ask(method, path, body_of(path), origin=STRANGER)

    assert api.good("GET", "/tiles")["tiles"] == []
    assert api.good("GET", "/feedback")["feedback"] == []
    assert api.good("GET", "/sessions")["sessions"] == []


@pytest.mark.parametrize("path", list(ROUTES))
def test_a_page_of_another_site_gets_no_leave(api: Api, path: str) -> None:
    for asked in ("POST", "PUT", "DELETE"):
        reply = api.ask("OPTIONS", path, origin=STRANGER, access_control_request_method=asked)
        assert reply.status == 403
        assert not [name for name in reply.headers if name.startswith("access-control")]


@pytest.mark.parametrize("origin", REFUSED)
def test_what_only_looks_like_a_page_of_this_machine_is_none(api: Api, origin: str) -> None:
    for method, path in (("GET", "/sessions"), ("POST", "/event"), ("GET", "/nothing")):
        reply = api.ask(method, path, body_of(path) if method == "POST" else None, origin=origin)
        assert reply.status == 403, (origin, reply)
        assert "access-control-allow-origin" not in reply.headers


@pytest.mark.parametrize("origin", ALLOWED)
def test_pages_of_this_machine_are_let_in_and_named(api: Api, origin: str) -> None:
    for path in ("/sessions", "/health", "/nothing", "/sessions/none"):
        reply = api.get(path, origin=origin)
        assert reply.status in (200, 404)
        assert reply.headers["access-control-allow-origin"] == origin
        assert "origin" in reply.headers["vary"]
    reply = api.ask("POST", "/event", "{", origin=origin)
    assert (reply.status, reply.headers["access-control-allow-origin"]) == (400, origin)


@pytest.mark.parametrize(("method", "path"), EVERY)
def test_leave_is_given_for_every_method_there_is(api: Api, method: str, path: str) -> None:
    reply = api.ask(
        "OPTIONS",
        path,
        origin=PAGE,
        access_control_request_method=method,
        access_control_request_headers="content-type, idempotency-key",
    )
    assert reply.status == 204
    assert reply.headers["access-control-allow-origin"] == PAGE
    assert method in reply.headers["access-control-allow-methods"].split(", ")
    assert "content-type" in reply.headers["access-control-allow-headers"]


@pytest.mark.parametrize("origin", [*REFUSED, None, *ALLOWED])
async def test_a_socket_is_for_the_same_pages_as_everything_else(api: Api, origin: str | None) -> None:
    link = Link()
    status = await link.open(api.bridge.port, f"{api.prefix}/any/path", origin)
    if origin in REFUSED:
        assert status == 403
    else:
        assert status == 101
        await link.pong()
        await link.leave()


def test_a_program_without_an_origin_is_let_in(api: Api) -> None:
    reply = api.get("/health")
    assert reply.status == 200
    assert "access-control-allow-origin" not in reply.headers


def test_two_origins_are_none(api: Api) -> None:
    api.connection.putrequest("GET", f"{api.prefix}/sessions")
    for origin in (PAGE, STRANGER):
        api.connection.putheader("Origin", origin)
    api.connection.endheaders()
    answer = api.connection.getresponse()
    answer.read()
    assert answer.status == 400


@pytest.mark.parametrize("host", ["evil.example", "evil.example:4003", "localhost.evil.example", "192.168.1.1", ""])
def test_a_name_that_was_made_to_mean_this_machine_is_refused(api: Api, host: str) -> None:
    for method, path in (("GET", "/sessions"), ("POST", "/event"), ("GET", "/browse")):
        api.connection.putrequest(method, api.prefix + path, skip_host=True)
        api.connection.putheader("Host", host)
        api.connection.putheader("Content-Length", "0")
        api.connection.endheaders()
        answer = api.connection.getresponse()
        answer.read()
        assert answer.status == 403, (method, path)
