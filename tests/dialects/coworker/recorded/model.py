"""The model: a server of the Responses API that says, call by call, what a recording's model said."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

from .script import Event, Refusal, Script, Step, prompts, spoken
from .web import Answer, Request

Asked = Callable[[int], Awaitable[None]]
"""Waits until the client was asked so many questions."""


class ScriptedModel:
    """Answers calls from a script. ``unexpected`` are those that it has no answer for, by their path or last text;
    ``prompts`` what it was told in the others, where the script says that.
    """

    def __init__(self, script: Script, asked: Asked) -> None:
        self._left = list(script.answers)
        self._tasks = script.tasks
        self._told = script.prompts
        self._asked = asked
        self.prompts: list[str | None] = []
        self.unexpected: list[str] = []

    @property
    def unused(self) -> int:
        """Answers that nobody asked for."""
        return len(self._left)

    async def answer(self, request: Request) -> Answer:
        """One call."""
        if not request.path.endswith("/responses"):
            self.unexpected.append(f"{request.method} {request.path}")
            return _refused(Refusal(404, "no such place"))
        texts = prompts(request.json)
        if texts and texts[0] in self._tasks:
            return self._streamed(Step(spoken(self._tasks[texts[0]])))
        if not self._left:
            self.unexpected.append(f"call with {texts[-1:]}")
            return _refused(Refusal(400, "no answer is left"))
        self.prompts.append(self._prompt(texts))
        answer = self._left.pop(0)
        return _refused(answer) if isinstance(answer, Refusal) else self._streamed(answer)

    def _prompt(self, texts: Sequence[str]) -> str | None:
        """The last words of a person; what we say before them of a turn that was cut off is left out."""
        wanted = self._told[len(self.prompts)]
        given = texts[-1] if texts else None
        if wanted is None or given is None:
            return wanted
        return wanted if given.endswith(f"]\n\n{wanted}") else given

    def _streamed(self, step: Step) -> Answer:
        return Answer(pieces=self._pieces(step), kind="text/event-stream", open=not step.ends)

    async def _pieces(self, step: Step) -> AsyncIterator[bytes]:
        """What is not waited for comes at once: so what it starts can only end after it, as was recorded."""
        said: list[Event] = []
        for at, event in enumerate(step.events):
            if at in step.asked:
                yield _lines(said)
                said = []
                await self._asked(step.asked[at])
            said.append(event)
        yield _lines(said)


def _lines(events: Sequence[Event]) -> bytes:
    return b"".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events)


def _refused(refusal: Refusal) -> Answer:
    body = {"error": {"message": refusal.message, "type": "error", "code": None, "param": None}}
    return Answer(refusal.status, json.dumps(body).encode())
