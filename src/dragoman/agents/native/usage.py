"""Tokens and cost of model calls: the provider's own numbers, or an estimate that says that it is one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import msgspec

from dragoman.hub.events import UsageReported

from .model_call import Answer
from .providers.conversation import ModelRequest
from .providers.port import Spent
from .tokens import count_messages, count_request

Price = Callable[[str, str, Spent], Awaitable[float | None]]
"""US dollars of a call: (provider, model, tokens), or None where that is not known."""


class Meter:
    """Counts the model calls that go through one provider."""

    def __init__(self, provider: str, price: Price) -> None:
        self._provider = provider
        self._price = price

    async def measure(self, request: ModelRequest, answer: Answer) -> UsageReported:
        """The report of one call, counted once. ``message``, turn and step are for the caller to fill in."""
        spent, estimated = answer.spent, False
        if spent.input_tokens is None or spent.output_tokens is None:
            spent, estimated = await asyncio.to_thread(_estimated, request, answer), True
        cost = await self._price(self._provider, request.model, spent)
        return UsageReported(
            message="",
            model=request.model,
            input_tokens=spent.input_tokens,
            output_tokens=spent.output_tokens,
            reasoning_tokens=spent.reasoning_tokens,
            cached_tokens=spent.cached_tokens,
            cache_write_tokens=spent.cache_write_tokens,
            conversation_tokens=(spent.input_tokens or 0) + (spent.output_tokens or 0),
            cost_usd=cost,
            estimated=estimated,
        )


def _estimated(request: ModelRequest, answer: Answer) -> Spent:
    """The provider's numbers where it gave some, our count for the others."""
    given, said = answer.spent.input_tokens, answer.spent.output_tokens
    return msgspec.structs.replace(
        answer.spent,
        input_tokens=count_request(request) if given is None else given,
        output_tokens=count_messages([answer.message]) if said is None else said,
    )
