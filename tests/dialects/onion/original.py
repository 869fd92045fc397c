"""Sessions of the original host (``tests/data/onion/sessions``), and the log that ours would have had of them.

Each file holds what OUTPUT said last: ``session`` without its permissions, and ``chat_items``. Times are rounded to
milliseconds, as ours are; pictures and the original's words to the model are cut.
"""

from __future__ import annotations

import json
from collections import deque
from pathlib import Path
from typing import Any

from dragoman.hub.events import (
    MessageAdded,
    Outcome,
    PromptSubmitted,
    PromptTaken,
    StepEnded,
    StepStarted,
    ToolCalled,
    ToolEnded,
    TurnEnded,
    TurnStarted,
)
from dragoman.hub.events.tools import ToolStatus

from .talking import Talk

FOLDER = Path(__file__).parents[2] / "data" / "onion" / "sessions"

Message = dict[str, Any]


def recorded(name: str) -> dict[str, Any]:
    """What was recorded under this name."""
    found: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text())
    return found


def typed(content: Any) -> str:
    """What a person typed: the original shows what the model was given instead, as parts when there are pictures."""
    text: str = content if isinstance(content, str) else content[0]["text"]
    return text.removeprefix("[framing]\n\n").partition("\n\n<system-reminder>")[0]


def relative(path: str) -> str:
    """A path below the session's folder: the original tells its own."""
    return path.removeprefix("/srv/agent/")


class Retelling:
    """The log of a recorded session. ``turns`` is how many of its turns are told."""

    def __init__(self, session: dict[str, Any], *, turns: int | None = None) -> None:
        self.talk = Talk()
        self.sessions: list[bytes] = []
        """The session object after each turn."""
        self._session = session
        self._answers = deque(message for message in session["messages"] if message["role"] == "assistant")
        self._results = {m["tool_call_id"]: m["content"] for m in session["messages"] if m["role"] == "tool"}
        self._open: deque[Message] = deque()
        self._in_step = False
        self._said = ""
        self._turns = turns or session["turn"]
        self._tell()

    def _tell(self) -> None:
        entries = self._session["trace"]
        for place, entry in enumerate(entries):
            if entry["type"] == "user_input" and not entry.get("runtime_input") and self.talk.turn:
                self._end_turn(entries[place - 1]["ts"])
                if len(self.sessions) == self._turns:
                    return
            getattr(self, f"_{entry['type']}")(entry)
        self._end_turn(self._session["updated"])

    def _record(self, fact: Any, *entries: Message, at: float | None = None) -> None:
        seconds = entries[0]["ts"] if entries else at
        said = [json.dumps(entry).encode() for entry in entries]
        self.talk.record(fact, said=said, at=None if seconds is None else round(seconds * 1000))

    def _user_input(self, entry: Message) -> None:
        self._end_step()
        prompt, seen = entry["id"], entry["content"]
        entry = {**entry, "content": typed(seen)}
        self._said = ""
        self._record(PromptSubmitted(prompt=prompt, text=typed(seen), content=seen, by="o", via="onion"))
        if entry.get("runtime_input"):
            self._record(PromptTaken(prompt=prompt, turn="t"), entry)
        else:
            self.talk.turn += 1
            self._record(TurnStarted(turn="t", prompt=prompt), entry)

    def _files_received(self, entry: Message) -> None:
        # Ours are told of by the event that begins the turn; here it does not matter by which.
        files = [{**file, "path": relative(file["path"])} for file in entry["files"]]
        self._record(MessageAdded(message="files", role="system", text=""), {**entry, "files": files})

    def _llm_call(self, entry: Message) -> None:
        self._end_step()
        self._in_step = True
        self._record(StepStarted(turn="t", step=entry["iteration"]), entry)

    def _llm_result(self, entry: Message) -> None:
        answer = self._answers.popleft()
        self._open.extend(answer.get("tool_calls", ()))
        self._said = answer.get("content") or ""
        # The original says that a call ended before its tools run, we say so after them.
        self._record(MessageAdded(message=entry["id"], role="assistant", text=self._said), entry)

    def _tool_call(self, entry: Message) -> None:
        self._call(entry)

    def _tool_result(self, entry: Message) -> None:
        if self._open and self._open[0]["id"] == entry["tool_id"]:
            self._call()
        status: ToolStatus = "ok" if entry["status"] == "success" else "error"
        self._record(ToolEnded(call=entry["tool_id"], tool=entry["name"], status=status, output=entry["result"]), entry)

    def _call(self, *entries: Message) -> None:
        call = self._open.popleft()
        function = call["function"]
        given = json.loads(function["arguments"])
        self._record(ToolCalled(call=call["id"], tool=function["name"], input=given), *entries)

    def _end_step(self) -> None:
        while self._open:
            call = self._open[0]
            self._call()
            result = self._results[call["id"]]
            self._record(ToolEnded(call=call["id"], tool=call["function"]["name"], status="denied", output=result))
        if self._in_step:
            self._in_step = False
            self._record(StepEnded(turn="t", step=1, finish_reason="stop"))

    def _end_turn(self, at: float) -> None:
        self._end_step()
        outcome: Outcome = "completed" if self._said else "cancelled"
        self._record(TurnEnded(turn="t", outcome=outcome, result=self._said or None), at=at)
        self.sessions.append(self.talk.conversation.session(b'"s"'))
