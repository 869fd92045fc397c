"""``dragoman run --attach tmux:NAME``: a real tmux session over coop, left running behind us."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import shlex
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect

from dragoman.cli.main import build_parser
from dragoman.cli.run import asked_for
from tests.agents.private_tmux import PrivateTmux

from .test_cli import LIMIT, dragoman, running

needs_tmux = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")


def test_what_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """What runs already has its size; only a given one is changed."""
    for name in [name for name in os.environ if name.startswith("COOP")]:
        monkeypatch.delenv(name)
    made = asked_for(build_parser().parse_args(["run", "--attach", "tmux:work", "--agent", "claude"]))
    assert (made.agent, made.options) == ("claude", {"attach": "tmux:work"})
    monkeypatch.setenv("COOP_ATTACH", "tmux:work")
    made = asked_for(build_parser().parse_args(["run", "--cols", "90"]))
    assert made.options == {"attach": "tmux:work", "cols": 90}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--attach", "screen:work"], "screen cannot be attached to"),
        (["--attach", "work"], "tmux:NAME"),
        (["--attach", "tmux:work", "--", "cat"], "cannot go together"),
        (["--attach", "tmux:work", "--agent", "claude", "--resume", "x"], "cannot go together"),
        pytest.param(["--attach", "tmux:work"], "tmux:work: ", marks=needs_tmux),
    ],
)
def test_what_cannot_be_attached_to_is_an_error_of_use(words: list[str], says: str, tmp_path: Path) -> None:
    ended = dragoman("run", "--port", "0", *words, env={"TMUX": "", "TMUX_TMPDIR": str(tmp_path)})
    assert (ended.returncode, says in ended.stderr, ended.stderr.count("\n")) == (2, True, 1), ended.stderr


@pytest.fixture
def tmux(tmp_path: Path) -> Iterator[PrivateTmux]:
    server = PrivateTmux(tmp_path)
    yield server
    server.close()


def line(*words: str) -> list[str]:
    return [sys.executable, "-m", "dragoman", "run", "--port", "0", "--json", "--attach", "tmux:work", *words]


async def output(link: ClientConnection, text: bytes) -> bytes:
    """The output from here on, or what was asked for again, until it holds the text."""
    data = b""
    async with asyncio.timeout(LIMIT):
        while text not in data:
            message = json.loads(await link.recv())
            if message["event"] in ("output", "replay_result"):
                data += base64.b64decode(message["data"])
    return data


async def reply(link: ClientConnection, message: dict[str, Any], event: str) -> dict[str, Any]:
    await link.send(json.dumps(message))
    async with asyncio.timeout(LIMIT):
        while (answer := json.loads(await link.recv()))["event"] != event:
            pass
    return dict(answer)


PROGRAM = """
import time
try:
    print("got it\\nready", flush=True)
    time.sleep(60)
except KeyboardInterrupt:
    print("caught", flush=True)
"""


@needs_tmux
async def test_a_tmux_session_over_coop(tmux: PrivateTmux, tmp_path: Path) -> None:
    """Issue "attach to tmux sessions (CR LF right, signals to the right process)"; spec 6.4."""
    tmux.open(f"printf 'one\\n  two\\n'; read x; trap : INT; {sys.executable} -S -c {shlex.quote(PROGRAM)}; exec cat")
    await tmux.shows("two")
    with running(line(), tmp_path, env={**os.environ, **tmux.environment}) as (process, ready):
        async with connect(f"ws://127.0.0.1:{ready['port']}/ws?mode=all", compression=None) as link:
            await link.send('{"event":"replay","offset":0}')
            assert b"one\r\n  two" in await output(link, b"two")
            status = await reply(link, {"event": "get:status"}, "status")
            assert (status["pid"], status["state"]) == (int(tmux.ask("pane_pid")), "running"), status
            screen = await reply(link, {"event": "screen:get"}, "screen")
            assert (screen["lines"][:2], screen["cols"], screen["rows"]) == (["one", "  two"], 80, 24)
            await link.send('{"event":"input","text":"hi","enter":true}')
            assert b"got it\r\nready" in await output(link, b"ready")
            await link.send('{"event":"signal","signal":"INT"}')
            await output(link, b"caught")
            tmux.tmux("kill-session", "-t", "work")
            async with asyncio.timeout(LIMIT):
                while (ended := json.loads(await link.recv()))["event"] != "exit":
                    pass
            assert (ended["code"], ended["signal"]) == (None, None)
        process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT) == 1


@needs_tmux
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
async def test_whatever_ends_the_server_the_session_goes_on(
    number: signal.Signals, tmux: PrivateTmux, tmp_path: Path
) -> None:
    """Not even an agent at work is brought to rest: it is not ours."""
    tmux.open("stty -icanon -echo; echo ready; exec cat -v")
    await tmux.shows("ready")
    with running(line("--agent", "claude"), tmp_path, env={**os.environ, **tmux.environment}) as (process, _):
        pid = int(tmux.ask("pane_pid"))
        process.send_signal(number)
        process.wait(LIMIT)
    async with asyncio.timeout(LIMIT):
        while tmux.clients():
            await asyncio.sleep(0.01)
    tmux.tmux("send-keys", "-t", "work:", "!")
    await tmux.shows("!")
    assert (tmux.sessions(), int(tmux.ask("pane_pid"))) == (["work"], pid)
    assert "^[" not in "".join(tmux.lines()), "nobody pressed Escape"


@needs_tmux
async def test_tmux_is_found_as_tmux_finds_it(tmux: PrivateTmux, tmp_path: Path) -> None:
    """By ``TMUX_TMPDIR``, where ``TMUX`` names no socket."""
    default = tmp_path / f"tmux-{os.getuid()}"
    default.mkdir(mode=0o700)
    tmux.open("echo here; exec cat")
    await tmux.shows("here")
    (default / "default").symlink_to(tmp_path / "tmux")
    environment = {**os.environ, "TMUX_TMPDIR": str(tmp_path)}
    environment.pop("TMUX", None)
    with running(line(), tmp_path, env=environment) as (_, ready):
        async with connect(f"ws://127.0.0.1:{ready['port']}/ws?mode=raw", compression=None) as link:
            await link.send('{"event":"replay","offset":0}')
            await output(link, b"here")
