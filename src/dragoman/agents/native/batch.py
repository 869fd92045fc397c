"""The calls that one answer of the model makes, for the person who is asked about one of them."""

from __future__ import annotations

import asyncio
import contextlib

import msgspec

from dragoman.hub.errors import NOT_JSON
from dragoman.hub.events import Json

from .providers.port import CallMade

COMPLETE_WITHIN = 1.0
"""Seconds that a person is not asked yet because the model still makes calls: they are shown what comes behind."""

SHOWN_CALLS = 20
"""Calls behind one that a person is shown."""

SHOWN_CHARS = 1000
"""Characters of the arguments of each; of longer ones every text is cut to a tenth of it."""


class Batch:
    """Calls in the order in which the model made them, as they come."""

    def __init__(self) -> None:
        self._calls: list[CallMade] = []
        self._complete = asyncio.Event()

    def add(self, made: CallMade) -> None:
        """One more call, with the id that the log has."""
        self._calls.append(made)

    def complete(self) -> None:
        """The answer is over: no call follows."""
        self._complete.set()

    async def behind(self, call: str) -> list[Json]:
        """What was called behind this call: ``tool`` and ``arguments``, as JSON text, of each.

        Returns once the answer is complete, or after a moment with what has come until then.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(COMPLETE_WITHIN):
                await self._complete.wait()
        place = next((at for at, made in enumerate(self._calls) if made.call == call), len(self._calls))
        following = self._calls[place + 1 :][:SHOWN_CALLS]
        return [{"tool": made.tool, "arguments": _shown(made.arguments)} for made in following]


def _shown(arguments: str) -> str:
    """The arguments, or where they are long what fits of them: still JSON, if they were."""
    if len(arguments) <= SHOWN_CHARS:
        return arguments
    try:
        given = msgspec.json.decode(arguments)
    except NOT_JSON:
        return f"{arguments[:SHOWN_CHARS]}…"
    shortened = {name: _cut(value) for name, value in given.items()} if isinstance(given, dict) else _cut(given)
    text = msgspec.json.encode(shortened).decode()
    return text if len(text) <= SHOWN_CHARS else "{}"


def _cut(value: Json) -> Json:
    """A text cut; what else is long, left out."""
    longest = SHOWN_CHARS // 10
    if isinstance(value, str):
        return value if len(value) <= longest else f"{value[:longest]}…"
    return value if len(msgspec.json.encode(value)) <= longest else None
