"""Who may type: a person and our own deliveries share one terminal, and must not write into each other's input.

What a person types goes to the program at once, and a delivery begins only once they have paused. While one runs, what
they type is held, for ``HOLD`` seconds at most, and follows it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
from collections.abc import AsyncIterator, Callable

log = logging.getLogger("dragoman.terminal")

HOLD = 1.0
"""Seconds for which a person's input is held behind a delivery."""

PAUSE = 0.3
"""Seconds without a person's key before a delivery begins."""

PATIENCE = 10.0
"""Seconds that a delivery waits for a person to pause."""

_REPORT = re.compile(
    rb"(?:\x1b\[[IO]|\x1b\[<[0-9;]*[Mm]|\x1b\[M...|\x1b\[[?>=]?[0-9;]*[cnRuy$]+|\x1b[\]P_][^\x07\x1b]*(?:\x07|\x1b\\))+",
    re.DOTALL,
)
"""What terminals send by themselves: focus, mouse, answers to queries."""


class PersonTyping(Exception):
    """A person at the terminal did not pause."""


class InputGate:
    """Orders input to one program. ``write`` sends bytes to it at once. ``gap`` is in seconds."""

    def __init__(self, write: Callable[[bytes], None], *, gap: float) -> None:
        self._write = write
        self._gap = gap
        self._turn = asyncio.Lock()
        self._held: bytearray | None = None
        self._release: asyncio.TimerHandle | None = None
        self._typed = float("-inf")
        self._delivered = float("-inf")
        self.keys = 0
        """How often a person has typed: who finds it changed knows that the input is not what it was."""

    @property
    def since_typed(self) -> float:
        """Seconds since a person last typed."""
        return asyncio.get_running_loop().time() - self._typed

    def person(self, data: bytes) -> None:
        """Input from a person or a client's raw writes."""
        if _REPORT.fullmatch(data):
            self._write(data)
            return
        self._typed = asyncio.get_running_loop().time()
        self.keys += 1
        if self._held is not None:
            self._held += data
        else:
            self._write(data)

    async def begin(self) -> None:
        """Wait for the other deliveries, and for a person to pause; from now on only we type, until ``end``.

        Raises ``PersonTyping``.
        """
        await self._turn.acquire()
        try:
            await self._pause()
        except BaseException:
            self._turn.release()
            raise
        self._hold()

    def end(self, *, drop: bool = False) -> None:
        """The delivery is over. ``drop``: what was held was meant for a dialog that is gone, and goes with it."""
        self._delivered = asyncio.get_running_loop().time()
        if drop and self._held:
            log.info("%d bytes typed at a dialog that was answered meanwhile are dropped", len(self._held))
            self._held.clear()
        self._let_go()
        self._turn.release()

    @contextlib.asynccontextmanager
    async def delivery(self) -> AsyncIterator[None]:
        """``begin`` and ``end`` around a block."""
        await self.begin()
        try:
            yield
        finally:
            self.end()

    async def _pause(self) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + PATIENCE
        while (wait := max(self._typed + PAUSE, self._delivered + self._gap) - loop.time()) > 0:
            if loop.time() >= deadline:
                raise PersonTyping("a person types at the terminal")
            await asyncio.sleep(wait)

    def _hold(self) -> None:
        self._held = bytearray()
        self._release = asyncio.get_running_loop().call_later(HOLD, self._let_go)

    def _let_go(self) -> None:
        if self._release is not None:
            self._release.cancel()
            self._release = None
        held, self._held = self._held, None
        if held:
            self._write(bytes(held))
