"""Differences between the two originals, and in what a recording began with: all of them speak to a fresh cin."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from .canonical import is_event, objects, sessions_in
from .recording import Append, Ask, Close, Frame, Happen, Open, Say, Step, load
from .rewriting import posted, told

OTHER = "cab"

_ID = re.compile(r"(?!0{8})[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""Of a session that there was."""


def fresh(name: str, steps: list[Step]) -> list[Step]:
    """What an earlier run had left is not there."""
    left = {one["id"] for one in sessions_in(list(steps[0].heard.values()))}
    for step in steps:
        for frames in step.heard.values():
            for frame in frames:
                for key in {"data", "payload"} & frame.keys():
                    frame[key] = _without(frame, frame[key], left, first=step is steps[0])
    return steps


def _without(frame: Frame, content: Any, left: set[str], *, first: bool) -> Any:
    if frame["type"] == "init":
        return {"sessions": [one for one in content["sessions"] if one["id"] not in left]}
    if frame["type"] == "sessions":
        return [one for one in content if one["id"] not in left]
    if first and frame["type"] in ("text_tiles", "history"):
        return []
    return {"sessionId": "unknown"} if first and frame["type"] == "connected" else content


def one_api(name: str, steps: list[Step]) -> list[Step]:
    """Of the two, cin's HTTP: a post is of a session, and is told to all; answers have its forms and statuses."""
    if name != OTHER:
        return steps
    theirs = iter(load("cin"))
    names: dict[str, str] = {}
    for step in steps:
        same = next((one for one in theirs if _key(one) == _key(step)), None)
        assert same is not None, step.action
        _learn(names, same, step)
        text = json.dumps([same.heard.get("A", []), same.answer.body if same.answer else None])
        for one, other in names.items():
            text = text.replace(one, other)
        for one, other in _times(same, step).items():
            text = text.replace(one, other)
        frames, body = json.loads(text)
        if isinstance(body, dict) and "avgDurations" in body and "Read" in body["avgDurations"]:
            body["avgDurations"]["Read"] = 125
        if step.answer is not None and same.answer is not None:
            step.answer = type(step.answer)(same.answer.status, same.answer.ctype, same.answer.acao, body)
        _tell(step, frames)
    return steps


def _key(step: Step) -> tuple[Any, ...]:
    """The action, but for ids and times."""
    match step.action:
        case Ask(method, path, body, origin):
            short = _ID.sub("<id>", path)
            plain = {k: v for k, v in body.items() if k != "timestamp"} if isinstance(body, dict) else body
            return (method, short, json.dumps(plain), origin)
        case Say(who, dict(message)):
            return (who, _ID.sub("<id>", json.dumps(message)))
        case Say(who, message):
            return (who, message)
        case Open(who) | Close(who):
            return (type(step.action), who)
        case Append() | Happen():
            return (str(step.action),)
    raise AssertionError(step.action)


def _times(same: Step, step: Step) -> dict[str, str]:
    """The times that both posted; of two of one call the second is so much later."""
    mine, other = posted(step).get("timestamp"), posted(same).get("timestamp")
    if mine is None or other is None:
        return {}
    return {str(other): str(mine), '"duration": 127': '"duration": 125'}


def _learn(names: dict[str, str], same: Step, step: Step) -> None:
    """Sessions that both made by one request."""
    names.update(zip(_made(same), _made(step), strict=False))


def _made(step: Step) -> Iterator[str]:
    if isinstance(step.action, Ask) and step.action.path == "/sessions" and step.answer is not None:
        yield from (one["id"] for one in sessions_in(step.answer.body))


def _tell(step: Step, frames: list[Frame]) -> None:
    """Each socket hears what cin says there. What both tell of an event is the same."""
    events = [told(frame) for frame in frames if frame["type"] == "event"]
    for said in step.heard.values():
        for event, other in zip((told(one) for one in said if one["type"] == "event"), events, strict=False):
            _agree(event, other)
    kept = {who: [one for one in said if one["type"] != "event"] for who, said in step.heard.items()}
    news = [frame for frame in frames if frame["type"] in ("event", "text_tiles") and not isinstance(step.action, Open)]
    replies = [frame for frame in frames if isinstance(step.action, Say) and frame["type"] not in ("event", "sessions")]
    if news:
        step.heard = {
            who: [*kept.get(who, []), *json.loads(json.dumps(news))] for who in ("A", "https", "noorigin", "path")
        }
    elif replies and isinstance(step.action, Say):
        step.heard = {**kept, step.action.who: [*kept.get(step.action.who, []), *replies]}


def _agree(event: Frame, other: Frame) -> None:
    own = ("id", "timestamp", "toolUseId", "sessionId")
    for name in event.keys() - set(own):
        assert event[name] == other[name], (name, event, other)


__all__ = ["fresh", "is_event", "objects", "one_api"]
