"""The native agent: a language model with tools, as the hub's ``Agent``. One per session; it has no process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path
from typing import Protocol

from dragoman.hub.decisions import DecisionClosed
from dragoman.hub.errors import InvalidRequest
from dragoman.hub.events import (
    Answer,
    DecisionResolved,
    DecisionRevised,
    LogWritten,
    Problem,
    PromptSubmitted,
    SettingsChanged,
)
from dragoman.hub.ports import Driver, Terminal
from dragoman.hub.session import Session
from dragoman.hub.skills import Skills
from dragoman.hub.turns import TurnContext, TurnFailed
from dragoman.hub.workspace_config import WorkspaceConfig, WorkspaceConfigs

from .briefing import Briefings
from .calls import CallRunner, Place
from .compaction import Compactor
from .delegates.hooks import DelegateHooks
from .delegates.port import Delegate
from .delegates.turn import DelegatedTurn
from .history import Conversation
from .mcp.servers import McpServers
from .modes import mode_of
from .offered import Offers
from .path_guard import PathGuard
from .permits import Permits
from .pictures import check_pictures
from .plans import mode_after, plan_decision
from .preference import Preference, preference
from .providers.port import Provider, ProviderFailed, Spent
from .request import is_offered
from .settings import NativeSettings
from .step import problem_of
from .subagents import Subagents
from .surroundings import Surroundings, SurroundingsReader
from .tokens import count_messages
from .tools.found import Toolbox
from .tools.present_plan import PresentPlan
from .tools.spawn_agent import AgentType, SpawnAgent
from .tools.tool import Tool, ToolContext, ToolDenied
from .turn_loop import Model, TurnLoop, catch_up
from .usage import Meter


class Chosen(Protocol):
    """A provider, and one of its models."""

    @property
    def provider_id(self) -> str: ...
    @property
    def model(self) -> str: ...
    @property
    def make(self) -> Callable[[], Provider]:
        """The adapter, with the key of the moment. Raises ``ProviderFailed``."""

    @property
    def delegate(self) -> Callable[[], Delegate] | None:
        """The program that runs the whole turn, where the provider is one; ``make`` is not called then."""

    @property
    def find_key(self) -> Callable[[], str | None]:
        """The key that such a program is to be given, or None where it signs in by itself."""


class Models(Protocol):
    """Where an agent gets its model from."""

    async def choose(self, provider: str | None, model: str | None) -> Chosen:
        """What a session that names these runs with. Raises ``ProviderFailed``, ``InvalidRequest``."""

    async def context_window(self, provider: str, model: str) -> int | None:
        """Tokens that a model takes, where that is known."""

    async def cost(self, provider: str, model: str, spent: Spent) -> float | None:
        """US dollars of a model call, where that is known."""


class NativeAgent:
    """See the module."""

    terminal: Terminal | None = None
    driver: Driver | None = None

    def __init__(
        self,
        session: Session,
        models: Models,
        tools: Sequence[Tool],
        settings: NativeSettings,
        *,
        private: Collection[Path] = (),
        skills: Skills | None = None,
        configs: WorkspaceConfigs | None = None,
        mcp: McpServers | None = None,
        offers: Offers | None = None,
    ) -> None:
        self.hooks = DelegateHooks()
        self._session = session
        self._models = models
        self._tools = tools
        self._settings = settings
        self._private = private
        self._surroundings = SurroundingsReader(session, skills, configs)
        self._told: set[str] = set()
        """Problems of the folder's configuration that were said."""
        self._mcp = mcp
        self._conversation = Conversation()
        self._offers = offers or Offers()
        self._shortening = asyncio.Lock()
        self._own_tools = frozenset(tool.name for tool in tools) | {SpawnAgent.name, PresentPlan.name}

    async def start(self) -> None:
        """Nothing to start: a model is reached when it is needed."""

    def check(self, prompt: PromptSubmitted) -> None:
        check_pictures(prompt, self._session)

    async def shows_pictures(self) -> bool:
        """A program that runs whole turns is told of files only. See ``ShowsPictures``."""
        try:
            wanted = self._wanted(await self._surroundings.config(Path(self._session.state.cwd)))
            return (await self._chosen(wanted)).delegate is None
        except (ProviderFailed, InvalidRequest):
            return True  # its turns say what is wrong

    def answering(self, decision: str, answer: Answer) -> AbstractAsyncContextManager[None]:  # noqa: ARG002
        """Nobody types at it."""
        return nullcontext()

    def resolved(self, outcome: DecisionResolved, answer: Answer | None) -> None:
        """What its turns ask, they wait for themselves; what is left is whether a server of tools may be used."""
        if self._mcp is not None:
            self._mcp.resolved(outcome, answer)

    def progressed(self, revision: DecisionRevised) -> None:
        """Its questions come one by one."""

    async def close(self, budget: float) -> None:
        """End its servers of tools; the turn's task was cancelled before."""
        if self._mcp is not None:
            await self._mcp.close(budget)

    @property
    def holds(self) -> bool:
        return self._mcp is not None and self._mcp.holds

    @property
    def own_tools(self) -> Collection[str]:
        names = self._own_tools if self._mcp is None else self._own_tools.union(self._mcp.names)
        return frozenset(name for name in names if self._may_offer(name))

    @property
    def offered_tools(self) -> Collection[str]:
        plans = mode_of(self._session, self._settings.mode) == "plan"
        hidden = frozenset() if plans else {PresentPlan.name}
        return frozenset(name for name in self._own_tools - hidden if self._may_offer(name))

    def _may_offer(self, tool: str) -> bool:
        return is_offered(self._session.state.settings, tool)

    def read_ahead(self) -> None:
        """A turn is about to begin: what it will ask of the folder is being read meanwhile. See ``ReadsAhead``."""
        self._surroundings.read_ahead()

    async def run_turn(self, turn: TurnContext) -> str | None:
        """Run the turn to its end. Raises ``TurnFailed`` for what the provider could not do."""
        async with self._shortening:
            try:
                around = await self._surroundings.first()
                runner = await self._runner(turn, around)
            except ProviderFailed as failure:
                raise TurnFailed(problem_of(failure)) from failure
            except InvalidRequest as wrong:
                raise TurnFailed(Problem(code=wrong.code, message=str(wrong), source="provider")) from wrong
            self._tell_problems(turn, around.config)
            return await runner.run()

    async def _runner(self, turn: TurnContext, around: Surroundings) -> TurnLoop | DelegatedTurn:
        """What runs this turn: our own loop with a model, or a program."""
        config = around.config
        wanted = self._wanted(config)
        chosen = await self._chosen(wanted)
        if chosen.delegate is not None:
            if isinstance(self._session.state.settings.get("enabled_tools"), list):
                raise InvalidRequest(
                    f"{chosen.provider_id} has tools of its own: it runs no session that says which tools it may have"
                    " (enabled_tools)"
                )
            return self._delegated(turn, chosen, chosen.delegate())
        if self._mcp is not None and config is not None:
            self._mcp.configure(turn.turn, config)
        return self._loop(turn, await self._model(chosen, wanted), around)

    def _delegated(self, turn: TurnContext, chosen: Chosen, delegate: Delegate) -> DelegatedTurn:
        return DelegatedTurn(
            turn,
            self._conversation,
            delegate,
            chosen.model,
            place=self._place(),
            find_key=chosen.find_key,
            settings=self._settings,
            hooks=self.hooks,
        )

    def _loop(self, turn: TurnContext, model: Model, around: Surroundings) -> TurnLoop:
        permits = Permits(turn, self._settings.mode)
        spawner, presenter = _Spawner(), _Presenter(turn)
        tools = Toolbox([*self._tools, SpawnAgent(spawner), PresentPlan(presenter)], self._mcp)
        place = self._place()
        calls = CallRunner(turn, tools, place, permits)
        briefings = Briefings(self._session, place, self._surroundings, around)
        spawner.agents = Subagents(model, calls, tools, briefings, self._settings)
        return TurnLoop(turn, self._conversation, model, calls, tools, briefings, self._settings, offers=self._offers)

    async def compact(self) -> None:
        """Shorten the conversation now. Raises ``InvalidRequest`` when there is nothing to, or the model fails."""
        session = self._session
        async with self._shortening:
            try:
                wanted = self._wanted(await self._surroundings.config(Path(session.state.cwd)))
                chosen = await self._chosen(wanted)
                if chosen.delegate is not None:
                    name = chosen.provider_id
                    raise InvalidRequest(f"{name} keeps a conversation of its own, and shortens it by itself")
                model = await self._model(chosen, wanted)
            except ProviderFailed as failure:
                raise InvalidRequest(str(failure)) from failure
            await session.durable(session.head, limit=session.limits.ack_seconds)
            await catch_up(self._conversation, session)
            messages = self._conversation.messages()
            compactor = Compactor(model.provider, model.name, model.meter, self._settings, session.record, session.ids)
            tokens = await asyncio.to_thread(count_messages, messages)
            if not await compactor.compact(messages, window=model.window, tokens=tokens, reason="manual"):
                raise InvalidRequest("the conversation could not be shortened: it is short, or the model failed")

    def _wanted(self, config: WorkspaceConfig | None) -> Preference:
        """What the session's settings, and its folder's configuration, ask for."""
        return preference(self._session.state.settings, config)

    async def _chosen(self, wanted: Preference) -> Chosen:
        return await self._models.choose(wanted.provider, wanted.model)

    async def _model(self, chosen: Chosen, wanted: Preference) -> Model:
        name = chosen.provider_id
        window = await self._models.context_window(name, chosen.model) or self._settings.context.window
        return Model(chosen.make(), chosen.model, window, Meter(name, self._models.cost), wanted.subagent_model)

    def _tell_problems(self, turn: TurnContext, config: WorkspaceConfig | None) -> None:
        """Say once what of the folder's configuration was skipped."""
        for line in config.problems if config is not None else ():
            if line not in self._told:
                self._told.add(line)
                turn.record(LogWritten(line=line, level="warning", turn=turn.turn))

    def _place(self) -> Place:
        cwd = Path(self._session.state.cwd)
        output = _text(self._session.state.settings.get("output_directory"))
        roots = (cwd, cwd / output) if output else (cwd,)
        return Place(cwd, roots, PathGuard(cwd, roots, private=self._private), self._settings)


class _Spawner:
    """The turn's sub-agents, which need the tools that they are among."""

    agents: Subagents

    async def spawn(self, agent_type: AgentType, task: str, context: ToolContext) -> str:
        return await self.agents.spawn(agent_type, task, context)


class _Presenter:
    """Shows a plan to whoever may accept it."""

    def __init__(self, turn: TurnContext) -> None:
        self._turn = turn

    async def present(self, plan: str, context: ToolContext) -> str:
        opened = plan_decision(
            self._turn.session.ids(), plan, turn=context.turn, call=context.call, tool=PresentPlan.name
        )
        try:
            answer = await self._turn.decide(opened)
        except DecisionClosed as closed:
            raise ToolDenied("Nobody answered; the plan is not accepted.") from closed
        mode = mode_after(answer, opened)
        if mode is None:
            said = f" They said: {answer.text}" if answer.text else ""
            return f"The plan is not accepted.{said} Go on planning."
        context.record(SettingsChanged(changes={"mode": mode}))
        return f"The plan is accepted. You are out of plan mode: do it now. {answer.text or ''}".strip()


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
