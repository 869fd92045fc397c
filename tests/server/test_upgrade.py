"""Upgrades that nobody can read: each is answered, and over."""

from __future__ import annotations

import asyncio

import pytest

from .mounted import LIMIT, Named, mounted

LINES = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n"
KEY = "dGhlIHNhbXBsZSBub25jZQ=="


@pytest.mark.parametrize(
    ("path", "more", "status"),
    [
        ("/one/ws?after=" + "9" * 9000, "", 414),
        ("/one/ws?after=" + "9" * 60_000, "", 414),
        ("/one/ws", f"X-Long: {'x' * 9000}\r\n", 431),
        ("/one/ws", "X-Many: x\r\n" * 300, 431),
        ("/one/ws", "Content-Length: 5\r\n", 400),
        ("/one/ws", "Transfer-Encoding: chunked\r\n", 400),
        ("/one/ws", f"Sec-WebSocket-Key: {KEY}\r\n", 400),
    ],
    ids=["a long line", "a very long line", "a long header", "many headers", "a length", "chunks", "two keys"],
)
async def test_an_upgrade_that_cannot_be_read_is_answered_and_over(path: str, more: str, status: int) -> None:
    async with mounted([Named("one")]) as served, asyncio.timeout(LIMIT):
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        head = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\n"
        writer.write(f"{head}{LINES.format(key=KEY)}{more}\r\n".encode())
        answer = await reader.read()
        assert answer.startswith(f"HTTP/1.1 {status} ".encode()), answer[:200]
        writer.close()
