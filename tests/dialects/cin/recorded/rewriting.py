"""Making of a recorded conversation the one that is to be: what the differences are written with."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from .canonical import is_event, is_session, objects
from .recording import Answer, Append, Ask, Frame, Happen, Step

JSON = "application/json"


def new_id(*words: object) -> str:
    """An id that the recording does not have, the same each time."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, " ".join(map(str, words))))


def told(frame: Frame) -> Any:
    """The content of a frame."""
    return frame.get("data", frame.get("payload"))


def both(kind: str, content: Any) -> Frame:
    """A frame of the seed's, as it is said to everybody."""
    return {"type": kind, "data": content, "payload": content}


def legacy(kind: str, content: Any) -> Frame:
    """A frame that only the dashboard knows."""
    return {"type": kind, "payload": content}


def each_frame(steps: Sequence[Step], change: Callable[[Step, str, Frame], list[Frame]]) -> list[Step]:
    """Every frame replaced by what ``change`` makes of it, given its step and who heard it."""
    return [
        replace(
            step,
            heard={
                who: [made for frame in frames for made in change(step, who, frame)]
                for who, frames in step.heard.items()
            },
        )
        for step in steps
    ]


def each_event(steps: list[Step], change: Callable[[Step, Frame], None]) -> list[Step]:
    """Every event changed in place, wherever it is told; the step is the one in which it happened."""
    home: dict[str, Step] = {}
    for step in steps:
        for frames in step.heard.values():
            for event in (told(frame) for frame in frames if frame["type"] == "event"):
                home.setdefault(event["id"], step)
    done: set[int] = set()
    for step in steps:
        for event in objects(list(step.heard.values())):
            if is_event(event) and id(event) not in done:
                done.add(id(event))
                change(home.get(event["id"], step), event)
    return steps


def each_session(steps: list[Step], change: Callable[[int, Frame], None]) -> list[Step]:
    """Every Session object changed in place, given the number of its step."""
    for number, step in enumerate(steps):
        for session in objects([list(step.heard.values()), step.answer.body if step.answer else None]):
            if is_session(session):
                change(number, session)
    return steps


def posted(step: Step) -> Frame:
    """What a hook or a script brought in this step; empty where none did."""
    match step.action:
        case Ask("POST", "/event" | "/event/codex", dict(body)):
            return body
        case Append(dict(line)):
            return line
    return {}


def asks(step: Step, method: str, path: str) -> bool:
    """Whether this is such a request: a path that ends with a star stands for all that begin so."""
    action = step.action
    if not isinstance(action, Ask) or action.method != method:
        return False
    return action.path.startswith(path[:-1]) if path.endswith("*") else action.path == path


def answer(step: Step, status: int, body: Any, ctype: str | None = JSON, acao: str | None = None) -> Step:
    """The step answered so."""
    return replace(step, answer=Answer(status, ctype, acao, body))


def failed(step: Step, status: int, text: str) -> Step:
    """The step answered with a failure, in cin's form."""
    return answer(step, status, {"ok": False, "error": text})


def listening(steps: Sequence[Step]) -> Iterator[tuple[Step, list[str]]]:
    """Each step with the sockets that are open when it is over."""
    from .recording import Close, Open

    open_: list[str] = []
    for step in steps:
        match step.action:
            case Open(who) if step.closed is None:
                open_.append(who)
            case Close(who):
                open_.remove(who)
        yield step, list(open_)


def happening(step: Step) -> str:
    """What happened beside the protocol in this step, if that is what it is."""
    return step.action.what if isinstance(step.action, Happen) else ""
