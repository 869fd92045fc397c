"""The HTTP interface that the seed refers to: routes, shapes, and one envelope for every error."""

from __future__ import annotations

import json

import pytest

from .harness import Server, Servers
from .programs import READY, command
from .shapes import SERVER_MESSAGES, check_fields, check_screen

GETS = ["health", "ready", "screen", "screen/text", "output", "status", "agent"]
POSTS = {
    "input": {"text": "x"},
    "input/raw": {"data": "eA=="},
    "input/keys": {"keys": ["left"]},
    "resize": {"cols": 80, "rows": 24},
    "signal": {"signal": "WINCH"},
    "agent/nudge": {"message": "x"},
    "agent/respond": {},
    "shutdown": {},
}


@pytest.fixture(scope="module")
def server(shared: Servers) -> Server:
    server = shared.start(*command("hexer"))
    server.wait_for_output(READY)
    return server


def test_health(server: Server):
    reply = server.get("health")
    assert reply.status == 200
    assert reply.headers["content-type"].startswith("application/json")
    check_fields(
        reply.json,
        {
            "status": "text",
            "pid": "count?",
            "uptime_secs": "count",
            "agent": "text",
            "terminal": "any",
            "terminal_cols": "count",
            "terminal_rows": "count",
            "ws_clients": "count",
            "ready": "flag",
        },
        "health",
    )
    assert reply.json["status"] == "running"
    assert reply.json["agent"] == "unknown"
    assert reply.json["terminal"] == {"cols": reply.json["terminal_cols"], "rows": reply.json["terminal_rows"]}
    assert reply.json["ready"] is True


def test_ready(server: Server):
    assert (server.get("ready").status, server.get("ready").json) == (200, {"ready": True})


def test_screen(server: Server):
    value = server.get("screen?cursor=true").json
    check_fields(value, SERVER_MESSAGES["screen"] | {"cursor": "cursor"}, "screen")
    check_screen(value)
    assert server.get("screen?cursor=true&format=text").status == 200


def test_status_is_that_of_the_socket(server: Server):
    value = server.get("status").json
    check_fields(value, SERVER_MESSAGES["status"] | {"ws_clients": "count"}, "status")
    assert value["state"] == "running"
    assert value["pid"] == server.get("health").json["pid"]


async def test_status_agrees_with_the_message(server: Server):
    async with server.link("state") as link:
        told = await link.status()
        asked = server.get("status").json
    for name in ("state", "pid", "exit_code", "screen_seq", "bytes_read", "bytes_written", "ws_clients"):
        assert told[name] == asked[name]


def test_agent(server: Server):
    value = server.get("agent").json
    assert {"agent", "state", "since_seq", "screen_seq", "detection_tier", "detection_cause", "prompt"} <= set(value)
    assert (value["agent"], value["state"], value["prompt"]) == ("unknown", "working", None)
    assert value["detection_cause"] == "process:activity"


@pytest.mark.parametrize(
    ("path", "body", "count"),
    [
        ("input", {"text": "hello"}, 5),
        ("input", {"text": "hello", "enter": True}, 6),
        ("input", {"text": "", "enter": True}, 1),
        ("input", {"text": "é日🙂"}, 9),
        ("input/raw", {"data": "AAEC/w=="}, 4),
        ("input/raw", {"data": ""}, 0),
        ("input/keys", {"keys": ["ctrl-a", "f5", "up"]}, 9),
        ("input/keys", {"keys": []}, 0),
    ],
)
def test_input_says_how_many_bytes_were_written(server: Server, path: str, body: object, count: int):
    before = server.get("status").json["bytes_written"]
    reply = server.post(path, body)
    assert (reply.status, reply.json) == (200, {"bytes_written": count})
    assert server.get("status").json["bytes_written"] == before + count


def test_signal(server: Server):
    reply = server.post("signal", {"signal": "WINCH"})
    assert (reply.status, reply.json) == (200, {"delivered": True})


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        ("input/raw", {"data": "not base64!"}, "invalid base64 data"),
        ("input/keys", {"keys": ["enter", "badkey"]}, "unknown key: badkey"),
        ("signal", {"signal": "SIGNOPE"}, "unknown signal: SIGNOPE"),
        ("resize", {"cols": 0, "rows": 5}, "cols and rows must be positive"),
    ],
)
def test_errors_are_those_of_the_socket(server: Server, path: str, body: object, message: str):
    before = server.get("status").json["bytes_written"]
    assert server.post(path, body).error == (400, "BAD_REQUEST", message)
    assert server.get("status").json["bytes_written"] == before


@pytest.mark.parametrize("path", ["agent/nudge", "agent/respond"])
def test_a_plain_command_has_no_driver(server: Server, path: str):
    assert server.post(path, POSTS[path]).error == (404, "NO_DRIVER", "no agent driver configured")


WITH_BODY = [path for path in POSTS if path != "shutdown"]


@pytest.mark.parametrize(
    "body",
    [b"{", b"{'text':1}", b"\xff\xfe", b'{"text":"\xff"}', b"[" * 100_000],
    ids=["cut", "quotes", "bytes", "text", "deep"],
)
@pytest.mark.parametrize("path", WITH_BODY)
def test_malformed_json_is_a_bad_request(server: Server, path: str, body: bytes):
    assert server.post(path, body).error[:2] == (400, "BAD_REQUEST")


@pytest.mark.parametrize("body", [b"", b"null", b"[]", b'"text"', b"42"], ids=repr)
@pytest.mark.parametrize("path", [path for path in WITH_BODY if path != "agent/respond"])
def test_a_body_that_is_no_object_is_a_bad_request(server: Server, path: str, body: bytes):
    status, code, _ = server.post(path, body).error
    assert (status in (400, 422), code) == (True, "BAD_REQUEST")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("input", {}),
        ("input", {"text": 1}),
        ("input", {"text": "x", "enter": "yes"}),
        ("input/raw", {}),
        ("input/raw", {"data": 1}),
        ("input/keys", {}),
        ("input/keys", {"keys": "enter"}),
        ("input/keys", {"keys": [1]}),
        ("resize", {}),
        ("resize", {"cols": 80}),
        ("resize", {"cols": "80", "rows": 24}),
        ("resize", {"cols": -1, "rows": 24}),
        ("resize", {"cols": 1.5, "rows": 24}),
        ("resize", {"cols": 65536, "rows": 24}),
        ("signal", {}),
        ("signal", {"signal": 2}),
        ("agent/nudge", {}),
        ("agent/nudge", {"message": 1}),
        ("agent/respond", {"accept": "yes"}),
        ("agent/respond", {"option": "1"}),
        ("agent/respond", {"answers": [1]}),
    ],
    ids=json.dumps,
)
def test_a_wrong_shape_is_a_bad_request(server: Server, path: str, body: object):
    before = server.get("status").json["bytes_written"]
    status, code, _ = server.post(path, body).error
    assert (status in (400, 422), code) == (True, "BAD_REQUEST")
    assert server.get("status").json["bytes_written"] == before


@pytest.mark.parametrize("path", ["input", "resize"])
def test_unknown_fields_are_ignored(server: Server, path: str):
    assert server.post(path, {**POSTS[path], "extra": {"deep": []}}).status == 200


@pytest.mark.parametrize(
    ("method", "path"),
    [
        *[("POST", path) for path in GETS],
        *[("DELETE", path) for path in GETS],
        *[("GET", path) for path in POSTS],
        *[("PUT", path) for path in POSTS],
    ],
)
def test_a_wrong_method_is_405_in_the_envelope(server: Server, method: str, path: str):
    reply = server.http(method, f"/api/v1/{path}", b"{}" if method in ("POST", "PUT") else None)
    assert reply.error[0] == 405
    assert server.alive()


@pytest.mark.parametrize("path", ["/api/v1/nope", "/api/v1/", "/api/v1/input/nope", "/api/v2/health", "/nope", "/api"])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_an_unknown_path_is_404_in_the_envelope(server: Server, method: str, path: str):
    assert server.http(method, path, b"{}" if method == "POST" else None).error[0] == 404


def test_a_body_beyond_every_limit_is_413_in_the_envelope(server: Server):
    head = (
        f"POST /api/v1/input HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {1 << 34}\r\nConnection: close\r\n\r\n"
    )
    assert server.bytes_exchange(head.encode() + b'{"text":"').error[0] == 413


def test_a_body_of_almost_a_mebibyte_is_taken(server: Server):
    reply = server.post("resize", {"cols": 80, "rows": 24, "padding": "x" * ((1 << 20) - 100)})
    assert reply.status == 200


def test_a_chunked_body_is_read(server: Server):
    head = (
        f"POST /api/v1/resize HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nContent-Type: application/json\r\n"
        "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    )
    reply = server.bytes_exchange(head.encode() + b'9\r\n{"cols":8\r\n6\r\n1,"row\r\n9\r\ns":  25 }\r\n0\r\n\r\n')
    assert (reply.status, reply.json) == (200, {"cols": 81, "rows": 25})


@pytest.mark.parametrize(
    "request_bytes",
    [b"nonsense\r\n\r\n", b"GET\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n"],
    ids=["word", "no-path", "tls"],
)
def test_what_is_no_http_is_a_client_error_and_the_server_lives(server: Server, request_bytes: bytes):
    assert server.bytes_exchange(request_bytes).status == 400
    assert server.get("health").status == 200


@pytest.mark.parametrize("path", GETS)
def test_uptime_and_friends_are_served_twice_the_same_way(server: Server, path: str):
    first, second = server.get(path), server.get(path)
    assert (first.status, second.status) == (200, 200)
    assert first.headers["content-type"] == second.headers["content-type"]
