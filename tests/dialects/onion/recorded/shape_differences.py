"""Differences in what a session is said to be, and in which events there are."""

from __future__ import annotations

import json
import re
from dataclasses import replace

from tests.dialects.leaves import ANYTHING
from tests.dialects.onion.scripted_host import THOUGHT

from .recording import Entry, Frame, Received, Sent
from .rewriting import drop_messages, each, events_of, session_of, texts, without

_KEPT = frozenset(("session_id", "messages", "trace", "turn", "iteration", "updated", "user_prompt", "result", "mode"))
"""Fields of a session that do not belong to an optional part of the original's agent."""

_MORE = re.compile(r"\n\n(?:<system-reminder>User (?:skipped|clicked)|Tool '\w+' schema: ).*$", re.DOTALL)
_FRAMED = re.compile(r"(?:\[The user sent this|(?<= \| also: )).*\.\]\n\n", re.DOTALL)


def without_syncs(name: str, entries: list[Entry]) -> list[Entry]:
    """The tolerance is off. Whoever names one as the last that it saw means what came before it."""
    before: dict[str, str] = {}
    last = ""
    made: list[Entry] = []
    for entry in entries:
        if isinstance(entry, Received) and entry.frame["type"] == "session_sync":
            before[entry.frame["id"]] = last
        elif isinstance(entry, Received) and "id" in entry.frame:
            last = entry.frame["id"]
        if isinstance(entry, Sent) and isinstance(entry.message, dict) and entry.message.get("last_msg_id") in before:
            seen = before[entry.message["last_msg_id"]]
            entry = replace(entry, message={**entry.message, "last_msg_id": seen})  # noqa: PLW2901
        made.append(entry)
    return without(made, "session_sync")


def without_plugins(name: str, entries: list[Entry]) -> list[Entry]:
    """Nothing is said of what plugins of the original's agent count and judge; what they think is no message."""

    def change(frame: Frame) -> None:
        drop_messages(frame, lambda message: message.get("content") == THOUGHT)
        if "chat_items" in frame:
            frame["chat_items"] = [item for item in frame["chat_items"] if item["type"] != "eval"]

    return each(without(entries, "complete", "eval"), change)


def without_plugin_fields(name: str, entries: list[Entry]) -> list[Entry]:
    """A session has no fields of theirs; what is permitted is nobody's business but the server's."""

    def change(frame: Frame) -> None:
        session = session_of(frame)
        for key in [key for key in session if key not in _KEPT]:
            del session[key]

    return each(entries, change)


def trace_without_sessions(name: str, entries: list[Entry]) -> list[Entry]:
    """An entry of a trace does not say whose it is: the session around it does."""

    def change(frame: Frame) -> None:
        for event in session_of(frame).get("trace", ()):
            event.pop("session_id", None)

    return each(entries, change)


def with_mode(name: str, entries: list[Entry]) -> list[Entry]:
    """A session always says its mode: the one that holds, and no client's word for it."""
    modes: dict[str, str] = {}

    def change(frame: Frame) -> None:
        session = str(frame.get("session_id"))
        if frame.get("type") == "mode_changed":
            modes[session] = frame["mode"]
        if "session" in frame and "messages" in session_of(frame):
            frame["session"]["mode"] = modes.get(session, "safe")

    return each(entries, change)


def who_changed_the_mode(name: str, entries: list[Entry]) -> list[Entry]:
    """That a mode is another one says by whom, also after a plan."""

    def change(frame: Frame) -> None:
        if frame.get("type") == "mode_changed":
            frame.setdefault("triggered_by", "agent")

    return each(entries, change)


def calls_as_they_come(name: str, entries: list[Entry]) -> list[Entry]:
    """A call that follows the result of another stands behind it; one that was never made is in no message."""
    return each(entries, _as_they_come) if name in ("input_tool_errors", "approval_reject") else entries


def _as_they_come(frame: Frame) -> None:
    session = session_of(frame)
    if "messages" not in session:
        return
    made = {event["tool_id"]: event["result"] for event in session["trace"] if event["type"] == "tool_result"}
    messages: list[Frame] = []
    renamed: dict[str, str] = {}
    for at, message in enumerate(session["messages"]):
        if message["role"] == "tool":
            continue
        renamed[f"msg-{at}"] = f"msg-{len(messages)}"
        calls = [call for call in message.get("tool_calls", ()) if call["id"] in made]
        if not calls:
            messages.append(message)
        for call in calls:
            messages.append({**message, "tool_calls": [call]})
            messages.append({"role": "tool", "content": made[call["id"]], "tool_call_id": call["id"]})
    session["messages"] = messages
    for item in frame.get("chat_items", ()):
        item["id"] = renamed.get(item["id"], item["id"])


def whole_conversations(name: str, entries: list[Entry]) -> list[Entry]:
    """What a model need not see any more is still what was said."""
    if name != "compact":
        return entries

    def change(frame: Frame) -> None:
        if frame["type"] != "OUTPUT":
            return
        session = frame["session"]
        messages: list[Frame] = [{"role": "user", "content": session["user_prompt"]}]
        for event in session["trace"]:
            if event["type"] == "tool_result":
                function = {"name": event["name"], "arguments": f"JSON {json.dumps(event['args'])}"}
                call = {"id": event["tool_id"], "type": "function", "function": function}
                messages.append({"role": "assistant", "tool_calls": [call]})
                messages.append({"role": "tool", "content": event["result"], "tool_call_id": event["tool_id"]})
        session["messages"] = [*messages, session["messages"][-1]]
        frame["chat_items"][0]["content"] = session["user_prompt"]
        frame["chat_items"][-1]["id"] = f"msg-{len(messages)}"

    return each(entries, change)


def own_arguments(name: str, entries: list[Entry]) -> list[Entry]:
    """What the model gave, and no more."""

    def change(frame: Frame) -> None:
        for event in events_of(frame):
            if isinstance(event.get("args"), dict) and event["args"].get("agent") == "<Agent>":
                del event["args"]["agent"]

    return each(entries, change)


def plain_errors(name: str, entries: list[Entry]) -> list[Entry]:
    """A failed call says why; what the original's agent has its model told beyond that is the agent's."""

    def change(frame: Frame) -> None:
        for event in events_of(frame):
            if "error_type" in event:
                event["error_type"] = ANYTHING

    return each(
        texts(entries, lambda text: _MORE.sub("", text).removesuffix("\n\n") if _MORE.search(text) else text), change
    )


def plain_interjections(name: str, entries: list[Entry]) -> list[Entry]:
    """What is said while a turn runs reaches the agent as it was typed."""
    return texts(entries, lambda text: _FRAMED.sub("", text))
