"""Differences in what a session is said to be, and in which events there are."""

from __future__ import annotations

import re
from dataclasses import replace

from tests.dialects.onion.scripted_host import THOUGHT

from .compare import ANYTHING
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
