"""The server as a desktop starts and ends it (seed: Desktop / Wrapper Integration; spec: Process, real clients)."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.agents.native.model_server import ModelServer, serving
from tests.agents.native.model_server.script import Answer, Gate, Say, use
from tests.faults.native import commands_of
from tests.faults.process import LIMIT, alive, eventually

READY = 15.0
"""Seconds a desktop waits for the first line."""

GRACE = 3.0
"""Seconds from its SIGTERM to its SIGKILL."""

Frame = dict[str, Any]


class Link:
    """One socket, and every frame that came."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self.frames: list[Frame] = []

    async def read(self) -> None:
        """Until the socket ends."""
        with contextlib.suppress(ConnectionClosed):
            async for text in self._socket:
                self.frames.append(json.loads(text))

    @property
    def code(self) -> int | None:
        """With what the socket was closed."""
        return self._socket.close_code

    @property
    def session(self) -> str:
        return str(self.frames[0]["sessionId"])

    def of(self, kind: str, **fields: Any) -> list[Frame]:
        wanted = {"type": kind, **fields}
        return [frame for frame in self.frames if wanted.items() <= frame.items()]

    async def one(self, kind: str, **fields: Any) -> Frame:
        """The first of these frames, once there is one."""
        return (await eventually(lambda: self.of(kind, **fields), f"{kind} {fields}"))[0]

    async def send(self, kind: str, **fields: Any) -> None:
        await self._socket.send(json.dumps({"type": kind, "sessionId": self.session, **fields}))


class Desktop:
    """Starts a server in a folder and reads the first line of its stdout."""

    def __init__(self, folder: Path, *flags: str, **environment: str) -> None:
        self.work = folder / "work"
        self.home = folder / "home"
        for made in (self.work, self.home):
            made.mkdir(exist_ok=True)
        kept = {name: text for name, text in os.environ.items() if not name.startswith(("AGENT_", "DRAGOMAN_", "XDG_"))}
        self._environment = {**kept, "HOME": str(self.home), **environment}
        self._log = folder / "log"
        self._folder = folder
        self._flags = flags
        self._process: subprocess.Popen[bytes] | None = None
        self.line = b""

    async def start(self) -> Frame:
        """The ready line."""
        line = [sys.executable, "-m", "dragoman", "serve", *self._flags]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                line,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=self._folder,
                env=self._environment,
            )
        assert self._process.stdout is not None
        async with asyncio.timeout(READY):
            self.line = await asyncio.to_thread(self._process.stdout.readline)
        assert self.line, self._log.read_text()
        ready: Frame = json.loads(self.line)
        return ready

    async def end(self, number: signal.Signals = signal.SIGTERM) -> tuple[int, float, bytes]:
        """The exit code, after how many seconds, and what else was on stdout."""
        assert self._process is not None
        began = time.monotonic()
        self._process.send_signal(number)
        rest, _ = await asyncio.to_thread(self._process.communicate, timeout=LIMIT)
        return self._process.returncode, time.monotonic() - began, rest

    def kill(self) -> None:
        """Whatever became of it."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            self._process.communicate()


@contextlib.asynccontextmanager
async def desktop(folder: Path, *flags: str, **environment: str) -> AsyncIterator[Desktop]:
    """One that leaves no server behind."""
    started = Desktop(folder, *flags, **environment)
    try:
        yield started
    finally:
        started.kill()


@contextlib.asynccontextmanager
async def linked(url: str) -> AsyncIterator[Link]:
    """A socket that has heard its hello."""
    async with connect(url, max_size=None, compression=None, proxy=None) as socket:
        link = Link(socket)
        reading = asyncio.create_task(link.read())
        try:
            await link.one("server_hello")
            yield link
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)


# Start


async def test_the_first_line_is_the_ready_line_and_the_only_one(tmp_path: Path) -> None:
    async with desktop(tmp_path, "--dir", str(tmp_path / "work"), "--port", "0", "--json") as wrapper:
        ready = await wrapper.start()
        port = ready["port"]
        assert list(ready) == ["type", "url", "port", "cwd", "dialects"]
        assert ready["type"] == "server_listening"
        assert ready["url"] == f"ws://127.0.0.1:{port}/ws"
        assert ready["cwd"] == str(wrapper.work)
        assert ready["dialects"]["coworker"] == ready["url"]
        async with linked(ready["url"]) as link, linked(f"ws://127.0.0.1:{port}/coworker/ws") as other:
            assert link.frames[0]["protocolVersion"] == "3.0"
            assert link.frames[0]["config"]["workingDirectory"] == str(wrapper.work)
            assert link.session != other.session
            await link.send("ping")
            await link.one("pong")
        code, took, rest = await wrapper.end()
        assert (code, rest) == (0, b"")
        assert took < GRACE


async def test_short_flags_mean_the_same(tmp_path: Path) -> None:
    async with desktop(tmp_path, "-d", "work", "-yj", "-p", "0", "--make-folders") as wrapper:
        ready = await wrapper.start()
        assert ready["cwd"] == str(wrapper.work)
        assert sorted(path.name for path in wrapper.work.iterdir()) == [".agent", "output", "uploads"]


async def test_no_folder_is_made_unasked(tmp_path: Path) -> None:
    async with desktop(tmp_path, "--dir", "work", "--port", "0", "--json") as wrapper:
        ready = await wrapper.start()
        async with linked(ready["url"]) as link:
            assert link.frames[0]["config"]["outputDirectory"] == str(wrapper.work / "output")
            await link.send("ping")
            await link.one("pong")
        await wrapper.end()
        assert list(wrapper.work.iterdir()) == []


async def test_the_environment_may_name_the_folder(tmp_path: Path) -> None:
    async with desktop(tmp_path, "--port", "0", "--json", AGENT_WORKING_DIR="work") as wrapper:
        ready = await wrapper.start()
        assert ready["cwd"] == str(wrapper.work)
        async with linked(ready["url"]) as link:
            assert link.frames[0]["config"]["workingDirectory"] == str(wrapper.work)


async def test_the_flag_wins_over_the_environment(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    async with desktop(tmp_path, "--dir", "work", "--port", "0", "--json", AGENT_WORKING_DIR="other") as wrapper:
        ready = await wrapper.start()
        assert ready["cwd"] == str(wrapper.work)
        async with linked(ready["url"]) as link:
            assert link.frames[0]["config"]["workingDirectory"] == str(wrapper.work)


async def test_another_root_dialect_leaves_it_its_prefix(tmp_path: Path) -> None:
    async with desktop(tmp_path, "--port", "0", "--json", "--dialect", "coop") as wrapper:
        ready = await wrapper.start()
        base = f"ws://127.0.0.1:{ready['port']}"
        assert ready["url"] == ready["dialects"]["coworker"] == f"{base}/coworker/ws"
        assert ready["dialects"]["coop"] == f"{base}/ws"
        async with linked(ready["url"]):
            pass


async def test_at_the_root_it_answers_as_the_original(tmp_path: Path) -> None:
    async with desktop(tmp_path, "--port", "0", "--json", "--dialect", "coworker") as wrapper:
        ready = await wrapper.start()
        port = ready["port"]
        assert ready["url"] == f"ws://127.0.0.1:{port}/ws"
        assert await asyncio.to_thread(asked, port, "/") == (200, b"OK")
        assert await asyncio.to_thread(asked, port, "/ws/") == (200, b"OK")
        assert await asyncio.to_thread(asked, port, "/ws") == (400, b"WebSocket upgrade failed")
        assert await asyncio.to_thread(asked, port, "/livez") == (200, b"alive\n")


def asked(port: int, path: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


async def test_a_folder_that_is_gone_is_no_mistake_of_the_client(tmp_path: Path) -> None:
    async with desktop(tmp_path, "--dir", "work", "--port", "0", "--json") as wrapper:
        ready = await wrapper.start()
        wrapper.work.rmdir()
        with pytest.raises(InvalidStatus) as refused:
            async with linked(ready["url"]):
                pass
        assert refused.value.response.status_code == 503
        wrapper.work.mkdir()
        async with linked(ready["url"]) as link:
            assert link.frames[0]["config"]["workingDirectory"] == str(wrapper.work)


# End

DEAF = "trap '' HUP INT TERM; sleep 100 & setsid sleep 100 & sleep 100; :"
"""A command that only SIGKILL ends, with a child that left its process group."""

SCRIPTS = {
    "stream": Answer((Say(("a", Gate("never"))),)),
    "bash": Answer((use("bash", {"command": DEAF, "timeout": 600_000}),)),
    "ask": Answer((use("ask", {"question": "Which?"}),)),
    "approval": Answer((use("bash", {"command": "sudo reboot"}),)),
}


@contextlib.asynccontextmanager
async def scripted(folder: Path, *flags: str) -> AsyncIterator[Desktop]:
    """A desktop whose server reaches a scripted model as the original's would."""
    async with serving(ModelServer()) as model:
        model.named = {name: (answer,) for name, answer in SCRIPTS.items()}
        environment = {
            "AGENT_PROVIDER": "openai",
            "AGENT_MODEL": "scripted-1",
            "OPENAI_API_KEY": "sk-test",
            "OPENAI_BASE_URL": model.base_url("openai-responses"),
        }
        async with desktop(folder, "--dir", "work", "--port", "0", "--json", *flags, **environment) as wrapper:
            yield wrapper


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=["term", "hup"])
async def test_a_signal_ends_it_in_time_with_turns_commands_and_prompts_open(
    number: signal.Signals, tmp_path: Path
) -> None:
    async with contextlib.AsyncExitStack() as stack:
        wrapper = await stack.enter_async_context(scripted(tmp_path))
        url = (await wrapper.start())["url"]
        links = {name: await stack.enter_async_context(linked(url)) for name in SCRIPTS}
        for name, link in links.items():
            await link.send("user_message", text=f"[[script:{name}]]")
        await links["ask"].one("ask")
        await links["approval"].one("approval")
        await links["stream"].one("model_stream_chunk", partType="text_delta")
        permit = await links["bash"].one("approval")
        await links["bash"].send("approval_response", requestId=permit["requestId"], approved=True)
        session = links["bash"].session
        pids = await eventually(lambda: found if len(found := commands_of(session)) >= 3 else [], "it runs")
        code, took, rest = await wrapper.end(number)
        assert (code, rest) == (0, b"")
        assert took < GRACE
        assert not [pid for pid in pids if alive(pid)], "no command outlives the server"
        await eventually(lambda: all(link.code is not None for link in links.values()), "the links end")
        assert {link.code for link in links.values()} == {1001}


async def test_a_signal_ends_it_in_time_while_a_large_folder_is_saved(tmp_path: Path) -> None:
    async with scripted(tmp_path) as wrapper:
        fill(wrapper.work)
        ready = await wrapper.start()
        async with linked(ready["url"]) as link:
            await link.send("user_message", text="[[script:stream]]")
            await link.one("session_busy", busy=True)
            await link.send("session_backup_get")
            await eventually(lambda: stores(wrapper.home), "something of the folder is stored")
            code, took, rest = await wrapper.end()
        assert (code, rest) == (0, b"")
        assert took < GRACE
        assert not [frame for frame in link.of("session_backup_state") if frame["backup"]["status"] == "ready"]


async def test_a_signal_ends_it_in_time_while_programs_of_providers_hang(tmp_path: Path) -> None:
    programs, started = tmp_path / "bin", tmp_path / "started"
    programs.mkdir()
    for name in ("claude", "codex"):
        (programs / name).write_text(
            f"#!/bin/sh\ntrap '' HUP INT TERM\necho $$ >> {started}\nsleep 100 & wait\nsleep 100\n"
        )
        (programs / name).chmod(0o755)
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    async with desktop(tmp_path, "--dir", "work", "--port", "0", "--json", PATH=path) as wrapper:
        ready = await wrapper.start()
        async with linked(ready["url"]) as link:
            await link.send("provider_auth_callback", provider="codex-cli", methodId="oauth_cli")
            await eventually(started.exists, "one of them is asked")
            code, took, _ = await wrapper.end()
        assert code == 0
        assert took < GRACE
        assert not [pid for pid in started.read_text().split() if alive(int(pid))]


def fill(folder: Path, *, files: int = 12_000, size: int = 8_192) -> None:
    """More than can be saved before the signal comes."""
    noise = os.urandom(size)
    for number in range(files):
        place = folder / f"d{number % 100}"
        place.mkdir(exist_ok=True)
        (place / f"f{number}").write_bytes(number.to_bytes(4, "big") + noise)


def stores(home: Path) -> bool:
    """Whether checkpoints have begun to be written."""
    return any(path.is_file() for path in (home / ".cowork").rglob("*"))


async def test_yolo_runs_every_command_unasked(tmp_path: Path) -> None:
    async with scripted(tmp_path, "--yolo") as wrapper:
        ready = await wrapper.start()
        async with linked(ready["url"]) as link:
            await link.send("user_message", text="[[script:bash]]")
            await eventually(lambda: commands_of(link.session), "it runs")
            assert not link.of("approval")
        code, took, _ = await wrapper.end()
        assert code == 0
        assert took < GRACE
