"""One turn of a native session: model calls and tools in steps, until the model has nothing more to do.

What the model is told is folded from the log anew before each step. So whatever comes in meanwhile (a prompt that
steers, a shortened context) counts from the next step on, and a crash loses nothing but the step itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Literal

import msgspec

from dragoman.hub.events import ContextReported, Json, LogWritten
from dragoman.hub.log import SessionLog
from dragoman.hub.turns import TurnContext, TurnFailed

from .briefing import Briefings
from .calls import CallRunner
from .compaction import Compactor
from .history import Conversation
from .model_call import Answer
from .modes import mode_of
from .offered import OfferedTools, Offers
from .pictures import Gallery, refuses_pictures
from .providers.conversation import Message, ModelRequest, ToolSpec, UserMessage
from .providers.port import Provider, ProviderFailed
from .rejections import WHAT_NEXT
from .request import Offer, Target, model_request, offer
from .settings import NativeSettings
from .step import Reached, StepRunner, problem_of
from .tokens import count_messages, count_request, most_in_messages, most_in_text
from .tools.found import Toolbox
from .usage import Meter


class Model(msgspec.Struct, frozen=True):
    """The model that a turn runs with: how it is reached, its name, how many tokens it takes, who counts them.

    ``subagents`` is the name of the model that its sub-agents run with, None for the same one.
    """

    provider: Provider
    name: str
    window: int
    meter: Meter
    subagents: str | None = None


class _Planned(msgspec.Struct, frozen=True):
    """One model call to be made, and which of its tools clients run."""

    request: ModelRequest
    tools: OfferedTools
    client_tools: tuple[str, ...]


class TurnLoop:
    """Runs one turn. Make one per turn; ``run`` once."""

    def __init__(
        self,
        turn: TurnContext,
        conversation: Conversation,
        model: Model,
        calls: CallRunner,
        tools: Toolbox,
        briefings: Briefings,
        settings: NativeSettings,
        *,
        offers: Offers,
    ) -> None:
        self._turn = turn
        self._offers = offers
        self._session = turn.session
        self._conversation = conversation
        self._model = model
        self._calls = calls
        self._tools = tools
        self._briefings = briefings
        self._settings = settings
        self._gallery = Gallery(turn.session, settings.context)
        self._parts: set[str] = set()
        self._counted: tuple[int, int] | None = None

    async def run(self) -> str | None:
        """The text of the last answer. Raises ``TurnFailed``."""
        number, text = 0, None
        while number < self._settings.turn.steps:
            number += 1
            self._turn.take_steering()
            await self._tools.refresh(self._turn)
            answer = await self._step(number)
            if self._calls.broken_off:
                return WHAT_NEXT
            text = answer.text or None
            if not answer.calls and not self._steered():
                return text
        line = f"the turn ended after {number} steps, its limit (native.turn.steps)"
        self._turn.record(LogWritten(line=line, level="warning", turn=self._turn.turn))
        return text

    def _is_taken(self, part: str) -> bool:
        """Whether this id names something else already; if not, it does from now on."""
        taken = part in self._parts or part in self._conversation.calls
        self._parts.add(part)
        return taken

    def _steered(self) -> bool:
        """Whether somebody said something for this turn that no step has seen."""
        return any(prompt.steer for prompt in self._session.shown.queue)

    async def _step(self, number: int) -> Answer:
        planned = await self._planned()
        if await self._compacted_when_full(planned):
            planned = await self._planned()
        try:
            return await self._call(number, planned)
        except ProviderFailed as failure:
            if not await self._mended(planned.request, failure):
                raise TurnFailed(problem_of(failure)) from failure
        try:
            return await self._call(number, await self._planned())
        except ProviderFailed as failure:
            raise TurnFailed(problem_of(failure)) from failure

    async def _mended(self, request: ModelRequest, failure: ProviderFailed) -> bool:
        """Whether the call may go well after something was done about why it failed."""
        if failure.cause == "too_long":
            return await self._compact(request, "too_long")
        if not (self._gallery.showing and refuses_pictures(failure)):
            return False
        line = f"the model may take no pictures: it is asked again without ({failure})"
        self._turn.record(LogWritten(line=line, level="warning", turn=self._turn.turn))
        self._gallery.close()
        self._counted = None
        return True

    async def _call(self, number: int, planned: _Planned) -> Answer:
        request = planned.request
        self._report(planned)
        step = StepRunner(self._turn, number, self._calls, self._model.meter, self._is_taken)
        raw = self._session.state.settings.get("raw_parts") is True
        answer = await step.run(Reached(self._model.provider, raw, self._model.window), request, planned.client_tools)
        self._counted = (step.conversation_tokens, len(request.messages) + 1)
        return answer

    # What the model gets

    async def _planned(self) -> _Planned:
        """The next call: the conversation as the log has it, the tools and the place as they are now."""
        await self._turn.recorded()
        await catch_up(self._conversation, self._session)
        offered = self._offered()
        request = await self._request(await self._gallery.shown(self._conversation.messages()), offered.specs)
        return _Planned(request, self._offers.of(offered.specs), offered.client_tools)

    def _offered(self) -> Offer:
        """The tools for this step, and which of them clients run."""
        session = self._session
        return offer(
            session.state.settings,
            self._tools.values(),
            (tool.offer for tool in session.client_tools),
            mode=mode_of(session, self._settings.mode),
            searches=self._model.provider.searches,
        )

    async def _request(self, messages: Sequence[Message], specs: tuple[ToolSpec, ...]) -> ModelRequest:
        provider, limits = self._model.provider, self._settings.turn
        return model_request(
            self._session.state.settings,
            Target(self._model.name, provider.searches, limits.output_tokens),
            await self._briefings.read(),
            messages,
            specs,
            mode=mode_of(self._session, self._settings.mode),
        )

    def _report(self, planned: _Planned) -> None:
        """Tell whoever wants to see it what the model is given, where that is news, in the order it is read in."""
        request = planned.request
        last = request.messages[-1] if request.messages else None
        self._tell("system_prompt", request.system)
        if isinstance(last, UserMessage):
            self._turn.record(ContextReported(part="user_message", content=last.text, turn=self._turn.turn))
        self._tell("tool_schemas", planned.tools.schemas)

    def _tell(self, part: Literal["system_prompt", "tool_schemas"], content: Json) -> None:
        if self._conversation.reported.get(part) != content:
            self._conversation.reported[part] = content
            self._turn.record(ContextReported(part=part, content=content, turn=self._turn.turn))

    # When it gets too much

    async def _compacted_when_full(self, planned: _Planned) -> bool:
        full = self._model.window * self._settings.context.compact_at
        if full <= 0 or self._most_tokens(planned) < full or await self._tokens(planned.request) < full:
            return False
        return await self._compact(planned.request, "threshold")

    async def _compact(self, request: ModelRequest, reason: str) -> bool:
        compactor = Compactor(
            self._model.provider,
            self._model.name,
            self._model.meter,
            self._settings,
            self._turn.record,
            self._session.ids,
        )
        tokens = await self._tokens(request)
        # Who finds it too long has a smaller window than we know of: at most what it did not take.
        window = min(self._model.window, tokens) if reason == "too_long" else self._model.window
        done = await compactor.compact(
            request.messages, window=window, tokens=tokens, reason=reason, turn=self._turn.turn
        )
        if done:
            self._counted = None
        return done

    async def _tokens(self, request: ModelRequest) -> int:
        """What a call costs: by the provider's last count where there is one, else by ours."""
        if self._counted is not None:
            tokens, known = self._counted
            return tokens + await asyncio.to_thread(count_messages, request.messages[known:])
        return await asyncio.to_thread(count_request, request)

    def _most_tokens(self, planned: _Planned) -> int:
        """No fewer than ``_tokens``, told from lengths: counting takes longer than all else before a short call."""
        request = planned.request
        if self._counted is not None:
            tokens, known = self._counted
            return tokens + most_in_messages(request.messages[known:])
        return planned.tools.most_tokens + most_in_text(request.system) + most_in_messages(request.messages)


async def catch_up(conversation: Conversation, session: SessionLog) -> None:
    """Fold in what the log has durably, beyond what was folded before."""
    while conversation.cursor < session.shown.seq:
        conversation.take(await session.read(conversation.cursor))
