"""Whether what one link heard can be true: rules that hold for any captured stream, whatever happened.

``problems(frames)`` says in a line each what cannot be; ``disagreements(one, other)`` whether two links were told the
same things in the same order. The rules are the seed's, and those of ``docs/dialects/cin.md`` on the order of frames.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from . import seed_page

Frame = dict[str, Any]

SESSION_FRAMES = ("session:created", "session:updated", "session:status", "session:deleted")
LEGACY = frozenset({"connected", "sessions", "text_tiles", "tokens", "permission_prompt", "permission_resolved"})
"""Frames that only the dashboard in use knows. Those that have a twin are named after it, without its ``cin:``."""

WITHOUT_TWIN = ("connected", "sessions")

EXTENSIONS = frozenset(
    {
        *("cin:text_tiles", "cin:git_status", "cin:permission_prompt", "cin:permission_resolved", "cin:tokens"),
        *("cin:error", "cin:voice_error"),
    }
)
OTHERS = frozenset({"error", "voice_ready", "voice_transcript", "voice_utterance_end", "voice_error"})

WITHOUT_NEWS = frozenset({"lastActivity"})
"""What of a session changes without a frame of its own."""

TOLD_APART = frozenset({"gitStatus"})
"""What has a frame of its own that is no session's."""

FIXED = ("id", "type", "createdAt")
"""What of a session never changes."""

_NUMBERED = re.compile(r"([0-9a-f-]{36}):(\d+)")


def problems(frames: Sequence[Frame], *, legacy: bool = True, filtered: bool = False) -> list[str]:
    """Every rule that a link's frames break, in a line each; empty where there is none.

    ``frames`` is all that it heard, from its first one. ``legacy`` is whether the server speaks to the dashboard in
    use as well. ``filtered`` is whether the link had subscribed to some of the events only.
    """
    checker = StreamChecker(legacy=legacy, filtered=filtered)
    for frame in frames:
        checker.hear(frame)
    return checker.end()


def disagreements(one: Sequence[Frame], other: Sequence[Frame]) -> list[str]:
    """What two links heard otherwise of what both could hear: neither had subscribed to a part, either may have come
    later or gone earlier than the other one."""
    first, second = _told(one), _told(other)
    if not first or not second:
        return []
    start = first.index(second[0]) if second[0] in first else 0
    begin = second.index(first[0]) if start == 0 and first[0] in second else 0
    pairs = zip(first[start:], second[begin:], strict=False)
    return [f"{at}: {mine!r} here, {theirs!r} there" for at, (mine, theirs) in enumerate(pairs) if mine != theirs][:5]


def _told(frames: Sequence[Frame]) -> list[Frame]:
    """What is told to every link alike."""
    return [frame for frame in frames if frame.get("type") == "event" or frame.get("type") in SESSION_FRAMES]


@dataclass
class _Known:
    """A session as far as it was told. ``before`` is whether it was there before the link was."""

    told: Frame
    before: bool
    seq: int = 0
    open: dict[str, Frame] = field(default_factory=dict)
    ended: set[str] = field(default_factory=set)


class StreamChecker:
    """The rules, frame by frame: ``hear`` each, then ``end``."""

    def __init__(self, *, legacy: bool = True, filtered: bool = False) -> None:
        self._legacy = legacy
        self._filtered = filtered
        self._found: list[str] = []
        self._count = 0
        self._where = ""
        self._sessions: dict[str, _Known] = {}
        self._deleted: set[str] = set()
        self._events: dict[str, Frame] = {}
        self._order: list[str] = []
        self._listed: list[Frame] | None = None
        self._prompts: dict[str, Frame] = {}
        self._shown: dict[str, Any] = {}
        self._resolved: set[str] = set()
        self._burst = True
        self._twins: dict[str, list[Any]] = {}
        self._rules: dict[str, Callable[[Any], None]] = {
            "init": self._init,
            "event": self._event,
            "history": self._history,
            "session:created": self._created,
            "session:updated": self._updated,
            "session:status": self._status,
            "session:deleted": self._gone,
            "sessions": self._list,
            "cin:git_status": self._folder,
            "cin:permission_prompt": self._asked,
            "cin:permission_resolved": self._answered,
        }

    @property
    def sessions(self) -> dict[str, Frame]:
        """The sessions that are there, as they were told last, by their ids."""
        return {one: known.told for one, known in self._sessions.items()}

    def hear(self, frame: Frame) -> None:
        """The next one."""
        self._where = f"{self._count} ({frame.get('type')})"
        self._count += 1
        name = frame.get("type")
        if not isinstance(name, str) or not self._may_be(name):
            return self._say(f"no type of the dialect's: {frame!r}")
        if self._count == 1 and name != "init":
            self._say("comes before init")
        self._shape(name, frame)
        told = frame.get("data", frame.get("payload"))
        if name.removeprefix("cin:") in LEGACY:
            self._twin(name, told)
        if name in self._rules:
            self._rules[name](told)
        if name == "history":
            self._burst = False
        return None

    def end(self) -> list[str]:
        """All that was wrong."""
        self._where = "in the end"
        if not self._count:
            self._say("nothing was heard")
        for name, told in self._twins.items():
            if told:
                self._say(f"{len(told)} {name} without a twin")
        self._twins.clear()
        return self._found

    # Frames

    def _may_be(self, name: str) -> bool:
        known = name in seed_page.messages() and name not in ("ping", "get_history", "subscribe")
        ours = name in EXTENSIONS or name in OTHERS or name.startswith("harness:")
        return known or ours or (self._legacy and name in LEGACY)

    def _shape(self, name: str, frame: Frame) -> None:
        page = seed_page.messages().get(name)
        if page is not None:
            for line in seed_page.unlike(frame, page):
                self._say(line)
        if extra := set(frame) - {"type", "data", "payload"}:
            self._say(f"members that an envelope has not: {sorted(extra)}")
        if not self._legacy and "payload" in frame:
            self._say("payload, where only data is spoken")
        if self._legacy and "data" in frame and "payload" not in frame and not name.startswith("harness:"):
            self._say("data without payload")
        if "data" in frame and "payload" in frame and frame["data"] != frame["payload"]:
            self._say("data and payload are not the same")

    def _twin(self, name: str, told: Any) -> None:
        """Each of our extensions is told the dashboard as well, the same and in the same order; beyond that it is told
        the notes that there are once it comes."""
        if not self._legacy or (name == "text_tiles" and self._burst):
            return
        other = name.removeprefix("cin:") if name.startswith("cin:") else f"cin:{name}"
        if other.removeprefix("cin:") in WITHOUT_TWIN:
            return
        waiting = self._twins.setdefault(other, [])
        if not waiting:
            self._twins.setdefault(name, []).append(told)
        elif waiting.pop(0) != told:
            self._say(f"not the same as its {other}")

    # Sessions

    def _init(self, told: Any) -> None:
        if self._count != 1:
            self._say("a second time")
        for session in _sessions(told):
            if session["id"] in self._sessions:
                self._say(f"{session['id']} twice")
            self._consistent(session)
            self._sessions[session["id"]] = _Known(session, before=True)

    def _created(self, told: Any) -> None:
        if not _is_session(told):
            return
        if told["id"] in self._sessions or told["id"] in self._deleted:
            self._say(f"{told['id']} was there already")
        self._consistent(told)
        self._sessions[told["id"]] = _Known(told, before=False)

    def _updated(self, told: Any) -> None:
        if (before := self._change(told)) is None:
            return
        if told.get("status") != before.get("status"):
            self._say(f"changes the status to {told.get('status')}, which session:status is for")
        elif _news(told) == _news(before):
            self._say(f"{told['id']}: nothing changed")

    def _status(self, told: Any) -> None:
        if (before := self._change(told)) is not None and told.get("status") == before.get("status"):
            self._say(f"{told['id']} was {told.get('status')} already")

    def _change(self, told: Any) -> Frame | None:
        """Take a session's new form; the one that it had, or None where nobody was told of it."""
        known = self._session(told.get("id")) if _is_session(told) else None
        if known is None:
            return None
        before, known.told = known.told, told
        for name in FIXED:
            if told.get(name) != before.get(name):
                self._say(f"{told['id']}: another {name}, {told.get(name)!r}")
        if told.get("lastActivity", 0) < before.get("lastActivity", 0):
            self._say(f"{told['id']}: lastActivity goes back")
        self._consistent(told)
        return before

    def _gone(self, told: Any) -> None:
        if not _is_session(told) or self._session(told["id"]) is None:
            return
        del self._sessions[told["id"]]
        self._deleted.add(told["id"])

    def _session(self, session: Any) -> _Known | None:
        known = self._sessions.get(session)
        if known is None:
            self._say(f"{session} {'was deleted' if session in self._deleted else 'is not known'}")
        return known

    def _consistent(self, session: Frame) -> None:
        status = session.get("status")
        if "currentTool" in session and status not in ("working", "waiting"):
            self._say(f"{session['id']} is {status}, with the tool {session['currentTool']}")
        if "waitingFor" in session and status != "waiting":
            self._say(f"{session['id']} is {status}, and waits for a {session['waitingFor']}")
        if "tmuxSession" in session and session.get("type") == "external":
            self._say(f"{session['id']} is external, with a tmux session")

    def _list(self, told: Any) -> None:
        """The dashboard's list is what the session frames said, at that moment."""
        self._listed = list(told) if isinstance(told, list) else []
        listed = {session["id"]: session for session in self._listed if _is_session(session)}
        if listed.keys() != self._sessions.keys():
            self._say(f"lists {sorted(listed)}, not {sorted(self._sessions)}")
        for one, known in self._sessions.items():
            if one in listed and _news(listed[one], TOLD_APART) != _news(known.told, TOLD_APART):
                self._say(f"{one} is {listed[one]!r}, and was told as {known.told!r}")

    # Events

    def _event(self, told: Any) -> None:
        if seed_page.event_problems(told):
            return
        if told["id"] in self._events:
            self._say(f"{told['id']} a second time")
        self._events[told["id"]] = told
        self._order.append(told["id"])
        if (known := self._session(told["sessionId"])) is None:
            return
        if self._legacy and not any(one.get("id") == told["sessionId"] for one in self._listed or ()):
            self._say(f"{told['sessionId']} is on no list of sessions")
        self._numbered(told, known)
        self._paired(told, known)

    def _numbered(self, told: Frame, known: _Known) -> None:
        found = _NUMBERED.fullmatch(told["id"])
        if found is None:
            return
        if found[1] != told["sessionId"]:
            self._say(f"{told['id']} is of {told['sessionId']}")
        elif int(found[2]) <= known.seq:
            self._say(f"{told['id']} after {known.seq}")
        known.seq = max(known.seq, int(found[2]))

    def _paired(self, told: Frame, known: _Known) -> None:
        """A call begins once and ends once; what a link came too late for has an end only."""
        if told["type"] not in ("pre_tool_use", "post_tool_use"):
            return
        call = told["toolUseId"]
        if told["type"] == "pre_tool_use":
            if call in known.open:
                self._say(f"{call} began already")
            known.open[call] = told
            known.ended.discard(call)
            return
        before = known.open.pop(call, None)
        if call in known.ended:
            self._say(f"{call} has ended already")
        elif before is None and not (known.before or self._filtered):
            self._say(f"{call} never began")
        known.ended.add(call)
        if before is not None and before["tool"] != told["tool"]:
            self._say(f"{call} began as {before['tool']} and ends as {told['tool']}")
        if told.get("duration", 0) < 0:
            self._say(f"{call} took {told['duration']} ms")

    def _history(self, told: Any) -> None:
        """Oldest first, each once, and no event otherwise than it was told before."""
        events = [one for one in told if not seed_page.event_problems(one)] if isinstance(told, list) else []
        ids = [one["id"] for one in events]
        if len(set(ids)) != len(ids):
            self._say(f"{len(ids) - len(set(ids))} events twice")
        known = set(ids)
        if [one for one in self._order if one in known] != [one for one in ids if one in self._events]:
            self._say("in another order than they were told")
        for one in events:
            if self._events.get(one["id"], one) != one:
                self._say(f"{one['id']} is {one!r}, and was told as {self._events[one['id']]!r}")

    # Extensions

    def _folder(self, told: Any) -> None:
        self._session(told.get("sessionId"))

    def _asked(self, told: Any) -> None:
        for name in ("sessionId", "tool", "context", "options", "decisionId"):
            if name not in told:
                return self._say(f"has no {name}")
        self._session(told["sessionId"])
        shown = self._shown.get(told["sessionId"])
        if shown == told or told["decisionId"] in self._resolved:
            self._say(f"{told['decisionId']} a second time")  # and nothing more is known of it
        self._shown[told["sessionId"]] = told
        self._prompts[told["decisionId"]] = told
        return None

    def _answered(self, told: Any) -> None:
        known = self._session(told.get("sessionId"))
        decision = told.get("decisionId")
        asked = self._prompts.pop(decision, None)
        if asked is not None and self._shown.get(asked["sessionId"]) == asked:
            del self._shown[asked["sessionId"]]
        if decision in self._resolved:
            self._say(f"{decision} a second time")
        elif asked is None and known is not None and not known.before:
            self._say(f"{decision} was never asked for")
        elif asked is not None and asked["sessionId"] != told.get("sessionId"):
            self._say(f"{decision} is of {asked['sessionId']}")
        self._resolved.add(decision)

    def _say(self, what: str) -> None:
        self._found.append(f"{self._where}: {what}")


def _sessions(told: Any) -> list[Frame]:
    found = told.get("sessions") if isinstance(told, dict) else None
    return [one for one in found if _is_session(one)] if isinstance(found, list) else []


def _is_session(told: Any) -> bool:
    """Whether it can be one; what is wrong with it was said already."""
    return isinstance(told, dict) and isinstance(told.get("id"), str)


def _news(session: Frame, apart: frozenset[str] = frozenset()) -> Frame:
    return {name: value for name, value in session.items() if name not in WITHOUT_NEWS | apart}
