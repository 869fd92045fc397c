"""Who may come in: with a token every route and the socket ask for it, before anything else."""

from __future__ import annotations

import contextlib
import json
import re

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from dragoman.dialects.hub import HubDialectSettings
from dragoman.dialects.hub.routes import ROUTES

from .conftest import MakeRig
from .rig import Rig

TOKEN = "correct horse"


@pytest.fixture
async def guarded(make_rig: MakeRig) -> Rig:
    return await make_rig(token=TOKEN)


async def test_every_route_but_local_health_needs_the_token(guarded: Rig) -> None:
    for route in ROUTES:
        path = re.sub(r"{\w+}", "x", route.path)
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": f"Basic {TOKEN}"}):
            reply = await guarded.http(route.method, path, headers=headers)
            if route.path == "/health":
                assert reply.status == 200
                continue
            assert reply.code == (401, "unauthorized"), path
            assert reply.headers["www-authenticate"] == "Bearer"
    assert (await guarded.http("GET", "/nothing")).code == (401, "unauthorized")


async def test_the_token_comes_as_bearer_or_in_the_query(guarded: Rig) -> None:
    assert (await guarded.http("GET", "/sessions", headers={"Authorization": f"Bearer {TOKEN}"})).status == 200
    assert (await guarded.http("GET", "/sessions", headers={"Authorization": f"bearer {TOKEN}"})).status == 200
    assert (await guarded.http("GET", "/sessions?token=correct%20horse&limit=3")).status == 200
    assert (await guarded.http("GET", "/sessions?token=")).code == (401, "unauthorized")


@pytest.mark.parametrize(
    ("query", "headers"),
    [("", {}), ("?token=wrong", {}), ("?token=", {}), ("", {"Authorization": "Bearer wrong"})],
)
async def test_an_upgrade_without_the_token_is_refused_before_it_is_accepted(
    guarded: Rig, query: str, headers: dict[str, str]
) -> None:
    with pytest.raises(InvalidStatus) as refused:
        await connect(guarded.url + query, additional_headers=headers, proxy=None)
    assert refused.value.response.status_code == 401
    assert json.loads(refused.value.response.body or b"")["error"]["code"] == "unauthorized"


@pytest.mark.parametrize(
    ("query", "headers"), [("?token=correct%20horse", {}), ("", {"Authorization": f"Bearer {TOKEN}"})]
)
async def test_an_upgrade_with_the_token_is_its_holder(guarded: Rig, query: str, headers: dict[str, str]) -> None:
    async with connect(guarded.url + query, additional_headers=headers, proxy=None) as socket:
        assert json.loads(await socket.recv())["principal"] == "token"


async def test_without_a_token_anyone_is_local(rig: Rig) -> None:
    async with rig.link() as link:
        assert (await link.message("hello"))["principal"] == "local"


async def test_messages_may_be_large_once_inside_and_larger_ones_end_the_link(make_rig: MakeRig) -> None:
    """V37: a typed end with a reason, and the session untouched."""
    rig = await make_rig(settings=HubDialectSettings(stranger_message_limit=1000, message_limit=50_000))
    session = await rig.session()
    async with rig.link() as link:
        await link.ask("submit", session=session.id, text="say " + "x" * 40_000)
        with contextlib.suppress(ConnectionClosed):
            await link.send("submit", session=session.id, text="x" * 60_000)
        await link.socket.wait_closed()
        assert link.socket.close_code == 1009
    async with rig.link() as link:
        assert (await link.ask("snapshot", session=session.id))["prompts"] == 1
