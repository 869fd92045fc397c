"""The socket of an agent's hooks, under what its programs may do to it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import resource
import socket
import subprocess
import threading
import tracemalloc
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.hub.rig import turns_of_the_loop, until

from dragoman.agents.terminal.drivers.hook_script import connect
from dragoman.agents.terminal.drivers.hook_socket import HookSocket, Post, Reply, hook_command
from dragoman.hub.limits import HubLimits

LIMIT = 20.0

BOTH_LOOPS = True


def open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


class Heard:
    """A socket, and what came."""

    def __init__(self, limits: HubLimits | None = None, **more: Any) -> None:
        self.posts: list[Post] = []
        self.socket = HookSocket(self._take, limits, **more)

    async def _take(self, post: Post) -> Reply:
        self.posts.append(post)
        return Reply(print="said")

    async def posted(self, line: bytes) -> bytes:
        """What these bytes are answered."""
        async with asyncio.timeout(LIMIT):
            reader, writer = await asyncio.open_unix_connection(self.socket.path)
            with contextlib.suppress(OSError):
                writer.write(line)
                await writer.drain()
            try:
                return await reader.read()
            except ConnectionError:
                return b""
            finally:
                writer.close()

    async def hook(self, payload: bytes) -> tuple[int | None, str]:
        """Run our script as an agent does; its exit code and all it said."""
        process = await asyncio.create_subprocess_shell(
            hook_command("PostToolUse"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=self.socket.environment(),
        )
        async with asyncio.timeout(LIMIT):
            said, _ = await process.communicate(payload)
        return process.returncode, said.decode()

    @property
    def secret(self) -> str:
        return self.socket.environment()["DRAGOMAN_HOOK_SECRET"]

    def line(self, data: Any = None, secret: str | None = None) -> bytes:
        """The two lines of a post."""
        return f"{secret or self.secret}\n{json.dumps({'event': 'Stop', 'data': data})}\n".encode()


@contextlib.asynccontextmanager
async def listening(limits: HubLimits | None = None, **more: Any) -> AsyncIterator[Heard]:
    heard = Heard(limits, **more)
    await heard.socket.open()
    try:
        yield heard
    finally:
        heard.socket.close()


SMALL = HubLimits(hook_bytes=100_000, hook_values=1000)


@pytest.mark.parametrize("data", ["x" * 100_000, [{}] * 2000], ids=["bytes", "values"])
async def test_a_hook_that_brings_too_much_lets_the_agent_go_on(data: Any, caplog: pytest.LogCaptureFixture) -> None:
    async with listening(SMALL) as heard:
        for _ in range(3):
            assert await heard.hook(json.dumps({"tool_response": data}).encode()) == (0, "")
        assert heard.posts == []
        (line,) = [message for message in caplog.messages if "hub.hook_" in message]
        assert "a hook brings more than" in line
        assert await heard.hook(b"{}") == (0, "said")
    assert caplog.messages[-1].startswith("a hook is not taken")
    assert "(2 more" in caplog.messages[-1]


async def test_the_whole_content_of_a_file_is_heard() -> None:
    """Text is no burden, however much of it looks like JSON."""
    content = 'x = {"a": [1, 2]}  # ü\n' * 100_000
    async with listening() as heard:
        payload = json.dumps({"tool_response": {"content": content}})
        assert await heard.hook(payload.encode()) == (0, "said")
        (post,) = heard.posts
        assert post.data == {"tool_response": {"content": content}}


async def test_a_text_that_was_cut_within_a_character_is_heard() -> None:
    async with listening() as heard:
        assert await heard.hook(b'{"message": "cut \\ud83d", "whole": "\\ud83d\\ude00"}') == (0, "said")
        (post,) = heard.posts
        assert post.data == {"message": "cut ?", "whole": "\U0001f600"}


@pytest.mark.parametrize(
    "line",
    [b"", b"\n", b"{", b"\xff\n", b"\xff", b"[" * 1000 + b"\n", b"x\n" * 500],
    ids=lambda line: repr(line[:8]),
)
async def test_what_is_no_post_is_said_once_and_answered_with_nothing(
    line: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with listening() as heard:
        for _ in range(20):
            # nothing but what was sent: a connection that stays open would be waited for
            reader, writer = await asyncio.open_unix_connection(heard.socket.path)
            writer.write(line)
            writer.write_eof()
            assert await reader.read() == b"{}\n"
            writer.close()
        assert len(caplog.messages) == 1
        assert heard.posts == []


@pytest.mark.parametrize(
    "post", [b"", b"\n", b"{", b"\xff\n", b'{"event": "\xff"}\n', b"[]\n", b"[" * 50_000 + b"\n", b"{}\n{}\n"]
)
async def test_what_follows_the_secret_and_is_no_post(post: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async with listening() as heard:
        for _ in range(20):
            reader, writer = await asyncio.open_unix_connection(heard.socket.path)
            writer.write(f"{heard.secret}\n".encode() + post)
            writer.write_eof()
            assert await reader.read() == b"{}\n"
            writer.close()
        assert [message[:28] for message in caplog.messages] == ["a hook's post cannot be read"]
        assert heard.posts == []


async def test_a_post_that_comes_in_pieces_is_heard() -> None:
    async with listening() as heard:
        reader, writer = await asyncio.open_unix_connection(heard.socket.path)
        for byte in heard.line("ü"):
            writer.write(bytes((byte,)))
            await asyncio.sleep(0)
        assert await reader.read() == b'{"print":"said"}\n'
        writer.close()


async def test_a_secret_that_stands_alone_is_waited_for() -> None:
    async with listening() as heard:
        reader, writer = await asyncio.open_unix_connection(heard.socket.path)
        secret, _, post = heard.line().partition(b"\n")
        writer.write(secret + b"\n")
        await turns_of_the_loop(100)
        writer.write(post)
        assert await reader.read() == b'{"print":"said"}\n'
        writer.close()


async def test_nothing_but_a_beginning_is_read_of_what_proves_nothing() -> None:
    """However many there are and however much each brings: what is not read stays with its sender."""
    async with listening() as heard:
        loop = asyncio.get_running_loop()
        links = [socket.socket(socket.AF_UNIX) for _ in range(60)]
        for link in links:
            link.setblocking(False)
            await loop.sock_connect(link, heard.socket.path)
        sent = 0
        for link in links:
            with contextlib.suppress(BlockingIOError, ConnectionError):
                while True:
                    sent += link.send(b"x" * 65536)
        tracemalloc.start()
        try:
            assert await heard.posted(heard.line()) == b'{"print":"said"}\n'
            _, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert sent > 60 * 65536
        assert most < 2 * 1024 * 1024
        for link in links:
            link.close()


async def test_a_thousand_idle_connections_take_a_few_descriptors_only() -> None:
    """The others wait outside; when one leaves, the next is let in."""
    async with listening(links=10) as heard:
        before = open_files()
        links = [socket.socket(socket.AF_UNIX) for _ in range(300)]
        for link in links:
            link.setblocking(False)
            link.connect(heard.socket.path)
        await turns_of_the_loop(100)
        assert open_files() - before == 300 + 10
        hook = asyncio.create_task(heard.posted(heard.line()))
        await turns_of_the_loop(100)
        assert heard.posts == []
        for link in links:
            link.close()
        assert await hook == b'{"print":"said"}\n'


@pytest.mark.usefixtures("_no_descriptor_more")
async def test_hooks_are_let_in_again_once_there_are_descriptors(caplog: pytest.LogCaptureFixture) -> None:
    async with listening() as heard:
        with socket.socket(socket.AF_UNIX) as link:
            link.setblocking(False)
            with contextlib.ExitStack() as held:
                with contextlib.suppress(OSError):
                    while True:
                        held.callback(os.close, os.open("/dev/null", os.O_RDONLY))
                link.connect(heard.socket.path)
                link.send(heard.line())
                await until(lambda: caplog.messages)
            await until(lambda: heard.posts)
    assert caplog.messages[0].startswith("a hook cannot be let in at this moment")


async def test_wrong_secrets_do_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async with listening() as heard:
        for _ in range(200):
            assert await heard.posted(heard.line(secret="guessed")) == b"{}\n"
        assert [message for message in caplog.messages if "secret" in message] == [
            "a hook came with a wrong secret and is not taken"
        ]
    assert caplog.messages[-1] == "a hook came with a wrong secret and is not taken (199 more since the last such line)"
    assert [record.levelno for record in caplog.records] == [logging.WARNING] * 2


@pytest.fixture
def _no_descriptor_more() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (open_files() + 40, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.fixture
def _many_files() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, before[1]), before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.usefixtures("_many_files")
async def test_five_hundred_hooks_at_once_are_heard() -> None:
    """They all come before the server looks: nothing yields to it until each has been let in."""
    async with listening() as heard:
        links = [socket.socket(socket.AF_UNIX) for _ in range(500)]
        for number, link in enumerate(links):
            link.setblocking(False)
            link.connect(heard.socket.path)
            link.send(heard.line(number))
        await until(lambda: len(heard.posts) == 500)
        assert sorted(post.data for post in heard.posts if isinstance(post.data, int)) == list(range(500))
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(LIMIT):
            assert {await loop.sock_recv(link, 100) for link in links} == {b'{"print":"said"}\n'}
        for link in links:
            link.close()


class Refusable(socket.socket):
    """A socket that tells when there was no room for it."""

    refused: threading.Event

    def connect(self, address: Any) -> None:
        try:
            super().connect(address)
        except BlockingIOError:
            self.refused.set()
            raise


def test_a_hook_for_which_there_is_no_room_asks_again(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    with contextlib.ExitStack() as held:
        server = held.enter_context(socket.socket(socket.AF_UNIX))
        server.bind(path)
        server.listen(0)
        with contextlib.suppress(BlockingIOError):
            while True:
                waiting = held.enter_context(socket.socket(socket.AF_UNIX))
                waiting.setblocking(False)
                waiting.connect(path)
        link = held.enter_context(Refusable(socket.AF_UNIX))
        link.refused = threading.Event()
        hook = threading.Thread(target=connect, args=(link, path))
        hook.start()
        assert link.refused.wait(LIMIT)
        held.enter_context(server.accept()[0])
        hook.join(LIMIT)
        assert link.getpeername() == path
