"""What a turn would give its model, for whoever wants to see it: see ``hub.previews``.

It is made of the same parts as a turn's step (``request``, ``history``, ``briefing``), so it cannot say anything else.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

import msgspec

from dragoman.hub.clock import Clock
from dragoman.hub.errors import Unsupported
from dragoman.hub.events import AnyFact, Event, HistoryMerged, HistoryMessage, Json, PromptSubmitted, TurnStarted
from dragoman.hub.previews import Previewed, PreviewWanted
from dragoman.hub.skills import Skills
from dragoman.hub.workspace_config import WorkspaceConfigs

from .agent import Models
from .briefing import briefing_of
from .history import Conversation
from .modes import meant_mode
from .path_guard import PathGuard
from .preference import Preference, preference
from .providers.conversation import AssistantMessage, Message, ModelRequest, Text, ToolSpec, UserMessage
from .providers.port import ProviderFailed
from .request import Target, model_request, offer
from .settings import NativeSettings
from .surroundings import read_surroundings
from .tokens import count_request
from .tools.present_plan import PresentPlan
from .tools.spawn_agent import AgentType, SpawnAgent
from .tools.tool import Tool, ToolContext, ToolFailed

log = logging.getLogger("dragoman.native")


class _Answerer(msgspec.Struct, frozen=True):
    """Who would answer, as far as that is known."""

    provider: str | None
    target: Target


class NativePreviews:
    """One for a server; see the module. ``private`` are the server's own files, as ``NativeFactory`` has them."""

    def __init__(
        self,
        models: Models,
        tools: Sequence[Tool],
        settings: NativeSettings,
        *,
        clock: Clock,
        private: Collection[Path] = (),
        skills: Skills | None = None,
        configs: WorkspaceConfigs | None = None,
    ) -> None:
        self._models = models
        self._tools = [*tools, SpawnAgent(_NoTurn()), PresentPlan(_NoTurn())]
        self._settings = settings
        self._clock = clock
        self._private = private
        self._skills = skills
        self._configs = configs

    async def preview(self, wanted: PreviewWanted) -> Previewed:
        """See ``Previews``. Tools of MCP servers are none of it: they are found by a turn that runs."""
        cwd, settings = Path(wanted.cwd), wanted.settings
        around = await read_surroundings(cwd, self._skills, self._configs, self._clock)
        answerer = await self._answerer(preference(settings, around.config))
        target, mode = answerer.target, meant_mode(settings.get("mode"), self._settings.mode)
        offered = offer(settings, self._tools, wanted.tools, mode=mode, searches=target.searches)
        briefing = await briefing_of(around, PathGuard(cwd, (cwd,), private=self._private), cwd, self._clock.now())
        request = model_request(settings, target, briefing, _conversation(wanted), offered.specs, mode=mode)
        known = offer({}, self._tools, wanted.tools, mode="plan", searches=False)
        tokens, uncounted = await _counted(request)
        return Previewed(
            provider=answerer.provider,
            model=target.model or None,
            system=request.system,
            messages=tuple(map(_shown, request.messages)),
            known=_plain(known.specs),
            offered=_plain(request.tools),
            web_search=request.web_search,
            tokens=tokens,
            uncounted=uncounted,
        )

    async def _answerer(self, wanted: Preference) -> _Answerer:
        """Who would answer. One that cannot be used as things stand is shown by its name: a turn would say why."""
        limit = self._settings.turn.output_tokens
        try:
            chosen = await self._models.choose(wanted.provider, wanted.model)
            if chosen.delegate is not None:
                raise Unsupported(
                    f"{chosen.provider_id} runs turns by itself: what its model is told is not known here"
                )
            searches = chosen.make().searches
        except ProviderFailed:
            return _Answerer(wanted.provider, Target(wanted.model or "", False, limit))
        return _Answerer(chosen.provider_id, Target(chosen.model, searches, limit))


class _NoTurn:
    """In a turn's place, for tools that are shown and not run."""

    async def spawn(self, agent_type: AgentType, task: str, context: ToolContext) -> str:  # noqa: ARG002
        raise ToolFailed("no turn runs here")

    async def present(self, plan: str, context: ToolContext) -> str:  # noqa: ARG002
        raise ToolFailed("no turn runs here")


def _conversation(wanted: PreviewWanted) -> tuple[Message, ...]:
    """The conversation as a turn with this prompt would fold it from its log."""
    facts: list[AnyFact] = [
        HistoryMerged(messages=wanted.history, replace=True, by="", via=""),
        PromptSubmitted(prompt="", text=wanted.prompt, by="", via=""),
        TurnStarted(turn="", prompt=""),
    ]
    conversation = Conversation()
    conversation.take(Event(seq, 0, "", fact) for seq, fact in enumerate(facts, 1))
    return conversation.messages()


async def _counted(request: ModelRequest) -> tuple[int | None, str | None]:
    try:
        return await asyncio.to_thread(count_request, request), None
    except Exception as error:  # a library's: what is to be shown does not hang on it
        log.warning("the tokens of a preview could not be counted", exc_info=True)
        return None, f"the tokens could not be counted: {type(error).__name__}"


def _plain(specs: Iterable[ToolSpec]) -> list[Json]:
    return [msgspec.to_builtins(spec) for spec in specs]


def _shown(message: Message) -> HistoryMessage:
    if isinstance(message, UserMessage):
        return HistoryMessage("user", message.text)
    if isinstance(message, AssistantMessage):
        return HistoryMessage("assistant", "".join(part.text for part in message.parts if isinstance(part, Text)))
    return HistoryMessage("tool", message.text, tool=message.tool, call=message.call)
