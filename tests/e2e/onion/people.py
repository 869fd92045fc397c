"""Somebody with a real client of ConnectOnion: the client runs in a process of its own, and does what a test says."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import json
import os
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from nacl.signing import SigningKey

from .packages import environment

LIMIT = 20.0
"""Seconds any single condition may take to come true."""

STARTING = 60.0
"""Seconds the client's own libraries may take to be loaded."""

Line = dict[str, Any]
T = TypeVar("T")


class Raised(Exception):
    """The client raised something: the name of its type, and what it says."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(f"{kind}: {text}")
        self.kind = kind
        self.text = text


class Program:
    """The process. ``said`` is every line of it that is no answer, in order."""

    def __init__(self, words: Sequence[str], home: Path) -> None:
        self._words = words
        self._home = home
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._news = asyncio.Event()
        self.said: list[Line] = []
        self.process: Process | None = None
        self.gone = False

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Program]:
        """Start it; what it prints besides goes into ``log`` in its HOME."""
        env = environment(self._home)
        with (self._home / "log").open("wb") as log:
            self.process = await asyncio.create_subprocess_exec(
                *self._words, stdin=PIPE, stdout=PIPE, stderr=log, cwd=self._home, env=env, limit=64 * 1024 * 1024
            )
        reading = asyncio.create_task(self._read())
        try:
            yield self
        finally:
            assert self.process.stdin is not None
            self.process.stdin.close()
            try:
                async with asyncio.timeout(LIMIT):
                    await self.process.wait()
            except TimeoutError:
                self.process.kill()
            await self.process.wait()
            await reading

    async def ask(self, what: str, limit: float | None = LIMIT, **command: Any) -> Any:
        """One command and its answer. Raises ``Raised``."""
        assert not self.gone, self._story()
        number = next(self._numbers)
        self._waiting[number] = asyncio.get_running_loop().create_future()
        self.tell(n=number, do=what, **command)
        try:
            async with asyncio.timeout(limit):
                return await self._waiting[number]
        except TimeoutError:
            raise AssertionError(f"no answer within {limit} s: {what} {command}\n{self._story()}") from None
        finally:
            del self._waiting[number]

    def tell(self, **command: Any) -> None:
        """A command that is not answered."""
        assert self.process is not None
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(command).encode() + b"\n")

    async def hears(self, probe: Callable[[], T], what: str) -> T:
        """Wait for lines that make it true."""
        try:
            async with asyncio.timeout(LIMIT):
                while not (answer := probe()):
                    assert not self.gone, self._story()
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            raise AssertionError(f"not within {LIMIT} s: {what}\n{self._story()}") from None
        return answer

    async def hears_more(self, heard: int, what: str) -> None:
        """Wait for more lines than so many."""
        await self.hears(lambda: len(self.said) > heard, what)

    async def _read(self) -> None:
        assert self.process is not None
        assert self.process.stdout is not None
        async for text in self.process.stdout:
            line: Line = json.loads(text)
            waiting = self._waiting.get(line.get("n", 0))
            if waiting is None:
                self.said.append(line)
            elif waiting.done():  # nobody waits any more
                continue
            elif "raised" in line:
                waiting.set_exception(Raised(line["raised"], line["text"]))
            else:
                waiting.set_result(line["ok"])
            self._news.set()
        self.gone = True
        self._news.set()
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(AssertionError(f"the client's process is gone\n{self._story()}"))

    def _story(self) -> str:
        lines = [json.dumps(line)[:300] for line in self.said[-20:]]
        printed = (self._home / "log").read_text(errors="replace")[-3000:]
        return "\n".join([*lines, "its standard error:", printed])


class Person:
    """One ``RemoteAgent`` of the client, and so one conversation with the host."""

    _names = itertools.count(1)

    def __init__(self, program: Program, name: str = "") -> None:
        self.program = program
        self.name = name or f"agent-{next(self._names)}"
        self.principal = "onion:anonymous"
        """Who it is to the hub."""

    async def call(self, method: str, given: Any = None, limit: float | None = LIMIT, **more: Any) -> Any:
        """Call a method of it. Raises ``Raised``."""
        return await self.program.ask("call", limit, agent=self.name, name=method, given=given, **more)

    def begin(self, method: str, given: Any = None, **more: Any) -> asyncio.Task[Any]:
        """The same, meanwhile."""
        return asyncio.create_task(self.call(method, given, **more))

    async def state(self) -> dict[str, Any]:
        """``status``, ``session`` and ``ui``: all that a program that uses the client can see of it."""
        state: dict[str, Any] = await self.program.ask("state", agent=self.name)
        return state

    async def ui(self, kind: str = "") -> list[dict[str, Any]]:
        """What its user sees, or what of it is of one type."""
        items: list[dict[str, Any]] = (await self.state())["ui"]
        return [item for item in items if kind in {"", item["type"]}]

    async def say(self, text: str, *, images: Sequence[str] = (), files: Sequence[tuple[str, str]] = ()) -> Any:
        """A prompt, and what comes of it: ``{text, done}``. Raises ``Raised``."""
        raise NotImplementedError


class PythonPerson(Person):
    """With the Python client, whose methods take keywords."""

    _answered = 0

    async def say(
        self, text: str, *, images: Sequence[str] = (), files: Sequence[tuple[str, str]] = (), **more: Any
    ) -> Any:
        given: dict[str, Any] = {"prompt": text, "timeout": more.pop("timeout", LIMIT)}
        if images:
            given["images"] = list(images)
        if files:
            given["files"] = [{"name": name, "data": url} for name, url in files]
        return await self.call(more.pop("method", "input_async"), given, LIMIT + 5, **more)

    async def asked(self, call: asyncio.Task[Any], callback: str) -> Line:
        """Wait until this call asks us by that callback."""

        def found() -> Line | None:
            if call.done():
                call.result()  # what it raised says more than that it did not ask
            mine = (line for line in self.program.said if line.get("agent") == self.name and line["on"] == callback)
            return next((line for line in mine if line["asked"] > self._answered), None)

        line = await self.program.hears(found, f"{callback} is called")
        assert line is not None
        return line

    def answer(self, asked: Line, value: Any) -> None:
        """What the callback returns."""
        self._answered = asked["asked"]
        self.program.tell(do="answer", asked=asked["asked"], value=value)


class NpmPerson(Person):
    """With the npm client, whose methods take positions."""

    async def say(self, text: str, *, images: Sequence[str] = (), files: Sequence[tuple[str, str]] = ()) -> Any:
        options: dict[str, Any] = {"timeoutMs": int(LIMIT * 1000)}
        if images:
            options["images"] = list(images)
        if files:
            options["files"] = [{"name": name, "type": "", "size": 0, "dataUrl": url} for name, url in files]
        return await self.call("input", [text, options], LIMIT + 5)

    async def send(self, **frame: Any) -> None:
        """A frame that the client's own program would send."""
        await self.call("send", [frame])

    async def shows(self, kind: str, count: int = 1) -> dict[str, Any]:
        """Wait until its user sees so many items of a type; the last one."""
        items: list[dict[str, Any]] = await self._until(
            lambda state: [it for it in state["ui"] if it["type"] == kind][count - 1 :], f"{kind} is shown"
        )
        return items[0]

    async def becomes(self, status: str) -> None:
        """Wait until it has this status."""
        await self._until(lambda state: state["status"] == status, f"it is {status}")

    async def is_in(self) -> dict[str, Any]:
        """Wait until it has been let in; its session."""
        session: dict[str, Any] = await self._until(lambda state: state["in"] and state["session"], "it is let in")
        return session

    async def _until(self, probe: Callable[[dict[str, Any]], T], what: str) -> T:
        """Look at its state whenever it says that something changed."""
        while True:
            heard = len(self.program.said)
            if answer := probe(await self.state()):
                return answer
            await self.program.hears_more(heard, what)


def data_url(kind: str, data: bytes) -> str:
    """Bytes as the clients send them."""
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def seed() -> str:
    """A fresh key."""
    return os.urandom(32).hex()


def address_of(key: str) -> str:
    """The address of the person with this seed."""
    return "0x" + bytes(SigningKey(bytes.fromhex(key)).verify_key).hex()
