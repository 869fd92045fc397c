"""Messages over a program's pipes: one JSON object a line. Imported with the library only."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from dragoman.agents.native.tools.settled import settled
from dragoman.hub.sizes import holds_more
from dragoman.hub.workspace_config import McpServer

from .port import LinkFailed
from .program import Program, Spawning, prepared
from .settings import McpSettings

Incoming = MemoryObjectReceiveStream[SessionMessage | Exception]
Outgoing = MemoryObjectSendStream[SessionMessage]

_WAITING = 1024
"""Messages to a server that does not read, before it is let go: it may ask and ask."""

_LAST_BREATH = 0.5
"""Seconds from the end of a program's output to its own."""

_RUBBISH = 1000
"""Lines that are no message, after which a program is taken for no server."""


class Pipes:
    """The streams of a program. ``over`` is set once nothing more can come."""

    def __init__(self, program: Program, settings: McpSettings) -> None:
        self._program = program
        self._longest = settings.message_bytes
        self._values = settings.message_values
        self._problem = ""
        self._sink, self.incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        self.outgoing, self._source = anyio.create_memory_object_stream[SessionMessage](_WAITING)
        self.over = program.over

    @property
    def problem(self) -> str:
        """Why it is over."""
        return self._problem or self._program.ending() or "it closed its output"

    async def ended(self) -> None:
        """Wait a moment for the end of the program, which often follows that of its output: then more is known."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LAST_BREATH):
                await self._program.ended.wait()

    async def read(self) -> None:
        """Hand on what the program says, until it says no more."""
        try:
            async with self._sink:
                await self._read_lines()
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            return  # nobody listens any more
        finally:
            self.over.set()

    async def _read_lines(self) -> None:
        rubbish = 0
        while rubbish < _RUBBISH:
            try:
                line = await self._program.reader.readuntil()
            except asyncio.IncompleteReadError:
                return
            except asyncio.LimitOverrunError:
                self._problem = f"it sent a message of more than {self._longest} bytes (native.mcp.message_bytes)"
                return
            if holds_more(line, self._values):
                self._problem = f"it sent a message of more than {self._values} values (native.mcp.message_values)"
                return
            try:
                message = jsonrpc_message_adapter.validate_json(line, by_name=False)
            except ValueError:
                rubbish += bool(line.strip())
                await asyncio.sleep(0)  # there may be no end of blank lines, and others have their turn between them
            else:
                await self._sink.send(SessionMessage(message))
            if self.outgoing.statistics().current_buffer_used >= _WAITING:
                self._problem = "it does not read what it is told"
                return
        self._problem = f"it printed {rubbish} lines that are no messages of MCP"

    def close(self) -> None:
        """Let go of the streams, whoever else did so before."""
        for stream in (self._sink, self.incoming, self.outgoing, self._source):
            stream.close()

    async def write(self) -> None:
        """Tell the program what is sent, at the pace at which it reads."""
        async with self._source:
            async for item in self._source:
                data = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                try:
                    await self._program.write(data.encode() + b"\n")
                except ConnectionError:
                    return


@asynccontextmanager
async def _talking(pipes: Pipes) -> AsyncGenerator[Pipes, None]:
    """The same, with both directions open."""
    tasks = [asyncio.create_task(pipes.read()), asyncio.create_task(pipes.write())]
    try:
        yield pipes
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        pipes.close()


@asynccontextmanager
async def piped(entry: McpServer, spawning: Spawning, settings: McpSettings) -> AsyncGenerator[Pipes, None]:
    """An entry's program, running; when this is left, nothing of it is. Raises ``InvalidRequest``, ``LimitReached``."""
    given = await asyncio.to_thread(prepared, entry, spawning)
    program = Program(given, spawning, longest_line=settings.message_bytes)
    left: Sequence[int] = ()
    try:
        await program.open()
        async with _talking(Pipes(program, settings)) as pipes:
            yield pipes
    finally:
        left = await settled(program.end())
    if left:
        raise LinkFailed(f"of its program processes {', '.join(map(str, left))} could not be ended", lost=True)
