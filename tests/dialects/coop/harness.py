"""A real server process, and the ways to talk to it: links (WebSocket), HTTP, and bytes."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlencode

import websockets.sync.client
from websockets.asyncio.client import ClientConnection, connect
from websockets.client import ClientProtocol
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.frames import Opcode
from websockets.uri import parse_uri

from . import shapes

LIMIT = 10.0
"""Seconds any single condition may take to come true. Generous: the machine may be busy."""

Frame = dict[str, Any]
T = TypeVar("T")


def until(probe: Callable[[], T], what: str, limit: float = LIMIT) -> T:
    """Ask again and again until the answer is true; return it."""
    deadline = time.monotonic() + limit
    while not (answer := probe()):
        assert time.monotonic() < deadline, f"not within {limit} s: {what}"
        time.sleep(0.01)
    return answer


async def eventually(probe: Callable[[], T], what: str, limit: float = LIMIT) -> T:
    """As ``until``, while links of this loop go on reading."""
    deadline = time.monotonic() + limit
    while not (answer := probe()):
        assert time.monotonic() < deadline, f"not within {limit} s: {what}"
        await asyncio.sleep(0.01)
    return answer


@dataclass(frozen=True)
class Reply:
    """One HTTP answer."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> tuple[int, str, str]:
        """Status, code and message, after a look at the envelope's form."""
        value = self.json
        assert list(value) == ["error"], self
        shapes.check_fields(value["error"], {"code": "code", "message": "text"}, "error envelope")
        return self.status, value["error"]["code"], value["error"]["message"]


class Server:
    """``dragoman run`` as a process of its own, with its own data folder, stopped by its id."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        folder: Path,
        args: Sequence[str] = (),
        token: str | None = None,
        env: dict[str, str] | None = None,
        cwd: Path | None = None,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.token = folder, token
        self.data = folder / "data"
        self.cwd = cwd or folder
        self.transcript: list[str] = [f"$ {' '.join(command)}"]
        self._stdout, self._stderr = folder / "stdout", folder / "stderr"
        by_env = "DRAGOMAN_TOKEN" in (env or {})
        asked = [*args, *(["--token", token] if token is not None and not by_env else [])]
        line = ["run", "--port", "0", "--json", "--data", str(self.data), *asked, "--", *command]
        self.process = start_dragoman(line, self._stdout, self._stderr, cwd=self.cwd, env=environment(folder, env))
        self._ended = False
        try:
            first = until(self._first_line, f"the ready line of {line}")
        except AssertionError as error:
            self.kill()
            raise AssertionError(f"{error}\n{self.log()}") from None
        self.ready: dict[str, Any] = json.loads(first)
        self.port: int = self.ready["port"]
        self.url: str = self.ready["dialects"]["coop"]

    def _first_line(self) -> str:
        text = self._stdout.read_text()
        assert self.process.poll() is None or "\n" in text, f"ended with {self.process.returncode}"
        return text.partition("\n")[0] if "\n" in text else ""

    # the process

    @property
    def pid(self) -> int:
        return self.process.pid

    def log(self) -> str:
        """All that the server said: standard output and standard error."""
        return self._stdout.read_text(errors="replace") + self._stderr.read_text(errors="replace")

    def stdout(self) -> str:
        return self._stdout.read_text()

    def alive(self) -> bool:
        return self.process.poll() is None

    def wait(self, limit: float = LIMIT) -> int:
        """The exit code, once the server ended by itself."""
        self._ended = True
        try:
            return self.process.wait(timeout=limit)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the server did not end within {limit} s\n{self.log()}") from None

    def terminate(self, number: int = signal.SIGTERM) -> None:
        os.kill(self.process.pid, number)

    def kill(self) -> None:
        """End it now; its program is hung up with its terminal."""
        self._ended = True
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        """End it, and complain if it was gone before or if it said something terrible."""
        crashed = not self._ended and not self.alive()
        self.kill()
        assert not crashed, f"the server ended by itself with {self.process.returncode}\n{self.log()}"
        assert "Traceback" not in self.log(), self.log()

    def memory(self) -> int:
        """Resident bytes."""
        text = Path(f"/proc/{self.pid}/status").read_text()
        return 1024 * next(int(line.split()[1]) for line in text.splitlines() if line.startswith("VmRSS:"))

    def cpu(self) -> float:
        """Processor seconds used so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    # HTTP

    def http(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        headers: dict[str, str] | None = None,
        token: str | None = None,
        anonymous: bool = False,
    ) -> Reply:
        """One request on a connection of its own. A ``bytes`` body goes as it is, another one as JSON."""
        sent = dict(headers or {})
        token = token or self.token
        if token and not anonymous:
            sent.setdefault("Authorization", f"Bearer {token}")
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        if body is not None:
            sent.setdefault("Content-Type", "application/json")
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=LIMIT)
        try:
            connection.request(method, path, body=body, headers=sent)
            answer = connection.getresponse()
            fields = {name.lower(): value for name, value in answer.getheaders()}
            reply = Reply(answer.status, fields, answer.read())
        finally:
            connection.close()
        self.transcript.append(f"http {method} {path} {shapes.brief(body)}\n     {shapes.brief(reply)}")
        return reply

    def get(self, path: str, **options: Any) -> Reply:
        return self.http("GET", f"/api/v1/{path}", **options)

    def post(self, path: str, body: object = None, **options: Any) -> Reply:
        return self.http("POST", f"/api/v1/{path}", {} if body is None else body, **options)

    def bytes_exchange(self, request: bytes) -> Reply:
        """Send exactly these bytes and read one HTTP answer, for requests no library would send."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=LIMIT) as stream:
            stream.sendall(request)
            answer = http.client.HTTPResponse(stream)
            try:
                answer.begin()
                body = b"" if answer.status == 101 else answer.read()
                fields = {name.lower(): value for name, value in answer.getheaders()}
            finally:
                answer.close()
        reply = Reply(answer.status, fields, body)
        self.transcript.append(f"raw  {request[:400]!r}\n     {shapes.brief(reply)}")
        return reply

    # links

    @contextlib.asynccontextmanager
    async def link(
        self,
        mode: str | None = None,
        *,
        token: str | None = None,
        query: dict[str, str] | None = None,
        headers: dict[str, str] | None = None,
        label: str = "",
        compression: str | None = None,
    ) -> AsyncIterator[Link]:
        """One WebSocket client. ``token`` goes into the query."""
        asked = ({"mode": mode} if mode is not None else {}) | ({"token": token} if token is not None else {})
        asked |= query or {}
        uri = f"{self.url}?{urlencode(asked)}" if asked else self.url
        async with connect(
            uri,
            additional_headers=headers,
            compression=compression,
            proxy=None,
            ping_interval=None,
            max_size=None,
            max_queue=None,
            open_timeout=LIMIT,
            close_timeout=2,
        ) as socket_:
            yield Link(socket_, self.transcript, label or mode or "link")

    async def refusal(self, **options: Any) -> Reply:
        """How the upgrade was refused. Fails when it was not."""
        try:
            async with self.link(**options):
                pass
        except InvalidStatus as error:
            answer = error.response
            fields = {name.lower(): value for name, value in answer.headers.raw_items()}
            reply = Reply(answer.status_code, fields, bytes(answer.body or b""))
            self.transcript.append(f"upgrade {options}\n     {reply}")
            return reply
        raise AssertionError(f"the upgrade with {options} was accepted")

    def wait_for_output(self, text: bytes, limit: float = LIMIT) -> None:
        """Until the program has written ``text``, and has been seen to work (a state may follow its output)."""
        uri = f"{self.url}?mode=state" + (f"&{urlencode({'token': self.token})}" if self.token else "")
        with websockets.sync.client.connect(
            uri, proxy=None, compression=None, max_size=None, ping_interval=None, close_timeout=2
        ) as wire:

            def reply(request: str, event: str) -> dict[str, Any]:
                wire.send(request)
                while (frame := json.loads(wire.recv(timeout=LIMIT)))["event"] != event:
                    pass
                return frame

            def written() -> bool:
                return text in base64.b64decode(reply('{"event":"replay","offset":0}', "replay_result")["data"])

            def noticed() -> bool:
                return reply('{"event":"state:get"}', "transition")["seq"] > 0

            until(written, f"the program writes {text!r}", limit)
            until(noticed, "the state leaves starting", limit)


class Link:
    """One WebSocket client. Every frame it reads is held against the contract's tables and kept."""

    def __init__(self, wire: ClientConnection, transcript: list[str], label: str) -> None:
        self.wire, self.label = wire, label
        self.received: list[Frame] = []
        self._server_transcript = transcript
        self._transcript: list[str] = []

    def _note(self, mark: str, what: object) -> None:
        line = f"{self.label:>8} {mark} {shapes.brief(what)}"
        self._transcript.append(line)
        self._server_transcript.append(line)

    def fail(self, reason: str) -> AssertionError:
        """An error that shows all that was said on this link."""
        said = (
            self._transcript
            if len(self._transcript) <= 200
            else [*self._transcript[:20], "…", *self._transcript[-180:]]
        )
        return AssertionError("\n".join([reason, "transcript:", *said]))

    async def send(self, message: Frame | str | bytes | Iterable[str]) -> None:
        """A dict goes as JSON text, a str as it is, bytes as a binary frame, other iterables in fragments."""
        self._note(">", message)
        await self.wire.send(json.dumps(message) if isinstance(message, dict) else message)

    async def receive(self, limit: float = LIMIT) -> Frame:
        """The next frame."""
        try:
            async with asyncio.timeout(limit):
                raw = await self.wire.recv()
        except TimeoutError:
            raise self.fail(f"nothing came within {limit} s") from None
        except ConnectionClosed as closed:
            raise self.fail(f"the link was closed: {closed}") from None
        if not isinstance(raw, str):
            raise self.fail(f"a binary frame: {raw[:80]!r}")
        frame = json.loads(raw)
        self._note("<", frame)
        try:
            shapes.check(frame)
        except AssertionError as wrong:
            raise self.fail(str(wrong)) from None
        self.received.append(frame)
        return frame

    async def expect(self, want: str | Callable[[Frame], bool], limit: float = LIMIT) -> Frame:
        """The next frame that fits: an event's name, or a test of ours. Others are passed over."""
        deadline = time.monotonic() + limit
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                raise self.fail(f"did not come within {limit} s: {want}")
            frame = await self.receive(left)
            if frame["event"] == want if isinstance(want, str) else want(frame):
                return frame

    async def until_pong(self) -> list[Frame]:
        """All that came before the answer to a ping sent now: proof that nothing else was an answer."""
        await self.send({"event": "ping"})
        frames = []
        while (frame := await self.receive())["event"] != "pong":
            frames.append(frame)
        return frames

    async def answers(self, message: Frame | str | bytes | Iterable[str]) -> list[Frame]:
        """What one message is answered with; for links that get no pushes but ``resize``."""
        await self.send(message)
        return [frame for frame in await self.until_pong() if frame["event"] != "resize"]

    async def ask(self, message: Frame, event: str) -> Frame:
        """Send, and wait for the reply of that name."""
        await self.send(message)
        return await self.expect(event)

    async def status(self) -> Frame:
        return await self.ask({"event": "get:status"}, "status")

    async def screen(self) -> Frame:
        """The picture now. Only for links that get no pictures pushed."""
        return await self.ask({"event": "screen:get"}, "screen")

    async def type(self, text: str, *, enter: bool = True) -> None:
        await self.send({"event": "input", "text": text, "enter": enter})

    async def output_until(self, text: bytes, limit: float = LIMIT) -> bytes:
        """Join what is pushed from now on until it holds ``text``."""
        joined, deadline = b"", time.monotonic() + limit
        while text not in joined:
            frame = await self.expect("output", max(deadline - time.monotonic(), 0.01))
            joined += base64.b64decode(frame["data"])
        return joined

    async def screen_until(self, text: str, limit: float = LIMIT) -> Frame:
        """The first pushed picture that shows ``text``."""
        return await self.expect(
            lambda frame: frame["event"] == "screen" and any(text in line for line in frame["lines"]), limit
        )

    async def silence(self, seconds: float) -> None:
        """Nothing comes for so long."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                raise self.fail(f"it was to be silent: {shapes.brief(await self.wire.recv())}")

    async def closed(self, limit: float = LIMIT) -> int:
        """The close code, once the server has closed; what comes before is kept."""
        deadline = time.monotonic() + limit
        while True:
            try:
                async with asyncio.timeout(max(deadline - time.monotonic(), 0.01)):
                    raw = await self.wire.recv()
            except TimeoutError:
                raise self.fail(f"not closed within {limit} s") from None
            except ConnectionClosed:
                break
            frame = json.loads(raw)
            self._note("<", frame)
            shapes.check(frame)
            self.received.append(frame)
        code = self.wire.close_code
        self._note("<", f"closed {code} {self.wire.close_reason!r}")
        assert code is not None
        return code

    def events(self) -> list[str]:
        """The names of all frames so far, in order."""
        return [frame["event"] for frame in self.received]


class SlowLink:
    """A client whose reading the test controls to the byte: small socket buffer, nothing read ahead."""

    def __init__(self, server: Server, query: str) -> None:
        self._stream = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
        self._stream.settimeout(LIMIT)
        self._stream.connect(("127.0.0.1", server.port))
        self._protocol = ClientProtocol(parse_uri(f"{server.url}?{query}"), max_size=None)
        self._protocol.send_request(self._protocol.connect())
        self._flush()
        while not (answers := self._protocol.events_received()):
            self._protocol.receive_data(self._stream.recv(1))
        assert self._protocol.handshake_exc is None, answers
        self._parts: list[bytes] = []
        self.frames: list[Frame] = []
        self._stream.setblocking(False)

    def _flush(self) -> None:
        for data in self._protocol.data_to_send():
            self._stream.sendall(data)

    def send(self, message: Frame) -> None:
        self._protocol.send_text(json.dumps(message).encode())
        self._flush()

    async def read(self, size: int, limit: float = LIMIT) -> list[Frame]:
        """At most ``size`` bytes off the wire; the frames that they completed."""
        async with asyncio.timeout(limit):
            data = await asyncio.get_running_loop().sock_recv(self._stream, size)
        assert data, "the server closed the link"
        self._protocol.receive_data(data)
        self._flush()
        new = []
        for frame in self._protocol.events_received():
            assert frame.opcode in (Opcode.TEXT, Opcode.CONT, Opcode.PING), frame
            if frame.opcode is Opcode.PING:
                continue
            self._parts.append(bytes(frame.data))
            if frame.fin:
                new.append(json.loads(b"".join(self._parts)))
                shapes.check(new[-1])
                self._parts.clear()
        self.frames += new
        return new

    async def drain_until(self, fits: Callable[[Frame], bool], limit: float = LIMIT) -> Frame:
        """Read as fast as it goes until a frame fits."""
        deadline = time.monotonic() + limit
        while True:
            for frame in await self.read(1 << 16, max(deadline - time.monotonic(), 0.01)):
                if fits(frame):
                    return frame

    def close(self) -> None:
        self._stream.close()


class Servers:
    """Starts servers below one folder and ends them all."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.started: list[Server] = []

    def start(self, *command: str, **options: Any) -> Server:
        """A server with ``command`` on its terminal, once it said that it listens."""
        server = Server(command, folder=self.folder / f"server-{len(self.started)}", **options)
        self.started.append(server)
        return server

    def show(self) -> None:
        """Print what was said since the last time; pytest shows it when a test failed."""
        for server in self.started:
            if server.transcript:
                print("\n".join(server.transcript[-300:]))
                server.transcript.clear()
            print(server.log()[-4000:])

    def close(self) -> None:
        problems = []
        for server in self.started:
            try:
                server.close()
            except AssertionError as problem:
                problems.append(str(problem))
        assert not problems, "\n\n".join(problems)


def environment(folder: Path, extra: dict[str, str] | None = None) -> dict[str, str]:
    """An environment that owes nothing to the user's own set-up."""
    shell = {"ENV", "BASH_ENV", "PROMPT_COMMAND", "PS1", "LS_COLORS"}
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in shell and not name.startswith(("DRAGOMAN_", "COOP", "LC_", "LANG"))
    }
    return kept | {"HOME": str(folder), "LC_ALL": "C.UTF-8"} | (extra or {})


def start_dragoman(
    line: Sequence[str], stdout: Path, stderr: Path, *, cwd: Path, env: dict[str, str]
) -> subprocess.Popen[bytes]:
    """Start the command line with its output in files."""
    with stdout.open("wb") as out, stderr.open("wb") as err:
        return subprocess.Popen(
            [sys.executable, "-m", "dragoman", *line],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            cwd=cwd,
            env=env,
        )


def run_dragoman(
    line: Sequence[str], folder: Path, *, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command line that is expected to end by itself."""
    return subprocess.run(
        [sys.executable, "-m", "dragoman", *line],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT,
        cwd=folder,
        env=environment(folder, env),
        check=False,
    )


def error(code: str, message: str) -> Frame:
    """The contract's error message."""
    return {"event": "error", "code": code, "message": message}


INVALID = error("BAD_REQUEST", "invalid message")
UNAUTHENTICATED = error("UNAUTHORIZED", "not authenticated")
AUTH_FAILED = error("UNAUTHORIZED", "authentication failed")
NO_DRIVER = error("NO_DRIVER", "no agent driver configured")
NOT_READY = error("NOT_READY", "agent is still starting")
