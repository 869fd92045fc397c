"""The HTTP side of the client library."""

from __future__ import annotations

import asyncio

import pytest

from dragoman.client.errors import ConnectionLost, Refused
from dragoman.client.hub_http import HubHttp
from tests.dialects.hub.conftest import MakeRig
from tests.dialects.hub.rig import Rig


def root(rig: Rig) -> str:
    return f"http://127.0.0.1:{rig.port}/hub"


async def test_a_session_by_http_alone(rig: Rig) -> None:
    client = HubHttp(root(rig))
    command = ["/bin/sh", "-c", "echo hello; read x"]
    made = await client.post("/sessions", kind="terminal", cwd=str(rig.folder), options={"command": command})
    path = f"/sessions/{made['session']}"
    async with asyncio.timeout(5):
        while (await client.tape(made["session"])).end < 7:
            await asyncio.sleep(0.01)
    tape = await client.tape(made["session"], offset=1, limit=3)
    assert (tape.offset, tape.next, tape.end, tape.data) == (1, 4, 7, b"ell")
    assert (await client.screen(made["session"])).splitlines()[0] == "hello"
    assert (await client.patch(path, settings={"title": "new"}))["seq"] > made["seq"]
    assert (await client.get(path))["title"] == "new"
    assert [row["title"] for row in (await client.get("/sessions", limit=5))["sessions"]] == ["new"]
    await client.delete(path)
    with pytest.raises(Refused) as gone:
        await client.get(path)
    assert gone.value.code == "gone"


async def test_refusals_and_lost_connections_are_told_apart(make_rig: MakeRig) -> None:
    rig = await make_rig(token="secret")
    with pytest.raises(Refused) as refused:
        await HubHttp(root(rig)).get("/sessions")
    assert refused.value.code == "unauthorized"
    assert (await HubHttp(root(rig), token="secret").get("/sessions"))["sessions"] == []
    with pytest.raises(Refused) as elsewhere:
        await HubHttp(f"http://127.0.0.1:{rig.port}/nowhere").get("/x")
    assert elsewhere.value.code == "http_404"
    with pytest.raises(ConnectionLost):
        await HubHttp("http://127.0.0.1:9/hub").get("/sessions")
