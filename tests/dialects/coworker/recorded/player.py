"""Plays the client's side of a conversation: each message when the recorded client sent it, after the same words of the
server.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from .canonical import SESSION
from .recording import CHUNK, OPENING, RACING, Entry, Frame, Note, Received, Sent

LIMIT = 8.0
"""Seconds for what has to come next."""

Doing = Callable[[Entry], Awaitable[Entry]]
"""Done before an entry that is not the server's goes out; gives the entry as it is to be."""


class Stuck(Exception):
    """What has to come next did not come. The conversation so far is in ``heard``."""


class Player:
    """One link. ``entries`` is the conversation as it went, in the order of the client's socket."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._news = asyncio.Condition()
        self.entries: list[Entry] = []
        self._closed = False

    @classmethod
    @contextlib.asynccontextmanager
    async def linked(cls, url: str) -> AsyncIterator[Player]:
        """A new link, gone with the block."""
        async with connect(url, max_size=None, compression=None, proxy=None) as socket:
            player = cls(socket)
            reading = asyncio.create_task(player._read())
            try:
                yield player
            finally:
                reading.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await reading

    async def play(self, expected: Sequence[Entry], doing: Doing) -> None:
        """The client's side of ``expected``, which is in canonical form. Raises ``Stuck``."""
        due: list[Frame] = []
        for entry in expected:
            if isinstance(entry, Received):
                due.append(entry.frame)
                continue
            await self._until(lambda: not _missing(due, self._frames))
            await self._say(await doing(entry))
        await self._until(lambda: not _missing(due, self._frames))
        await self._quiet()

    async def ask(self, message: Frame, answer: str) -> None:
        """Send something once the link is open and wait for the next message of a type. Raises ``Stuck``."""
        await self._until(lambda: len(self._frames) >= len(OPENING) + len(RACING))
        seen = self._count(answer)
        await self._say(Sent({**message, "sessionId": SESSION}))
        await self._until(lambda: self._count(answer) > seen)

    async def asked(self, questions: int) -> None:
        """Wait until the server has asked so many. Raises ``Stuck``."""
        await self._until(lambda: sum("requestId" in frame for frame in self._frames) >= questions)

    async def told(self, beginning: str) -> None:
        """Wait until a line of the log begins like that. Raises ``Stuck``."""
        await self._until(lambda: any(frame.get("line", "").startswith(beginning) for frame in self._frames))

    def _count(self, kind: str) -> int:
        return sum(frame["type"] == kind for frame in self._frames)

    @property
    def _frames(self) -> list[Frame]:
        return [entry.frame for entry in self.entries if isinstance(entry, Received)]

    async def _read(self) -> None:
        try:
            while True:
                data = await self._socket.recv()
                assert isinstance(data, str), "the server speaks in text frames"
                async with self._news:
                    self.entries.append(Received(json.loads(data)))
                    self._news.notify_all()
        except ConnectionClosed:
            async with self._news:
                self._closed = True
                self._news.notify_all()

    async def _until(self, true: Callable[[], bool]) -> None:
        try:
            async with asyncio.timeout(LIMIT), self._news:
                await self._news.wait_for(lambda: true() or self._closed)
        except TimeoutError:
            raise Stuck("what has to come next did not come") from None
        if not true():
            raise Stuck("the server closed the link")

    async def _say(self, entry: Entry) -> None:
        self.entries.append(entry)
        if isinstance(entry, Note):
            return
        assert isinstance(entry, Sent)
        said = entry.message if isinstance(entry.message, str) else json.dumps(entry.message)
        text = self._with_ids(said)
        await self._socket.send(text.encode() if entry.binary else text)

    def _with_ids(self, text: str) -> str:
        """Our ids for the names that the canonical form has."""
        requests: list[str] = []
        for frame in self._frames:
            if (identity := frame.get("requestId")) is not None and identity not in requests:
                requests.append(identity)
        for at, identity in enumerate(requests):
            text = text.replace(f"<request {at + 1}>", identity)
        return text.replace(SESSION, self._frames[0]["sessionId"])

    async def _quiet(self) -> None:
        """Until the server has worked off all that it was told: what was not expected has come by then."""
        known = len(self.entries)
        session = self._frames[0]["sessionId"]
        await self._socket.send(json.dumps({"type": "ping", "sessionId": session}))
        last: Entry = Received({"type": "pong", "sessionId": session})
        await self._until(lambda: last in self.entries[known:])
        at = self.entries.index(last, known)
        del self.entries[at]


def _missing(due: Sequence[Frame], heard: Sequence[Frame]) -> bool:
    """Whether less was heard than is due, of chunks or of the rest, or of those that race at the start."""
    return any(count > have for count, have in zip(_counts(due), _counts(heard), strict=True))


def _counts(frames: Sequence[Frame]) -> tuple[int, int, int, int]:
    """How many chunks; of those that race, whether they came; how many of the rest."""
    kinds = Counter(str(frame["type"]) for frame in frames)
    chunks = kinds[CHUNK]
    return chunks, len(frames) - chunks, kinds["provider_catalog"], kinds["provider_status"]
