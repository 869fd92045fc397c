"""What the tests of watching share: who is told, recorded logs as bytes, and logs as their agents would write them."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from dragoman.agents.common.observation import Observation
from dragoman.agents.hooked.settings import HookedSettings
from dragoman.agents.hooked.watchers import Watchers
from dragoman.hub.events import AnyFact
from dragoman.hub.limits import HubLimits
from dragoman.hub.log import SessionLog
from dragoman.hub.ports import HookPost
from tests.agents.common.recorded import DATA
from tests.hub.rig import until

QUICK = HookedSettings(look=0.01, discover=0.02, search_files=500)

CLAUDE = "29fb6968-f0f3-4bad-929a-9760ed83824c"
"""The session of the recorded transcript ``text``."""

PERMITTED = "2ccd74ed-7b78-4df5-b2e2-a4d6548cb5ca"
"""The session of the recorded transcript ``permission``."""

CODEX = "01a2207a-e8ef-79a1-bba2-23f98f4744e5"
"""The session of the recorded rollout ``text``."""


class Told(msgspec.Struct, frozen=True):
    """What was observed, as it was given on."""

    agent: str
    session: str
    seen: Observation
    cwd: str | None
    create: bool


class Heard:
    """Implements what watchers give on to. It knows the sessions in ``known``, and makes those it may."""

    def __init__(self, *known: str) -> None:
        self.known = set(known)
        self.told: list[Told] = []
        self.posts: list[HookPost] = []
        self.own: dict[str, bool | None] = {}
        """Sessions that we run ourselves; None where that is not known yet."""
        self.refuses: list[Exception] = []
        """Raised, each once, for what comes next."""

    def accept(self, post: HookPost) -> tuple[SessionLog, int] | None:
        return None

    async def take(self, post: HookPost) -> None:
        self._refuse()
        self.posts.append(post)

    async def observed(
        self,
        agent: str,
        agent_session: str,
        observation: Observation,
        *,
        cwd: str | None = None,
        create: bool = False,
    ) -> bool | None:
        self._refuse()
        if self.own.get(agent_session, False) is not False:
            return None if self.own[agent_session] is None else False
        if create:
            self.known.add(agent_session)
        if agent_session not in self.known:
            return False
        self.told.append(Told(agent, agent_session, observation, cwd, create))
        return True

    def _refuse(self) -> None:
        if self.refuses:
            raise self.refuses.pop(0)

    def of(self, kind: type[Any]) -> list[Any]:
        """The facts of this kind, in order."""
        return [fact for told in self.told for fact in told.seen.facts if isinstance(fact, kind)]

    @property
    def facts(self) -> list[AnyFact]:
        return [fact for told in self.told for fact in told.seen.facts]

    @property
    def states(self) -> list[str]:
        return [told.seen.sighting.cause for told in self.told if told.seen.sighting is not None]

    @property
    def posted(self) -> list[dict[str, Any]]:
        return [post.payload for post in self.posts]


@asynccontextmanager
async def watching(
    heard: Heard,
    home: Path,
    settings: HookedSettings = QUICK,
    *,
    kept: Path | None = None,
    environ: Mapping[str, str] | None = None,
    limits: HubLimits | None = None,
) -> AsyncIterator[Watchers]:
    """Watchers of the logs in ``home`` that know what was there before them."""
    watchers = Watchers(heard, settings, limits, home=home, environ=environ or {}, kept=kept)
    await watchers.open()
    try:
        await until(watchers.searched.is_set)
        yield watchers
    finally:
        await watchers.close()


def recorded(agent: str, name: str) -> bytes:
    """A session log that the real program wrote."""
    return (DATA / agent / f"log-{name}.jsonl").read_bytes()


def now_recorded(agent: str, name: str) -> bytes:
    """The same, as if it were written now."""
    log = recorded(agent, name)
    first = next(at for line in log.splitlines() if (at := json.loads(line).get("timestamp")))
    later = time.time() - datetime.fromisoformat(first).timestamp()
    return b"".join(_line(_later(json.loads(line), later)) for line in log.splitlines())


def lines_of(log: bytes) -> list[bytes]:
    return log.splitlines(keepends=True)


def append(path: Path, *data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        file.write(b"".join(data))


def transcript(home: Path, session: str = CLAUDE) -> Path:
    return home / ".claude" / "projects" / "-tmp-project" / f"{session}.jsonl"


def said(text: str, session: str = CLAUDE, **more: Any) -> bytes:
    """A prompt, as Claude Code writes it down."""
    record = {"type": "user", "message": {"content": text}, "sessionId": session, "cwd": "/tmp/project"}
    return _line(record | {"uuid": f"{session}-{text}", "timestamp": stamp()} | more)


def answered(text: str, session: str = CLAUDE, stop: str | None = "end_turn", **more: Any) -> bytes:
    """Its answer to one."""
    message = {"id": f"m-{text}", "content": [{"type": "text", "text": text}], "stop_reason": stop}
    record = {"type": "assistant", "message": message, "sessionId": session, "uuid": f"{session}-{text}"}
    return _line(record | {"timestamp": stamp()} | more)


INTERRUPTED = "[Request interrupted by user]"


def texts(facts: Iterable[AnyFact]) -> list[str]:
    return [text for fact in facts if (text := getattr(fact, "text", None)) is not None]


def once_told(heard: Heard, count: int) -> Callable[[], bool]:
    return lambda: len(heard.told) >= count


def _line(record: Any) -> bytes:
    return json.dumps(record).encode() + b"\n"


def stamp() -> str:
    """Now, as logs write it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _later(record: dict[str, Any], seconds: float) -> dict[str, Any]:
    at = record.get("timestamp")
    if isinstance(at, str):
        later = datetime.fromisoformat(at) + timedelta(seconds=seconds)
        record["timestamp"] = later.isoformat().replace("+00:00", "Z")
    return record
