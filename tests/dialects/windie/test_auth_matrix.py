"""Who may ask for what: every route, whatever is shown with the request, wherever a token is asked for and wherever not
(spec §2, §9, §11 rows 19 and 22). What is refused is refused before anything of it is read or done."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from dragoman.dialects.windie.routes import ROUTES

from .contract_routes import (
    ARTIFACTS,
    CONTROL_KEY_HEADER,
    DOCUMENT,
    FORGET_ME,
    INSTALL,
    INTROSPECTION,
    ME,
    REGISTER,
    ROWS,
    RUNS,
    RUNS_KEY_HEADER,
    STOP_ALL,
    Row,
)
from .http_rig import RUNS_KEY, SERVER_TOKEN, WindieServer, serving_windie
from .raw_http import Answer, Header, head, said, whole

MISSING = (401, "Missing install bearer token")
INVALID = (401, "Invalid install bearer token")
SERVER_TOKEN_WANTED = (401, "Registering needs the server's token")
NO_INSTALL = (401, "No install bearer token was shown")
NO_KEY = (503, "Runs API key is not configured")
WRONG_KEY = (401, "Invalid runs API key")

AT_ONCE = 8.0
"""Seconds within which a refusal comes; a body that does not come is given up later than that."""

Refusal = tuple[int, str]


@dataclass(frozen=True)
class Policy:
    """How a server is started, and what is said there to who shows no install's token: None lets them in."""

    auth: str
    token: str | None
    host: str
    missing: Refusal | None
    invalid: Refusal | None
    server_token: Refusal | None
    """What the server's own token is answered in the place of an install's."""


POLICIES = {
    "on": Policy("on", None, "127.0.0.1", MISSING, INVALID, INVALID),
    "on, with a server token": Policy("on", SERVER_TOKEN, "127.0.0.1", MISSING, INVALID, INVALID),
    "auto, with a server token": Policy("auto", SERVER_TOKEN, "127.0.0.1", MISSING, INVALID, INVALID),
    "auto, loopback": Policy("auto", None, "127.0.0.1", None, None, None),
    "off, loopback": Policy("off", None, "127.0.0.1", None, None, None),
    "off, with a server token": Policy("off", SERVER_TOKEN, "127.0.0.1", MISSING, INVALID, None),
    "beyond loopback": Policy("auto", SERVER_TOKEN, "0.0.0.0", MISSING, INVALID, INVALID),
}

GROUPS = {
    "document": DOCUMENT,
    "install": INSTALL,
    "artifacts": ARTIFACTS,
    "introspection": INTROSPECTION,
    "runs": RUNS,
}


@dataclass(frozen=True)
class Shown:
    """What comes with a request: headers, and whose token that is. ``kind`` is the policy's field that says what
    becomes of it; "right" is let in everywhere."""

    name: str
    kind: str
    headers: tuple[Header, ...]
    user_id: str | None = None
    install_id: str | None = None


def _bearer(token: str | bytes) -> tuple[Header, ...]:
    value = b"Bearer " + (token if isinstance(token, bytes) else token.encode())
    return (("Authorization", value),)


def shown_by(mine: dict[str, Any], others: dict[str, Any], revoked: dict[str, Any]) -> Iterator[Shown]:
    """Everything that anybody might show."""
    token = mine["install_token"]
    yield Shown("nothing", "missing", ())
    yield Shown("an empty header", "missing", (("Authorization", ""),))
    yield Shown("no token", "missing", (("Authorization", "Bearer"),))
    yield Shown("spaces", "missing", (("Authorization", "Bearer    "),))
    yield Shown("another scheme", "missing", (("Authorization", f"Basic {token}"),))
    yield Shown("no scheme", "missing", (("Authorization", token),))
    yield Shown("another header", "missing", (("X-Authorization", f"Bearer {token}"),))
    yield Shown("a cookie", "missing", (("Cookie", f"token={token}; Authorization=Bearer {token}"),))
    for name, wrong in {
        "nobody's": f"wnd_install_{'x' * 43}",
        "the prefix": "wnd_install_",
        "a word": "nonsense",
        "less a character": token[:-1],
        "with one more": f"{token}A",
        "with another end": token[:-1] + ("A" if token[-1] != "A" else "B"),
        "in capitals": token.upper(),
        "with a space": f"{token} {token}",
        "with a comma": f"{token},{token}",
        "in quotes": f'"{token}"',
        "a wildcard": "wnd_install_" + "%" * 43,
        "a query": "' OR '1'='1",
        "long": "wnd_install_" + "x" * 8000,
        "its install's id": mine["install_id"],
        "its user's id": mine["user_id"],
        "revoked": revoked["install_token"],
    }.items():
        yield Shown(name, "invalid", _bearer(wrong))
    yield Shown("no text", "invalid", _bearer(b"\xff\xfe" + token.encode()))
    yield Shown("twice", "invalid", _bearer(token) * 2)
    yield Shown("with another's", "invalid", _bearer(token) + _bearer(others["install_token"]))
    yield Shown("with a scheme more", "invalid", (("Authorization", f"Basic {token}"), *_bearer(token)))
    yield Shown("the server's", "server_token", _bearer(SERVER_TOKEN))
    for name, whose, headers in (
        ("right", mine, _bearer(token)),
        ("right, in small letters", mine, (("authorization", f"bearer {token}"),)),
        ("right, with spaces", mine, (("Authorization", f"  Bearer   {token} "),)),
        ("another user's", others, _bearer(others["install_token"])),
    ):
        yield Shown(name, "right", headers, whose["user_id"], whose["install_id"])


class Spy:
    """Stands before a service, passes everything on, and notes that it was asked for."""

    def __init__(self, name: str, spied: object, seen: list[str]) -> None:
        self._name, self._spied, self._seen = name, spied, seen

    def __getattr__(self, name: str) -> Any:
        self._seen.append(self._name)
        return getattr(self._spied, name)


@dataclass(frozen=True)
class Watched:
    """A server with spies before what requests may touch, and three installs: one's own, another's, a revoked one."""

    server: WindieServer
    seen: list[str]
    mine: dict[str, Any]
    others: dict[str, Any]
    shown: tuple[Shown, ...]

    def files(self) -> dict[str, bytes]:
        """Everything that the services around conversations have on disk, but for what notes an install's use."""
        windie = self.server.data / "windie"
        return {
            str(each.relative_to(windie)): each.read_bytes()
            for each in windie.rglob("*")
            if each.is_file() and each.parent.name != "installs"
        }

    async def ask(self, row: Row, headers: tuple[Header, ...], *, query: str = "") -> Answer:
        """The row's own request, with these headers as well."""
        data = whole(row.method, f"/windie{row.asked}{query}", [*row.headers, *headers], row.content)
        return await said(self.server.port, data, method=row.method)

    async def ask_without_a_body(self, row: Row, headers: tuple[Header, ...]) -> Answer:
        """The same, but what it announces never comes: there is an answer only if nobody waits for it."""
        announced: list[Header] = [("Content-Length", "1000"), ("Expect", "100-continue")]
        target = f"/windie{row.asked}"
        data = head(row.method, target, [*row.headers, *headers, *(announced if row.content is not None else [])])
        return await said(self.server.port, data, method=row.method, limit=AT_ONCE)


SPIED = ("artifacts", "runs", "users", "providers", "previews", "registry", "conversations")


@contextlib.asynccontextmanager
async def watched(folder: Path, policy: Policy, **more: Any) -> AsyncIterator[Watched]:
    bound = {"server": {"host": policy.host}}
    async with serving_windie(folder, token=policy.token, auth=policy.auth, **bound, **more) as server:
        with_token = {} if policy.token is None else {"authorization": f"Bearer {policy.token}"}
        mine, others, revoked = [await server.register(**with_token) for _ in range(3)]
        assert (await server.get("/api/install/me", revoked["install_token"], method="DELETE")).status == 200
        seen: list[str] = []
        for name in SPIED:
            msgspec.structs.force_setattr(server.host, name, Spy(name, getattr(server.host, name), seen))
        yield Watched(server, seen, mine, others, tuple(shown_by(mine, others, revoked)))


def test_every_route_has_its_row() -> None:
    """A route that is added must say here who may use it."""
    assert len({row.id for row in ROWS}) == len(ROWS)
    assert {(row.method, row.path) for row in ROWS} == {(route.method, route.path) for route in ROUTES}


def refusal_of(policy: Policy, shown: Shown, row: Row) -> Refusal | None:
    """What the spec has for them; None where they are let in."""
    if row == REGISTER:
        has_it = shown.kind == "server_token"
        return SERVER_TOKEN_WANTED if policy.token is not None and not has_it else None
    refusal: Refusal | None = None if shown.kind == "right" else getattr(policy, shown.kind)
    if refusal is None and row in (ME, FORGET_ME) and shown.install_id is None:
        return NO_INSTALL
    return refusal


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("name", POLICIES)
async def test_who_may_use_a_route(tmp_path: Path, name: str, group: str) -> None:
    policy = POLICIES[name]
    async with watched(tmp_path, policy) as server:
        before = server.files()
        for row, shown in ((row, shown) for row in GROUPS[group] for shown in server.shown):
            refusal = refusal_of(policy, shown, row)
            if refusal is None:
                continue
            key: tuple[Header, ...] = ((RUNS_KEY_HEADER, RUNS_KEY),)
            for more in ((), key) if row.keyed else ((),):
                answer = await server.ask_without_a_body(row, (*shown.headers, *more))
                assert (answer.status, answer.detail) == refusal, (row.id, shown)
                assert answer.headers["www-authenticate"] == "Bearer"
                assert answer.headers["cache-control"] == "no-store"
        assert server.seen == []
        assert server.files() == before


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("name", POLICIES)
async def test_whoever_may_is_answered(tmp_path: Path, name: str, group: str) -> None:
    policy, cap = POLICIES[name], {"runs": {"max_active_per_workspace": 1000}}
    async with watched(tmp_path, policy, **cap) as server:
        for row in GROUPS[group]:
            if row == FORGET_ME:
                continue
            key: tuple[Header, ...] = ((RUNS_KEY_HEADER, RUNS_KEY),) if row.keyed else ()
            server.seen.clear()
            for shown in server.shown:
                if refusal_of(policy, shown, row) is not None:
                    continue
                answer = await server.ask(row, (*shown.headers, *key))
                assert answer.status == row.status, (row.id, shown, answer)
                if row.detail is not None:
                    assert answer.detail == row.detail
                if row == ME:
                    told = {"success": True, "user_id": shown.user_id, "install_id": shown.install_id}
                    assert answer.json == told
            assert row.of <= set(server.seen), (row.id, "the spies see what is let in")


async def test_a_token_in_the_address_opens_no_route(tmp_path: Path) -> None:
    """Addresses are logged on their way; only registering may show the server's token there."""
    async with watched(tmp_path, POLICIES["auto, with a server token"]) as server:
        for row in ROWS:
            if row == REGISTER:
                continue
            for token in (server.mine["install_token"], SERVER_TOKEN):
                for name in ("token", "access_token", "install_token", "authorization"):
                    answer = await server.ask(row, (), query=f"?{name}={token}")
                    assert (answer.status, answer.detail) == MISSING, (row.id, name)
        assert (await server.ask(REGISTER, (), query=f"?token={SERVER_TOKEN}")).status == 200
        assert server.seen == []


@pytest.mark.parametrize(
    "path",
    [
        "/api/",
        "/api/nothing",
        "/api/install/register/",
        "/api/install/registers",
        "/api/install/%72egister/",
        "/api//install/register",
        "/api/./install/register",
        "/api/sdk/../install/register",
        "/api/install/register%00",
        "/api/install/register%2f",
        "/api/install/REGISTER",
        "/api/runs",
        "/api/artifacts",
        "/api/sdk/debug/models",
        "/api/%73dk/models",
        "/%61pi/sdk/models",
        "/api/docs",
        "/api/openapi.json",
    ],
)
async def test_what_lies_beside_the_one_open_route_is_guarded_whether_or_not_it_is_there(
    closed_server: WindieServer, path: str
) -> None:
    for method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND"):
        answer = await said(closed_server.port, whole(method, f"/windie{path}", (), b"{}"), method=method)
        assert answer.status == 401, (method, path, answer)
        assert answer.body == b"" if method == "HEAD" else answer.detail == MISSING[1]


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS"])
async def test_only_a_post_registers(closed_server: WindieServer, method: str) -> None:
    answer = await said(closed_server.port, whole(method, f"/windie{REGISTER.path}", (), b"{}"), method=method)
    assert answer.status == 405
    assert answer.headers["allow"] == "POST"


# The runs' own key (spec §9)


def wrong_keys(key: str, header: str) -> Iterator[tuple[Header, ...]]:
    yield ()
    for wrong in ("", " ", "wrong", key[:-1], key + "x", key.upper(), key.swapcase(), f"Bearer {key}", f'"{key}"'):
        yield ((header, wrong),)
    yield ((header, b"\xff\xfe"),)
    yield ((header, key), (header, key))
    yield ((header, key), (header, "wrong"))
    yield ((header, f"{key},{key}"),)
    yield ((f"{header}s", key),)
    yield ((header.replace("-", "_"), key),)
    yield (("Authorization", f"Bearer {key}"),)
    yield (("Cookie", f"{header}={key}"),)


@pytest.mark.parametrize("name", ["on", "off, loopback"])
async def test_runs_want_their_key_beside_the_token(tmp_path: Path, name: str) -> None:
    async with watched(tmp_path, POLICIES[name]) as server:
        before = server.files()
        token = _bearer(server.mine["install_token"]) if name == "on" else ()
        for row in RUNS:
            for shown in wrong_keys(RUNS_KEY, RUNS_KEY_HEADER):
                carried = shown if not (token and any(each == "Authorization" for each, _ in shown)) else ()
                answer = await server.ask_without_a_body(row, (*token, *carried))
                assert (answer.status, answer.detail) == WRONG_KEY, (row.id, shown)
        assert server.seen == []
        assert server.files() == before


@pytest.mark.parametrize("name", ["on", "off, loopback"])
async def test_without_a_key_of_its_own_a_server_lets_nobody_at_runs(tmp_path: Path, name: str) -> None:
    async with watched(tmp_path, POLICIES[name], runs_key=None) as server:
        token = _bearer(server.mine["install_token"]) if name == "on" else ()
        for row in RUNS:
            for shown in ((), ((RUNS_KEY_HEADER, ""),), ((RUNS_KEY_HEADER, "None"),), ((RUNS_KEY_HEADER, RUNS_KEY),)):
                answer = await server.ask_without_a_body(row, (*token, *shown))
                assert (answer.status, answer.detail) == NO_KEY, (row.id, shown)
        assert server.seen == []
        assert not (server.server.data / "windie" / "runs").exists()


async def test_stopping_all_wants_the_control_key_too_where_there_is_one(tmp_path: Path) -> None:
    control = "c0ntrol-key"
    async with watched(tmp_path, POLICIES["off, loopback"], windie={"runs_control_key": control}) as server:
        key: Header = (RUNS_KEY_HEADER, RUNS_KEY)
        for shown in wrong_keys(control, CONTROL_KEY_HEADER):
            answer = await server.ask_without_a_body(STOP_ALL, (key, *shown))
            assert answer.status == 401, shown
            assert isinstance(answer.detail, str)
        assert server.seen == []
        with_control: Header = (CONTROL_KEY_HEADER, control)
        assert (await server.ask_without_a_body(STOP_ALL, (with_control,))).detail == WRONG_KEY[1]
        assert (await server.ask(STOP_ALL, (key, with_control))).status == 200
        for row in RUNS:
            if row != STOP_ALL:
                assert (await server.ask(row, (key,))).status == row.status, row.id


# Other users


@pytest.mark.parametrize("row", INTROSPECTION, ids=lambda row: row.id)
async def test_nothing_is_said_of_another_user(tmp_path: Path, row: Row) -> None:
    """Spec §11, row 22: before any provider is asked."""
    async with watched(tmp_path, POLICIES["on"]) as server:
        token = _bearer(server.mine["install_token"])
        for other in (server.others["user_id"], "default_user", "anybody", server.mine["user_id"].upper()):
            server.seen.clear()
            if row.method == "GET":
                answer = await server.ask(row, token, query=f"?user_id={other}")
            else:
                given = json.dumps({**row.body, "user_id": other}).encode()
                data = whole(row.method, f"/windie{row.asked}", [*row.headers, *token], given)
                answer = await said(server.server.port, data)
            assert answer.status == 403, (row.id, other, answer)
            assert isinstance(answer.detail, str)
            assert server.seen == []
        own = server.mine["user_id"]
        if row.method == "GET":
            assert (await server.ask(row, token, query=f"?user_id={own}")).status == row.status


# The socket: a token is looked at after the handshake (spec §2)

HANDSHAKE = json.dumps({"type": "handshake", "user_id": "whoever-they-say"})


async def closed_with(server: WindieServer, headers: tuple[Header, ...], query: str = "") -> tuple[int, str] | None:
    """How a link ends that says this handshake, having said nothing itself; None where it is let in."""
    given = [(name, value.decode("latin-1") if isinstance(value, bytes) else value) for name, value in headers]
    async with (
        asyncio.timeout(20),
        connect(
            f"ws://127.0.0.1:{server.port}/windie/ws{query}",
            additional_headers=given,
            proxy=None,
            compression=None,
        ) as link,
    ):
        await link.send(HANDSHAKE)
        try:
            first = json.loads(await link.recv())
        except ConnectionClosed as closed:
            return (closed.rcvd.code, closed.rcvd.reason) if closed.rcvd is not None else (0, "lost")
        assert first["type"] == "remote-tool-catalog", first
        return None


@pytest.mark.parametrize("name", POLICIES)
async def test_who_may_have_a_link(tmp_path: Path, name: str) -> None:
    policy = POLICIES[name]
    async with watched(tmp_path, policy) as server:
        for shown in server.shown:
            if shown.name == "long" or any(b"\xff" in value for _, value in shown.headers if isinstance(value, bytes)):
                continue  # no client of these tests sends such headers with an upgrade
            refused = shown.kind != "right" and getattr(policy, shown.kind) is not None
            ended = await closed_with(server.server, shown.headers)
            assert ended == ((1008, "") if refused else None), shown


@pytest.mark.parametrize("name", ["on", "off, with a server token"])
async def test_a_link_may_show_its_token_in_the_address(tmp_path: Path, name: str) -> None:
    """Browsers can set no header; of both, the header counts."""
    policy = POLICIES[name]
    async with watched(tmp_path, policy) as server:
        token = server.mine["install_token"]
        assert await closed_with(server.server, (), f"?token={token}") is None
        assert await closed_with(server.server, (), f"?token={token[:-1]}") == (1008, "")
        assert await closed_with(server.server, (), "?token=") == (1008, "")
        assert await closed_with(server.server, _bearer("wrong"), f"?token={token}") == (1008, "")
        served = await closed_with(server.server, (), f"?token={SERVER_TOKEN}")
        assert served == (None if policy.server_token is None else (1008, ""))


async def test_a_refused_link_touches_nothing(tmp_path: Path) -> None:
    async with watched(tmp_path, POLICIES["on"]) as server:
        before = server.files()
        for _ in range(20):
            assert await closed_with(server.server, _bearer("wrong")) == (1008, "")
        assert server.seen == []
        assert server.files() == before
