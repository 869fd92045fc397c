"""Differences in what a socket is told: who may have one, what it begins with, and the answers to what it says."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from tests.dialects.leaves import ANYTHING

from .cards import told_by_events
from .recording import Ask, Frame, Open, Say, Step
from .rewriting import both, each_frame, each_session, legacy, listening, new_id, told

SEED = frozenset(
    {
        *("init", "event", "history", "sessions"),
        *("session:created", "session:updated", "session:status", "session:deleted"),
    }
)

TWINS = frozenset({"text_tiles", "tokens", "permission_prompt", "permission_resolved", "voice_error"})

DIALOGS = frozenset({"permission_prompt", "permission_resolved", "cin:permission_prompt", "cin:permission_resolved"})

NOT_JSON = "not JSON: "


def refused_before(name: str, steps: list[Step]) -> list[Step]:
    """An origin that may not is refused before there is a socket."""
    return [replace(step, closed=403) if step.closed in (1008, 4003) else step for step in steps]


def native_clients(name: str, steps: list[Step]) -> list[Step]:
    """A client without an origin is one of this machine."""
    who = "noorigin"
    made: list[Step] = []
    open_ = False
    for recorded in steps:
        step = recorded
        if isinstance(step.action, Open) and step.action.who == who and step.closed is not None:
            open_ = True
            step = replace(step, closed=None, heard={**step.heard, who: _first_burst(steps)})
        elif open_ and not isinstance(step.action, Open):
            step = replace(step, heard={**step.heard, who: list(step.heard.get("https", []))})
        made.append(step)
    return made if name.startswith("cin") else steps


def _first_burst(steps: list[Step]) -> list[Frame]:
    found: list[Frame] = json.loads(json.dumps(steps[0].heard["A"]))
    return found


def both_keys(name: str, steps: list[Step]) -> list[Step]:
    """What the seed says is said under both names."""
    return each_frame(
        steps, lambda _step, _who, frame: [both(frame["type"], told(frame))] if frame["type"] in SEED else [frame]
    )


def twins(name: str, steps: list[Step]) -> list[Step]:
    """What the seed would have in a namespace is said there as well, but for what a link begins with."""

    def change(step: Step, who: str, frame: Frame) -> list[Frame]:
        burst = isinstance(step.action, Open) and step.action.who == who
        if frame["type"] not in TWINS or burst:
            return [frame]
        return [both(f"cin:{frame['type']}", told(frame)), frame]

    return each_frame(steps, change)


def pongs(name: str, steps: list[Step]) -> list[Step]:
    """A ping has its pong."""
    return _replying(steps, lambda message: [{"type": "pong"}] if message == {"type": "ping"} else None, instead=True)


def mistakes_are_told(name: str, steps: list[Step]) -> list[Step]:
    """What is no message is answered, and nothing ends."""

    def reply(message: Any) -> list[Frame] | None:
        text = _mistake(message)
        return None if text is None else [both("cin:error", {"message": text}), legacy("error", {"message": text})]

    return _replying(steps, reply)


def _mistake(message: Any) -> str | None:
    """What is wrong with it, in our server's words as far as they matter."""
    if isinstance(message, str):
        try:
            message = json.loads(message)
        except ValueError:
            return NOT_JSON + ANYTHING
    if isinstance(message, bytes):
        return None
    if not isinstance(message, dict) or not isinstance(message.get("type"), str):
        return "a message is an object with a type"
    if message["type"] == "permission_response":
        content = message.get("data") or message.get("payload") or {}
        if not {"sessionId", "response"} <= content.keys():
            return "sessionId and response must be strings"
        if not content["response"].isdigit():
            return "response must be the number of a choice"
        return "nothing is asked there that this would answer" if len(content["sessionId"]) == 1 else None
    known = {"ping", "subscribe", "get_history", "voice_start", "voice_stop"}
    return None if message["type"] in known else f"unknown message type: {message['type']!r}"


def dialogs_are_told(name: str, steps: list[Step]) -> list[Step]:
    """A dialog of a program of ours is told to all, also to who comes later, and so is its one answer."""
    made: list[Step] = []
    asked: Frame = {}
    for step, open_ in listening(steps):
        frames: list[Frame] = []
        prompt = [both("cin:permission_prompt", asked), legacy("permission_prompt", asked)] if asked else []
        own = {who: [one for one in said if one["type"] not in DIALOGS] for who, said in step.heard.items()}
        if isinstance(step.action, Open):
            own[step.action.who] = [*own.get(step.action.who, []), *prompt]
        elif (session := _asked_by(step)) is not None:
            asked = {"sessionId": session, "tool": "Bash", "context": ANYTHING, "options": ANYTHING}
            asked["decisionId"] = new_id(name, session, "asked")
            frames = [both("cin:permission_prompt", asked), legacy("permission_prompt", asked)]
        elif asked and _answer_to(step, asked["sessionId"]):
            outcome = {"sessionId": asked["sessionId"], "decisionId": asked["decisionId"], "response": "1"}
            frames, asked = [both("cin:permission_resolved", outcome), legacy("permission_resolved", outcome)], {}
        made.append(replace(step, heard={who: [*own.get(who, []), *frames] for who in {*open_, *own}}))
    return made


def _asked_by(step: Step) -> str | None:
    """The session whose program asks because of this step."""
    action = step.action
    if not isinstance(action, Ask) or not action.path.endswith("/prompt") or not isinstance(action.body, dict):
        return None
    return action.path.split("/")[2] if str(action.body.get("prompt", "")).startswith("perm") else None


def _answer_to(step: Step, session: str) -> bool:
    message = step.action.message if isinstance(step.action, Say) else None
    if not isinstance(message, dict) or message.get("type") != "permission_response":
        return False
    content = message.get("data") or message.get("payload") or {}
    return content.get("sessionId") == session and str(content.get("response")).isdigit()


def answered_once(name: str, steps: list[Step]) -> list[Step]:
    """Who answers what is answered already is told so."""
    resolved = False
    made: list[Step] = []
    for recorded in steps:
        step = recorded
        again = resolved and isinstance(step.action, Say) and _answer_to(step, _session_of(step))
        if again:
            assert isinstance(step.action, Say)
            problem = {"message": "nothing is asked there that this would answer"}
            said = [both("cin:error", problem), legacy("error", problem)]
            step = replace(step, heard={**step.heard, step.action.who: said})
        resolved = resolved or any(one["type"] == "permission_resolved" for one in step.heard.get("A", []))
        made.append(step)
    return made


def _session_of(step: Step) -> str:
    message = step.action.message if isinstance(step.action, Say) else {}
    content = (message.get("data") or message.get("payload") or {}) if isinstance(message, dict) else {}
    return str(content.get("sessionId", ""))


def own_tokens(name: str, steps: list[Step]) -> list[Step]:
    """Tokens are not read from a screen."""
    return each_frame(steps, lambda _step, _who, frame: [] if frame["type"] in ("tokens", "cin:tokens") else [frame])


def history_as_asked(name: str, steps: list[Step]) -> list[Step]:
    """The newest of those that were asked for, under either name; nothing for a limit that is none."""
    for step in steps:
        for who, frames in step.heard.items():
            for frame in frames:
                if frame["type"] == "history" and isinstance(step.action, Say) and step.action.who == who:
                    asked = step.action.message.get("data") or step.action.message.get("payload") or {}
                    limit = int(asked.get("limit", 100))
                    events = [
                        one for one in _all_events(steps, step) if asked.get("sessionId") in (None, one["sessionId"])
                    ]
                    frame.update(both("history", events[-limit:] if limit > 0 else []))
    return steps


def _all_events(steps: list[Step], until: Step) -> list[Frame]:
    """Those that any one had heard by then."""
    seen: dict[str, Frame] = {}
    for step in steps:
        if step is until:
            break
        for frames in step.heard.values():
            for frame in frames:
                if frame["type"] == "event":
                    seen.setdefault(told(frame)["id"], told(frame))
    return list(seen.values())


def session_fields(name: str, steps: list[Step]) -> list[Step]:
    """Both names of the agent's own session, and no tmux where there is none."""

    def change(_: int, session: Frame) -> None:
        own = session.get("claudeSessionId") or session.get("agentSessionId")
        if own:
            session |= {"agentSessionId": own, "claudeSessionId": own}
            session |= {"codexThreadId": own} if session["agent"] == "codex" else {}
        session.pop("tmuxSession", None)
        session.pop("terminal", None)

    return each_session(steps, change)


def by_events(name: str, steps: list[Step]) -> list[Step]:
    """Sessions are told of as what happens changes them."""
    return told_by_events(steps)


def _replying(steps: list[Step], reply: Any, *, instead: bool = False) -> list[Step]:
    made: list[Step] = []
    for recorded in steps:
        step = recorded
        frames = reply(step.action.message) if isinstance(step.action, Say) else None
        if frames is not None:
            assert isinstance(step.action, Say)
            who = step.action.who
            before = [] if instead else step.heard.get(who, [])
            step = replace(step, heard={**step.heard, who: [*before, *frames]})
        made.append(step)
    return made
