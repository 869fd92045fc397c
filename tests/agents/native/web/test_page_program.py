"""The program that makes pages readable: it ends with whoever asked for it, and knows nothing that it need not."""

import asyncio
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from dragoman.agents.native.url_guard import WebUrl
from dragoman.agents.native.web.content_type import ContentType
from dragoman.agents.native.web.fetch import Fetched
from dragoman.agents.native.web.page import _PROGRAM, page
from dragoman.agents.native.web.readable import Readable, Wish

BOTH_LOOPS = True
SLOW = Fetched(WebUrl.parse("http://site.example/"), ContentType("text/html"), b"<p>" + b" " * 4_000_000 + b"x")


def children() -> set[str]:
    tasks = Path(f"/proc/{os.getpid()}/task").iterdir()
    return {child for task in tasks for child in (task / "children").read_text().split()}


async def until_new_child(before: set[str]) -> None:
    async with asyncio.timeout(5):
        while not children() - before:
            await asyncio.sleep(0)


async def test_cancelling_ends_the_program_that_reads_the_page() -> None:
    before = children()
    task = asyncio.create_task(page(SLOW, limit=1000, seconds=60))
    await until_new_child(before)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not children() - before


async def test_the_program_that_reads_a_page_gets_no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRAVE_API_KEY", "s3cret")
    before = children()
    task = asyncio.create_task(page(SLOW, limit=1000, seconds=60))
    await until_new_child(before)
    (child,) = children() - before
    async with asyncio.timeout(5):
        while b"dragoman" not in Path(f"/proc/{child}/cmdline").read_bytes():
            await asyncio.sleep(0)
    names = {entry.split(b"=")[0] for entry in Path(f"/proc/{child}/environ").read_bytes().split(b"\0") if entry}
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    assert names <= {b"PYTHONPATH", b"LC_CTYPE"}


def run(wish: Wish, markup: bytes) -> subprocess.CompletedProcess[bytes]:
    given = msgspec.json.encode(wish) + b"\n" + markup
    return subprocess.run([sys.executable, *_PROGRAM], input=given, capture_output=True, check=False, timeout=20)


def test_it_stops_by_itself_when_nobody_is_left_to_stop_it() -> None:
    done = run(Wish("http://site.example/", 1000, 0.0), SLOW.body)
    assert done.returncode < 0  # by the limit of processor time: a second
    assert not done.stdout


def test_it_gives_what_was_wanted_and_says_how_much_there_is() -> None:
    done = run(Wish("http://site.example/", 3, 5.0), b"<title>a  b</title><p>some text")
    assert msgspec.json.decode(done.stdout, type=Readable) == Readable("a b", "som", len("some text"))
