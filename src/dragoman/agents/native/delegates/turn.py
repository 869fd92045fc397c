"""A turn that a program runs: rounds of it, until nobody says anything more.

The program keeps a conversation of its own. What it does not know of the session's (turns that others answered, or all
of it, after its own was given up) is told it as text, in front of what the person says now.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import msgspec

from dragoman.agents.native.calls import Place
from dragoman.agents.native.history import Conversation, pictures_of
from dragoman.agents.native.modes import mode_of
from dragoman.agents.native.permits import Permits
from dragoman.agents.native.pictures import with_words
from dragoman.agents.native.providers.conversation import Message
from dragoman.agents.native.providers.port import ProviderFailed
from dragoman.agents.native.rejections import WHAT_NEXT
from dragoman.agents.native.settings import NativeSettings
from dragoman.agents.native.step import problem_of
from dragoman.agents.native.turn_loop import catch_up
from dragoman.hub.events import ContextReported, LogWritten, Problem, PromptSubmitted, ToolEnded
from dragoman.hub.standing import OpenCall
from dragoman.hub.turns import TurnContext, TurnFailed

from .hooks import DelegateHooks
from .port import Assignment, ConversationLost, Delegate, Report
from .transcript import with_transcript

TOLD_WITHIN = 2.0
"""Seconds that a program has to take a refusal before it is broken off for it."""


class DelegatedTurn:
    """Runs one turn. Make one per turn; ``run`` once. ``find_key`` gives the program's key, where it needs one."""

    def __init__(
        self,
        turn: TurnContext,
        conversation: Conversation,
        delegate: Delegate,
        model: str,
        *,
        place: Place,
        find_key: Callable[[], str | None],
        settings: NativeSettings,
        hooks: DelegateHooks | None = None,
    ) -> None:
        self._turn = turn
        self._session = turn.session
        self._conversation = conversation
        self._delegate = delegate
        self._model = model
        self._place = place
        self._find_key = find_key
        self._settings = settings
        self._hooks = hooks or DelegateHooks()
        self._permits = Permits(turn, settings.mode)

    async def run(self) -> str | None:
        """The text of the last answer. Raises ``TurnFailed``."""
        step, prompts = 1, [self._turn.prompt, *self._turn.take_steering()]
        while True:
            try:
                report = await self._unless_refused(prompts, step)
            except ProviderFailed as failure:
                raise TurnFailed(problem_of(failure)) from failure
            if report is None or self._permits.broken_off:
                return WHAT_NEXT
            prompts, step = self._turn.take_steering(), report.step + 1
            if not prompts:
                return report.text

    async def _unless_refused(self, prompts: Sequence[PromptSubmitted], step: int) -> Report | None:
        """A round; None when a person refused all that goes on: the program is broken off once it knows of that."""
        try:
            async with asyncio.timeout(None) as limit:
                unwatch = self._session.watch(lambda: self._look(limit))
                try:
                    return await self._round(prompts, step)
                finally:
                    unwatch()
        except TimeoutError:
            if not limit.expired():
                raise
        for call, said in self._left():
            problem = Problem(code="denied", message=said, source="permissions")
            self._turn.record(
                ToolEnded(
                    call=call.call, tool=call.tool, status="denied", output=said, problem=problem, turn=self._turn.turn
                )
            )
        return None

    def _look(self, limit: asyncio.Timeout) -> None:
        """Called at every change of the log."""
        if self._permits.broken_off and not limit.expired():
            now = asyncio.get_running_loop().time()
            if not self._left():
                limit.reschedule(now)
            elif limit.when() is None:
                limit.reschedule(now + TOLD_WITHIN)

    def _left(self) -> list[tuple[OpenCall, str]]:
        """The refused calls that the program has not said the end of, and what was said of each."""
        calls = self._session.state.calls
        return [(calls[call], said) for call, said in self._permits.refused.items() if call in calls]

    async def _round(self, prompts: Sequence[PromptSubmitted], step: int) -> Report:
        await self._turn.recorded()
        await catch_up(self._conversation, self._session)
        assignment = self._assignment(prompts, step)
        try:
            return await self._run(assignment)
        except ConversationLost:
            line = f"{self._delegate.name} no longer has its conversation; it begins a new one, and is told of this one"
            self._turn.record(LogWritten(line=line, level="warning", turn=self._turn.turn))
        text = self._text(prompts, self._conversation.unknown_to(None, before=len(prompts)))
        try:
            return await self._run(msgspec.structs.replace(assignment, text=text, agent_session=None, remembered={}))
        except ConversationLost as lost:
            raise ProviderFailed(f"{self._delegate.name} began no conversation: {lost}") from lost

    async def _run(self, assignment: Assignment) -> Report:
        self._turn.record(ContextReported(part="user_message", content=assignment.text, turn=self._turn.turn))
        with self._hooks.round(self._delegate.name, assignment.agent_session):
            return await self._delegate.run(assignment)

    def _assignment(self, prompts: Sequence[PromptSubmitted], step: int) -> Assignment:
        name = self._delegate.name
        known = self._conversation.known(name)
        instructions = self._session.state.settings.get("instructions")
        return Assignment(
            turn=self._turn,
            place=self._place,
            permits=self._permits,
            model=self._model,
            mode=mode_of(self._session, self._settings.mode),
            text=self._text(prompts, self._conversation.unknown_to(name, before=len(prompts))),
            step=step,
            agent_session=known.agent_session if known else None,
            remembered=known.metadata if known else {},
            calls=frozenset(self._conversation.calls),
            instructions=instructions if isinstance(instructions, str) and instructions else None,
            key=self._find_key(),
            hooks=self._hooks,
        )

    def _text(self, prompts: Sequence[PromptSubmitted], before: Sequence[Message]) -> str:
        said = "\n\n".join(given_text(prompt) for prompt in prompts)
        return with_transcript(said, before, self._settings.delegates.transcript_chars)


def given_text(prompt: PromptSubmitted) -> str:
    """What a program is given of a prompt: what its client wants a model to see, else what the person wrote.

    A picture that lies in the artifact store it cannot be shown.
    """
    text = prompt.text if prompt.content is None else prompt.content
    return with_words(
        text, [f"The picture {it.name} came with this, but you cannot be shown it." for it in pictures_of(prompt)]
    )
