"""A web of one server on the loopback that looks public to the guard, and a turn for tools to run in."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import msgspec

from dragoman.agents.native.path_guard import PathGuard
from dragoman.agents.native.permissions import Verdict
from dragoman.agents.native.settings import NativeSettings, ToolLimits
from dragoman.agents.native.tools.web_fetch import WebFetch, WebFetchInput
from dragoman.agents.native.url_guard import IPAddress, Streams, UrlGuard
from dragoman.agents.native.web.fetch import Fetcher
from dragoman.hub.events import AnyFact, Json

PUBLIC = "93.184.216.34"
PEM = Path(__file__).parent / "site.pem"

Handler = Callable[["Visit"], Awaitable[None]]


class Visit:
    """One request at the server: its head, and the way back."""

    def __init__(self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        lines = head.decode("latin-1").split("\r\n")
        self.method, self.target, self.version = lines[0].split(" ")
        self.headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:] if line)}
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def until_closed(self) -> None:
        """Until the client is gone."""
        with suppress(ConnectionError):
            await self.reader.read()


class Site:
    """Answers by request target, with bytes as they stand or by a handler."""

    def __init__(self, pages: Mapping[str, bytes | Handler], *, tls: bool = False) -> None:
        self.pages = dict(pages)
        self.visits: list[Visit] = []
        self.dialled: list[tuple[str, int, str | None]] = []
        self.asked: list[str] = []
        self.answers: dict[str, list[Sequence[str]]] = {}
        self._change = asyncio.Condition()
        self._open = 0
        self._tls = tls

    async def __aenter__(self) -> Self:
        context = None
        if self._tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(PEM)
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=context)
        self.port: int = self._server.sockets[0].getsockname()[1]
        self.guard = UrlGuard(resolver=self._resolve, dial=self._dial, resolve_limit=0.5)
        return self

    async def __aexit__(self, *_: object) -> None:
        """Every connection must have been closed by the one who made it."""
        self._server.close()
        async with asyncio.timeout(5), self._change:
            await self._change.wait_for(lambda: not self._open)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open += 1
        try:
            visit = Visit((await reader.readuntil(b"\r\n\r\n"))[:-4], reader, writer)
            self.visits.append(visit)
            page = self.pages[visit.target]
            await (visit.send(page) if isinstance(page, bytes) else page(visit))
            if not writer.is_closing():
                await visit.until_closed()
        except (OSError, asyncio.IncompleteReadError):
            return  # the client went, as it may
        finally:
            writer.close()
            async with self._change:
                self._open -= 1
                self._change.notify_all()

    async def _resolve(self, host: str, _port: int) -> Sequence[str]:
        self.asked.append(host)
        script = self.answers.get(host)
        return script.pop(0) if script else [PUBLIC]

    async def _dial(self, address: IPAddress, port: int, tls: ssl.SSLContext | None, name: str | None) -> Streams:
        """What the system's would do, with this server at the end."""
        self.dialled.append((str(address), port, name))
        return await asyncio.open_connection("127.0.0.1", self.port, ssl=tls, server_hostname=name)


class Context:
    """One call's turn for tools that touch nothing: whatever else they ask for fails the test."""

    session = turn = call = "one"
    subagent = None

    def __init__(self, **limits: Any) -> None:
        self.cwd = Path("/")
        self.roots: tuple[Path, ...] = ()
        self.guard = PathGuard(self.cwd, [])
        self.settings = NativeSettings(tools=ToolLimits(**limits))

    def record(self, fact: AnyFact) -> None:
        raise AssertionError(fact)

    async def progress(self, output: Json) -> None:
        raise AssertionError(output)

    async def permit_command(self, command: str, verdict: Verdict) -> None:
        raise AssertionError(command)

    async def permit_edit(self, path: str, given: Json) -> None:
        raise AssertionError(path)

    async def ask(self, question: str, options: Sequence[str]) -> str:
        raise AssertionError(question)


async def fetch(site: Site, url: str = "http://site.example/", *, max_length: int = 50_000, **limits: Any) -> str:
    """What `webFetch` gives the model. https is trusted for what the server shows, as `site.example`."""
    tool = WebFetch(Fetcher(site.guard, tls=ssl.create_default_context(cafile=str(PEM))))
    given = msgspec.convert({"url": url, "maxLength": max_length}, WebFetchInput)
    result = await tool.run(given, Context(**limits))
    assert isinstance(result.output, str)
    return result.output


def response(body: bytes = b"", *headers: str, status: str = "200 OK", kind: str = "text/plain") -> bytes:
    """A whole response with its length."""
    head = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join([*head, *([f"Content-Type: {kind}"] if kind else []), "", ""]).encode("latin-1") + body


def page(markup: str | bytes, kind: str = "text/html; charset=utf-8") -> bytes:
    """A whole response with this page."""
    return response(markup.encode() if isinstance(markup, str) else markup, kind=kind)


def moved(location: str, status: str = "302 Found") -> bytes:
    """A redirect."""
    return response(b"", f"Location: {location}", status=status)
