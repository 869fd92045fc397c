"""Tools of MCP servers, offered as tools of this client. Each server is a program that is run here, over stdio.

The library that speaks with them is an extra (``mcp``), imported when a server is first asked for.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from .errors import McpUnavailable
from .tools import Tool

EXTRA = "MCP servers need the extra mcp: pip install 'dragoman[mcp]'"

_LONGEST_NAME = 64
_KEYWORDS = frozenset(
    {
        "$defs",
        "$ref",
        "additionalProperties",
        "allOf",
        "anyOf",
        "const",
        "default",
        "description",
        "enum",
        "exclusiveMaximum",
        "exclusiveMinimum",
        "format",
        "items",
        "maxItems",
        "maxLength",
        "maximum",
        "minItems",
        "minLength",
        "minimum",
        "oneOf",
        "pattern",
        "properties",
        "required",
        "title",
        "type",
    }
)
"""What a client manifest's schemas may say; a tool that says more would be rejected as a whole."""
_LISTS = frozenset({"allOf", "anyOf", "oneOf"})
_MAPS = frozenset({"properties", "$defs"})


class ToolFailed(Exception):
    """The tool says itself that it failed."""


@dataclass(frozen=True, kw_only=True)
class McpServer:
    """One server: the program that is it. ``connect_limit`` is seconds for it to say which tools it has."""

    name: str
    command: str
    args: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str | None = None
    connect_limit: float = 30.0


def server_of(given: McpServer | Mapping[str, Any]) -> McpServer:
    """A server as ``wake_up`` takes it: ``{name, command, args, env, cwd}``. Raises ``McpUnavailable``."""
    if isinstance(given, McpServer):
        return given
    try:
        return McpServer(**given)
    except TypeError as error:
        raise McpUnavailable(f"an MCP server is a name and a command, with args, env and cwd: {error}") from error


class McpServers:
    """The servers of one agent, started by ``start`` and ended with the block."""

    def __init__(self, servers: Sequence[McpServer]) -> None:
        self._links = [_Link(server) for server in servers]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def start(self) -> list[Tool]:
        """Start them, and return their tools. Raises ``McpUnavailable``; then none of them runs."""
        found: list[Tool] = []
        try:
            for link in self._links:
                found += await link.start()
        except BaseException:
            await self.stop()
            raise
        return found

    async def stop(self) -> None:
        """End them."""
        for link in self._links:
            await link.stop()


class _Link:
    """One server. A task of its own holds the connection: the library wants it left by who entered it."""

    def __init__(self, server: McpServer) -> None:
        self._server = server
        self._session: Any = None
        self._leave = asyncio.Event()
        self._running: asyncio.Task[None] | None = None

    async def start(self) -> list[Tool]:
        found: asyncio.Future[list[Tool]] = asyncio.get_running_loop().create_future()
        self._running = asyncio.get_running_loop().create_task(self._run(found), name=f"mcp {self._server.name}")
        try:
            async with asyncio.timeout(self._server.connect_limit):
                return await found
        except TimeoutError as error:
            why = f"the MCP server {self._server.name} was not there within {self._server.connect_limit:g} s"
            raise McpUnavailable(why) from error

    async def stop(self) -> None:
        if self._running is None:
            return
        self._leave.set()
        if self._session is None:
            self._running.cancel()
        await asyncio.wait({self._running})

    async def _run(self, found: asyncio.Future[list[Tool]]) -> None:
        try:
            async with _session(self._server) as session:
                tools = [self._tool(listed) for listed in await _listed(session)]
                self._session = session
                if not found.done():
                    found.set_result(tools)
                await self._leave.wait()
        except Exception as error:  # noqa: BLE001  whatever it is, who waits is told
            if not found.done():
                found.set_exception(_unavailable(self._server, error))
        finally:
            self._session = None

    def _tool(self, listed: Any) -> Tool:
        async def call(**given: Any) -> Any:
            if self._session is None:
                raise ToolFailed(f"the MCP server {self._server.name} is gone")
            return _output(await self._session.call_tool(listed.name, given))

        return Tool(
            name=_name(self._server.name, listed.name),
            handler=call,
            description=(listed.description or "")[:2000],
            schema=narrowed(listed.input_schema),
        )


def narrowed(schema: Any) -> dict[str, Any]:
    """The schema without what a manifest may not say. It permits more then; the MCP server checks all of it itself."""
    if not isinstance(schema, dict):
        return {"type": "object", "properties": {}}
    return {key: _part(key, value) for key, value in schema.items() if key in _KEYWORDS}


def _part(key: str, value: Any) -> Any:
    if key in _MAPS and isinstance(value, dict):
        return {name: narrowed(part) if isinstance(part, dict) else part for name, part in value.items()}
    if key in _LISTS and isinstance(value, list):
        return [narrowed(part) if isinstance(part, dict) else part for part in value]
    if key in {"items", "additionalProperties"} and isinstance(value, dict):
        return narrowed(value)
    return value


@contextlib.asynccontextmanager
async def _session(server: McpServer) -> AsyncIterator[Any]:
    session, program, parameters = await asyncio.to_thread(_library)
    described = parameters(command=server.command, args=list(server.args), env=dict(server.env) or None, cwd=server.cwd)
    async with program(described) as (incoming, outgoing), session(incoming, outgoing) as opened:
        await opened.initialize()
        yield opened


def _library() -> tuple[Any, Any, Any]:
    try:
        from mcp.client.session import ClientSession  # noqa: PLC0415 - see the module
        from mcp.client.stdio import StdioServerParameters, stdio_client  # noqa: PLC0415
    except ImportError as missing:
        raise McpUnavailable(f"{EXTRA} ({missing.name or missing})") from missing
    return ClientSession, stdio_client, StdioServerParameters


async def _listed(session: Any) -> list[Any]:
    listed = await session.list_tools()
    tools = list(listed.tools)
    while listed.next_cursor:
        listed = await session.list_tools(cursor=listed.next_cursor)
        tools += listed.tools
    return tools


def _output(result: Any) -> str:
    """The texts of a result; what else is in it is named. Raises ``ToolFailed`` where the tool says that it failed."""
    texts = [block.text if block.type == "text" else f"[{block.type}; not shown]" for block in result.content]
    text = "\n\n".join(texts)
    if result.is_error:
        raise ToolFailed(text or "the tool failed")
    return text


def _name(server: str, tool: str) -> str:
    plain = re.sub(r"[^A-Za-z0-9_-]", "_", f"mcp__{server}__{tool}")
    if len(plain) <= _LONGEST_NAME:
        return plain
    return f"{plain[: _LONGEST_NAME - 9]}_{hashlib.sha256(plain.encode()).hexdigest()[:8]}"


def _unavailable(server: McpServer, error: BaseException) -> McpUnavailable:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, McpUnavailable):
        return error
    return McpUnavailable(f"the MCP server {server.name} did not start: {error or type(error).__name__}")
