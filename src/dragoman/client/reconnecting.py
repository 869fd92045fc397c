"""A connection to a server that makes itself again, until it is closed or will never be one."""

from __future__ import annotations

import asyncio
import logging
import random
import ssl
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus, InvalidURI

from .errors import ClientError, Denied, upgrade_refused

log = logging.getLogger("dragoman.client")

Sleep = Callable[[float], Awaitable[object]]
"""Waits for so many seconds."""

FINAL_CLOSES = frozenset({1000, 1002, 1003, 1007, 1008, 1009, 1010})
"""Close codes that would come again: the server ended the link on purpose, or cannot speak with us. So would 4000-4999.

All others (1001 the server stops, 1006 the network, 1011 to 1014 a failure that may pass) are worth another try.
"""

PASSING_STATUSES = frozenset({408, 425, 429})
"""HTTP statuses below 500 of a refused upgrade that may be different next time."""


@dataclass(frozen=True, kw_only=True)
class ConnectionOptions:
    """Limits of every client. Times are seconds, sizes are bytes."""

    connect_limit: float = 10.0
    """For one connection to be made, and its first message to come."""

    answer_limit: float = 30.0
    """For one answer, reconnecting included; then ``TimeoutError``."""

    first_retry: float = 0.05
    """Pause before the first attempt to reconnect; it doubles, with a random part, up to ``longest_retry``."""

    longest_retry: float = 5.0
    """Longest pause between two attempts."""

    message_limit: int = 64 * 1024 * 1024
    """Largest message taken from the server."""


class Reconnecting(ABC):
    """See the module.

    ``count`` is how many connections there were, ``problem`` what was the matter with the last one, ``final`` why there
    will be no other.
    """

    final_closes = FINAL_CLOSES
    """Close codes that would come again in this protocol."""

    def __init__(
        self, name: str, headers: dict[str, str], options: ConnectionOptions, *, sleep: Sleep = asyncio.sleep
    ) -> None:
        """``sleep`` is how it waits before the next attempt."""
        self.count = 0
        self.final: ClientError | None = None
        self.problem = "the server does not answer"
        self._name = name
        self._headers = headers
        self._retries = options
        self._sleep = sleep
        self._running: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to connect, in the background."""
        if self._running is None:
            self._running = asyncio.get_running_loop().create_task(self._run(), name=self._name)

    async def close(self, error: ClientError) -> None:
        """Stop for good; what waits fails with ``error``."""
        self._end(error)
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait({self._running})

    async def over(self) -> None:
        """Wait until no other connection will be tried. Raises why."""
        if self._running is not None:
            await asyncio.wait({self._running})
        if self.final is not None:
            raise self.final

    @abstractmethod
    def _address(self) -> str:
        """Where to connect to now."""

    @abstractmethod
    async def _serve(self, socket: ClientConnection) -> None:
        """Live on this connection until it ends; count it once the server said its first word."""

    @abstractmethod
    def _was_cut(self) -> ClientError | None:
        """A connection that counted is gone; why no other is to be tried, if so."""

    def _came_to_nothing(self) -> ClientError | None:
        """An attempt made no connection that counts; why no other is to be tried, if so."""
        return None

    @abstractmethod
    def _end(self, error: ClientError) -> None:
        """There will be no other one: say so to whoever waits."""

    async def _run(self) -> None:
        pause = self._retries.first_retry
        while True:
            known = self.count
            try:
                await self._connect()
            except Denied as error:
                self._end(error)
                return
            except (OSError, TimeoutError, EOFError, InvalidHandshake, ConnectionClosed) as error:
                log.debug("no connection: %r", error)
                self.problem = str(error) or repr(error)
            except Exception as error:
                log.exception("the server cannot be understood")
                self._end(Denied(f"the server cannot be understood: {error!r}"))
                return
            counted = self.count > known
            if counted:
                pause = self._retries.first_retry
            if (why := self._was_cut() if counted else self._came_to_nothing()) is not None:
                self._end(why)
                return
            await self._sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311  spreads clients
            pause = min(2 * pause, self._retries.longest_retry)

    async def _connect(self) -> None:
        """One connection, from its beginning to its end. Raises ``Denied`` when there should be no other."""
        try:
            async with connect(
                self._address(),
                additional_headers=self._headers,
                open_timeout=self._retries.connect_limit,
                close_timeout=1.0,
                ping_interval=None,  # each protocol has its own way to know whether the server lives
                max_size=self._retries.message_limit,
                compression=None,
                proxy=None,
            ) as socket:
                await self._serve(socket)
                code = socket.close_code
        except InvalidStatus as error:
            status = error.response.status_code
            if status >= 500 or status in PASSING_STATUSES:
                raise
            raise upgrade_refused(status, error.response.body) from error
        except (InvalidURI, ssl.SSLCertVerificationError) as error:
            raise Denied(str(error)) from error
        except ConnectionClosed as error:
            end = error.rcvd or error.sent  # where it said nothing, we may have: what it sent could not be taken
            code = end.code if end is not None else 1006
        if code in self.final_closes or (code is not None and code >= 4000):
            raise Denied(f"the server ended the connection for good: {code}", close_code=code)
