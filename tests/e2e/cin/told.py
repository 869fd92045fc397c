"""What one link was told of one session, and how to wait for more."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from tests.dialects.cin.recorded.bridge import Link
from tests.dialects.cin.stream_checker import Frame, problems

T = TypeVar("T")

LIMIT = 30.0
"""Seconds for what an agent does by itself: these are large programs on a busy machine."""

CHANGES = ("session:created", "session:updated", "session:status")


class Told:
    """One session, as ``link`` was told of it."""

    def __init__(self, link: Link, session: str) -> None:
        self.link = link
        self.id = session

    # Now

    @property
    def session(self) -> Frame:
        """Its newest form."""
        return self.forms()[-1]

    def forms(self, since: int = 0) -> list[Frame]:
        """All of its forms since that frame."""
        return [form for frame in self.link.frames[since:] for form in _sessions(frame) if form["id"] == self.id]

    def statuses(self, since: int = 0) -> list[str]:
        """Its statuses since that frame in order, repeats in a row as one."""
        told = [form["status"] for form in self.forms(since)]
        return [status for at, status in enumerate(told) if at == 0 or told[at - 1] != status]

    def events(self, *kinds: str) -> list[Frame]:
        """Its events in order, of these types or of all."""
        told = [frame["data"] for frame in self.link.frames if frame["type"] == "event"]
        return [event for event in told if event["sessionId"] == self.id and (not kinds or event["type"] in kinds)]

    def kinds(self) -> list[str]:
        """The types of its events."""
        return [event["type"] for event in self.events()]

    def prompts(self) -> list[Frame]:
        """The permissions that were asked for."""
        return [it for it in self._extensions("cin:permission_prompt") if it["sessionId"] == self.id]

    def resolved(self) -> list[Frame]:
        """Those that are asked for no more."""
        return [it for it in self._extensions("cin:permission_resolved") if it["sessionId"] == self.id]

    def calls(self) -> list[tuple[Frame, Frame]]:
        """Each tool call's beginning and end, in the order of the beginnings; there must be exactly one of each."""
        begun, ended = self.events("pre_tool_use"), self.events("post_tool_use")
        ids = [event["toolUseId"] for event in begun]
        assert len(set(ids)) == len(ids), self.story()
        assert sorted(ids) == sorted(event["toolUseId"] for event in ended), self.story()
        return [(one, next(it for it in ended if it["toolUseId"] == one["toolUseId"])) for one in begun]

    # Waiting

    async def until(self, look: Callable[[], T], what: str, limit: float = LIMIT) -> T:
        try:
            return await self.link.until(look, what, limit)
        except AssertionError:
            raise AssertionError(f"not within {limit:g} s: {what}\n{self.story()}") from None

    async def event(self, kind: str, count: int = 1, limit: float = LIMIT) -> Frame:
        """The event of that type with that number, from 1."""
        found = await self.until(lambda: self.events(kind)[count - 1 : count], f"{kind} number {count}", limit)
        return found[0]

    async def status(self, *wanted: str, limit: float = LIMIT) -> Frame:
        """Wait until it is in one of these statuses; the session then."""
        await self.until(lambda: self.session["status"] in wanted, f"status {' or '.join(wanted)}", limit)
        return self.session

    async def rests(self, stops: int) -> None:
        """So many turns are over, and it waits for the next prompt."""
        await self.event("stop", stops)
        await self.until(lambda: self.session.get("waitingFor") == "prompt", "it waits for a prompt")
        assert self.session["status"] == "waiting"
        assert "currentTool" not in self.session

    async def prompt(self, count: int = 1) -> Frame:
        """The permission that is asked for with that number, from 1, while it is open."""
        found = await self.until(lambda: self.prompts()[count - 1 : count], f"permission prompt number {count}")
        await self.until(lambda: self.session["status"] == "waiting", "it waits for an answer")
        assert len(self.resolved()) == count - 1, self.story()
        return found[0]

    async def gone(self, count: int = 1, limit: float = LIMIT) -> Frame:
        """The outcome with that number, from 1."""
        found = await self.until(lambda: self.resolved()[count - 1 : count], f"outcome number {count}", limit)
        return found[0]

    async def answer(self, prompt: Frame, label: str) -> None:
        """Answer with the row that begins so."""
        number = next(row["number"] for row in prompt["options"] if row["label"].startswith(label))
        data = {"sessionId": self.id, "response": number, "decisionId": prompt["decisionId"]}
        await self.link.say({"type": "permission_response", "data": data})

    def story(self) -> str:
        """What it was told, in a line each."""
        return "\n".join(_line(frame) for frame in self.link.frames if self.id in _about(frame))

    def _extensions(self, kind: str) -> list[Frame]:
        return [frame["data"] for frame in self.link.frames if frame["type"] == kind]


async def meets(link: Link, agent: str, cwd: Path, *, known: tuple[str, ...] = ()) -> Told:
    """The session of that agent in that folder, once it is told of; none of the known ones."""

    def look() -> str | None:
        for frame in link.frames:
            for form in _sessions(frame):
                if (form["agent"], form["cwd"]) == (agent, str(cwd)) and form["id"] not in known:
                    return str(form["id"])
        return None

    session = await link.until(look, f"a session of {agent} in {cwd}", LIMIT)
    assert session is not None
    told = Told(link, session)
    assert told.session["type"] == "external"
    return told


async def history(link: Link) -> list[Frame]:
    """All the events that the server tells of now."""
    since = len(link.frames)
    await link.say({"type": "get_history", "data": {"limit": 1000}})
    frame = await link.until(
        lambda: next((it for it in link.frames[since:] if it["type"] == "history"), None), "history", LIMIT
    )
    assert frame is not None
    return list(frame["data"])


async def can_be(link: Link) -> None:
    """What the link was told so far breaks no rule of the dialect, and history tells it again."""
    told = [frame["data"] for frame in link.frames if frame["type"] == "event"]
    everything = await history(link)
    wrong = problems(link.frames)
    assert not wrong, "\n".join([*wrong, *(f"{at} {_line(frame)}" for at, frame in enumerate(link.frames))])
    assert [event for event in told if event not in everything] == []


def _about(frame: Frame) -> tuple[Any, ...]:
    """The ids of the session that a frame is about, if it is about one."""
    told = frame.get("data")
    return (told.get("id"), told.get("sessionId")) if isinstance(told, dict) else ()


def _sessions(frame: Frame) -> list[Any]:
    """The sessions that a frame of the seed's tells."""
    if frame["type"] == "init":
        return list(frame["data"]["sessions"])
    return [frame["data"]] if frame["type"] in CHANGES else []


_WORDS = (
    *("status", "waitingFor", "currentTool", "type", "tool", "prompt", "message", "success", "response", "reason"),
    *("source", "agent_id", "decisionId", "options"),
)


def _line(frame: Frame) -> str:
    told = frame.get("data")
    if not isinstance(told, dict):
        return f"{frame['type']}"
    about = told.get("toolInput", {}).get("command", "")
    words = [f"{name}={told[name]!s:.60}" for name in _WORDS if name in told and told[name] != "external"]
    return " ".join([f"{frame['type']}:", *words, str(about)[:60]])
