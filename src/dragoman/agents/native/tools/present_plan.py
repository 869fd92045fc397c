"""The tool ``presentPlan``, offered in plan mode only: a person reads the plan, and with their yes the work begins."""

from __future__ import annotations

from typing import Annotated, ClassVar, Protocol

import msgspec

from .tool import Result, ToolContext, ToolInput


class PresentPlanInput(ToolInput, frozen=True):
    """The plan."""

    plan: Annotated[str, msgspec.Meta(min_length=1, max_length=100_000, description="The whole plan, in Markdown.")]


class Presenter(Protocol):
    """Shows plans to people: what the tool needs of the turn that it is called in."""

    async def present(self, plan: str, context: ToolContext) -> str:
        """Wait for what is said of the plan; returns it in words. Raises ``ToolDenied``."""


class PresentPlan:
    """See the module."""

    name: ClassVar[str] = "presentPlan"
    description: ClassVar[str] = (
        "Present your plan to the person, once you know enough to say what you would change. Nothing may be changed"
        " before they accept it."
    )
    input: ClassVar[type[ToolInput]] = PresentPlanInput

    def __init__(self, presenter: Presenter) -> None:
        self._presenter = presenter

    async def run(self, given: PresentPlanInput, context: ToolContext) -> Result:
        return Result(await self._presenter.present(given.plan, context))
