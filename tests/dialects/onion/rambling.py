"""Logs that wander: any number decides what happens next, among all that may happen then."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hypothesis import settings
from hypothesis import strategies as st

from dragoman.hub.events import CheckpointTaken, Compacted, PartDelta, PromptWithdrawn, SettingsChanged

from .talking import Talk

Deed = Callable[[], None]

PATIENT = settings(deadline=None)
CHOICES = st.lists(st.integers(0, 1000), max_size=60)


class Rambling:
    """A native session, with what is typed at a terminal in between. No two texts and no two calls are the same."""

    def __init__(self, talk: Talk) -> None:
        self.talk = talk
        self.typed: list[str] = []
        """Prompts that reached the agent, in order."""
        self.done: list[str] = []
        """What there should be to see in a chat, in order: texts, and ids of calls."""
        self._count = 0
        self._waiting: dict[str, str] = {}
        self._calls: list[str] = []
        self._in_turn = self._in_step = False
        self._joins = False

    def go(self, choices: Sequence[int]) -> None:
        for choice in choices:
            deeds = self._deeds()
            deeds[choice % len(deeds)]()

    def finish(self) -> None:
        """The open turn comes to its end."""
        while self._calls:
            self._end(0)
        if self._in_step:
            self._stepped()
        if self._in_turn:
            self._over()

    def _deeds(self) -> list[Deed]:
        if not self._in_turn:
            return [self._start, self._start, self._user, self._say, self._submit, self._aside]
        deeds = [self._submit, self._think, self._aside]
        if self._waiting and not self._in_step:
            deeds += [self._take, self._withdraw]
        if not self._in_step:
            return [*deeds, self._step, self._step, self._over]
        deeds += [self._say, self._say, self._call, self._call, self._nested]
        if self._calls:
            deeds += [lambda: self._end(0), lambda: self._end(-1)]
        else:
            deeds += [self._stepped, self._stepped]
        return deeds

    def _text(self) -> str:
        self._count += 1
        return f'text {self._count} ü " \\ \n'

    def _start(self) -> None:
        text = self._text()
        self.talk.starts(text, content=f"{text} and more for the model")
        self._in_turn = True
        self._asked(text)

    def _asked(self, text: str) -> None:
        self.typed.append(text)
        self.done.append(text)
        self._joins = False

    def _user(self) -> None:
        text = self._text()
        self.talk.says(text, "user")
        self._asked(text)

    def _submit(self) -> None:
        text = self._text()
        self._waiting[self.talk.submits(text)] = text

    def _take(self) -> None:
        prompt, text = self._waiting.popitem()
        self.talk.takes(prompt)
        self._asked(text)

    def _withdraw(self) -> None:
        prompt, _ = self._waiting.popitem()
        self.talk.record(PromptWithdrawn(prompt=prompt, reason="taken back"))

    def _step(self) -> None:
        self.talk.steps()
        self._in_step, self._joins = True, False

    def _say(self) -> None:
        text = self._text()
        self.talk.says(text)
        if self._in_step and self._joins:
            self.done[-1] += text
        else:
            self.done.append(text)
        self._joins = True

    def _think(self) -> None:
        text = self._text()
        self.talk.says(text, "reasoning")

    def _call(self, parent: str | None = None) -> None:
        self._count += 1
        call = f"c{self._count}"
        self.talk.calls(call, given={"n": self._count}, parent=parent)
        self._calls.append(call)
        self.done.append(call)
        self._joins = self._joins and parent is not None

    def _nested(self) -> None:
        """A sub-agent's call; what the model says next goes on behind it, in the message that it began before."""
        if not self._joins:
            self._call(parent="somebody")

    def _end(self, which: int) -> None:
        self.talk.ends(self._calls.pop(which), self._text())

    def _stepped(self) -> None:
        self.talk.stepped()
        self._in_step = self._joins = False

    def _over(self) -> None:
        self.talk.over(result="all")
        self._in_turn = self._joins = False

    def _aside(self) -> None:
        """What is no part of the conversation."""
        asides = (
            CheckpointTaken(checkpoint=str(self._count), trigger="auto"),
            PartDelta(turn="t", part="p", kind="text", text="x"),
            Compacted(compaction="c", phase="done", summary="all of it, in short", messages_after=1),
            SettingsChanged(changes={"title": "t"}),
        )
        self.talk.record(asides[self._count % len(asides)])
