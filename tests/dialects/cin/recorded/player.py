"""Plays what the clients of a recording did to a server of ours, step by step, and keeps what came of it."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from .bridge import Bridge, Link
from .canonical import CHANGES, HOME, canonical, renamed, sessions_in
from .claude import pids
from .recording import ORIGINS, PATHS, THREAD, Answer, Append, Ask, Close, Frame, Happen, Open, Say, Step

LIMIT = 4.0
"""Seconds that a step waits for what is expected of it."""

PATIENCE = 20.0
"""Seconds that a program may take to finish its turn, or to be missed."""

OPEN = 101

NOBODY = "ffffffff-ffff-4fff-8fff-ffffffffffff"
"""The id of a session that should be there."""

_NAMED = re.compile(r"<(session) (\d+)>")


class Player:
    """``root`` is the folder that stands for the recorder's, ``programs`` that of ``claude``.

    ``steps`` is what came, as it was heard; ``folders`` are ours, by the recorder's.
    """

    def __init__(self, bridge: Bridge, root: Path, programs: Path, *, limit: float = LIMIT) -> None:
        self._bridge = bridge
        self._programs = programs
        self.folders = {f"{HOME}/home": str(bridge.home), f"{HOME}/src": str(bridge.folder), HOME: str(root)}
        self._limit = limit
        self.links: dict[str, Link] = {}
        self._read: dict[str, int] = {}
        self.steps: list[Step] = []

    async def play(self, expected: Sequence[Step]) -> None:
        """Do what the clients did. Each step waits for as much as is expected, and no longer than the limit."""
        for wanted in expected:
            step = Step(wanted.action)
            self.steps.append(step)
            await self._act(step, renamed(wanted.action, self._here))
            await self._hear(step, wanted)
        await self._last_words()

    def heard(self, who: str) -> list[Frame]:
        """All that one socket heard."""
        return self.links[who].frames

    async def leave(self) -> None:
        """Close what is open."""
        for link in self.links.values():
            await link.leave()

    def _here(self, text: str) -> str:
        """A text of the recording as it is here: its folder, and the ids that stand behind names."""
        known = self._sessions()
        text = text.replace(HOME, self.folders[HOME])
        return _NAMED.sub(lambda found: known.get(int(found[2]), NOBODY), text)

    def _sessions(self) -> dict[int, str]:
        """The sessions' ids by their numbers: as canonical form has them."""
        found: dict[str, None] = {}
        for step in self.steps:
            heard = {who: step.heard[who] for who in step.heard}
            for session in sessions_in([heard, None if step.answer is None else step.answer.body]):
                found.setdefault(session["id"])
        return dict(enumerate(found, 1))

    async def _act(self, step: Step, action: Any) -> None:
        match action:
            case Open(who):
                link = Link()
                status = await link.open(self._bridge.port, PATHS.get(who, "/"), ORIGINS[who])
                if status == OPEN:
                    self.links[who], self._read[who] = link, 0
                else:
                    step.closed = status
            case Close(who):
                await self.links[who].leave()
            case Say(who, message):
                await self.links[who].say(message)
            case Ask():
                await self._ask(step, action)
            case Append(line):
                self._append(json.dumps(line))
            case Happen("rollout", lines):
                self._roll(lines)
            case Happen("killed tmux"):
                await self._kill()
            case Happen(_, lines):
                await self._script(lines)

    async def _ask(self, step: Step, action: Ask) -> None:
        body = action.body
        told = await self._bridge.request(action.method, action.path, body, origin=action.origin)
        step.answer = Answer(told.status, told.ctype, told.acao, told.body)

    def _append(self, line: str) -> None:
        with self._bridge.events_file.open("a", encoding="utf-8") as file:
            file.write(line + "\n")

    def _roll(self, lines: Sequence[str]) -> None:
        """Codex writes its rollout, where it would today."""
        now = datetime.now(UTC)
        sessions = self._bridge.home / ".codex" / "sessions"
        rollout = next(sessions.rglob("rollout-*.jsonl"), None)
        if rollout is None:
            rollout = sessions / f"{now:%Y/%m/%d}" / f"rollout-{now:%Y-%m-%dT%H-%M-%S}-{THREAD}.jsonl"
            rollout.parent.mkdir(parents=True)
        with rollout.open("a", encoding="utf-8") as file:
            for line in lines:
                file.write(json.dumps({"timestamp": f"{now:%Y-%m-%dT%H:%M:%S}.000Z", **json.loads(line)}) + "\n")

    async def _kill(self) -> None:
        """The program of the newest session is ended, once it does nothing; known when its session is offline."""

        async def status() -> str:
            listed = await self._bridge.request("GET", "/sessions")
            return str([one for one in listed.body["sessions"] if one["type"] == "internal"][-1]["status"])

        async with asyncio.timeout(PATIENCE):
            while await status() not in ("idle", "waiting"):
                await asyncio.sleep(0.01)
            os.kill(pids(self._programs)[-1], signal.SIGKILL)
            while await status() != "offline":
                await asyncio.sleep(0.01)

    async def _script(self, lines: Sequence[str]) -> None:
        """A hook's script: it appends its line, and posts it."""
        for line in lines:
            self._append(line)
            await self._bridge.request("POST", "/event", line)

    # What comes of it

    async def _hear(self, step: Step, wanted: Step) -> None:
        for who, link in self.links.items():
            frames = wanted.heard.get(who, [])
            if frames and link.closed is None:
                await self._until(who, link, frames)
            elif isinstance(step.action, Say) and step.action.who == who:
                await link.pong()
            self._take(step, who, link)
            step.closed = link.closed if self._closes(step, who, link) else step.closed

    def _closes(self, step: Step, who: str, link: Link) -> bool:
        return link.closed is not None and step.action == Open(who)

    async def _until(self, who: str, link: Link, frames: Sequence[Frame]) -> None:
        """Wait for as many frames of each kind, and for the list behind the last change."""
        start = self._read[who]
        wanted = Counter(_kind(frame) for frame in frames if frame["type"] not in CHANGES)
        changes = any(frame["type"] in CHANGES for frame in frames)

        listed = [_looks(frame) for frame in frames if frame["type"] == "sessions"]

        def there() -> bool:
            inside = {one["id"] for one in sessions_in(link.frames) if one["type"] == "internal"}
            came = [frame for frame in link.frames[start:] if not _is_of(frame, inside)]
            if listed and [_looks(frame) for frame in came if frame["type"] == "sessions"][-1:] != listed[-1:]:
                return False
            changed = any(frame["type"] in CHANGES for frame in came)
            return (changed or not changes) and not wanted - Counter(map(_kind, came))

        try:
            await link.until(there, "what is expected", self._limit)
        except AssertionError:
            return  # what is missing is said when all is compared

    def _take(self, step: Step, who: str, link: Link) -> None:
        came = link.frames[self._read[who] :]
        self._read[who] = len(link.frames)
        if isinstance(step.action, Say) and step.action.who == who and step.action.message != {"type": "ping"}:
            came = _without_pong(came)
        if came:
            step.heard[who] = came

    async def _last_words(self) -> None:
        """What was said too late belongs to the last step."""
        await asyncio.sleep(0)
        for who, link in self.links.items():
            if link.closed is None:
                await link.pong()
                came = _without_pong(link.frames[self._read[who] :])
                if came:
                    self.steps[-1].heard.setdefault(who, []).extend(came)


def got(player: Player) -> list[Step]:
    """What came, in canonical form."""
    return canonical(player.steps, player.folders)


def _looks(frame: Frame) -> list[tuple[object, ...]]:
    """How a list shows its sessions, but for ids and times, and for what programs do."""
    always, elsewhere = ("name", "type", "zonePosition", "autoAccept"), ("status", "currentTool", "waitingFor")
    return [
        (*map(card.get, always), *map(card.get, elsewhere if card["type"] == "external" else ()))
        for card in frame["data"]
    ]


def _is_of(frame: Frame, sessions: set[str]) -> bool:
    """Whether it is an event of one of these."""
    return frame["type"] == "event" and frame["data"]["sessionId"] in sessions


def _kind(frame: Frame) -> str:
    return str(frame["type"])


def _without_pong(frames: list[Frame]) -> list[Frame]:
    """Without the answer to the ping that only asks whether all has been heard."""
    last = max((at for at, frame in enumerate(frames) if frame["type"] == "pong"), default=None)
    return frames if last is None else [*frames[:last], *frames[last + 1 :]]
