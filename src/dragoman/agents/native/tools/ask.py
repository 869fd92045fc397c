"""``ask``: a question to the person."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta

from .tool import Result, ToolContext, ToolInput


class AskInput(ToolInput, frozen=True):
    """Input of ``ask``."""

    question: Annotated[str, Meta(min_length=1, description="One question, with what is needed to answer it")]
    options: Annotated[
        tuple[str, ...], Meta(max_length=50, description="Answers to choose from; any other is possible too")
    ] = ()


class Ask:
    """See the module."""

    name: ClassVar[str] = "ask"
    description: ClassVar[str] = (
        "Ask the person a question and wait for the answer. For decisions that are theirs and that neither the task "
        "nor the files answer; not for leave to do what you were asked to do."
    )
    input: ClassVar[type[ToolInput]] = AskInput

    async def run(self, given: AskInput, context: ToolContext) -> Result:
        """The answer, as it was given."""
        return Result(await context.ask(given.question, given.options))
