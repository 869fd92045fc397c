"""Sub-agents: a task, a conversation of its own, fewer tools, and one answer at the end.

Their conversations are not in the log; their calls are, with the call that started them as ``parent``, and what they
cost. A cancelled turn ends them with everything they run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import msgspec

from dragoman.hub.events import LogWritten, SubagentEnded, SubagentStarted

from .batch import Batch
from .briefing import Briefings
from .calls import Caller, CallRunner, Done, shown_input
from .history import speakable
from .model_call import Answer, call_model
from .prompt import subagent_prompt
from .providers.conversation import AssistantMessage, Call, Message, ModelRequest, Text, ToolMessage, UserMessage
from .providers.port import CallMade, ProviderFailed, StreamEvent
from .request import is_offered
from .settings import NativeSettings
from .tools.found import FoundTool
from .tools.schema import tool_spec
from .tools.spawn_agent import AgentType
from .tools.tool import Tool, ToolContext, ToolFailed
from .tools.web_search import WebSearch
from .turn_loop import Model

_TOOLS: dict[AgentType, tuple[str, ...]] = {
    "explore": ("read", "glob", "grep", "bash"),
    "research": ("read", "webSearch", "webFetch"),
    "general": (
        *("read", "write", "edit", "glob", "grep", "webSearch", "webFetch"),
        *("notebookEdit", "skill", "memory"),
    ),
}


class Subagents:
    """Starts the sub-agents of one turn."""

    def __init__(
        self,
        model: Model,
        calls: CallRunner,
        tools: Mapping[str, Tool | FoundTool],
        briefings: Briefings,
        settings: NativeSettings,
    ) -> None:
        self.model = model
        self.calls = calls
        self.tools = tools
        self.briefings = briefings
        self.settings = settings

    async def spawn(self, agent_type: AgentType, task: str, context: ToolContext) -> str:
        """Run one to its end and return its last words. Raises ``ToolFailed``."""
        run = _Run(self, agent_type, context)
        context.record(
            SubagentStarted(subagent=run.id, name=agent_type, task=task, call=context.call, turn=context.turn)
        )
        status, result = "cancelled", None
        try:
            result = await run.work(task)
            status = "completed"
        except ProviderFailed as failure:
            status, result = "failed", str(failure)
            raise ToolFailed(f"The sub-agent failed: {failure}") from failure
        finally:
            context.record(SubagentEnded(subagent=run.id, status=status, result=result, turn=context.turn))
        return result or "The sub-agent gave no answer."


class _Run:
    """One sub-agent at work."""

    def __init__(self, owner: Subagents, agent_type: AgentType, context: ToolContext) -> None:
        self._owner = owner
        self._type: AgentType = agent_type
        self._context = context
        self._turn = owner.calls.turn
        self._messages: list[Message] = []
        self._ids: set[str] = set()
        self._steps = 0
        self.id = self._turn.session.ids()

    async def work(self, task: str) -> str:
        self._messages.append(UserMessage(task))
        said = ""
        while self._steps < self._owner.settings.turn.subagent_steps:
            self._steps += 1
            answer = await self._ask_model()
            said = answer.text or said
            if not answer.calls:
                return said
            await self._run_calls(answer)
            if self._owner.calls.broken_off:
                return said
        line = f"a sub-agent ended after {self._steps} steps, its limit (native.turn.subagent_steps)"
        self._context.record(LogWritten(line=line, level="warning", turn=self._turn.turn))
        return said

    async def _ask_model(self) -> Answer:
        owner, model = self._owner, self._owner.model
        offered = self._offered()
        request = ModelRequest(
            model=model.subagents or model.name,
            system=subagent_prompt(self._type, await owner.briefings.read(), offered),
            messages=tuple(self._messages),
            tools=tuple(tool_spec(owner.tools[name]) for name in offered),
            max_output_tokens=owner.settings.turn.output_tokens,
            web_search=self._searches(),
        )
        answer = Answer(model.provider.name)

        async def take(event: StreamEvent) -> None:
            answer.take(event)

        await call_model(model.provider, request, owner.settings.turn, on_event=take, on_retry=self._retried)
        usage = await model.meter.measure(request, answer)
        self._context.record(
            msgspec.structs.replace(
                usage, message=f"{self.id}:{self._steps}", turn=self._turn.turn, conversation_tokens=None
            )
        )
        return answer

    async def _run_calls(self, answer: Answer) -> None:
        """Run them all, and add the answer with its results, in the order of its calls, to the conversation."""
        runner, offered, caller = self._owner.calls, self._offered(), Caller(self._context.call, self._type)
        renamed = {made.call: msgspec.structs.replace(made, call=self._unique(made.call)) for made in answer.calls}
        batch = Batch()
        async with asyncio.TaskGroup() as group:
            running = [
                group.create_task(runner.run(runner.called(made, caller, tools=offered, batch=batch)))
                for made in renamed.values()
            ]
            batch.complete()
        self._messages.append(_renamed(answer.message, renamed))
        self._messages += [_result(task.result()) for task in running]

    def _offered(self) -> list[str]:
        names = [name for name in _TOOLS[self._type] if name in self._owner.tools]
        if self._type == "general":
            found = (tool for tool in self._owner.tools.values() if isinstance(tool, FoundTool))
            names += [tool.name for tool in found if tool.for_subagents]
        hidden = {WebSearch.name} if self._owner.model.provider.searches else ()
        return [name for name in names if name not in hidden and self._is_offered(name)]

    def _is_offered(self, tool: str) -> bool:
        return is_offered(self._turn.session.state.settings, tool)

    def _searches(self) -> bool:
        """Whether the provider may search: as the tool that its searching stands for."""
        allowed = WebSearch.name in _TOOLS[self._type] and self._is_offered(WebSearch.name)
        return allowed and self._owner.model.provider.searches

    def _unique(self, given: str) -> str:
        """Providers count calls anew in each conversation; the log needs ids of its own."""
        unique = f"{self.id[:8]}-{given}"
        while unique in self._ids:
            unique = f"{unique}-{self._turn.session.ids()[:8]}"
        self._ids.add(unique)
        return unique

    def _retried(self, failure: ProviderFailed, delay: float) -> None:
        line = f"a sub-agent's model call failed ({failure}); trying again in {delay:g} s"
        self._context.record(LogWritten(line=line, level="warning", turn=self._turn.turn))


def _renamed(message: AssistantMessage, names: Mapping[str, CallMade]) -> AssistantMessage:
    parts = []
    for part in message.parts:
        if isinstance(part, Call):
            made = names[part.call]
            part = Call(made.call, speakable(made.tool), shown_input(made.arguments), made.metadata)  # noqa: PLW2901
        if not isinstance(part, Text) or part.text:
            parts.append(part)
    return AssistantMessage(tuple(parts), message.provider)


def _result(done: Done) -> ToolMessage:
    return ToolMessage(done.call, speakable(done.tool), done.text, done.failed)
