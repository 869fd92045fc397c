"""Reading what a request carries, of whoever sends it: within a time, however slowly it comes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from starlette.types import Receive

FIRST_SECONDS = 15.0
SLOWEST = 16 * 1024
"""Seconds that the first of a body may take, and bytes a second of the rest: who sends less means to hold the place."""

BODY_SECONDS = 300.0
"""Seconds that all of it may take."""

TOO_SLOW = "The body comes too slowly"
"""What it is refused with, then (408)."""


class ClientGone(Exception):
    """Whoever sent it is there no more."""


async def read_body(receive: Receive) -> bytes:
    """All of it. Raises ``TimeoutError``, ``ClientGone``, and where it is too large whatever ``receive`` does."""
    pieces, size, begun = [], 0, asyncio.get_running_loop().time()
    async with asyncio.timeout(FIRST_SECONDS) as deadline:
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientGone
            pieces.append(message.get("body", b""))
            if not message.get("more_body", False):
                return pieces[0] if len(pieces) == 1 else b"".join(pieces)
            size += len(pieces[-1])
            deadline.reschedule(begun + min(FIRST_SECONDS + size / SLOWEST, BODY_SECONDS))


async def body_pieces(receive: Receive) -> AsyncIterator[bytes]:
    """The same, piece by piece as it comes; none of them is empty. Raises as ``read_body``.

    What whoever takes the pieces does meanwhile is not the sender's fault: only waiting for the next one counts.
    """
    loop, waited, size, goes_on = asyncio.get_running_loop(), 0.0, 0, True
    while goes_on:
        begun = loop.time()
        async with asyncio.timeout(min(FIRST_SECONDS + size / SLOWEST, BODY_SECONDS) - waited):
            message = await receive()
        waited += loop.time() - begun
        if message["type"] == "http.disconnect":
            raise ClientGone
        piece, goes_on = message.get("body", b""), message.get("more_body", False)
        size += len(piece)
        if piece:
            yield piece
