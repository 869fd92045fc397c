"""A fetched document to the text that a model reads: HTML as Markdown, all else as it is."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys

import msgspec

from .charset import decode
from .fetch import Fetched
from .plain import one_line, strip_tags
from .readable import Readable, Wish

TITLE = 300
"""Characters of a title."""

_PROGRAM = ("-P", "-m", "dragoman.agents.native.web.readable")


class Page(msgspec.Struct, frozen=True):
    """``text`` is at most what was wanted of ``length`` characters. ``plain``: the page could not be made readable."""

    title: str
    text: str
    length: int
    plain: bool = False


async def page(document: Fetched, *, limit: int, seconds: float) -> Page:
    """Its text, at most ``limit`` characters; ``seconds`` may go into making HTML readable. Never fails.

    When cancelled, what was started for it is gone first.
    """
    text = await asyncio.to_thread(decode, document.body, document.kind)
    if not document.kind.is_page or not text.strip():
        return Page("", text[:limit], len(text))
    made = await _readable(text, Wish(str(document.url), limit, seconds))
    if made is not None:
        return Page(one_line(made.title)[:TITLE], made.text, made.length)
    title, plain = await asyncio.to_thread(strip_tags, text)
    return Page(title[:TITLE], plain[:limit], len(plain), plain=True)


async def _readable(markup: str, wish: Wish) -> Readable | None:
    """None when the page was too much for it."""
    given = msgspec.json.encode(wish) + b"\n" + markup.encode("utf-8", "replace")
    try:
        program = await _started()
    except OSError:  # no room for another process
        return None
    try:
        async with asyncio.timeout(wish.seconds):
            made, _ = await program.communicate(given)
    except TimeoutError:
        return None
    finally:
        await _end(program)
    try:
        return msgspec.json.decode(made, type=Readable) if program.returncode == 0 else None
    except msgspec.DecodeError:
        return None


async def _started() -> asyncio.subprocess.Process:
    """The program. Its modules come from where ours do, and nothing else of our environment: that holds keys."""
    starting = asyncio.ensure_future(
        asyncio.create_subprocess_exec(
            sys.executable,
            *_PROGRAM,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env={"PYTHONPATH": os.pathsep.join(filter(os.path.isabs, sys.path))},
            start_new_session=True,
        )
    )
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:  # it may run already, and not every loop ends it then
        await _end(await starting)
        raise


async def _end(program: asyncio.subprocess.Process) -> None:
    if program.returncode is not None:
        return
    with contextlib.suppress(ProcessLookupError):
        program.kill()
    await program.communicate()  # to the end of its output, which else keeps the pipe
