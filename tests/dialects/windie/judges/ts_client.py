"""What the TypeScript client in use makes of what it hears: its rules for stream events, written anew.

It is stricter than a reader of types and payloads. An event without a conversation is dropped without a word; one
without its identity, or out of sequence, fails the turn; one that was there before is ignored. A turn that is over
stays over. ``TsClient.turns`` says what came of each turn, ``TsClient.sent`` what the client sent by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Frame = dict[str, Any]
Tool = Callable[[Frame], Any]
"""Runs with the call's arguments; an exception is a failure of the tool."""

Outcome = Literal["open", "completed", "failed", "stopped", "dropped"]
"""``dropped``: asked for, and all that was told of it was thrown away."""

SEQUENCED = frozenset(
    {
        *("query-accepted", "llm-thought", "streaming-response", "streaming-complete", "tool-call", "tool-bundle"),
        *("tool-output", "web-search-progress", "system-prompt", "user-message-full", "assistant-message-full"),
        *("tool-schemas", "token-count", "model-history-updated", "trace-event", "error"),
        *("context-compaction-started", "context-compaction-completed", "context-compaction-failed"),
    }
)

NO_IDENTITY = "missing event_id or sequence"
NO_CONVERSATION = "no conversation_ref"
SEEN = "repeated event_id"
OVER = "the turn is over"
STRANGER = "a turn that was not asked for"


@dataclass
class Turn:
    """What is known of one turn. ``transcript`` is what the person sees, piece by piece: kind and text."""

    ref: str
    conversation: str
    state: Literal["open", "completed", "failed", "stopped"] = "open"
    problem: str | None = None
    text: str = ""
    final: str | None = None
    thoughts: str = ""
    transcript: list[tuple[str, str]] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    """Names of tools, in the order in which they were run here."""
    heard: int = 0
    dropped: int = 0

    @property
    def outcome(self) -> Outcome:
        """What came of it so far."""
        if self.state == "open" and self.dropped and not self.heard:
            return "dropped"
        return self.state

    @property
    def answer(self) -> str:
        """What ``ask`` gives back: the final response, or, where it is absent or blank, what was streamed."""
        return self.final if self.final is not None and self.final.strip() else self.text


class TsClient:
    """A client without a socket: give it what is asked and heard. ``tools`` are those that it runs, by name."""

    def __init__(self, *, user: str = "user", tools: Mapping[str, Tool] | None = None) -> None:
        self.turns: dict[str, Turn] = {}
        self.sent: list[Frame] = []
        self.dropped: list[tuple[Frame, str]] = []
        """Frames that were thrown away, each with the reason."""
        self._user = user
        self._tools = dict(tools or {})
        self._last: dict[str, int] = {}
        self._events: set[str] = set()
        self._local: set[str] = set()
        self._stops: dict[str, tuple[str | None, str | None]] = {}

    def ask(self, text: str, conversation: str, ident: str) -> Frame:
        """The query to send; its turn is open from now on."""
        content = f"<user_query>\n{text}\n</user_query>"
        payload = {"text": text, "conversation_ref": conversation, "content": content}
        frame = {"id": ident, "type": "query", "payload": payload, "user_id": self._user}
        self.asked(frame)
        return frame

    def asked(self, query: Frame) -> None:
        """A query was sent."""
        self.turns[query["id"]] = Turn(query["id"], query["payload"]["conversation_ref"])

    def stop(self, conversation: str, ident: str) -> Frame:
        """The message that stops what runs in a conversation."""
        payload = {"conversation_ref": conversation, "turn_ref": None}
        frame = {"id": ident, "type": "stop-query", "payload": payload, "user_id": self._user}
        self.stopping(frame)
        return frame

    def stopping(self, stop: Frame) -> None:
        """A stop-query was sent."""
        self._stops[stop["id"]] = (stop["payload"].get("conversation_ref"), stop["payload"].get("turn_ref"))

    def hear(self, frame: Frame) -> list[Frame]:
        """One frame from the server; what is sent on it."""
        kind = frame.get("type")
        if kind == "stop-query-ack":
            self._stopped(frame)
        if kind not in SEQUENCED:
            return []
        turn = self._addressed(frame)
        if turn is None:
            return []
        if turn.state != "open":
            return self._drop(frame, OVER, None)
        bare = frame.get("event_id") is None or frame.get("sequence") is None
        if kind == "error" and bare:
            turn.heard += 1
            self._fail(turn, str(frame["payload"].get("message")))
            return []
        if bare:
            turn.heard += 1
            self._fail(turn, NO_IDENTITY)
            return []
        if frame["event_id"] in self._events:
            return self._drop(frame, SEEN, None)
        self._events.add(frame["event_id"])
        turn.heard += 1
        if not self._in_sequence(turn, frame):
            return []
        sent = self._take(turn, frame)
        self.sent += sent
        return sent

    def _addressed(self, frame: Frame) -> Turn | None:
        """The turn that a frame speaks of, if it may speak at all."""
        payload = frame.get("payload") or {}
        ref = frame.get("turn_ref") or frame.get("id")
        if frame["type"] == "error":
            ref = frame.get("turn_ref") or payload.get("turn_ref") or frame.get("id")
        turn = self.turns.get(str(ref))
        if not frame.get("conversation_ref") and frame["type"] != "error":
            self._drop(frame, NO_CONVERSATION, turn)
            return None
        if turn is None or frame.get("conversation_ref") not in (None, turn.conversation):
            self._drop(frame, STRANGER, None)
            return None
        return turn

    def _drop(self, frame: Frame, why: str, turn: Turn | None) -> list[Frame]:
        self.dropped.append((frame, why))
        if turn is not None:
            turn.dropped += 1
        return []

    def _in_sequence(self, turn: Turn, frame: Frame) -> bool:
        key = str(frame.get("turn_ref") or frame["conversation_ref"])
        due = self._last.get(key, 0) + 1
        if frame["sequence"] != due:
            self._fail(turn, f"sequence {frame['sequence']} where {due} was due")
            return False
        self._last[key] = due
        return True

    @staticmethod
    def _fail(turn: Turn, problem: str) -> None:
        turn.state, turn.problem = "failed", problem

    def _stopped(self, frame: Frame) -> None:
        conversation, ref = self._stops.get(frame["id"], (None, None))
        if frame["id"] not in self._stops or frame["payload"].get("canceled") is not True:
            return
        for turn in self.turns.values():
            if turn.state == "open" and conversation in (None, turn.conversation) and ref in (None, turn.ref):
                turn.state = "stopped"

    def _take(self, turn: Turn, frame: Frame) -> list[Frame]:
        kind, payload = frame["type"], frame["payload"]
        if kind == "streaming-response":
            turn.text += payload["text"]
            turn.transcript.append(("text", payload["text"]))
        elif kind == "llm-thought":
            turn.thoughts += payload["status"]
        elif kind == "tool-call":
            return self._call(turn, payload)
        elif kind == "tool-bundle":
            return self._bundle(turn, payload)
        elif kind == "tool-output":
            self._output(turn, payload)
        elif kind == "streaming-complete":
            self._complete(turn, payload)
        elif kind == "error":
            self._fail(turn, str(payload.get("message")))
        return []

    def _complete(self, turn: Turn, payload: Frame) -> None:
        turn.state, turn.final = "completed", payload.get("final_response")
        if not turn.text and turn.answer:
            turn.transcript.append(("text", turn.answer))

    def _output(self, turn: Turn, payload: Frame) -> None:
        """Shown, unless it is the one that we gave for this request: without a request it is shown a second time."""
        if payload.get("request_id") not in self._local:
            turn.transcript.append(("tool", str(payload.get("output"))))

    def _call(self, turn: Turn, payload: Frame) -> list[Frame]:
        if (payload.get("metadata") or {}).get("skip_local_execution") is True:
            return []
        request = payload.get("request_id")
        if not request:
            self._fail(turn, "a tool-call without request_id is not run")
            return []
        good, output = self._run(turn, payload["tool_name"], payload["parameters"])
        self._local.add(request)
        turn.transcript.append(("tool", str(output)))
        result = {"request_id": request, "success": good, "data": {"output": output}}
        if not good:
            result["error"] = str(output)
        return [self._message("tool-result", request, result)]

    def _bundle(self, turn: Turn, payload: Frame) -> list[Frame]:
        """All steps in order, one result for all of them; a step without output has a sentence in its place."""
        steps: list[Frame] = []
        for tool in payload["tools"]:
            good, output = self._run(turn, tool["name"], tool.get("args") or {})
            if good and output in (None, ""):
                output = f"Tool {tool['name']} executed successfully (no output)."
            turn.transcript.append(("tool", str(output)))
            steps.append({"tool": tool["name"], "status": "ok" if good else "error", "output": {"output": output}})
        worked = [step["status"] == "ok" for step in steps]
        status = "success" if all(worked) else "partial_failure" if any(worked) else "failure"
        result = {"bundle_id": payload["bundle_id"], "status": status, "step_results": steps}
        return [self._message("tool-bundle-result", payload["bundle_id"], result)]

    def _run(self, turn: Turn, name: str, arguments: Frame) -> tuple[bool, Any]:
        turn.calls.append(name)
        tool = self._tools.get(name)
        if tool is None:
            return False, f"Unknown tool: {name}"
        try:
            return True, tool(arguments)
        except Exception as problem:  # noqa: BLE001 (whatever a tool raises is its failure, which the model is told)
            return False, str(problem)

    def _message(self, kind: str, of: str, payload: Frame) -> Frame:
        return {"id": f"result-{of}", "type": kind, "payload": payload, "user_id": self._user}
