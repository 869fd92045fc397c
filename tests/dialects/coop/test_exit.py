"""Seed, ``exit`` and ``shutdown``: the order of the last messages, the codes, and life after the end."""

from __future__ import annotations

import base64
import contextlib
import os
import re
import signal
from pathlib import Path

import pytest

from .harness import NO_DRIVER, Frame, Server, Servers, eventually, run_dragoman, until
from .oracle import OffsetOracle
from .programs import READY, command, order, pattern

ENDINGS = [
    ("exit 0", 0, None, 0),
    ("exit 1", 1, None, 1),
    ("exit 3", 3, None, 3),
    ("exit 255", 255, None, 255),
    ("die 15", None, 15, 1),
    ("die 9", None, 9, 1),
    ("die 6", None, 6, 1),
]
"""What the program does, the code and signal of ``exit``, and the code that the server ends with."""


@pytest.fixture
def puppet(servers: Servers) -> Server:
    server = servers.start(*command("puppet"))
    server.wait_for_output(READY)
    return server


def exited(code: int | None, number: int | None) -> Frame:
    return {"event": "exit", "code": code, "signal": number}


def process_gone(pid: int) -> bool:
    """Whether a process has ended (a zombie has)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


@pytest.mark.parametrize(("how", "code", "number", "server_code"), ENDINGS, ids=[how for how, *_ in ENDINGS])
async def test_codes_and_signals(puppet: Server, how: str, code: int | None, number: int | None, server_code: int):
    async with puppet.link("state") as link:
        await link.type(how)
        assert await link.expect("exit") == exited(code, number)
        assert link.events() == ["exit"]
        assert await link.until_pong() == []
        status = await link.status()
        assert (status["state"], status["exit_code"]) == ("exited", code)
        state = await link.ask({"event": "state:get"}, "transition")
        assert (state["prev"], state["next"]) == ("exited", "exited")
        await link.send({"event": "shutdown"})
        assert await link.closed() == 1001
    assert puppet.wait() == server_code


@pytest.mark.parametrize("mark", ["last words", "a\x1b[31mcoloured\x1b[0m end"], ids=["plain", "coloured"])
async def test_all_output_then_the_last_picture_then_one_exit(servers: Servers, mark: str):
    text = f"\x1b[2J\x1b[H{mark}".encode()
    server = servers.start(*command("puppet"))
    server.wait_for_output(READY)
    size = 300_000
    truth = READY + pattern(size) + text
    async with (
        server.link("all", label="all") as everything,
        server.link("raw") as raw,
        server.link("state") as state,
        server.link("screen") as screen,
    ):
        await state.send({"event": "input", "text": "\r".join([order("flood", size), order("write", text), "exit 4"])})
        await state.type("")
        assert await everything.expect("exit") == exited(4, None)
        assert await everything.until_pong() == []
        names = everything.events()[:-1]
        assert names.count("exit") == 1
        assert names[-2:] == ["screen", "exit"]
        last = everything.received[-3]
        assert last["lines"][0] == re.sub(r"\x1b\[\d+m", "", mark)
        assert (await everything.screen())["lines"] == last["lines"]
        oracle = OffsetOracle(truth=truth)
        for frame in everything.received:
            oracle.take(frame)
        assert (oracle.gaps, oracle.overlaps, oracle.conflicts) == ([], [], [])
        assert oracle.joined(len(READY), len(truth)) == truth[len(READY) :]

        alone = OffsetOracle(truth=truth)
        while alone.end < len(truth):
            alone.take(await raw.receive())
        assert (alone.gaps, alone.overlaps, alone.conflicts) == ([], [], [])
        assert await raw.until_pong() == []

        assert await state.expect("exit") == exited(4, None)
        assert await state.until_pong() == []
        assert state.events() == ["exit", "pong"]
        await screen.expect(lambda frame: frame == last)
        assert await screen.until_pong() == []


@pytest.mark.parametrize("attempt", range(5))
async def test_output_written_in_the_moment_of_the_end_is_complete(servers: Servers, attempt: int):
    size = 3000 + 997 * attempt
    server = servers.start("sh", "-c", "stty -echo -opost; echo ready; read -r x; cat data; exit 7", cwd=servers.folder)
    (servers.folder / "data").write_bytes(pattern(size))
    server.wait_for_output(b"ready\n")
    async with server.link() as link:
        await link.type("")
        await link.expect("exit")
        oracle = OffsetOracle(truth=b"ready\n" + pattern(size))
        for frame in link.received:
            oracle.take(frame)
        assert oracle.joined(6, 6 + size) == pattern(size)
        assert await link.until_pong() == []


async def test_a_program_that_ends_at_once_is_still_told_whole(servers: Servers):
    server = servers.start("sh", "-c", "echo done; exit 5")
    async with server.link("state") as link:
        await eventually(lambda: server.get("status").json["state"] == "exited", "the program ended")
        assert (await link.status())["exit_code"] == 5
        frame = await link.ask({"event": "replay", "offset": 0}, "replay_result")
        assert base64.b64decode(frame["data"]) == b"done\r\n"
        assert (await link.screen())["lines"][0] == "done"
        assert link.events().count("exit") <= 1


async def test_a_program_without_output_goes_from_starting_to_exited(servers: Servers):
    server = servers.start("sh", "-c", "stty -echo; read -r x; exit 2")
    async with server.link("state") as link:
        await link.type("")
        assert await link.expect("exit") == exited(2, None)
        state = await link.ask({"event": "state:get"}, "transition")
        assert (state["prev"], state["next"]) == ("exited", "exited")
        assert "transition" not in link.events()[: link.events().index("exit")]


async def test_the_exit_does_not_wait_for_a_descendant_that_keeps_the_terminal(servers: Servers):
    server = servers.start("sh", "-c", "(trap '' HUP; exec sleep 60) & echo pid $!; read -r x; exit 6")
    server.wait_for_output(b"\r\n")
    text = server.get("screen/text").body.decode()
    pid = int(re.search(r"pid (\d+)", text)[1])
    try:
        async with server.link("state") as link:
            await link.type("")
            assert await link.expect("exit") == exited(6, None)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@pytest.fixture(scope="module")
def ended(shared: Servers) -> Server:
    """A server whose program has ended with 9."""
    server = shared.start(*command("puppet"))
    server.wait_for_output(READY)
    for line in (order("write", b"\x1b[2J\x1b[Hfarewell"), "exit 9"):
        server.post("input", {"text": line, "enter": True})
    until(lambda: server.get("status").json["state"] == "exited", "the program ended")
    return server


@pytest.mark.parametrize("mode", ["raw", "screen", "state", "all"])
async def test_after_the_end_a_late_link_is_told_nothing_unasked(ended: Server, mode: str):
    async with ended.link(mode) as link:
        assert await link.until_pong() == []
        await link.silence(0.2)


async def test_after_the_end_a_late_link_may_ask_for_everything(ended: Server):
    async with ended.link("state") as link:
        status = await link.status()
        assert (status["state"], status["exit_code"]) == ("exited", 9)
        assert (await link.ask({"event": "state:get"}, "transition"))["next"] == "exited"
        assert (await link.screen())["lines"][0] == "farewell"
        frame = await link.ask({"event": "replay", "offset": 0}, "replay_result")
        assert base64.b64decode(frame["data"]) == READY + b"\x1b[2J\x1b[Hfarewell"


@pytest.mark.parametrize(
    "message",
    [
        {"event": "input", "text": "x", "enter": True},
        {"event": "input:raw", "data": "eA=="},
        {"event": "keys", "keys": ["ctrl-c"]},
        {"event": "signal", "signal": "TERM"},
        {"event": "resize", "cols": 90, "rows": 30},
    ],
    ids=lambda message: message["event"],
)
async def test_after_the_end_input_is_accepted_silently(ended: Server, message: Frame):
    async with ended.link("state") as link:
        assert await link.answers(message) == []


async def test_after_the_end_there_is_still_no_driver(ended: Server):
    async with ended.link("state") as link:
        assert await link.answers({"event": "nudge", "message": "x"}) == [NO_DRIVER]
        assert await link.answers({"event": "respond"}) == [NO_DRIVER]


def test_after_the_end_http_goes_on(ended: Server):
    assert ended.get("health").json["status"] == "running"
    assert ended.get("ready").json == {"ready": True}
    assert ended.get("agent").json["state"] == "exited"
    status = ended.get("status").json
    assert (status["state"], status["exit_code"]) == ("exited", 9)
    assert ended.post("input", {"text": "x"}).status == 200
    assert ended.post("input/keys", {"keys": ["enter"]}).status == 200
    assert ended.post("signal", {"signal": "INT"}).status == 200
    assert "farewell" in ended.get("screen/text").body.decode()


@pytest.mark.parametrize("mode", ["raw", "screen", "state", "all"])
async def test_a_link_that_saw_the_end_costs_no_processor_time(puppet: Server, mode: str):
    async with puppet.link(mode) as link, puppet.link("state") as other:
        await link.until_pong()
        await other.type("exit 0")
        await other.expect("exit")
        if mode in ("state", "all"):
            await link.expect("exit")
        await link.until_pong()
        before = puppet.cpu()
        await link.silence(1.0)
        assert puppet.cpu() - before < 0.1


async def test_a_link_that_comes_after_the_end_costs_no_processor_time(ended: Server):
    async with ended.link("all") as link:
        await link.until_pong()
        before = ended.cpu()
        await link.silence(1.0)
        assert ended.cpu() - before < 0.1


def test_after_the_end_the_server_stays(ended: Server):
    assert ended.alive()


@pytest.mark.parametrize("how", ["message", "http", "TERM", "INT"])
async def test_shutdown_ends_the_program_and_the_server(servers: Servers, how: str):
    server = servers.start(*command("leaver"))
    server.wait_for_output(READY)
    async with server.link("state") as link:
        pid = (await link.status())["pid"]
        if how == "message":
            await link.send({"event": "shutdown"})
        elif how == "http":
            reply = server.post("shutdown")
            assert (reply.status, reply.json) == (200, {"accepted": True})
        else:
            server.terminate(getattr(signal, f"SIG{how}"))
        assert await link.closed() == 1001
    assert server.wait() in (7, 8, 9)
    assert process_gone(pid)


@pytest.mark.parametrize(("how", "code", "number", "server_code"), [ENDINGS[0], ENDINGS[2], ENDINGS[4]], ids=str)
async def test_exit_with_child_ends_the_server_with_its_code(
    servers: Servers, how: str, code: int | None, number: int | None, server_code: int
):
    server = servers.start(*command("puppet"), args=["--exit-with-child"])
    server.wait_for_output(READY)
    async with server.link() as link:
        await link.type(order("write", b"[bye]"))
        await link.type(how)
        assert await link.closed() == 1001
        assert b"[bye]" in b"".join(base64.b64decode(f["data"]) for f in link.received if f["event"] == "output")
        assert [f for f in link.received if f["event"] == "exit"] == [exited(code, number)]
    assert server.wait() == server_code


async def test_a_killed_server_hangs_its_program_up(servers: Servers):
    server = servers.start("sh", "-c", "echo ready; exec cat")
    server.wait_for_output(b"ready")
    async with server.link("state") as link:
        pid = (await link.status())["pid"]
        assert not process_gone(pid)
        server.kill()
        await eventually(lambda: process_gone(pid), "the program of a killed server ends", limit=5)


async def test_ctrl_c_ends_a_program_by_its_signal(servers: Servers):
    server = servers.start("sh", "-c", "echo ready; exec cat")
    server.wait_for_output(b"ready")
    async with server.link("state") as link:
        await link.send({"event": "keys", "keys": ["ctrl-c"]})
        assert await link.expect("exit") == exited(None, 2)


async def test_a_link_closed_by_its_client_changes_nothing(puppet: Server):
    async with puppet.link("all") as link:
        await link.until_pong()
    assert puppet.alive()
    assert puppet.get("status").json["state"] == "running"


def test_without_a_command_it_refuses_to_start(tmp_path: Path):
    for line in (["run"], ["run", "--port", "0", "--"]):
        ended = run_dragoman(line, tmp_path)
        assert (ended.returncode, ended.stdout) == (2, "")
        assert ended.stderr.strip()
        assert "Traceback" not in ended.stderr


def test_a_command_that_does_not_exist_ends_with_an_error(tmp_path: Path):
    line = ["run", "--port", "0", "--data", str(tmp_path / "data"), "--", str(tmp_path / "no-such-program")]
    ended = run_dragoman(line, tmp_path)
    assert ended.returncode != 0
    assert "no-such-program" in ended.stderr
    assert "Traceback" not in ended.stderr
