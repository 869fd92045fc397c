"""How a difference is written: changes of a recorded conversation that leave everything else as it is."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from tests.dialects.leaves import ANYTHING

from .canonical import DURATION, TIME
from .recording import Answered, Broken, Entry, Frame, Received, Sent

TOLD = ("session", "chat_items")


def each(entries: Sequence[Entry], change: Callable[[Frame], None]) -> list[Entry]:
    """Every message of the server, and every object that answers a request, changed in place (they are copies)."""
    made: list[Entry] = []
    for entry in entries:
        if isinstance(entry, Received):
            frame = copy.deepcopy(entry.frame)
            change(frame)
            made.append(replace(entry, frame=frame))
        elif isinstance(entry, Answered) and isinstance(entry.body, dict):
            body = copy.deepcopy(entry.body)
            change(body)
            made.append(replace(entry, body=body))
        else:
            made.append(entry)
    return made


def texts(entries: Sequence[Entry], change: Callable[[str], str]) -> list[Entry]:
    """Every text that the server said, at whatever depth."""

    def changed(value: Any) -> Any:
        if isinstance(value, str):
            return change(value)
        if isinstance(value, list):
            return [changed(item) for item in value]
        if isinstance(value, dict):
            return {key: changed(item) for key, item in value.items()}
        return value

    def change_all(frame: Frame) -> None:
        frame.update(changed(frame))

    return each(entries, change_all)


def without(entries: Sequence[Entry], *kinds: str) -> list[Entry]:
    """The conversation without messages of these types, also where a trace has them."""

    def change(frame: Frame) -> None:
        trace = session_of(frame).get("trace")
        if trace is not None:
            trace[:] = [entry for entry in trace if entry["type"] not in kinds]

    kept = [entry for entry in entries if not (isinstance(entry, Received) and entry.frame["type"] in kinds)]
    return each(kept, change)


def session_of(frame: Frame) -> dict[str, Any]:
    """The session that a message tells, else an empty one."""
    session = frame.get("session")
    return session if isinstance(session, dict) else {}


def events_of(frame: Frame) -> list[Frame]:
    """The message itself and every entry of a trace in it: whatever is an event of a session."""
    return [frame, *session_of(frame).get("trace", ())]


def drop_messages(frame: Frame, wanted: Callable[[Frame], bool]) -> None:
    """Take messages out of a session, and out of what a chat shows of it; those behind them are counted anew."""
    messages = session_of(frame).get("messages")
    if messages is None:
        return
    gone = {f"msg-{at}" for at, message in enumerate(messages) if wanted(message)}
    places = [f"msg-{at}" for at in range(len(messages)) if f"msg-{at}" not in gone]
    renamed = {old: f"msg-{at}" for at, old in enumerate(places)}
    messages[:] = [message for message in messages if not wanted(message)]
    if "chat_items" in frame:
        kept = [item for item in frame["chat_items"] if item["id"] not in gone]
        frame["chat_items"] = [{**item, "id": renamed.get(item["id"], item["id"])} for item in kept]


def instead(entry: Entry, *frames: Frame) -> list[Entry]:
    """Other messages in the place of one."""
    assert isinstance(entry, Received)
    return [replace(entry, frame=frame) for frame in frames]


def error(message: str = ANYTHING) -> Frame:
    """A refusal. Where no text is fixed, some text."""
    return {"type": "ERROR", "message": message}


def connected(session: str) -> Frame:
    """The answer to a CONNECT that begins something."""
    return {"type": "CONNECTED", "session_id": session, "status": "new"}


def unbroken(entries: Sequence[Entry], frame: Callable[[Sent], Frame]) -> list[Entry]:
    """Where the server let a socket go, it answers instead; ``frame`` is told what."""
    made: list[Entry] = []
    for entry in entries:
        if isinstance(entry, Broken):
            sent = next(one for one in reversed(made) if isinstance(one, Sent) and one.conn == entry.conn)
            made.append(Received(entry.conn, frame(sent), entry.at))
        else:
            made.append(entry)
    return made


def answered_by(
    entries: Sequence[Entry], wanted: Callable[[Sent], bool], frames: Callable[[Sent, list[Entry]], list[Frame]]
) -> list[Entry]:
    """What comes of some messages of the client is something else: what was said up to its next one goes.

    ``frames`` is told which message it was, and what was said before it.
    """
    made: list[Entry] = []
    skipping = ""
    for entry in entries:
        if isinstance(entry, Received) and entry.conn == skipping:
            continue
        if isinstance(entry, Sent):
            skipping = entry.conn if wanted(entry) else "" if entry.conn == skipping else skipping
        made.append(entry)
        if isinstance(entry, Sent) and wanted(entry):
            made += [Received(entry.conn, frame, entry.at) for frame in frames(entry, list(made))]
    return made


class Talk:
    """What is known of the session of a socket: for turns that the original did not run."""

    def __init__(self, entries: Sequence[Entry], conn: str) -> None:
        told = [entry.frame for entry in entries if isinstance(entry, Received) and entry.conn == conn]
        joined = next((frame for frame in reversed(told) if frame["type"] == "CONNECTED"), None)
        self.session = str(joined["session_id"]) if joined is not None else "<session new>"
        self._known: dict[str, Any] = {}
        self._items: list[Frame] = []
        self._number = len(entries)
        for entry in entries:
            if isinstance(entry, Received) and entry.frame.get("session_id") == self.session:
                self._learn(entry.frame)

    def _learn(self, frame: Frame) -> None:
        """A whole session, or (of a turn that came to nothing) the events that were told."""
        if "session" in frame:
            self._known, self._items = copy.deepcopy(frame["session"]), copy.deepcopy(frame["chat_items"])
        elif "ts" in frame:
            event = {key: value for key, value in frame.items() if key != "session_id"}
            if event in self._known.get("trace", ()):
                return
            self._known["trace"] = [*self._known.get("trace", ()), event]
            if frame["type"] == "user_input":
                self._known["turn"] = frame["turn"]
                self._ask(frame["content"])

    def _ask(self, prompt: str) -> None:
        self._known["messages"] = [*self._known.get("messages", ()), {"role": "user", "content": prompt}]
        self._items.append({"id": f"msg-{len(self._known['messages']) - 1}", "type": "user", "content": prompt})

    def echo(self, prompt: str) -> list[Frame]:
        """A whole turn in which the model says what it was told."""
        turn = self._known.get("turn", 0) + 1
        name = f"<new {self._number} "
        model = {"model": "fake-llm", "iteration": 1, "ts": TIME, "id": f"{name}b>"}
        usage = {"input_tokens": 100, "output_tokens": 10, "cached_tokens": 0, "cache_write_tokens": 0, "cost": 0.0}
        said = {"duration_ms": DURATION, "tool_calls_count": 0, "usage": usage, "context_percent": 0.078125}
        events: list[Frame] = [
            {"type": "user_input", "content": prompt, "turn": turn, "ts": TIME, "id": f"{name}a>"},
            {"type": "llm_call", **model, "status": "running"},
            {"type": "llm_result", **model, **said, "status": "success"},
        ]
        shown = [{**event, "session_id": self.session} for event in events]
        return [*shown, self._output(prompt, events, turn)]

    def _output(self, prompt: str, events: list[Frame], turn: int) -> Frame:
        self._ask(prompt)
        result = f"echo[1 user msgs, 0 tools]: {prompt}"
        messages = [*self._known["messages"], {"role": "assistant", "content": result}]
        session = {
            **self._known,
            "session_id": self.session,
            "messages": messages,
            "trace": [*self._known.get("trace", ()), *events],
            "turn": turn,
            "iteration": 1,
            "user_prompt": prompt,
            "result": result,
            "updated": TIME,
        }
        return {
            "type": "OUTPUT",
            "result": result,
            "session_id": self.session,
            "duration_ms": DURATION,
            "session": session,
            "chat_items": [*self._items, {"id": f"msg-{len(messages) - 1}", "type": "agent", "content": result}],
        }
