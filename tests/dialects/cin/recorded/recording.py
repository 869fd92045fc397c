"""Recorded conversations with the two original servers, step by step: what a client did, and what was said then.

Frames are of the step that set them off. A request stands in a recording where its answer came, so that what was said
within ``JUST_BEFORE`` is of it, too, where it says what the request did.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

Frame = dict[str, Any]

DATA = Path(__file__).parents[3] / "data" / "cin" / "recorded"

NAMES = ("cab", "cab-file", "cin", "cin2", "cin3")

JUST_BEFORE = 60
"""Milliseconds."""

GONE = 1005
"""The code of a socket that its client closed."""


@dataclass(frozen=True)
class Open:
    """A socket is opened."""

    who: str


@dataclass(frozen=True)
class Close:
    """A client closes its socket."""

    who: str


@dataclass(frozen=True)
class Say:
    """A client sends a message: as JSON, or, where it is a text or bytes, as it is."""

    who: str
    message: Any


@dataclass(frozen=True)
class Ask:
    """An HTTP request. ``body`` is sent as it is where it is a text, else as JSON; None: without one."""

    method: str
    path: str
    body: Any = None
    origin: str | None = None


@dataclass(frozen=True)
class Append:
    """A line is appended to the events file."""

    line: Any


@dataclass(frozen=True)
class Happen:
    """Something beside the protocol: a hook's script runs, a program is ended, an agent writes its log."""

    what: str
    lines: tuple[str, ...] = ()


Action = Open | Close | Say | Ask | Append | Happen


@dataclass(frozen=True)
class Answer:
    """What came of a request: ``body`` is what was JSON, else text."""

    status: int
    ctype: str | None
    acao: str | None
    body: Any


@dataclass
class Step:
    """One action and what came of it: an answer, how a socket was closed by the server, and what each one heard."""

    action: Action
    answer: Answer | None = None
    closed: int | None = None
    heard: dict[str, list[Frame]] = field(default_factory=dict)


@dataclass(frozen=True)
class Beside:
    """What happened before the first frame that ``shows`` it, and stands in no entry of its own."""

    action: Happen
    shows: Callable[[Frame], bool]


HOOK = {
    "session_id": "hs-generated",
    "transcript_path": "/t",
    "cwd": "/home/user/proj",
    "permission_mode": "default",
    "hook_event_name": "PreToolUse",
    "tool_name": "Bash",
    "tool_input": {"command": "ls"},
    "tool_use_id": "tu-generated",
}
REPO_HOOK = {
    **HOOK,
    "session_id": "hs-repo-hook",
    "tool_use_id": "tu-repo-hook",
    "id": "7f3a4148-718b-43ac-84f1-42db9c8149a6",
    "timestamp": 1795817354541,
    "type": "pre_tool_use",
    "sessionId": "hs-repo-hook",
    "agent": "claude",
}
SCRIPTED = {
    "repo-hook": (json.dumps(REPO_HOOK),),
    "generated": (json.dumps({**HOOK, "hook_type": "", "agent": "claude", "tty": "/dev/pts/9"}),),
}
"""What each of the two scripts appends and posts (spec §8)."""

THREAD = "0199aaaa-bbbb-7ccc-8ddd-eeeeeeeeeeee"
"""Of the Codex session in ``cin3``, whose rollout the recorder wrote."""


def _rolled(*payloads: tuple[str, Frame]) -> Happen:
    return Happen("rollout", tuple(json.dumps({"type": kind, "payload": payload}) for kind, payload in payloads))


def _event_of(kind: str, **fields: Any) -> Callable[[Frame], bool]:
    def shows(frame: Frame) -> bool:
        told: Any = frame.get("data")
        return frame["type"] == "event" and told["type"] == kind and all(told.get(k) == v for k, v in fields.items())

    return shows


def _listed_codex(status: str) -> Callable[[Frame], bool]:
    def shows(frame: Frame) -> bool:
        listed = frame["data"] if frame["type"] == "sessions" else ()
        return any((one["agent"], one["status"], one["type"]) == ("codex", status, "external") for one in listed)

    return shows


BESIDE: dict[str, tuple[Beside, ...]] = {
    "cin3": (
        Beside(
            _rolled(("session_meta", {"id": THREAD, "cwd": "/home/user/proj", "originator": "codex_cli_rs"})),
            _listed_codex("working"),
        ),
        Beside(
            _rolled(
                ("event_msg", {"type": "task_started", "turn_id": "turn_1"}),
                ("event_msg", {"type": "user_message", "message": "fix it"}),
            ),
            _event_of("user_prompt_submit"),
        ),
        Beside(
            _rolled(
                (
                    "response_item",
                    {"type": "function_call", "name": "exec_command", "arguments": '{"cmd":"ls"}', "call_id": "call_1"},
                ),
                (
                    "response_item",
                    {"type": "function_call", "name": "shell", "arguments": '{"command":["ls"]}', "call_id": "call_2"},
                ),
            ),
            _event_of("pre_tool_use"),
        ),
        Beside(
            _rolled(
                (
                    "response_item",
                    {"type": "function_call_output", "call_id": "call_2", "output": "Exit code: 3\nboom"},
                ),
            ),
            _event_of("post_tool_use"),
        ),
        Beside(
            _rolled(
                (
                    "response_item",
                    {
                        "type": "message",
                        "role": "assistant",
                        "content": [{"type": "output_text", "text": "all done"}],
                    },
                ),
                ("event_msg", {"type": "task_complete", "turn_id": "turn_1", "last_agent_message": "all done"}),
            ),
            _listed_codex("waiting"),
        ),
    ),
}
"""The rollout of ``cin3``: the watcher of the original made these events of it (spec §9.2)."""

ORIGINS: dict[str, str | None] = {
    "A": "http://localhost:4002",
    "B": "http://localhost:4002",
    "noorigin": None,
    "evil": "http://evil.example",
    "evil2": "http://localhost.evil.example",
    "https": "https://127.0.0.1:8443",
    "path": "http://localhost:4002",
}
"""With which origin the recorder opened each socket (spec §1): recordings do not say it."""

PATHS = {"path": "/any/path?x=1"}
"""Where that was another one than ``/``."""

STRANGER = "http://evil.example"
"""The origin of the last three requests in a row that begins with three ``OPTIONS``, which do not say it either."""

Entry = tuple[int, str, str, Any]
"""Milliseconds since the start, who, what, and the content."""


@cache
def _entries(name: str) -> tuple[Entry, ...]:
    found: list[Entry] = []
    for line in (DATA / f"{name}.jsonl").read_text("utf-8").splitlines():
        entry = json.loads(line)
        said = entry["data"]
        if isinstance(said, dict) and "as" in said:
            said = found[said["as"]][3]
        elif isinstance(said, dict) and "both" in said:
            said = {"type": said["type"], "data": said["both"], "payload": said["both"]}
        found.append((entry["t"], entry["who"], entry["dir"], said))
    return tuple(found)


def load(name: str) -> list[Step]:
    """The conversation, anew each time."""
    return list(_Reader(name).steps())


class _Reader:
    def __init__(self, name: str) -> None:
        self._name = name
        self._step: Step | None = None
        self._waiting: list[Entry] = []
        self._options = 0
        self._beside = list(BESIDE.get(name, ()))

    def steps(self) -> Iterator[Step]:
        """The steps in order, each once it is whole."""
        for entry in self._whole():
            at, who, kind, said = entry
            if kind == "recv":
                if self._beside and self._beside[0].shows(said):
                    yield from self._next(at, self._beside.pop(0).action)
                self._waiting.append(entry)
            elif kind == "resp":
                assert self._step is not None
                self._step.answer = Answer(said["status"], said.get("ctype"), said.get("acao"), said.get("body"))
            elif kind == "close" and _code(said) != GONE:
                assert self._step is not None
                self._step.closed = _code(said)
            elif (action := self._action(who, kind, said)) is not None:
                yield from self._next(at, action)
        assert self._step is not None
        assert not self._beside, "what happened beside is seen"
        self._hear(self._waiting)
        yield self._step

    def _whole(self) -> Iterator[Entry]:
        """The entries in one form: later recordings have request and answer as one, and no opening of A."""
        entries = _entries(self._name)
        if entries[0][2] != "open":
            yield (0, "A", "open", None)
        for at, who, kind, said in entries:
            if who == "http" and " " in kind:
                method, _, path = kind.partition(" ")
                yield (at, who, "req", {"method": method, "path": path, "body": said.get("req")})
                yield (at, who, "resp", {"status": said["status"], "ctype": "application/json", "body": said["body"]})
            else:
                yield (at, who, kind, said)

    def _next(self, at: int, action: Action) -> Iterator[Step]:
        """Begin the step of this action; the one before is whole."""
        mine = [one for one in self._waiting if isinstance(action, Ask) and at - one[0] <= JUST_BEFORE]
        self._hear([one for one in self._waiting if one not in mine])
        if self._step is not None:
            yield self._step
        self._step, self._waiting = Step(action), []
        self._hear(mine)

    def _hear(self, entries: Sequence[Entry]) -> None:
        for _, who, _, frame in entries:
            assert self._step is not None
            self._step.heard.setdefault(who, []).append(json.loads(json.dumps(frame)))

    def _action(self, who: str, kind: str, said: Any) -> Action | None:
        match kind:
            case "open":
                return Open(who)
            case "close":
                return Close(who)
            case "send" if isinstance(said, dict) and said.get("type") == "Buffer":
                return Say(who, bytes(said["data"]))
            case "send":
                return Say(who, said)
            case "req":
                return Ask(said["method"], said["path"], said.get("body"), self._origin(said["method"]))
            case "append":
                return Append(said)
            case "run" | "note":
                return Happen(said, SCRIPTED.get(said, ()))
        return None

    def _origin(self, method: str) -> str | None:
        """What a request's was: nothing but for the five at the end of a row of plain ones."""
        if method == "OPTIONS":
            self._options += 1
            return {2: "http://localhost:9", 3: STRANGER}.get(self._options)
        if 3 <= self._options < 5:
            self._options += 1
            return STRANGER
        return None


def _code(said: Any) -> int:
    return int(said.get("code", said.get("c")))
