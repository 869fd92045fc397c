"""What a link does not show costs it nothing: it is not even woken."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.dialects.base import Upgrade
from dragoman.dialects.coop.link import CoopLink

from .harness import Server, Servers
from .oracle import OffsetOracle
from .programs import READY, command, order, pattern
from .test_decode import Opened, Wire

PICTURES = 10


class Counting(Wire):
    """Counts how often its link has something to say."""

    woken = 0

    def wake(self) -> None:
        self.woken += 1


@pytest.mark.parametrize(
    ("mode", "output", "picture"), [("state", 0, 0), ("screen", 0, 1), ("raw", 1, 0), ("all", 1, 1)]
)
async def test_a_link_is_woken_by_what_it_shows_only(tmp_path: Path, mode: str, output: int, picture: int) -> None:
    opened = Opened(tmp_path)
    (await opened.link()).lost()
    wire = Counting()
    upgrade = Upgrade(path="/ws", query={"mode": mode}, bearer=None, peer="127.0.0.1", loopback=True)
    link = await opened.dialect.open(upgrade, wire)
    assert isinstance(link, CoopLink)
    wire.woken = 0
    link.tape_grew()
    assert wire.woken == output
    wire.woken = 0
    link.screen_changed()
    assert wire.woken == picture
    link.lost()
    await opened.registry.close()


@pytest.fixture
def server(servers: Servers) -> Server:
    server = servers.start(*command("puppet"))
    server.wait_for_output(READY)
    return server


async def test_pictures_push_no_bytes_out(server: Server) -> None:
    """Pictures beside the bytes on one link: every byte comes all the same."""
    async with server.link("all") as link, server.link("screen"):
        oracle, said, pictures = OffsetOracle(), [], 0
        start = (await link.status())["bytes_read"]
        while pictures < PICTURES:
            said.append(b"\x1b[2J\x1b[H" + pattern(1500) + b"[%d]" % len(said))
            await link.type(order("write", said[-1]))
            while oracle.end < start + sum(map(len, said)):
                frame = await link.receive()
                pictures += frame["event"] == "screen"
                if frame["event"] == "output":
                    oracle.take(frame)
        assert (oracle.overlaps, oracle.conflicts) == ([], [])
        assert oracle.joined(start, oracle.end) == b"".join(said)
