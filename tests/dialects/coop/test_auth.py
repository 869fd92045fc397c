"""Seed, Authentication: by query, by header, by message; what is open without, and what is not."""

from __future__ import annotations

import pytest

from .harness import AUTH_FAILED, UNAUTHENTICATED, Link, Server, Servers
from .programs import READY, command, order

TOKEN = "s3cret+/=&%20token"
WRONG = {
    "other": "wrong",
    "empty": "",
    "prefix": TOKEN[:-1],
    "longer": TOKEN + "x",
    "case": TOKEN.upper(),
    "spaced": f" {TOKEN}",
    "not-ascii": "tökén-✓",
    "nul": TOKEN + "\x00",
    "long": "x" * 5000,
}


@pytest.fixture(scope="module")
def server(shared: Servers) -> Server:
    server = shared.start(*command("puppet"), token=TOKEN)
    until_ready(server)
    return server


@pytest.fixture(scope="module")
def open_server(shared: Servers) -> Server:
    server = shared.start(*command("puppet"))
    server.wait_for_output(READY)
    return server


def until_ready(server: Server) -> None:
    token, server.token = server.token, None  # reading needs none
    server.wait_for_output(READY)
    server.token = token


async def may_write(link: Link) -> bool:
    """Whether this link is authenticated, found out without any effect."""
    answers = await link.answers({"event": "input", "text": ""})
    assert answers in ([], [UNAUTHENTICATED])
    return not answers


async def test_a_valid_query_token_authenticates(server: Server):
    async with server.link("state", token=TOKEN) as link:
        assert await may_write(link)


async def test_a_bearer_header_on_the_upgrade_equals_the_query_token(server: Server):
    async with server.link("state", headers={"Authorization": f"Bearer {TOKEN}"}) as link:
        assert await may_write(link)


async def test_without_a_token_the_upgrade_succeeds_unauthenticated(server: Server):
    async with server.link("state") as link:
        assert not await may_write(link)


@pytest.mark.parametrize("token", WRONG.values(), ids=WRONG.keys())
async def test_a_wrong_query_token_is_refused_with_plain_401(server: Server, token: str):
    reply = await server.refusal(token=token)
    assert (reply.status, reply.body) == (401, b"unauthorized")
    assert reply.headers["content-type"].startswith("text/plain")


@pytest.mark.parametrize("token", ["wrong", TOKEN[:-1], TOKEN + "x", TOKEN.upper(), "x" * 5000])
async def test_a_wrong_bearer_header_on_the_upgrade_is_refused(server: Server, token: str):
    assert (await server.refusal(headers={"Authorization": f"Bearer {token}"})).status == 401


async def test_a_wrong_token_and_an_unknown_mode_give_no_upgrade(server: Server):
    assert (await server.refusal(mode="nope", token="wrong")).status in (400, 401)


@pytest.mark.parametrize("token", WRONG.values(), ids=WRONG.keys())
async def test_a_wrong_auth_message_is_told_and_the_link_stays(server: Server, token: str):
    async with server.link("state") as link:
        assert await link.answers({"event": "auth", "token": token}) == [AUTH_FAILED]
        assert not await may_write(link)


async def test_a_right_auth_message_is_answered_by_silence(server: Server):
    async with server.link("state") as link:
        assert not await may_write(link)
        assert await link.answers({"event": "auth", "token": TOKEN}) == []
        assert await may_write(link)


async def test_one_may_try_again_and_again(server: Server):
    async with server.link("state") as link:
        for number in range(50):
            assert await link.answers({"event": "auth", "token": f"guess {number}"}) == [AUTH_FAILED]
        assert await link.answers({"event": "auth", "token": TOKEN}) == []
        assert await may_write(link)


async def test_a_wrong_auth_message_does_not_take_authentication_away(server: Server):
    async with server.link("state", token=TOKEN) as link:
        assert await link.answers({"event": "auth", "token": "wrong"}) == [AUTH_FAILED]
        assert await may_write(link)


async def test_authentication_belongs_to_one_link(server: Server):
    async with server.link("state") as first, server.link("state") as second:
        assert await first.answers({"event": "auth", "token": TOKEN}) == []
        assert await may_write(first)
        assert not await may_write(second)


async def test_auth_and_a_write_may_be_sent_in_one_go(server: Server):
    async with server.link("raw") as link:
        await link.send({"event": "auth", "token": TOKEN})
        await link.type(order("write", b"[at once]"))
        await link.output_until(b"[at once]")


async def test_an_unauthenticated_link_sees_everything(server: Server):
    async with server.link() as watcher, server.link("raw", token=TOKEN) as writer:
        await writer.type(order("write", b"[seen by all]"))
        await watcher.output_until(b"[seen by all]")
        await watcher.screen_until("[seen by all]")


async def test_resize_needs_no_authentication(server: Server):
    async with server.link("state") as link:
        assert await link.ask({"event": "resize", "cols": 77, "rows": 22}, "resize") == {
            "event": "resize",
            "cols": 77,
            "rows": 22,
        }


async def test_an_unauthenticated_shutdown_changes_nothing(server: Server):
    async with server.link("state") as link:
        assert await link.answers({"event": "shutdown"}) == [UNAUTHENTICATED]
        assert (await link.status())["state"] == "running"
    assert server.post("shutdown", anonymous=True).status == 401
    assert server.alive()


@pytest.mark.parametrize("token", [None, "", "anything", "ünï"])
async def test_without_a_configured_token_everything_is_open(open_server: Server, token: str | None):
    async with open_server.link("state", token=token) as link:
        assert await may_write(link)
        assert await link.answers({"event": "auth", "token": token or "whatever"}) == []
        assert await may_write(link)
    assert open_server.post("input", {"text": ""}, anonymous=True).status == 200
    assert open_server.get("status", headers={"Authorization": "Bearer whatever"}).status == 200


async def test_the_token_may_come_from_the_environment(servers: Servers):
    server = servers.start(*command("puppet"), token="from-env", env={"DRAGOMAN_TOKEN": "from-env"})
    async with server.link("state") as link:
        assert not await may_write(link)
    async with server.link("state", token="from-env") as link:
        assert await may_write(link)
    assert server.get("status", anonymous=True).status == 401
    assert server.get("status").status == 200


GATED = [
    ("GET", "ready"),
    ("GET", "screen"),
    ("GET", "screen/text"),
    ("GET", "output"),
    ("GET", "status"),
    ("GET", "agent"),
    ("POST", "input"),
    ("POST", "input/raw"),
    ("POST", "input/keys"),
    ("POST", "resize"),
    ("POST", "signal"),
    ("POST", "agent/nudge"),
    ("POST", "agent/respond"),
    ("POST", "shutdown"),
]


@pytest.mark.parametrize("authorization", [None, "Bearer wrong", "Bearer ", "Bearer", f"Basic {TOKEN}", TOKEN])
@pytest.mark.parametrize(("method", "path"), GATED)
def test_http_needs_the_bearer_header(server: Server, method: str, path: str, authorization: str | None):
    headers = {} if authorization is None else {"Authorization": authorization}
    body = {} if method == "POST" else None
    reply = server.http(method, f"/api/v1/{path}", body, headers=headers, anonymous=True)
    assert reply.error == (401, "UNAUTHORIZED", "unauthorized")


def test_a_header_that_is_not_ascii_is_only_wrong(server: Server):
    head = f"GET /api/v1/status HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n".encode()
    reply = server.bytes_exchange(head + b"Authorization: Bearer t\xf6k\xe9n\r\nConnection: close\r\n\r\n")
    assert reply.status == 401


def test_health_is_open_and_says_no_more_than_it_must(server: Server):
    reply = server.get("health", anonymous=True)
    assert reply.status == 200
    assert reply.json["status"] == "running"


@pytest.mark.parametrize("token", ["wrong", None])
def test_authentication_comes_before_the_body_is_looked_at(server: Server, token: str | None):
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    reply = server.post("input", b"{not json", headers=headers, anonymous=True)
    assert reply.error[:2] == (401, "UNAUTHORIZED")
