"""Foreign pages and foreign hosts are refused on every path; open doors beyond loopback never start.

Invariant 11.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .harness import Reply, Server, Servers, run_dragoman
from .programs import READY, command

TOKEN = "guard-token"
GETS = ["health", "ready", "screen", "screen/text", "output", "status", "agent"]
POSTS = ["input", "input/raw", "input/keys", "resize", "signal", "agent/nudge", "agent/respond", "shutdown"]
ROUTES = [
    ("UPGRADE", "/ws"),
    ("UPGRADE", f"/ws?token={TOKEN}"),
    ("UPGRADE", "/ws?token=wrong"),
    ("UPGRADE", "/ws?mode=nope"),
    ("UPGRADE", "/nope"),
    ("GET", "/ws"),
    ("GET", "/"),
    ("GET", "/nope"),
    ("POST", "/nope"),
    *[("GET", f"/api/v1/{path}") for path in GETS],
    *[("POST", f"/api/v1/{path}") for path in POSTS],
    ("OPTIONS", "/api/v1/input"),
    ("PUT", "/api/v1/input"),
    ("DELETE", "/api/v1/status"),
]
FOREIGN_ORIGINS = [
    "null",
    "http://evil.example",
    "https://evil.example",
    "http://evil.example:{port}",
    "http://127.0.0.1.evil.example:{port}",
    "http://localhost.evil.example:{port}",
    "http://evil.example/127.0.0.1:{port}",
    "http://127.0.0.1:{port}@evil.example",
    "http://127.0.0.1:1",
    "http://localhost:1",
    "http://localhost",
    "file://",
    "chrome-extension://abcdefghijklmnop",
    "nonsense",
]
FOREIGN_HOSTS = [
    "evil.example",
    "evil.example:{port}",
    "127.0.0.1.evil.example:{port}",
    "localhost.evil.example",
    "evil.example#127.0.0.1:{port}",
    "192.0.2.1:{port}",
    "0.0.0.0.evil:{port}",
]
OWN_HOSTS = ["127.0.0.1:{port}", "localhost:{port}", "LOCALHOST:{port}", "[::1]:{port}"]


@pytest.fixture(scope="module")
def server(shared: Servers) -> Server:
    """Open to everyone on loopback, so a refusal can only be the guard's."""
    server = shared.start(*command("hexer"))
    server.wait_for_output(READY)
    return server


@pytest.fixture(scope="module")
def token_server(shared: Servers) -> Server:
    return shared.start(*command("hexer"), token=TOKEN)


def exchange(server: Server, method: str, path: str, headers: list[tuple[str, str]], body: bytes = b"") -> Reply:
    """One request with exactly these headers besides the necessary ones."""
    lines = [*headers]
    if method == "UPGRADE":
        lines += [
            ("Connection", "Upgrade"),
            ("Upgrade", "websocket"),
            ("Sec-WebSocket-Version", "13"),
            ("Sec-WebSocket-Key", "AAAAAAAAAAAAAAAAAAAAAA=="),
        ]
    else:
        lines += [("Connection", "close")]
    if method in ("POST", "PUT"):
        lines += [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
    verb = "GET" if method == "UPGRADE" else method
    head = f"{verb} {path} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in lines) + "\r\n"
    return server.bytes_exchange(head.encode() + body)


def own(server: Server) -> tuple[str, str]:
    return ("Host", f"127.0.0.1:{server.port}")


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_a_foreign_origin_is_refused_on_every_path(server: Server, method: str, path: str):
    origins = [origin.format(port=server.port) for origin in FOREIGN_ORIGINS]
    replies = {origin: exchange(server, method, path, [own(server), ("Origin", origin)], b"{}") for origin in origins}
    assert {origin: reply.status for origin, reply in replies.items()} == dict.fromkeys(origins, 403)
    assert not [reply for reply in replies.values() if "access-control-allow-origin" in reply.headers]
    assert server.alive()


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_a_foreign_host_is_refused_on_every_path(server: Server, method: str, path: str):
    hosts = [host.format(port=server.port) for host in FOREIGN_HOSTS]
    statuses = {host: exchange(server, method, path, [("Host", host)], b"{}").status for host in hosts}
    assert statuses == dict.fromkeys(hosts, 403)
    assert server.alive()


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_the_guard_comes_before_authentication(token_server: Server, method: str, path: str):
    for headers in (
        [own(token_server), ("Origin", "http://evil.example")],
        [own(token_server), ("Origin", "http://evil.example"), ("Authorization", f"Bearer {TOKEN}")],
        [("Host", "evil.example")],
        [("Host", "evil.example"), ("Authorization", f"Bearer {TOKEN}")],
    ):
        assert exchange(token_server, method, path, headers, b"{not json").status == 403
    assert token_server.alive()


@pytest.mark.parametrize("method", ["GET", "UPGRADE"])
def test_an_origin_hidden_behind_another_is_seen(server: Server, method: str):
    good = ("Origin", f"http://127.0.0.1:{server.port}")
    bad = ("Origin", "http://evil.example")
    path = "/ws" if method == "UPGRADE" else "/api/v1/status"
    for headers in ([good, bad], [bad, good]):
        assert exchange(server, method, path, [own(server), *headers]).status in (400, 403)
    hosts = [own(server), ("Host", "evil.example")]
    for headers in (hosts, hosts[::-1]):
        assert exchange(server, method, path, headers).status in (400, 403)


@pytest.mark.parametrize("method", ["GET", "UPGRADE"])
@pytest.mark.parametrize("headers", [[], [("Host", "")]], ids=["none", "empty"])
def test_a_request_without_a_host_is_refused(server: Server, method: str, headers: list[tuple[str, str]]):
    path = "/ws" if method == "UPGRADE" else "/api/v1/status"
    assert exchange(server, method, path, headers).status in (400, 403)


@pytest.mark.parametrize("host", OWN_HOSTS)
def test_loopback_names_are_served(server: Server, host: str):
    host = host.format(port=server.port)
    assert exchange(server, "GET", "/api/v1/status", [("Host", host)]).status == 200
    assert exchange(server, "UPGRADE", "/ws", [("Host", host)]).status == 101


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
def test_the_servers_own_origin_passes(server: Server, name: str):
    origin = f"http://{name}:{server.port}"
    headers = [("Host", f"{name}:{server.port}"), ("Origin", origin)]
    assert exchange(server, "UPGRADE", "/ws", headers).status == 101
    for method, path in (("GET", "/api/v1/health"), ("GET", "/api/v1/status"), ("GET", "/api/v1/screen/text")):
        reply = exchange(server, method, path, headers)
        assert reply.status == 200
        assert reply.headers.get("access-control-allow-origin", origin) == origin
    assert exchange(server, "POST", "/api/v1/input", headers, b'{"text":""}').status == 200


async def test_nothing_a_refused_page_sends_reaches_the_program(server: Server):
    before = server.get("status").json
    for path, body in (
        ("input", {"text": "evil", "enter": True}),
        ("input/raw", {"data": "ZXZpbA=="}),
        ("input/keys", {"keys": ["ctrl-c"]}),
        ("resize", {"cols": 33, "rows": 11}),
        ("signal", {"signal": "KILL"}),
        ("shutdown", {}),
    ):
        for headers in ([own(server), ("Origin", "http://evil.example")], [("Host", "evil.example")]):
            reply = exchange(server, "POST", f"/api/v1/{path}", headers, json.dumps(body).encode())
            assert reply.status == 403
    after = server.get("status").json
    for name in ("state", "pid", "bytes_read", "bytes_written", "screen_seq"):
        assert after[name] == before[name]
    assert server.get("health").json["terminal_cols"] == 200


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
@pytest.mark.parametrize("token", [None, ""], ids=["none", "empty"])
def test_binding_to_every_address_without_a_token_is_refused(tmp_path: Path, host: str, token: str | None):
    flags = ["--token", token] if token is not None else []
    line = ["run", "--host", host, "--port", "0", "--json", "--data", str(tmp_path / "data"), *flags, "--", "cat"]
    ended = run_dragoman(line, tmp_path)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert len(ended.stderr.strip().splitlines()) == 1


async def test_binding_to_every_address_with_a_token_works(servers: Servers):
    server = servers.start(*command("hexer"), args=["--host", "0.0.0.0"], token=TOKEN)
    assert server.get("status").status == 200
    assert server.get("status", anonymous=True).status == 401
    assert exchange(server, "GET", "/api/v1/status", [("Host", "evil.example")]).status == 403
    async with server.link("state", token=TOKEN) as link:
        assert await link.until_pong() == []
