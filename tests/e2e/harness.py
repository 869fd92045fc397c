"""A real agent behind a real server, and a Coop client that sees its states in order: what the end-to-end tests say."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, TypeVar

from websockets.asyncio.client import ClientConnection, connect

from .driven import COLS, ROWS, ModelServer
from .homes import Home

LIMIT = 30.0
"""Seconds any single condition may take to come true: these are large programs on a busy machine."""

Frame = dict[str, Any]
T = TypeVar("T")

_PASTE_FRAME = re.compile(r'<pasted_content id="(\w+)">\n(.*)\n</pasted_content id="\1">', re.DOTALL)


class Run:
    """``dragoman run --agent NAME -- CLI`` as a process of its own, with the agent's HOME for its environment."""

    def __init__(self, home: Home, folder: Path, *flags: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.log = folder / "log"
        line = [sys.executable, "-m", "dragoman", "run", "--agent", home.agent, "--port", "0", "--json"]
        line += ["--cols", str(COLS), "--rows", str(ROWS), "--data", str(folder / "data"), *flags, "--", *home.command]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=log, cwd=home.cwd, env=home.env)
        assert self.process.stdout is not None
        first = self.process.stdout.readline()
        if not first:
            self.close()
            raise AssertionError(f"the server did not start:\n{self.said()}")
        self.url: str = json.loads(first)["dialects"]["coop"]

    def said(self) -> str:
        return self.log.read_text(errors="replace")

    def close(self) -> None:
        """Stop it as a user would, and its agent with it; complain if it said something terrible."""
        self.process.terminate()
        try:
            self.process.wait(LIMIT)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"the server did not stop:\n{self.said()}") from None
        finally:
            assert self.process.stdout is not None
            self.process.stdout.close()
        assert "Traceback" not in self.said(), self.said()


class Coop:
    """A Coop client in mode ``state``. ``seen`` is every ``transition`` and ``exit`` in order, from its first look."""

    def __init__(self, wire: ClientConnection) -> None:
        self.wire = wire
        self.seen: list[Frame] = []
        self.transcript: list[str] = []
        self._answers: list[Frame] = []
        self._arrived = asyncio.Event()
        self._handled = 0

    async def read(self) -> None:
        """Gather what comes until the link ends; the harness runs this beside the test."""
        async for raw in self.wire:
            frame: Frame = json.loads(raw)
            self.transcript.append(f"< {raw!s:.400}")
            if frame["event"] in {"transition", "exit"}:
                self.seen.append(frame)
            else:
                self._answers.append(frame)
            self._arrived.set()

    async def send(self, **message: Any) -> None:
        raw = json.dumps(message)
        self.transcript.append(f"> {raw:.400}")
        await self.wire.send(raw)

    async def until(self, look: Callable[[], T], what: str, limit: float = LIMIT) -> T:
        """Look at each arrival until the look gives something true."""
        deadline = time.monotonic() + limit
        while not (found := look()):
            try:
                async with asyncio.timeout(max(deadline - time.monotonic(), 0)):
                    await self._arrived.wait()
            except TimeoutError:
                said = "\n".join(self.transcript)
                raise AssertionError(f"not within {limit:g} s: {what}\ntranscript:\n{said}") from None
            self._arrived.clear()
        return found

    async def answer(self, event: str) -> Frame:
        """The next answer of that name."""

        def look() -> Frame | None:
            for frame in self._answers:
                if frame["event"] in {event, "error"}:
                    self._answers.remove(frame)
                    return frame
            return None

        frame = await self.until(look, f"an answer {event}")
        assert frame is not None
        assert frame["event"] == event, frame
        return frame

    # What the agent does

    async def wait(self, wanted: Callable[[Frame], bool], what: str, limit: float = LIMIT) -> Frame:
        """The first state after those already waited for that fits."""

        def look() -> Frame | None:
            while self._handled < len(self.seen):
                frame = self.seen[self._handled]
                self._handled += 1
                if wanted(frame):
                    return frame
            return None

        frame = await self.until(look, what, limit)
        assert frame is not None
        return frame

    async def wait_state(self, *states: str, limit: float = LIMIT) -> Frame:
        """The next transition into one of these states; ``exited`` is the exit."""
        return await self.wait(lambda frame: state_of(frame) in states, f"state {' or '.join(states)}", limit)

    async def wait_prompt(self, kind: str | None = None, *, current: int = 0) -> Frame:
        """The next prompt of that kind whose options are known; its context."""

        def ready(frame: Frame) -> bool:
            prompt = frame.get("prompt") or {}
            return (
                state_of(frame) == "prompt"
                and prompt["ready"]
                and (kind is None or prompt["type"] == kind)
                and prompt["question_current"] == current
            )

        frame = await self.wait(ready, f"a prompt {kind or ''} that is ready, at question {current}")
        prompt: Frame = frame["prompt"]
        return prompt

    def states(self) -> list[str]:
        """The states so far, in order; repeats in a row are one."""
        names = [state_of(frame) for frame in self.seen]
        return [name for at, name in enumerate(names) if at == 0 or names[at - 1] != name]

    def mark(self) -> int:
        """A place in ``seen``, for ``states_since``: the newest state is the first one after it."""
        return max(len(self.seen) - 1, 0)

    def states_since(self, mark: int) -> str:
        """The states from a place on as one line of words, repeats in a row as one."""
        names = [state_of(frame) for frame in self.seen[mark:]]
        return " ".join(name for at, name in enumerate(names) if at == 0 or names[at - 1] != name)

    # What the client does

    async def nudge(self, message: str) -> Frame:
        await self.send(event="nudge", message=message)
        return await self.answer("nudge:result")

    async def respond(self, **answer: Any) -> Frame:
        await self.send(event="respond", **answer)
        return await self.answer("respond:result")

    async def keys(self, *names: str) -> None:
        await self.send(event="keys", keys=list(names))

    async def ask(self, message: str, *, before: tuple[str, ...] = ("idle",)) -> None:
        """A nudge that must be delivered."""
        result = await self.nudge(message)
        assert result.pop("state_before") in before
        assert result == {"event": "nudge:result", "delivered": True, "reason": None}

    async def answers(self, kind: str, **answer: Any) -> None:
        """A response that must be delivered to a prompt of that kind."""
        result = await self.respond(**answer)
        assert result == {"event": "respond:result", "delivered": True, "prompt_type": kind, "reason": None}

    async def screen(self) -> str:
        """The screen now."""
        await self.send(event="screen:get")
        return "\n".join((await self.answer("screen"))["lines"])


def state_of(frame: Frame) -> str:
    """The state that a ``transition`` or ``exit`` leads to."""
    return "exited" if frame["event"] == "exit" else str(frame["next"])


@contextlib.asynccontextmanager
async def coop(run: Run) -> AsyncIterator[Coop]:
    """A Coop client whose first state seen is the one it found."""
    async with connect(f"{run.url}?mode=state", max_size=None, compression=None, proxy=None) as wire:
        client = Coop(wire)
        reading = asyncio.create_task(client.read())
        try:
            await client.send(event="state:get")
            await client.until(lambda: client.seen, "the state now")
            yield client
        finally:
            reading.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await reading


class Truth:
    """What the model server was really asked, from here on: the side channel."""

    def __init__(self, model: ModelServer) -> None:
        self._model = model
        self._start = len(model.journal())

    def requests(self) -> list[Frame]:
        """Requests of the agent itself (they offer tools; side requests for titles and routes do not)."""
        return [entry for entry in self._model.journal()[self._start :] if entry.get("tools_count")]

    def prompts(self) -> list[str]:
        """What the user said, once for each turn that it began."""
        return [_unframed(entry["user_text"]) for entry in self.requests() if not entry["is_tool_result"]]

    def results(self) -> list[str]:
        """What tools gave back, one for each round."""
        return [entry["tool_results"][-1] for entry in self.requests() if entry["is_tool_result"]]

    async def until(self, look: Callable[[Truth], T], what: str, limit: float = LIMIT) -> T:
        deadline = time.monotonic() + limit
        while not (found := await asyncio.to_thread(look, self)):
            assert time.monotonic() < deadline, f"not within {limit:g} s: {what}\n{self.requests()}"
            await asyncio.sleep(0.05)
        return found


def _unframed(text: str) -> str:
    """Claude puts a frame with an id around what it takes for pasted; what was pasted stands in it unchanged."""
    return _PASTE_FRAME.sub(lambda found: found[2], text)
