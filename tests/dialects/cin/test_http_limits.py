"""What any request gets (spec §3, general): real statuses, JSON, limits, and a connection that goes on."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.dialects.cin.api import Api, served
from tests.dialects.cin.routes_table import EVERY, HOOKS, ID, METHODS, ROUTES
from tests.faults.process import LIMIT

MIB = 1024 * 1024

NOT_JSON = ("{", "", "\x00", "nul", "{'a': 1}", "[" * 100_000, '{"a": 1} x', '"\\ud800"', b"\xff\xfe", '{"a":NaN}')

TAKES_BODIES = [
    (method, path)
    for method, path in EVERY
    if (method, path.rpartition("/")[2])
    not in [("POST", "refresh"), ("POST", "cancel"), ("POST", "restart"), ("POST", "terminal"), ("POST", "focus")]
    and method in ("POST", "PUT", "PATCH")
    and path not in HOOKS
    and ID not in path
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with served(tmp_path_factory.mktemp("limits")) as server:
        yield server


@pytest.fixture(scope="module", params=["", "/cin"], ids=["root", "prefix"])
def api(request: pytest.FixtureRequest, server: Api) -> Iterator[Api]:
    own = Api(server.bridge, request.param)
    yield own
    own.close()


# Paths and methods


@pytest.mark.parametrize(
    "path", ["/nothing", "/api", "/api/x", "/sessions/", "/tiles/", "/health/", "/index.html", "/a/b/c"]
)
@pytest.mark.parametrize("method", METHODS)
def test_an_unknown_path_is_404_in_json_whatever_the_method(api: Api, method: str, path: str) -> None:
    api.ask(method, path).failed(404, "Not found")


def test_the_root_is_a_path_like_others(api: Api) -> None:
    reply = api.get("/")
    assert reply.status == 404
    assert b"<html" not in str(reply.body).lower().encode()


@pytest.mark.parametrize("path", [path for path in ROUTES if path not in HOOKS])
def test_a_method_that_a_path_lacks_is_405_and_says_which_it_has(api: Api, path: str) -> None:
    methods = set(ROUTES[path])
    missing = [method for method in (*METHODS, "TRACE") if method not in methods]
    for method in missing:
        reply = api.ask(method, path)
        reply.failed(405, "Method not allowed")
        said = set(reply.headers["allow"].split(", "))
        assert said == methods | {"OPTIONS"} | ({"HEAD"} if "GET" in methods else set())
    reply = api.ask("OPTIONS", path)
    assert (reply.status, set(reply.headers["allow"].split(", "))) == (204, said)


@pytest.mark.parametrize("path", HOOKS)
def test_hooks_are_posted_and_nothing_else(api: Api, path: str) -> None:
    for method in ("GET", "PUT", "PATCH", "DELETE"):
        reply = api.ask(method, path)
        assert (reply.status, list(reply.body)) == (405, ["error"])


def test_a_query_string_matters_to_no_path(api: Api) -> None:
    for path in (
        "/sessions",
        "/tiles",
        "/health",
        "/config",
        "/info",
        "/stats",
        "/version.json",
        "/projects",
        "/feedback",
    ):
        assert api.get(f"{path}?x=1&y=%20&z").status == 200, path
    assert api.ask("POST", "/sessions/refresh?x=1").status == 200
    assert api.ask("POST", "/event?x=1", {}).status == 200
    assert api.ask("POST", "/event/codex?x=1", {}).status == 200
    assert api.ask("DELETE", "/prompt?x").status == 200


def test_head_is_get_without_its_body(api: Api) -> None:
    for path in ("/sessions", "/health", "/tiles", "/projects", "/version.json"):
        reply = api.ask("HEAD", path)
        assert (reply.status, reply.headers["content-type"]) == (200, "application/json")
        assert reply.body == b""
    reply = api.ask("HEAD", "/nothing")
    assert (reply.status, reply.body) == (404, b"")


@pytest.mark.parametrize(
    "path",
    [
        "/%ff",
        "/%c3%28",
        "/%ed%a0%80",
        "/%c0%ae%c0%ae/",
        "/sessions/%ff",
        "/sessions/%zz",
        "/sessions/%",
        "/sessions/%2",
        "/tiles/%ff",
        "/event%ff",
        "/feedback/%e2%82",
    ],
)
def test_what_cannot_be_decoded_is_400(api: Api, path: str) -> None:
    for method in ("GET", "POST", "DELETE"):
        api.ask(method, path).failed(400, "decoded")


def test_a_path_may_be_escaped_as_one_likes(api: Api) -> None:
    assert api.get("/%73essions").status == 200
    assert api.get("/sessions%3Fx").status == 404
    assert api.get("/sessions/%25zz").status == 404


@pytest.mark.parametrize("path", ["//sessions", "/./sessions", "/x/../sessions", "/sessions/../tiles", "/Sessions"])
def test_a_path_is_taken_as_it_is_written(api: Api, path: str) -> None:
    api.get(path).failed(404)


# Bodies


@pytest.mark.parametrize(("method", "path"), TAKES_BODIES)
def test_what_is_no_json_object_is_400(api: Api, method: str, path: str) -> None:
    for body in NOT_JSON:
        if body == "":
            continue  # as good as an empty object
        api.ask(method, path, body).failed(400, "Invalid")
    for other in ("[]", "5", '"x"', "null", "true", "[{}]"):
        api.ask(method, path, other).failed(400, "Invalid")


@pytest.mark.parametrize("path", HOOKS)
def test_a_hook_that_is_no_json_is_400_as_the_original_says_it(api: Api, path: str) -> None:
    for body in NOT_JSON:
        reply = api.ask("POST", path, body)
        assert (reply.status, reply.body) == (400, {"error": "Invalid JSON"}), body
    assert api.ask("POST", path, "null").status == 400
    for other in ("{}", "[]", "5"):
        reply = api.ask("POST", path, other)
        assert (reply.status, reply.body) == (200, {"ok": True})


def test_json_is_taken_whatever_it_is_called(api: Api) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", "x"):
        reply = api.ask("POST", "/tiles", '{"text": "x"}', content_type=kind)
        reply.failed(400, "Missing text or position")


@pytest.mark.parametrize("path", ["/tiles", "/feedback", "/sessions", "/prompt", "/event", "/event/codex"])
def test_a_body_over_the_limit_is_413_and_the_connection_goes_on(api: Api, path: str) -> None:
    used = api.connection.sock
    reply = api.ask("POST", path, b'{"text": "' + b"x" * (32 * MIB) + b'"}')

    assert reply.status == 413, reply
    assert ("hub.hook_bytes" if "/event" in path else "larger than") in reply.body["error"]
    assert api.get("/health").status == 200
    assert api.connection.sock is used or used is None, "the same connection"


def test_a_body_of_unknown_length_is_413_as_well(api: Api) -> None:
    def pieces() -> Iterator[bytes]:
        for _ in range(33):
            yield b"x" * MIB

    api.connection.request(
        "POST", f"{api.prefix}/tiles", pieces(), encode_chunked=True, headers={"transfer-encoding": "chunked"}
    )
    answer = api.connection.getresponse()
    said = json.loads(answer.read())
    assert answer.status == 413, said
    assert api.get("/health").status == 200


def test_a_body_up_to_the_limit_is_read(api: Api) -> None:
    body = b'{"text": "' + b"x" * (32 * MIB - 12) + b'"}'
    assert len(body) == 32 * MIB
    api.ask("POST", "/tiles", body).failed(400, "Missing text or position")


def test_a_length_beyond_all_measure_is_refused_before_anything_is_sent(api: Api) -> None:
    with socket.create_connection(("127.0.0.1", api.bridge.port), LIMIT) as raw:
        raw.sendall(
            b"POST %s/tiles HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999\r\n\r\n" % api.prefix.encode()
        )
        answer = http.client.HTTPResponse(raw)
        answer.begin()
        assert answer.status == 413
        assert json.loads(answer.read())["ok"] is False


def test_a_client_that_goes_in_the_middle_of_a_body_leaves_nothing_behind(api: Api) -> None:
    for path in ("/tiles", "/event", "/feedback"):
        raw = socket.create_connection(("127.0.0.1", api.bridge.port), LIMIT)
        raw.sendall(
            b"POST %b HTTP/1.1\r\nHost: localhost\r\nContent-Length: 500\r\n\r\n{" % (api.prefix + path).encode()
        )
        raw.close()
    assert api.good("GET", "/tiles")["tiles"] == []


@pytest.mark.parametrize(("method", "path"), [each for each in EVERY if each[1] not in HOOKS])
def test_every_answer_is_json_and_of_the_one_form(api: Api, method: str, path: str) -> None:
    reply = api.ask(method, path, "{}" if method not in ("GET", "DELETE") else None)

    assert reply.headers["content-type"] == "application/json", reply
    assert reply.headers["cache-control"] == "no-store"
    assert reply.status < 500, reply
    if path not in ("/config", "/stats", "/version.json"):
        assert reply.body["ok"] is (reply.status < 400)
    if reply.status >= 400:
        assert isinstance(reply.body["error"], str)


# What a dashboard asks for when it begins (spec §10.1)


def test_what_a_dashboard_begins_with_is_there(api: Api) -> None:
    fields: dict[str, Any] = {
        "/config": {"username": str, "hostname": str, "tmuxSession": str},
        "/health": {"ok": bool, "version": str, "clients": int, "events": int, "voiceEnabled": bool},
        "/version.json": {"latest": str, "minSupported": str, "releaseUrl": str, "updateCommand": str},
        "/info": {"ok": bool, "cwd": str},
        "/stats": {"totalEvents": int, "toolCounts": dict, "avgDurations": dict, "tokens": dict},
    }
    for path, wanted in fields.items():
        said = api.good("GET", path)
        assert {name: type(value) for name, value in said.items()} == wanted, path
    assert api.good("GET", "/info")["cwd"] == str(api.work)
    assert api.good("GET", "/health")["voiceEnabled"] is False


def test_the_old_dashboards_routes_answer_though_there_is_no_session(tmp_path: Path) -> None:
    with served(tmp_path) as api:
        api.ask("POST", "/cancel").failed(409, "No session is working")
        api.ask("POST", "/prompt", {"prompt": "x", "send": True}).failed(404)
        api.ask("POST", "/prompt", {"prompt": "x", "send": False}).failed(400)
        api.get("/tmux-output").failed(404)
        assert api.good("GET", "/prompt") == {"ok": True, "prompt": None}
        assert api.good("DELETE", "/prompt") == {"ok": True}
