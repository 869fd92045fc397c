"""Differences in what turns say."""

from __future__ import annotations

import copy
from dataclasses import replace

from tests.dialects.leaves import ANYTHING

from .canonical import DURATION, TIME
from .recording import Entry, Frame, Received, Sent
from .rewriting import Talk, answered_by, each, error, events_of, session_of


def goes_on(name: str, entries: list[Entry]) -> list[Entry]:
    """A session whose turn failed, or whose files were refused, is idle again: the next prompt runs."""
    if name not in ("agent_error", "file_error_then_input"):
        return entries
    again = answered_by(entries, lambda sent: _prompt(sent) == "hello again", lambda sent, had: _echo(had, sent))

    def change(frame: Frame) -> None:
        if frame["type"] == "SESSION_STATUS":
            frame["status"] = "connected"

    return each(again, change)


def error_for_all(name: str, entries: list[Entry]) -> list[Entry]:
    """Whoever came back to a turn hears that it failed."""
    if name != "error_while_reattached":
        return entries
    last = max(at for at, entry in enumerate(entries) if isinstance(entry, Received))
    return [*entries[: last + 1], Received("socket 2", error("llm exploded")), *entries[last + 1 :]]


def failed_calls_end(name: str, entries: list[Entry]) -> list[Entry]:
    """A model call that failed has its end, too."""
    made: list[Entry] = []
    for entry in entries:
        if isinstance(entry, Received) and entry.frame == error("llm exploded"):
            call = next(_event(one) for one in reversed(made) if isinstance(one, Received))
            more = {"duration_ms": DURATION, "tool_calls_count": 0, "usage": None, "context_percent": 0.0}
            made.append(replace(entry, frame={**call, "type": "llm_result", **more, "status": "error"}))
        made.append(entry)
    return made


def _event(entry: Received) -> Frame:
    assert entry.frame["type"] == "llm_call"
    return entry.frame


def one_forwarder(name: str, entries: list[Entry]) -> list[Entry]:
    """A second CONNECT on a socket takes the place of the first: what follows is said once."""
    if name != "connect_twice_same_socket":
        return entries
    said: list[Frame] = []
    made: list[Entry] = []
    for entry in entries:
        if isinstance(entry, Received):
            if entry.frame["type"] == "CONNECTED":
                said = []
            if entry.frame in said:
                continue
            said.append(entry.frame)
        made.append(entry)
    return made


def only_its_answer(name: str, entries: list[Entry]) -> list[Entry]:
    """A question is answered by its own sort of message only, and once: a second answer is for nothing."""
    late: Frame = {**error(), "code": "STALE_ANSWER", "reason": ANYTHING}
    made: list[Entry] = []
    asked = False
    for entry in entries:
        made.append(entry)
        if isinstance(entry, Received) and entry.frame["type"] in ("ask_user", "tool_result"):
            asked = entry.frame["type"] == "ask_user"
        elif isinstance(entry, Sent) and entry.kind == "ASK_USER_RESPONSE" and _is_let_in(made, entry.conn):
            if not asked:
                made.append(Received(entry.conn, late, entry.at))
            asked = False
    if name != "disconnect_while_waiting_answer_old_socket":
        return made
    changed: list[Frame] = [_mode_changed("plan", Talk(made, "socket 2").session, "user")]
    return answered_by(made, lambda sent: sent.kind == "mode_change", lambda sent, had: changed)


def _is_let_in(entries: list[Entry], conn: str) -> bool:
    """Whether somebody was let in on this socket."""
    return any(
        isinstance(entry, Received) and entry.conn == conn and entry.frame["type"] == "CONNECTED" for entry in entries
    )


def mode_at_once(name: str, entries: list[Entry]) -> list[Entry]:
    """A mode holds from when it was asked for, also while nothing runs, until another one is; so less is asked."""
    if name != "mode_change":
        return entries
    made: list[Entry] = []
    for entry in entries:
        if isinstance(entry, Received) and entry.frame["type"] == "mode_changed":
            continue
        made.append(entry)
        if isinstance(entry, Sent) and entry.kind == "mode_change":
            changed = _mode_changed("accept_edits", Talk(made, entry.conn).session, "user")
            changed["id"] = f"<new mode {len(made)}>"
            made.append(Received(entry.conn, changed, entry.at))
    return _unasked(made, "write again")


def permitted_for_the_session(name: str, entries: list[Entry]) -> list[Entry]:
    """What was permitted for the session is not asked again in its next turn."""
    return _unasked(entries, "bash third") if name == "approval_once_session" else entries


def stopped(name: str, entries: list[Entry]) -> list[Entry]:
    """INTERRUPT ends what runs, at once."""
    if name != "interrupt":
        return entries

    def change(frame: Frame) -> None:
        for event in events_of(frame):
            if event["type"] == "tool_result":
                event.update(status="error", result=ANYTHING, error=ANYTHING, error_type=ANYTHING)
        for message in session_of(frame).get("messages", ()):
            if message["role"] == "tool":
                message["content"] = ANYTHING
        for item in frame.get("chat_items", ()):
            if item["type"] == "tool_call":
                item.update(status="error", result=ANYTHING)

    return each(entries, change)


def _unasked(entries: list[Entry], prompt: str) -> list[Entry]:
    """The turn of that prompt without its dialog."""
    begun = next(at for at, entry in enumerate(entries) if isinstance(entry, Sent) and _prompt(entry) == prompt)
    return [*entries[: begun + 1], *(entry for entry in entries[begun + 1 :] if not _dialog(entry))]


def _dialog(entry: Entry) -> bool:
    if isinstance(entry, Received):
        return bool(entry.frame["type"] == "approval_needed")
    return isinstance(entry, Sent) and entry.kind == "APPROVAL_RESPONSE"


def _mode_changed(mode: str, session: str, by: str) -> Frame:
    name = f"<new mode {mode}>"
    return {"type": "mode_changed", "mode": mode, "triggered_by": by, "id": name, "ts": TIME, "session_id": session}


def _prompt(sent: Sent) -> str:
    return str(sent.message.get("prompt", "")) if isinstance(sent.message, dict) else ""


def _echo(had: list[Entry], sent: Sent) -> list[Frame]:
    return Talk(had, sent.conn).echo(_prompt(sent))


def typed(name: str, entries: list[Entry]) -> list[Entry]:
    """A prompt that came with files is told as it was typed, and places as they are in the session's folder."""
    made = copy.deepcopy(entries)
    return [replace(entry, frame=_as_typed(entry.frame)) if isinstance(entry, Received) else entry for entry in made]


def _as_typed(frame: Frame) -> Frame:
    for event in events_of(frame):
        if event["type"] == "user_input":
            event["content"] = _short(event["content"])
        for file in event.get("files", ()):
            file["path"] = file["path"].removeprefix("/srv/agent/")
    session = session_of(frame)
    if "user_prompt" in session:
        session["user_prompt"] = _short(session["user_prompt"])
    for message in session.get("messages", ()):
        if message["role"] == "user":
            message["content"] = _short(_text(message["content"]))
        elif "content" in message:
            message["content"] = _cut(message["content"])
    for item in frame.get("chat_items", ()):
        if "content" in item:
            item["content"] = _short(_text(item["content"])) if item["type"] == "user" else _cut(item["content"])
        for file in item.get("files", ()):
            file["path"] = file["path"].removeprefix("/srv/agent/")
    for holder in (frame, session):
        if isinstance(holder.get("result"), str):
            holder["result"] = _cut(holder["result"])
    return frame


_REMINDER = "\n\n<system-reminder>The user uploaded"


def _short(text: str) -> str:
    return text.partition(_REMINDER)[0]


def _cut(text: str) -> str:
    """What a model says of its prompt: how the reminder goes is ours."""
    typed, found, _ = text.partition(_REMINDER)
    return f"{typed}{ANYTHING}" if found else text


def _text(content: object) -> str:
    """A message's text, without its pictures."""
    if isinstance(content, str):
        return content
    assert isinstance(content, list)
    return str(content[0]["text"])
