"""A server whose configuration folder cannot be written serves all the same (a container, a full disk)."""

from __future__ import annotations

import sys

import pytest

from .conftest import MakeServer
from .rig import ALICE, Key, script


@pytest.mark.skipif(sys.platform != "linux", reason="needs a folder in which nobody makes files: /proc")
async def test_a_server_that_cannot_keep_a_key_serves_with_one_of_its_own_and_says_so(make_server: MakeServer) -> None:
    served = await make_server(env={"XDG_CONFIG_HOME": "/proc"})
    async with served.client(key=ALICE) as talk:
        frames = await talk.turn(script("say hello"))
        assert frames[-1]["result"] == "hello"
        talk.say("ADMIN_BLOCK", **ALICE.signed({"timestamp": 1, "client_id": Key(9).address}))
        await talk.next("ERROR")
    warned = [line for line in served.log.read_text().splitlines() if "cannot be kept" in line]
    assert len(warned) == 1
    assert "/proc/dragoman/identity/host.key" in warned[0]
    assert served.stop() == 0
