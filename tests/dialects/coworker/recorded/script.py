"""What the model said in a recording: the provider's own events, step by step, as the server passed them on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .recording import CHUNK, Entry, frames

Event = Mapping[str, Any]

_OVER = ("response.completed", "response.failed", "response.incomplete")

_NEXT = "response.output_item.added"
"""Begins what the model says next. Only there may it wait: within an item a server may need the rest of it first."""

HELLO = "Hello from the fake model."
"""What every recorded sub-agent answered."""


@dataclass(frozen=True)
class Step:
    """One answer of the model: its events. ``asked`` says before which of them how many questions were heard: a call
    was worked on while the model still spoke.
    """

    events: Sequence[Event]
    asked: Mapping[int, int] = field(default_factory=dict)

    @property
    def ends(self) -> bool:
        """Whether the last event is its end. Else the call stays open."""
        return bool(self.events) and self.events[-1]["type"] in _OVER

    @property
    def failed(self) -> bool:
        """Whether it ends as a failure of the provider's."""
        return bool(self.events) and self.events[-1]["type"] == "response.failed"


@dataclass(frozen=True)
class Refusal:
    """An HTTP error, as the recorded error tells of it. A retried one comes to every try."""

    status: int
    message: str


@dataclass
class Script:
    """Answers in the order of the session's own calls, and tasks of sub-agents with what each of them answers."""

    answers: list[Step | Refusal] = field(default_factory=list)
    tasks: dict[str, str] = field(default_factory=dict)
    prompts: list[str | None] = field(default_factory=list)
    """The last words of a person in each of those calls; none where they were the original's own, or never shown."""


def script(entries: Sequence[Entry]) -> Script:
    """The model's side of a recording."""
    made = Script()
    events: list[Event] = []
    asked: dict[int, int] = {}
    questions = 0
    for frame in frames(entries):
        questions += "requestId" in frame
        if frame["type"] != CHUNK:
            continue
        part = frame["part"]
        match frame["partType"]:
            case "start_step":
                events, asked = [], {}
                made.answers.append(Step(events, asked))
                made.prompts.append(_words(prompts(part["request"]["body"])[-1]))
            case "raw":
                if questions and part["raw"]["type"] == _NEXT:
                    asked[len(events)] = questions
                events.append(part["raw"])
            case "error":
                made.answers += _refusals(part["error"])
                made.prompts += [None] * (len(made.answers) - len(made.prompts))
            case "tool_call" if part["toolName"] == "spawnAgent":
                made.tasks[part["input"]["task"]] = HELLO
    return _retried(made)


def _retried(once: Script) -> Script:
    """A failure in the midst of an answer is one that may pass: it comes to every try."""
    made = Script(tasks=once.tasks)
    for answer, prompt in zip(once.answers, once.prompts, strict=True):
        tries = 3 if isinstance(answer, Step) and answer.failed else 1
        made.answers += [answer] * tries
        made.prompts += [prompt] * tries
    return made


_OWN = ("Review the requested code changes", "# Global Skill")
"""Prompts that are worded otherwise here: the built-in command, and a skill with arguments (docs/skills.md)."""


def _words(text: str) -> str | None:
    return None if text.startswith(_OWN) else text


def prompts(asked: Mapping[str, Any]) -> list[str]:
    """What a person said in the conversation that a call of the Responses API carries."""
    given = [item for item in asked.get("input", []) if item.get("role") == "user"]
    return [_text(message["content"]) for message in given]


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def _refusals(error: Mapping[str, str]) -> list[Step | Refusal]:
    """An error that was retried says so before the provider's own words, after three tries."""
    if error["name"] == "AI_RetryError":
        return [Refusal(500, error["message"].partition("Last error: ")[2])] * 3
    return [Refusal(401, error["message"])]


def spoken(text: str) -> list[Event]:
    """The events of an answer that is one text."""
    about = {"id": "resp_sub", "object": "response", "created_at": 1771000000, "model": "gpt-5.2", "output": []}
    item = {"id": "msg_sub", "type": "message", "role": "assistant", "content": []}
    done = {"type": "output_text", "text": text, "annotations": []}
    at = {"item_id": "msg_sub", "output_index": 0, "content_index": 0}
    tokens: dict[str, Any] = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": {**about, "status": "in_progress"}},
        {"type": "response.output_item.added", "output_index": 0, "item": {**item, "status": "in_progress"}},
        {"type": "response.content_part.added", **at, "part": {**done, "text": ""}},
        {"type": "response.output_text.delta", **at, "delta": text},
        {"type": "response.output_text.done", **at, "text": text},
        {"type": "response.content_part.done", **at, "part": done},
        {
            "type": "response.output_item.done",
            "output_index": 0,
            "item": {**item, "status": "completed", "content": [done]},
        },
        {"type": "response.completed", "response": {**about, "status": "completed", "usage": tokens}},
    ]
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]
