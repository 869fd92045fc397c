"""Seed, Subscription Modes and ``transition``: who is told what, and what a reply owes to no mode."""

from __future__ import annotations

import pytest

from .harness import NO_DRIVER, NOT_READY, Frame, Link, Server, Servers
from .programs import READY, command, order

PUSHES = {
    "raw": {"output"},
    "screen": {"screen"},
    "state": set(),
    "all": {"output", "screen"},
    None: {"output", "screen"},
}


@pytest.fixture(scope="module")
def server(shared: Servers) -> Server:
    server = shared.start(*command("puppet"))
    server.wait_for_output(READY)
    return server


@pytest.fixture
def silent(servers: Servers) -> Server:
    """A program that has written nothing yet."""
    return servers.start(*command("puppet", "quiet"))


def transition(prev: str, next_: str, seq: int, cause: str) -> Frame:
    """A transition of a plain command: nothing but the states is known."""
    return {
        "event": "transition",
        "prev": prev,
        "next": next_,
        "seq": seq,
        "prompt": None,
        "error_detail": None,
        "error_category": None,
        "cause": cause,
        "last_message": None,
    }


async def see_all(link: Link, mark: str, kinds: set[str]) -> None:
    """Read until every kind that this link is owed has shown the mark."""
    if "output" in kinds:
        await link.output_until(mark.encode())
    if "screen" in kinds and not any(
        mark in line for f in link.received if f["event"] == "screen" for line in f["lines"]
    ):
        await link.screen_until(mark)


@pytest.mark.parametrize("mode", PUSHES.keys(), ids=str)
async def test_output_and_pictures_go_where_the_mode_says(server: Server, mode: str | None):
    kinds, mark = PUSHES[mode], f"[mode {mode}]"
    async with server.link(mode) as link, server.link("all", label="witness") as witness:
        await witness.type(order("write", f"\x1bc{mark}\r\n".encode()))
        await see_all(link, mark, kinds)
        await see_all(witness, mark, {"output", "screen"})
        await link.until_pong()
        assert set(link.events()) - {"pong"} == kinds


@pytest.mark.parametrize("mode", ["raw", "screen", "state", "all"])
async def test_a_resize_is_pushed_in_every_mode(server: Server, mode: str):
    size = {"cols": 100 + len(mode), "rows": 20 + len(mode)}
    async with server.link(mode) as link, server.link("state", label="asker") as asker:
        await asker.send({"event": "resize", **size})
        assert await link.expect("resize") == {"event": "resize", **size}
        assert await asker.expect("resize") == {"event": "resize", **size}


@pytest.mark.parametrize("mode", ["raw", "screen", "state", "all"])
async def test_replies_do_not_depend_on_the_mode(server: Server, mode: str):
    requests = {"screen:get": "screen", "state:get": "transition", "get:status": "status", "ping": "pong"}
    async with server.link(mode) as link:
        for event, reply in requests.items():
            await link.ask({"event": event}, reply)
        await link.ask({"event": "replay", "offset": 0}, "replay_result")


async def test_a_transition_is_pushed_at_the_first_output(silent: Server):
    async with (
        silent.link("state") as state,
        silent.link("all") as everything,
        silent.link("raw") as raw,
        silent.link("screen") as screen,
    ):
        await state.type(order("write", b"[first words]\r\n"))
        expected = transition("starting", "working", 1, "process:activity")
        assert await state.expect("transition") == expected
        assert await everything.expect("transition") == expected
        await raw.output_until(b"[first words]")
        await screen.screen_until("[first words]")
        for link in (raw, screen, state):
            await link.until_pong()
        assert set(raw.events()) == {"output", "pong"}
        assert set(screen.events()) == {"screen", "pong"}
        assert state.events() == ["transition", "pong"]


async def test_more_output_is_no_further_transition(silent: Server):
    async with silent.link("state") as link, silent.link("raw") as raw:
        for number in range(5):
            await raw.type(order("write", f"[{number}]".encode()))
            await raw.output_until(f"[{number}]".encode())
        await link.expect("transition")
        assert await link.until_pong() == []


async def test_state_get_tells_the_state_and_its_number(silent: Server):
    async with silent.link("state") as link:
        starting = await link.ask({"event": "state:get"}, "transition")
        assert starting == transition("starting", "starting", 0, starting["cause"])
        async with silent.link("raw") as raw:
            for number in range(5):
                await raw.type(order("write", b"[%d]" % number))
                await raw.output_until(b"[%d]" % number)
        await link.expect(lambda frame: frame["event"] == "transition" and frame["prev"] != frame["next"])
        working = await link.ask({"event": "state:get"}, "transition")
        assert working == transition("working", "working", 1, "process:activity")


async def test_nudge_and_respond_wait_for_the_start_and_then_lack_a_driver(silent: Server):
    async with silent.link("state") as link:
        for event, fields in (("nudge", {"message": "hi"}), ("respond", {"accept": True})):
            assert await link.answers({"event": event, **fields}) == [NOT_READY]
        assert silent.post("agent/nudge", {"message": "hi"}).error == (503, "NOT_READY", "agent is still starting")
        assert silent.post("agent/respond", {}).error == (503, "NOT_READY", "agent is still starting")
        assert (silent.get("ready").status, silent.get("ready").json) == (503, {"ready": False})
        await link.type(order("write", b"x"))
        await link.expect("transition")
        for event, fields in (("nudge", {"message": "hi"}), ("respond", {"accept": True})):
            assert await link.answers({"event": event, **fields}) == [NO_DRIVER]
        assert silent.post("agent/nudge", {"message": "hi"}).error == (404, "NO_DRIVER", "no agent driver configured")
        assert silent.post("agent/respond", {}).error == (404, "NO_DRIVER", "no agent driver configured")
        assert (silent.get("ready").status, silent.get("ready").json) == (200, {"ready": True})


async def test_an_unauthenticated_nudge_is_refused_before_readiness_is_told(servers: Servers):
    server = servers.start(*command("puppet", "quiet"), token="t")
    async with server.link("state") as link:
        for event, fields in (("nudge", {"message": "hi"}), ("respond", {})):
            answers = await link.answers({"event": event, **fields})
            assert [(frame["code"], frame["message"]) for frame in answers] == [("UNAUTHORIZED", "not authenticated")]


async def test_every_link_gets_every_chunk(server: Server):
    async with (
        server.link("raw") as a,
        server.link("raw") as b,
        server.link("all") as c,
        server.link("raw") as d,
        server.link("raw") as e,
    ):
        await a.type(order("write", b"[for five]"))
        joined = [await link.output_until(b"[for five]") for link in (a, b, c, d, e)]
        assert len(set(joined)) == 1
