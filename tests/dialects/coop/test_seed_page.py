"""One working session of a client that knows the seed's page and nothing else."""

from __future__ import annotations

import base64

import pytest

from .harness import Frame, Server, Servers

SHELLS = {
    "bash": ("env", "PS1=prompt> ", "bash", "--norc", "--noprofile", "-i"),
    "sh": ("env", "PS1=prompt> ", "sh", "-i"),
}


@pytest.fixture(params=SHELLS.values(), ids=SHELLS.keys())
def server(request: pytest.FixtureRequest, servers: Servers) -> Server:
    folder = servers.folder / "work"
    folder.mkdir()
    for name in ("alpha.txt", "beta.txt"):
        (folder / name).touch()
    server = servers.start(*request.param, cwd=folder)
    server.wait_for_output(b"prompt> ")
    return server


def last_line(picture: Frame) -> str:
    """The last line with text."""
    return next((line for line in reversed(picture["lines"]) if line), "")


async def test_a_session_by_the_page(server: Server):
    async with server.link() as link:
        # nothing is sent unasked; a ping has its pong
        assert await link.until_pong() == []

        # replay from 0: what happened before we came
        before = await link.ask({"event": "replay", "offset": 0}, "replay_result")
        assert b"prompt> " in base64.b64decode(before["data"])
        stream, offset = base64.b64decode(before["data"]), before["offset"] + len(base64.b64decode(before["data"]))

        # ls: typed with Enter, seen as raw output and as a picture
        await link.send({"event": "input", "text": "ls", "enter": True})
        await link.screen_until("beta.txt")
        await link.send({"event": "screen:get"})
        picture = await link.expect("screen")
        assert any("alpha.txt" in line for line in picture["lines"])
        assert picture["cursor"] is not None

        # ctrl-c: a program that would never end is gone, and the shell is back
        await link.send({"event": "input", "text": "sh -c 'echo run$((1))ning; exec cat'", "enter": True})
        await link.screen_until("run1ning")
        await link.send({"event": "keys", "keys": ["ctrl-c"]})
        await link.expect(lambda frame: frame["event"] == "screen" and last_line(frame) == "prompt>")
        await link.send({"event": "input", "text": "echo back=$((40 + 2))", "enter": True})
        await link.screen_until("back=42")

        # resize: no answer but the notification, and the program sees it
        await link.send({"event": "resize", "cols": 120, "rows": 40})
        assert await link.expect("resize") == {"event": "resize", "cols": 120, "rows": 40}
        await link.send({"event": "input", "text": "stty size", "enter": True})
        await link.screen_until("40 120")

        # the other questions of the page
        await link.send({"event": "state:get"})
        state = await link.expect("transition")
        assert (state["prev"], state["next"], state["prompt"]) == ("working", "working", None)
        await link.send({"event": "get:status"})
        status = await link.expect("status")
        assert (status["state"], status["exit_code"], status["ws_clients"]) == ("running", None, 1)
        assert status["bytes_read"] > 0
        assert status["bytes_written"] > 0

        # the end
        await link.send({"event": "input", "text": "exit 3", "enter": True})
        assert await link.expect("exit") == {"event": "exit", "code": 3, "signal": None}
        assert await link.until_pong() == []

        # what was pushed since we came joins what we replayed, and a new replay says the same
        for frame in link.received:
            if frame["event"] == "output":
                assert frame["offset"] == offset
                stream += base64.b64decode(frame["data"])
                offset += len(base64.b64decode(frame["data"]))
        whole = await link.ask({"event": "replay", "offset": 0}, "replay_result")
        assert base64.b64decode(whole["data"]) == stream
        assert (whole["next_offset"], whole["total_written"]) == (offset, offset)


async def test_an_unknown_key_and_an_unknown_message_do_no_harm(server: Server):
    async with server.link("state") as link:
        assert await link.answers({"event": "keys", "keys": ["badkey"]}) == [
            {"event": "error", "code": "BAD_REQUEST", "message": "unknown key: badkey"}
        ]
        assert await link.answers({"event": "dance"}) == [
            {"event": "error", "code": "BAD_REQUEST", "message": "invalid message"}
        ]
        await link.send({"event": "shutdown"})
        assert await link.closed(limit=45) == 1001
    server.wait()
