"""A conversation without what is another one at each run: ids are numbered as they come, times and folders are gone.

What is said of a session between two of its events is one change: the original sends a list for each of several
reasons, and ours a frame for each fact. That no frame says nothing, or what is not true, is for ``stream_checker``.
What git says comes when it is known, and is compared by itself (``git_of``).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from .recording import Answer, Append, Ask, Frame, Happen, Say, Step

HOME = "/home/user"
"""The recorder's folder; ours stands for it."""

EVENTS = frozenset(
    {
        *("pre_tool_use", "post_tool_use", "stop", "subagent_stop"),
        *("session_start", "session_end", "user_prompt_submit", "notification"),
    }
)

EARLIEST, LATEST = 1_600_000_000_000, 2_200_000_000_000

TIMES = frozenset({"createdAt", "lastActivity", "timestamp", "updatedAt", "modified"})

INSIDE = frozenset(
    {
        *("status", "currentTool", "waitingFor", "suggestion"),
        *("agentSessionId", "claudeSessionId", "codexThreadId"),
    }
)
"""What the program of an internal session makes of it. The recorded one was mute, ours hooks as the real one does."""

CHANGES = ("session:created", "session:updated", "session:status", "session:deleted")

PROMPTS = ("cin:permission_prompt", "permission_prompt")
"""The two frames of each."""

NO_NEWS = frozenset({"lastActivity", "gitStatus"})
"""What of a session changes without being told, and what is told by itself."""


def canonical(steps: Sequence[Step], folders: Mapping[str, str] | None = None) -> list[Step]:
    """The steps; their actions stay as they are. ``folders`` are ours, by the recorder's that each stands for."""
    given = _given(steps)
    text = json.dumps([[step.heard, _answer(step)] for step in steps], ensure_ascii=False)
    for theirs, ours in (folders or {}).items():
        text = text.replace(ours, theirs)
    plain = json.loads(text)
    inside = frozenset(one["id"] for one in sessions_in(plain) if one["type"] == "internal")
    plain = [_without_programs(one, inside) for one in plain]
    naming = _Naming(given)
    naming.learn(plain)
    plain = [naming.put(one) for one in plain]
    known: dict[str, _Known] = {}
    made: list[Step] = []
    for step, (heard, answer) in zip(steps, plain, strict=True):
        told = {who: known.setdefault(who, _Known()).news(frames) for who, frames in heard.items()}
        kept = {who: frames for who, frames in sorted(told.items()) if frames}
        said = step.answer and replace(step.answer, body=without_git(answer))
        made.append(replace(step, action=renamed(step.action, naming.session), heard=kept, answer=said))
    return made


def sessions_in(value: Any) -> Iterator[Frame]:
    """Every Session object in it."""
    return (found for found in objects(value) if is_session(found))


def is_session(value: Any) -> bool:
    """Whether it is a Session object."""
    return isinstance(value, dict) and {"id", "name", "type", "agent", "cwd", "createdAt"} <= value.keys()


def is_event(value: Any) -> bool:
    """Whether it is an event."""
    return isinstance(value, dict) and value.get("type") in EVENTS and "timestamp" in value


def objects(value: Any) -> Iterator[Frame]:
    """Every object in it, in order."""
    if isinstance(value, dict):
        yield value
        for one in value.values():
            yield from objects(one)
    elif isinstance(value, list):
        for one in value:
            yield from objects(one)


def git_of(steps: Sequence[Step]) -> dict[str, Frame]:
    """What git said last of each folder."""
    found: dict[str, Frame] = {}
    for step in steps:
        for session in sessions_in([step.heard, _answer(step)]):
            if "gitStatus" in session:
                found[session["cwd"]] = {k: v for k, v in session["gitStatus"].items() if k != "lastChecked"}
    return found


def without_git(value: Any) -> Any:
    """Without git's word."""
    if isinstance(value, dict):
        return {key: without_git(one) for key, one in value.items() if key != "gitStatus" or not is_session(value)}
    return [without_git(one) for one in value] if isinstance(value, list) else value


def _without_programs(value: Any, inside: frozenset[str]) -> Any:
    """Without what the programs of internal sessions do by themselves."""
    if isinstance(value, list):
        return [_without_programs(one, inside) for one in value if not _is_inside(one, inside)]
    if not isinstance(value, dict):
        return value
    left = INSIDE if is_session(value) and value["id"] in inside else frozenset()
    own = {key: _without_programs(one, inside) for key, one in value.items() if key not in left}
    if value.get("type") == "connected" and own["payload"]["sessionId"] != "unknown":
        own["payload"] = {"sessionId": "<the newest>"}
    return own


def _is_inside(value: Any, inside: frozenset[str]) -> bool:
    """Whether it is an event of such a session, or tells of one."""
    kind = value.get("type") if isinstance(value, dict) else None
    if kind in ("tokens", "cin:tokens"):
        return value["payload"].get("sessionId") in inside
    event = value.get("data") if kind == "event" else value
    return is_event(event) and event.get("sessionId") in inside


class _Known:
    """What one socket was told of sessions."""

    def __init__(self) -> None:
        self._cards: dict[str, Frame] = {}
        self._listed: Any = None
        self._prompts: dict[str | None, int] = {}

    def news(self, frames: Sequence[Frame]) -> list[Frame]:
        """The frames of a step: changes as one each, and at the end the list if it has news."""
        made: list[Frame] = []
        pending: dict[str, list[Frame]] = {}
        listed: Frame | None = None
        for frame in (without_git(frame) for frame in frames):
            told = frame.get("data", frame.get("payload"))
            kind = frame.get("type")
            if kind in CHANGES:
                pending.setdefault(told["id"], []).append(frame)
            elif kind == "sessions":
                listed = frame
                if self._listed is None:
                    made.append(self._first(frame))
            elif kind in PROMPTS and not self._is_news(told):
                continue  # more is known of what is asked already
            elif kind != "cin:git_status":
                of_one = kind == "event" and isinstance(told, dict)
                for one in [str(told.get("sessionId"))] if of_one else list(pending):
                    made += self._change(pending.pop(one, []))
                made.append(frame)
                self._take_init(kind, told)
        for changes in pending.values():
            made += self._change(changes)
        if listed is not None and _plain(listed) != self._listed:
            self._listed = _plain(listed)
            made.append(listed)
        return made

    def _is_news(self, prompt: Frame) -> bool:
        decision = prompt.get("decisionId")  # the originals have no name for it
        known = self._prompts.get(decision, 0)
        self._prompts[decision] = known + 1
        return decision is None or known < len(PROMPTS)

    def _first(self, frame: Frame) -> Frame:
        self._listed = _plain(frame)
        return frame

    def _take_init(self, kind: Any, told: Any) -> None:
        if kind == "init":
            self._cards = {one["id"]: one for one in told["sessions"]}

    def _change(self, frames: list[Frame]) -> list[Frame]:
        """Several changes of one session as one."""
        if not frames:
            return []
        last = frames[-1]
        told = last["data"]
        before = self._cards.get(told["id"])
        kinds = {frame["type"] for frame in frames}
        if last["type"] == "session:deleted":
            self._cards.pop(told["id"], None)
            return [last] if before is not None else []
        self._cards[told["id"]] = told
        if "session:created" in kinds:
            return [{**last, "type": "session:created"}]
        if before is not None and before.get("status") == told.get("status"):
            same = {k: v for k, v in before.items() if k not in NO_NEWS} == {
                k: v for k, v in told.items() if k not in NO_NEWS
            }
            return [] if same else [{**last, "type": "session:updated"}]
        return [{**last, "type": "session:status"}]


def _plain(listed: Frame) -> Any:
    return [{k: v for k, v in one.items() if k not in NO_NEWS} for one in listed["data"]]


def _answer(step: Step) -> Any:
    return None if step.answer is None else step.answer.body


def _given(steps: Sequence[Step]) -> tuple[frozenset[str], frozenset[float]]:
    """Texts and numbers that the client brought along."""
    texts: set[str] = set()
    numbers: set[float] = set()

    def take(value: Any) -> None:
        if isinstance(value, str):
            texts.add(value)
            try:
                take(json.loads(value))
            except ValueError:
                return
        elif isinstance(value, int | float):
            numbers.add(value)
        elif isinstance(value, dict):
            for one in value.values():
                take(one)
        elif isinstance(value, list | tuple):
            for one in value:
                take(one)

    for step in steps:
        match step.action:
            case Ask(body=body):
                take(body)
            case Say(message=message):
                take(message if not isinstance(message, bytes) else None)
            case Append(line=line):
                take(line)
            case Happen(lines=lines):
                take(list(lines))
    return frozenset(texts), frozenset(numbers)


class _Naming:
    """Gives each id its number, by what it is the id of."""

    def __init__(self, given: tuple[frozenset[str], frozenset[float]]) -> None:
        self._texts, self._numbers = given
        self._names: dict[str, str] = {}
        self._counts: dict[str, int] = {}

    def learn(self, value: Any) -> None:
        """Every id there is."""
        for what, fits, key in _IDS:
            for one in objects(value):
                if fits(one) and isinstance(one.get(key), str):
                    self._name(what, one[key])

    def _name(self, what: str, own: str) -> None:
        if own not in self._names and (own not in self._texts or what == "session"):
            self._counts[what] = self._counts.get(what, 0) + 1
            self._names[own] = f"<{what} {self._counts[what]}>"

    def session(self, text: str) -> str:
        """A text of the client's with the names of sessions."""
        for own, name in self._names.items():
            if name.startswith("<session "):
                text = text.replace(own, name)
        return text

    def put(self, value: Any) -> Any:
        """The value with names for ids and words for times."""
        if not self._names:
            return self._timeless(value)
        longest = sorted(self._names, key=len, reverse=True)
        pattern = re.compile("|".join(re.escape(own) for own in longest))
        return self._timeless(_texts(value, lambda text: pattern.sub(lambda found: self._names[found[0]], text)))

    def _timeless(self, value: Any) -> Any:
        if isinstance(value, dict):
            own = {key: self._timeless(one) for key, one in value.items()}
            for key in TIMES & own.keys():
                if isinstance(own[key], int | float) and EARLIEST < own[key] < LATEST and own[key] not in self._numbers:
                    own[key] = "<time>"
            if is_event(value) and "duration" in value and str(own["id"]).startswith("<event "):
                own["duration"] = "<ms>"
            return own
        return [self._timeless(one) for one in value] if isinstance(value, list) else value


_IDS: tuple[tuple[str, Callable[[Frame], bool], str], ...] = (
    ("session", is_session, "id"),
    ("event", is_event, "id"),
    ("call", is_event, "toolUseId"),
    ("decision", lambda one: "decisionId" in one, "decisionId"),
    ("tile", lambda one: {"text", "position", "createdAt"} <= one.keys(), "id"),
    ("feedback", lambda one: {"description", "processed"} <= one.keys(), "id"),
)


def _texts(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {key: _texts(one, change) for key, one in value.items()}
    return [_texts(one, change) for one in value] if isinstance(value, list) else value


def renamed(action: Any, change: Callable[[str], str]) -> Any:
    """An action with all its texts changed."""
    match action:
        case Ask():
            return replace(action, path=change(action.path), body=_texts(action.body, change))
        case Say(message=message):
            return action if isinstance(message, bytes) else replace(action, message=_texts(message, change))
        case Append():
            return replace(action, line=_texts(action.line, change))
        case Happen():
            return replace(action, lines=tuple(change(line) for line in action.lines))
    return action


def answered(step: Step, **changes: Any) -> Step:
    """The step with another answer."""
    assert step.answer is not None
    return replace(step, answer=replace(step.answer, **changes))


__all__ = ["Answer", "answered", "canonical", "git_of", "is_event", "is_session", "objects", "renamed", "sessions_in"]
