"""``dragoman attach``: a terminal session in this terminal. Ctrl-] leaves it running and comes back to the shell."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
import sys
import termios
import tty
from typing import Any

from dragoman.client.errors import ClientError, ConnectionLost, Refused
from dragoman.client.hub import HubClient
from dragoman.client.hub_streams import Attachment, Ended, Output, Skipped, TerminalItem

from .main import complain
from .reaching import Reach, reach

DETACH = b"\x1d"
"""Ctrl-]."""

LINK_CHECK = 0.5
"""Seconds between two looks whether the server is there."""

_RESTORE = b"\x1b[0m\x1b[?1047l\x1b[9999;1H\x1b[?25h" + b"".join(
    b"\x1b[?%dl" % mode for mode in (2004, 1000, 1002, 1003, 1006, 1)
)
"""Undoes what programs leave behind: colours, alternate screen, hidden cursor, paste marks, mouse, cursor keys."""


def run(arguments: argparse.Namespace) -> int:
    """Attach until the program ends or Ctrl-] is pressed; the exit code is the program's."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return complain("attach needs a terminal on standard input and output")

    async def work(server: Reach) -> int:
        row = await server.find(arguments.session, kind="terminal")
        return await Screenful(server, row["session"]).use()

    return reach(work, arguments)


class Screenful:
    """This terminal, showing that session."""

    def __init__(self, server: Reach, session: str) -> None:
        self._server = server
        self._session = session
        self._done = asyncio.Event()
        self._left: str | None = None
        self._code = 0
        self._typed: asyncio.Queue[bytes] = asyncio.Queue(maxsize=1000)

    async def use(self) -> int:
        """Paint, then pass bytes both ways."""
        saved = termios.tcgetattr(sys.stdin.fileno())
        loop = asyncio.get_running_loop()
        async with HubClient(self._server.url, token=self._server.token) as client:
            offset = await self._paint()
            attachment = client.attach(self._session, self._show, offset=offset)
            tty.setraw(sys.stdin.fileno())
            loop.add_reader(sys.stdin.fileno(), self._type)
            loop.add_signal_handler(signal.SIGWINCH, lambda: self._resize(client))
            work = (self._send(client, attachment), self._fail_with(client), self._watch_link(client))
            workers = [loop.create_task(part) for part in work]
            try:
                self._resize(client)
                await self._done.wait()
            finally:
                loop.remove_reader(sys.stdin.fileno())
                loop.remove_signal_handler(signal.SIGWINCH)
                for worker in workers:
                    worker.cancel()
                termios.tcsetattr(sys.stdin.fileno(), termios.TCSADRAIN, saved)
                _write(_RESTORE + b"\r\n")
        if self._left is not None:
            print(self._left)
        return self._code

    async def _paint(self) -> int:
        """Draw the picture at this terminal's size; returns the offset from which output goes on."""
        size = os.get_terminal_size(sys.stdout.fileno())
        with contextlib.suppress(Refused):  # a size that cannot be: the picture is cropped then
            await self._server.http.post(f"/sessions/{self._session}/resize", cols=size.columns, rows=size.lines)
        picture = await self._server.http.get(f"/sessions/{self._session}/screen", styled=1)
        _write(paint(picture, size.lines))
        return int(picture["tape_offset"])

    def _show(self, item: TerminalItem) -> None:
        if isinstance(item, Output):
            _write(item.data)
        elif isinstance(item, Skipped):
            _write(b"\x1b[2J")  # what is on the screen no longer fits what comes; the program is asked to redraw
        elif isinstance(item, Ended):
            how = f"signal {item.signal}" if item.signal is not None else f"code {item.code}"
            how = "its server was lost" if item.cause == "server-lost" else how
            self._leave(f"[ended: {how}]", 1 if item.code is None else item.code)

    def _type(self) -> None:
        data = os.read(sys.stdin.fileno(), 4096)
        before, found, _ = data.partition(DETACH)
        if before and not self._typed.full():
            self._typed.put_nowait(before)
        if found or not data:
            self._leave("[detached; the program goes on]", 0)

    async def _send(self, client: HubClient, attachment: Attachment) -> None:
        while True:
            data = await self._typed.get()
            try:
                await client.write(attachment, data)
            except ConnectionLost:
                _write(b"\x07")  # the link is away: what was typed is not sent later, when it might mean something else

    async def _fail_with(self, client: HubClient) -> None:
        try:
            await client.ended()
        except ClientError as problem:
            self._leave(f"[{problem}]", 1)

    async def _watch_link(self, client: HubClient) -> None:
        """Say that the server is away, and draw anew when it is back: a frozen screen looks like a busy program."""
        seen = True
        while True:
            await asyncio.sleep(LINK_CHECK)
            if client.connected == seen:
                continue
            seen = client.connected
            if not seen:
                _write(b"\x1b7\x1b[9999;1H\x1b[0;7m[the server is away; trying again; ctrl-] leaves]\x1b[0m\x1b8")
                continue
            with contextlib.suppress(ClientError):
                await self._paint()
            self._resize(client)

    def _resize(self, client: HubClient) -> None:
        size = os.get_terminal_size(sys.stdout.fileno())
        resizing = client.request("resize", session=self._session, cols=size.columns, rows=size.lines)
        task = asyncio.get_running_loop().create_task(resizing)
        task.add_done_callback(lambda done: done.cancelled() or done.exception())  # a refusal leaves the old size

    def _leave(self, why: str, code: int) -> None:
        if not self._done.is_set():
            self._left, self._code = why, code
            self._done.set()


def paint(picture: dict[str, Any], rows: int) -> bytes:
    """Escape sequences that draw a picture (``GET screen?styled=1``) on a cleared screen of ``rows`` lines.

    Of a picture that is higher, the part that ends with the cursor's line is drawn, if need be.
    """
    cursor = picture["cursor"]
    top = max(0, cursor["row"] + 1 - rows)
    drawn = "".join(
        f"\x1b[{row};1H" + "".join(f"\x1b[{_sgr(run['style'])}m{run['text']}" for run in runs) + "\x1b[0m"
        for row, runs in enumerate(picture["styled"][top : top + rows], 1)
    )
    start = "\x1b[?1049h" if picture["alt_screen"] else ""
    text = f"{start}\x1b[0m\x1b[2J{drawn}\x1b[{cursor['row'] - top + 1};{cursor['col'] + 1}H"
    return text.encode()


_FLAGS = (
    ("bold", "1"),
    ("faint", "2"),
    ("italic", "3"),
    ("underline", "4"),
    ("blink", "5"),
    ("inverse", "7"),
    ("strikethrough", "9"),
)


def _sgr(style: dict[str, Any]) -> str:
    parts = ["0", *(code for name, code in _FLAGS if style.get(name))]
    for name, base in (("fg", 38), ("bg", 48)):
        colour = style.get(name)
        if isinstance(colour, int):
            parts.append(f"{base};5;{colour}")
        elif colour is not None:
            red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
            parts.append(f"{base};2;{red};{green};{blue}")
    return ";".join(parts)


def _write(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
