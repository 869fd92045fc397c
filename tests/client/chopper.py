"""A TCP relay that cuts connections at any byte, in either direction."""

from __future__ import annotations

import asyncio
import random
from types import TracebackType


class Chopper:
    """Relays to ``port``. While ``cuts_left`` is positive every connection dies after a random number of bytes."""

    def __init__(self, port: int, *, cuts: int = 0, seed: int = 1, most: int = 8000) -> None:
        self.target = port
        self.cuts_left = cuts
        self.cuts = 0
        self.connections = 0
        self._random = random.Random(seed)
        self._most = most
        self._writers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Chopper:
        self._server = await asyncio.start_server(self._relay, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        await self._server.wait_closed()

    @property
    def url(self) -> str:
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/hub"

    def cut(self) -> None:
        """Cut everything that is open."""
        for writer in tuple(self._writers):
            writer.transport.abort()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            writer.transport.abort()
            return
        pair = {writer, far_writer}
        self._writers |= pair
        left = [self._random.randrange(self._most)] if self.cuts_left > 0 else None
        try:
            async with asyncio.TaskGroup() as group:
                for source, sink in ((reader, far_writer), (far_reader, writer)):
                    group.create_task(self._copy(source, sink, left))
        except* (ConnectionError, EOFError):
            if left is not None and left[0] <= 0:
                self.cuts += 1
                self.cuts_left -= 1
        finally:
            self._writers -= pair
            for end in pair:
                end.transport.abort()

    async def _copy(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, left: list[int] | None) -> None:
        while True:
            data = await source.read(65536)
            if not data:
                raise EOFError
            if left is not None:
                data = data[: max(left[0], 0)]
                left[0] -= len(data)
                if left[0] <= 0:
                    sink.write(data)
                    raise ConnectionAbortedError
            sink.write(data)
            await sink.drain()
