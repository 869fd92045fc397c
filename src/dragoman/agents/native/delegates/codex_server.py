"""``codex app-server`` as somebody to talk with: JSON-RPC, one object a line, without the version member.

What it asks and tells comes out of ``heard``; answers to our requests go to who made them. What is no message at all is
passed over: a program that prints beside its protocol is no reason to fail.
"""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import AsyncIterator
from typing import Any

import msgspec

from dragoman.agents.common.fields import dict_of, text_of
from dragoman.agents.native.providers.port import ProviderFailed
from dragoman.hub.errors import NOT_JSON

from .program import LineProgram

NO_SUCH_METHOD = -32601
"""JSON-RPC's code for a request that is not known."""

Fields = dict[str, Any]

CLIENT: Fields = {
    "clientInfo": {"name": "dragoman", "title": "dragoman", "version": "1"},
    "capabilities": {"experimentalApi": True},  # its plan mode belongs to that
}
"""How we introduce ourselves (``initialize``)."""


class Told(msgspec.Struct, frozen=True):
    """A notification."""

    method: str
    params: Fields


class Asked(msgspec.Struct, frozen=True):
    """A request of the server's, to be answered under its ``id``."""

    id: int | str
    method: str
    params: Fields


class Refused(Exception):
    """The server answered a request with an error; the text is its own."""


class AppServer:
    """See the module. ``heard`` must be read, or no request is ever answered."""

    def __init__(self, program: LineProgram) -> None:
        self._program = program
        self._numbers = itertools.count(1)
        self._open: dict[int, asyncio.Future[Fields]] = {}
        self._over: ProviderFailed | None = None

    async def request(self, method: str, params: Fields, *, seconds: float) -> Fields:
        """Ask, and wait for the result. Raises ``Refused``; ``ProviderFailed`` when none comes."""
        if self._over is not None:
            raise self._over
        number = next(self._numbers)
        self._open[number] = asyncio.get_running_loop().create_future()
        self._send({"id": number, "method": method, "params": params})
        try:
            async with asyncio.timeout(seconds):
                return await self._open[number]
        except TimeoutError:
            raise ProviderFailed(f"Codex did not answer {method} within {seconds:g} s") from None
        finally:
            del self._open[number]

    def tell(self, method: str) -> None:
        """Send a notification."""
        self._send({"method": method})

    def ask(self, method: str, params: Fields) -> None:
        """Send a request whose answer nobody waits for."""
        self._send({"id": next(self._numbers), "method": method, "params": params})

    def answer(self, asked: Asked, result: Fields) -> None:
        """Answer a request of the server's."""
        self._send({"id": asked.id, "result": result})

    def refuse(self, asked: Asked) -> None:
        """Say that this request is not known here."""
        problem = {"code": NO_SUCH_METHOD, "message": f"{asked.method[:64]} is not supported"}
        self._send({"id": asked.id, "error": problem})

    async def heard(self) -> AsyncIterator[Told | Asked]:
        """All that it asks and tells, until it says no more: that is ``ProviderFailed``."""
        while (line := await self._program.line()) is not None:
            message = self._read(line)
            if message is not None:
                yield message
        await self._program.finish()  # so that its end can be told
        raise ProviderFailed(_ended(self._program))

    def give_up(self, failure: ProviderFailed) -> None:
        """Nobody listens any more: every request, open or later, fails with this."""
        self._over = failure
        for waiting in self._open.values():
            if not waiting.done():
                waiting.set_exception(failure)

    def _send(self, message: Fields) -> None:
        self._program.write(msgspec.json.encode(message) + b"\n")

    def _read(self, line: bytes) -> Told | Asked | None:
        """A message for ``heard``; None for an answer, and for what is none."""
        try:
            message = msgspec.json.decode(line)
        except NOT_JSON:
            return None
        if not isinstance(message, dict):
            return None
        number, method = message.get("id"), message.get("method")
        if not isinstance(method, str):
            self._answered(number, message)
            return None
        params = dict_of(message, "params")
        if number is None:
            return Told(method, params)
        return Asked(number, method, params) if isinstance(number, int | str) else None

    def _answered(self, number: object, message: Fields) -> None:
        waiting = self._open.get(number) if isinstance(number, int) else None
        if waiting is None or waiting.done():
            return
        if isinstance(message.get("error"), dict):
            waiting.set_exception(Refused(text_of(message["error"], "message") or "it does not say why"))
        else:
            waiting.set_result(dict_of(message, "result"))


def _ended(program: LineProgram) -> str:
    status = program.status
    if status is None:
        how = "stopped talking"
    elif status.signal is not None:
        how = f"was ended by signal {status.signal}"
    else:
        how = f"ended with exit code {status.code}"
    last = "\n".join(_COLOURS.sub("", program.last_words).splitlines()[-_LINES:])
    return f"Codex {how}{': ' + last if last else ''}"


_LINES = 5
"""Lines of its error output that are told of a program that failed."""

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
