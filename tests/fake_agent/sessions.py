"""A session of the fake agent in a real server, watched by a Coop client and held against the record."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import signal
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from tests.dialects.coop.harness import Link, Server
from tests.fake_agent import record, truth
from tests.fake_agent.rig import command

LIMIT = 20.0
"""Seconds for anything that must come; generous, for many sessions run at once."""

SETTLE = 0.7
"""Seconds of rest before a prompt is sent: longer than the grace."""

RECOVERY = 5.5
"""Seconds to wait for the client to be told what is true, before going on; a little more than it may take."""

T = TypeVar("T")
Json = dict[str, Any]


def now() -> int:
    """Unix milliseconds, as in the record."""
    return int(time.time() * 1000)


class Session:
    """One server with one fake agent, a client that watches, and one that acts."""

    def __init__(self, server: Server, folder: Path, watching: Link, acting: Link) -> None:
        self.server, self.folder = server, folder
        self._watching, self.link = watching, acting
        self.frames: list[tuple[int, Json]] = []
        self.refusals: list[Json] = []

    async def watch(self) -> None:
        """Take down every frame with the time at which it came."""
        await self._watching.send({"event": "state:get"})
        while True:
            frame = await self._watching.receive(600)
            self.frames.append((now(), frame))

    # the truth

    @property
    def record(self) -> list[Json]:
        return record.read(self.folder / "record")

    @property
    def states(self) -> list[Json]:
        return [entry for entry in self.record if "state" in entry]

    @property
    def true(self) -> str:
        """What is true now."""
        states = self.states
        return str(states[-1]["state"]) if states else "starting"

    @property
    def pid(self) -> int:
        """The process of the fake agent."""
        return int(self.states[0]["pid"])

    async def until(self, probe: Callable[[], T], what: str, limit: float = LIMIT) -> T:
        """Wait until the answer is true; return it."""
        deadline = time.monotonic() + limit
        while not (answer := probe()):
            assert time.monotonic() < deadline, f"not within {limit} s: {what}\n{self.story()}"
            await asyncio.sleep(0.02)
        return answer

    async def becomes(self, *states: str) -> str:
        """Wait until one of these is true."""
        return await self.until(lambda: self.true if self.true in states else "", f"one of {states}")

    async def told(self, *states: str) -> None:
        """Give the client time to be told one of these, or, without any, what is true. The verdict says if it was."""

        def right() -> bool:
            told = truth.timeline(self.frames[-1:]) or truth.timeline(self.frames)
            return bool(told) and told[-1][1] in (states or (self.true, {"error": "idle"}.get(self.true)))

        with contextlib.suppress(AssertionError):
            await self.until(right, "told", RECOVERY)

    def effects(self, name: str) -> list[Json]:
        return [entry for entry in self.record if entry.get("effect") == name]

    # acting

    async def type(self, text: str) -> None:
        """As a person at the keyboard."""
        await self.link.send({"event": "input:raw", "data": base64.b64encode(text.encode()).decode()})

    async def nudge(self, text: str) -> Json:
        """As a Coop client; it must be delivered."""
        answer = await self.link.ask({"event": "nudge", "message": text}, "nudge:result")
        if not answer["delivered"]:
            self.refusals.append(answer)
        return answer

    async def respond(self, **how: Any) -> Json:
        """As a Coop client; it must be delivered."""
        answer = await self.link.ask({"event": "respond", **how}, "respond:result")
        if not answer["delivered"]:
            self.refusals.append(answer)
        return answer

    def send(self, number: int) -> None:
        """A signal to the agent itself. A kill is recorded here, for the agent cannot."""
        if number == signal.SIGKILL:
            writer = record.Record(str(self.folder / "record"))
            writer.state("exited", code=None, signal=int(number))
        os.kill(self.pid, number)

    # the verdict

    def judge(self, end: int) -> truth.Verdict:
        """How true the client's picture was."""
        told = truth.timeline(self.frames)
        return truth.judge(self.record, told, end, truth.announcements(self.frames))

    def story(self) -> str:
        """Both sides of it by time."""
        lines = [(entry["at"], f"true {_brief(entry)}") for entry in self.record]
        lines += [(at, f"                                        told {_brief(frame)}") for at, frame in self.frames]
        lines.sort(key=lambda line: line[0])
        start = lines[0][0] if lines else 0
        return "\n".join(f"{(at - start) / 1000:8.3f}  {text}" for at, text in lines)


def _brief(entry: Json) -> str:
    kept = ("state", "effect", "prev", "next", "cause", "kind", "tool", "result", "option", "event", "code", "signal")
    shown = {name: entry[name] for name in kept if entry.get(name) is not None}
    if prompt := entry.get("prompt"):
        shown |= {"type": prompt["type"], "input": prompt["input"], "options": prompt["options"]}
    if "text" in entry:
        shown["text"] = str(entry["text"])[:300]
    return " ".join(f"{name}={value}" for name, value in shown.items() if (name, value) != ("event", "transition"))


Act = Callable[[Session], Awaitable[None]]


@contextlib.asynccontextmanager
async def session(folder: Path, *flags: str) -> Any:
    """A running session, whose watcher has seen its state."""
    line = command(*flags, "--record", str(folder / "record"))
    server = await asyncio.to_thread(
        Server, line, folder=folder, args=["--agent", "claude", "--cols", "110", "--rows", "40"]
    )
    try:
        async with server.link("state", label="watch") as watching, server.link("raw", label="act") as acting:
            made = Session(server, folder, watching, acting)
            drain = asyncio.ensure_future(made.watch())
            try:
                await made.until(lambda: made.frames, "the first state")
                yield made
            finally:
                drain.cancel()
                await asyncio.gather(drain, return_exceptions=True)
    finally:
        await asyncio.to_thread(server.close)


# what people and clients do


async def said_yes(played: Session) -> None:
    """A client allows."""
    await played.respond(accept=True)


async def said_no(played: Session) -> None:
    """A client refuses."""
    await played.respond(accept=False)


def typed(text: str) -> Act:
    """A person types."""

    async def act(played: Session) -> None:
        await played.type(text)

    return act


def answered(*options: int) -> Act:
    """A client answers questions by their options."""

    async def act(played: Session) -> None:
        await played.respond(answers=[{"option": option} for option in options])

    return act


def stopped(seconds: float, then: Act | None = None) -> Act:
    """The process is stopped for a while, and then something else happens."""

    async def act(played: Session) -> None:
        played.send(signal.SIGSTOP)
        await asyncio.sleep(seconds)
        played.send(signal.SIGCONT)
        await asyncio.sleep(SETTLE)
        if then is not None:
            await then(played)

    return act


def signalled(number: int) -> Act:
    """The process gets a signal."""

    async def act(played: Session) -> None:
        played.send(number)

    return act


def waited(seconds: float) -> Act:
    """Nothing happens."""

    async def act(played: Session) -> None:
        await asyncio.sleep(seconds)

    return act


@dataclass(frozen=True)
class Case:
    """A scenario and a fault.

    ``prompts`` are sent one after the other; ``dialogs`` are done to the dialogs in order, the last of them to all that
    follow; ``during`` is done in a turn, ``at_idle`` before the first prompt. ``turns`` is how many turns there are in
    the end when that is not one for each prompt. ``effects`` are results that the record must hold.
    """

    name: str
    prompts: tuple[str, ...] = ("hello",)
    flags: tuple[str, ...] = ()
    dialogs: tuple[Act, ...] = (said_yes,)
    during: Act | None = None
    at_idle: Act | None = None
    turns: int = 0
    nudged: bool = False
    effects: tuple[str, ...] = ()


@dataclass
class Result:
    """What came of a session."""

    case: Case
    verdict: truth.Verdict
    story: str
    log: str
    record: list[Json] = field(default_factory=list)
    frames: list[tuple[int, Json]] = field(default_factory=list)
    refusals: list[Json] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


async def play(case: Case, folder: Path) -> Result:
    """One session from start to end."""
    result = Result(case, truth.Verdict(0), "", "")
    try:
        async with session(folder, *case.flags) as played:
            try:
                async with asyncio.timeout(60):
                    await _act(case, played)
            except (AssertionError, TimeoutError) as error:
                result.problems.append(f"{type(error).__name__}: {error}".partition("\n")[0])
            result.verdict, result.record, result.refusals = played.judge(now()), played.record, played.refusals
            result.frames = played.frames
            result.story, result.log = played.story(), played.server.log()
    except AssertionError as error:
        result.problems.append("the server failed")
        result.log = str(error)
    return result


async def _act(case: Case, played: Session) -> None:
    dialogs = iter(range(1000))
    if await played.becomes("idle", "prompt") == "prompt":
        await _dialog(case, played, next(dialogs))
        if await played.becomes("idle", "exited") == "exited":
            return
    await played.told()
    await asyncio.sleep(SETTLE)
    if case.at_idle is not None:
        await case.at_idle(played)
    for number, prompt in enumerate(case.prompts):
        if number:
            await played.told()
            await asyncio.sleep(SETTLE)
        if case.nudged:
            await played.nudge(prompt)
        else:
            await played.type(f"{prompt}\r")
        await played.becomes("working", "prompt", "exited")
        if case.during is not None:
            await asyncio.sleep(SETTLE)
            await case.during(played)
        while await played.becomes("idle", "error", "exited", "prompt") == "prompt":
            await _dialog(case, played, next(dialogs))
    turns = case.turns or len(case.prompts)
    await played.until(lambda: len(played.effects("submitted")) >= turns or played.true == "exited", "all turns")
    await played.becomes("idle", "error", "exited")
    await played.told()
    await asyncio.sleep(2 * SETTLE)


async def _dialog(case: Case, played: Session, number: int) -> None:
    """See a dialog, and do what is to be done to it; a person helps when that had no effect."""
    serial = played.states[-1].get("dialog")

    def over() -> bool:
        return bool(played.states[-1].get("dialog") != serial)

    await played.told("prompt")
    await asyncio.sleep(1.2)
    if over():
        return
    await case.dialogs[min(number, len(case.dialogs) - 1)](played)
    try:
        await played.until(over, "an effect", limit=8)
    except AssertionError:
        played.refusals.append({"no effect on dialog": serial})
        await played.type("\x1b")
        await played.until(over, "an end of the dialog by Escape")
