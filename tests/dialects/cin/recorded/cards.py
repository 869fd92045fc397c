"""The sessions as the seed and spec §5 have them: what each event and each request makes of them, and the frames of it.

Written from the page and the spec alone. Each step's frames are what follows from its events and its answer: a change
of a session before the event that made it (spec §1.2), and for the dashboard one list behind all of them (spec §10.0).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from .canonical import CHANGES
from .recording import Ask, Close, Frame, Open, Say, Step
from .rewriting import both, legacy, listening, new_id, told

BURST = 50

FIRST = ("init", "connected", "text_tiles", "history")

SOME_TIME = 1_795_817_000_001
"""Stands for when a server heard of something."""

CLEANUP = Ask("DELETE", "/sessions/cleanup?phantom=true")

Filter = tuple[frozenset[str], frozenset[str]]


class Cards:
    """All sessions by their ids, in the order in which they were made."""

    def __init__(self) -> None:
        self.all: dict[str, Frame] = {}
        self.events: list[Frame] = []
        self.tiles: list[Frame] = []
        self.calls: dict[str, dict[str, str]] = {}
        """Session -> its open calls, and their tools."""
        self.open: dict[str, str] = {}
        """Session -> what it asks."""

    def external(self, event: Frame) -> Frame:
        """The card of a session that nobody knew before this event."""
        card = {
            "id": event["sessionId"],
            "name": event["cwd"].rpartition("/")[2],
            "type": "external",
            "agent": event["agent"],
            "status": "working",
            "cwd": event["cwd"],
            "createdAt": SOME_TIME,
            "lastActivity": SOME_TIME,
        }
        own = event.get("agentSessionId")
        if own is not None:
            card |= {"agentSessionId": own, "claudeSessionId": own}
            card |= {"codexThreadId": own} if event["agent"] == "codex" else {}
        return card

    def take(self, event: Frame) -> list[Frame]:
        """The frames of what an event changes."""
        self.events.append(event)
        before = self.all.get(event["sessionId"])
        card = dict(before if before is not None else self.external(event))
        calls = self.calls.setdefault(card["id"], {})
        if event["type"] == "pre_tool_use" and "agent_id" not in event:
            calls[event["toolUseId"]] = event["tool"]
        elif event["type"] == "post_tool_use":
            calls.pop(event["toolUseId"], None)
        _move(card, event, next(reversed(calls.values()), None))
        self.all[card["id"]] = card
        if before is None:
            return [both("session:created", card)]
        return self.changed(before, card)

    def asks(self, event: Frame) -> list[Frame]:
        """What is to be permitted where the agent runs, as far as a notification tells of it."""
        if event.get("level") != "permission_prompt":
            return []
        before = self.all[event["sessionId"]]
        card = dict(before)
        _be(card, "waiting", waitingFor="permission")
        decision = new_id("decision", event["id"])
        self.open[card["id"]] = decision
        about = {"tool": "Unknown", "context": event["message"], "options": []}
        prompt = {"sessionId": card["id"], **about, "decisionId": decision}
        told = [both("cin:permission_prompt", prompt), legacy("permission_prompt", prompt)]
        return [*self.changed(before, card), *told]

    def answered(self, event: Frame) -> list[Frame]:
        """Whatever was asked is asked no more once the agent goes on."""
        if event["type"] not in ("stop", "post_tool_use", "user_prompt_submit", "session_end"):
            return []
        decision = self.open.pop(event["sessionId"], None)
        if decision is None:
            return []
        resolved = {"sessionId": event["sessionId"], "decisionId": decision}
        return [both("cin:permission_resolved", resolved), legacy("permission_resolved", resolved)]

    def changed(self, before: Frame, card: Frame) -> list[Frame]:
        """The frame of a change, if it is one."""
        self.all[card["id"]] = card
        if before["status"] != card["status"]:
            return [both("session:status", card)]
        return [both("session:updated", card)] if before != card else []

    def burst(self) -> list[Frame]:
        """What a link begins with."""
        listed = list(self.all.values())
        known = [event for event in self.events if event["sessionId"] in self.all]
        newest = self.events[-1]["sessionId"] if self.events else "unknown"
        return [
            both("init", {"sessions": listed}),
            legacy("connected", {"sessionId": newest}),
            both("sessions", listed),
            legacy("text_tiles", self.tiles),
            both("history", known[-BURST:]),
        ]


def _move(card: Frame, event: Frame, runs: str | None) -> None:
    """Spec §5, with cin's column; the agent that has ended is gone. ``runs`` is the tool of the newest open call."""
    match event["type"]:
        case "user_prompt_submit":
            _be(card, "working")
        case "pre_tool_use" if "agent_id" not in event:
            _be(card, "working", currentTool=event["tool"])
        case "post_tool_use" if "agent_id" not in event:
            card.pop("currentTool", None)
            card |= {} if runs is None else {"currentTool": runs}
        case "stop":
            _be(card, "waiting", waitingFor="prompt")
        case "session_end":
            _be(card, "offline")


def _be(card: Frame, status: str, **more: Any) -> None:
    for name in ("currentTool", "waitingFor"):
        card.pop(name, None)
    card |= {"status": status, **more}


def told_by_events(steps: Sequence[Step]) -> list[Step]:
    """The same steps; what is said of sessions is what follows from their events, requests and messages."""
    cards = Cards()
    filters: dict[str, Filter] = {}
    made: list[Step] = []
    for step, open_ in listening(steps):
        if isinstance(step.action, Say) and isinstance(step.action.message, dict):
            _subscribe(filters, step.action.who, step.action.message)
        new: list[Frame] = []
        for event in _events(step):
            new += [*cards.answered(event), *cards.take(event), *cards.asks(event), both("event", event)]
        shown = _shown(cards, step) if step.action == CLEANUP else None
        new += _by_request(cards, step)
        if any(frame["type"] in CHANGES for frame in new):
            new.append(both("sessions", list(cards.all.values())))
        shown = shown or _shown(cards, step)
        heard: dict[str, list[Frame]] = {}
        for who in open_:
            own = [frame for frame in step.heard.get(who, []) if not _of_sessions(frame)]
            cards.tiles = next((told(frame) for frame in own if frame["type"] == "cin:text_tiles"), cards.tiles)
            if isinstance(step.action, Open) and step.action.who == who:
                own = [*cards.burst(), *(frame for frame in own if frame["type"] not in FIRST)]
            heard[who] = own + [frame for frame in new if _wanted(frame, filters.get(who), cards)]
        made.append(replace(shown, heard={who: frames for who, frames in heard.items() if frames}))
    return made


def _events(step: Step) -> list[Frame]:
    """The step's events: those that any one heard, in their order."""
    seen: dict[str, Frame] = {}
    for frames in step.heard.values():
        for event in (told(frame) for frame in frames if frame["type"] == "event"):
            seen.setdefault(event["id"], event)
    return list(seen.values())


def _of_sessions(frame: Frame) -> bool:
    return frame["type"] in (*CHANGES, "sessions", "event")


def _subscribe(filters: dict[str, Filter], who: str, message: Frame) -> None:
    if message.get("type") == "subscribe":
        data = message.get("data") or message.get("payload") or {}
        filters[who] = (frozenset(data.get("sessions", ())), frozenset(data.get("eventTypes", ())))


def _wanted(frame: Frame, wanted: Filter | None, cards: Cards) -> bool:
    if frame["type"] != "event" or wanted is None:
        return True
    event = told(frame)
    names = {event["sessionId"], cards.all.get(event["sessionId"], {}).get("agentSessionId")}
    return (not wanted[0] or bool(wanted[0] & names)) and (not wanted[1] or event["type"] in wanted[1])


def _shown(cards: Cards, step: Step) -> Step:
    """The step answered with the sessions as they are."""
    body = step.answer.body if step.answer is not None else None
    if step.answer is None or not isinstance(body, dict):
        return step
    if "deleted" in body:
        body = {**body, "deleted": sum(card["type"] == "external" for card in cards.all.values())}
    elif "sessions" in body:
        body = {**body, "sessions": list(cards.all.values())}
    elif "session" in body:
        body = {**body, "session": cards.all[body["session"]["id"]]}
    return replace(step, answer=replace(step.answer, body=body))


def _by_request(cards: Cards, step: Step) -> list[Frame]:
    """What an answered request changes."""
    if not isinstance(step.action, Ask) or step.answer is None or step.answer.status not in (200, 201):
        return []
    body, path = step.answer.body, step.action.path
    session: Any = body.get("session") if isinstance(body, dict) else None
    if step.action.method == "POST" and path == "/sessions":
        cards.all[session["id"]] = dict(session)
        return [both("session:created", dict(session))]
    if step.action.method == "PATCH" or path.endswith("/restart"):
        return cards.changed(cards.all[session["id"]], dict(session))
    if step.action.method == "DELETE" and path.startswith("/sessions/"):
        phantoms = [one for one, card in cards.all.items() if card["type"] == "external"]
        gone = phantoms if "cleanup" in path else [one for one in cards.all if one in path]
        return [both("session:deleted", cards.all.pop(one)) for one in gone]
    return []


__all__ = ["Cards", "Close", "told_by_events"]
