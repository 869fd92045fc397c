"""The tool ``spawnAgent``: hands a task to a sub-agent and gives back what it found."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Protocol

import msgspec

from .tool import Result, ToolContext, ToolInput

AgentType = Literal["explore", "research", "general"]

LONGEST_TASK = 20_000


class SpawnAgentInput(ToolInput, frozen=True):
    """What the sub-agent is to do. It sees nothing else of the conversation."""

    task: Annotated[
        str,
        msgspec.Meta(
            min_length=1,
            max_length=LONGEST_TASK,
            description="The whole task, with everything needed to do it: the sub-agent sees nothing else.",
        ),
    ]
    agent_type: Annotated[
        AgentType,
        msgspec.Meta(
            description="explore: looks around in the workspace, changes nothing. research: reads the web. "
            "general: reads, edits and searches."
        ),
    ] = "general"


class Spawner(Protocol):
    """Runs sub-agents: what the tool needs of the turn that it is called in."""

    async def spawn(self, agent_type: AgentType, task: str, context: ToolContext) -> str:
        """Run one to its end and return its last words. Raises ``ToolFailed``."""


class SpawnAgent:
    """See the module."""

    name: ClassVar[str] = "spawnAgent"
    description: ClassVar[str] = (
        "Hand a self-contained task to a sub-agent with its own conversation, and get its final answer back. Use it for"
        " searches through much material, or for independent parts of the work; several may run at once."
    )
    input: ClassVar[type[ToolInput]] = SpawnAgentInput

    def __init__(self, spawner: Spawner) -> None:
        self._spawner = spawner

    async def run(self, given: SpawnAgentInput, context: ToolContext) -> Result:
        return Result(await self._spawner.spawn(given.agent_type, given.task, context))
