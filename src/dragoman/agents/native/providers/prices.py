"""What a model call costs, and how much a model takes, by a price list that comes with the program (``genai_prices``).

Nothing is fetched. What the list does not know is None, never a guess.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from .port import Spent

if TYPE_CHECKING:
    from genai_prices.data_snapshot import DataSnapshot

log = logging.getLogger("dragoman.providers")

_OTHER_NAMES = {"claude-4-5-sonnet": "claude-sonnet-4-5"}
"""Names of our catalogue that the list does not have, though it has the model."""


class Prices:
    """The list, read when it is first needed. ``provider`` is always its name there (``CatalogueEntry.price_id``);
    None has no price."""

    def __init__(self) -> None:
        self._list: DataSnapshot | None = None

    async def cost(self, provider: str | None, model: str, spent: Spent) -> float | None:
        """US dollars of one call by the provider's own token numbers; None where price or numbers are not known."""
        if provider is None or spent.input_tokens is None or spent.output_tokens is None:
            return None
        return _cost(await self._loaded(), provider, model, spent)

    async def context_window(self, provider: str | None, model: str) -> int | None:
        """Tokens that the model takes; None where that is not known."""
        if provider is None:
            return None
        try:
            _, found = (await self._loaded()).find_provider_model(_listed(model), None, provider, None)
        except LookupError:
            return None
        return found.context_window

    async def _loaded(self) -> DataSnapshot:
        if self._list is None:
            self._list = await asyncio.to_thread(_load)
        return self._list


def _load() -> DataSnapshot:
    """A quarter of a second of imports: in a thread, and only where something has been spent."""
    from genai_prices.data_snapshot import get_snapshot  # noqa: PLC0415

    return get_snapshot()


def _cost(prices: DataSnapshot, provider: str, model: str, spent: Spent) -> float | None:
    from genai_prices import Usage  # noqa: PLC0415

    try:
        usage = Usage(
            input_tokens=spent.input_tokens,
            output_tokens=spent.output_tokens,
            cache_read_tokens=min(spent.cached_tokens or 0, spent.input_tokens or 0),
        )
        price = float(prices.calc(usage, _listed(model), provider, None, None).total_price)
    except LookupError:
        return None
    except (ValueError, ArithmeticError) as problem:
        log.warning("no price for a call of %s: %s", model, problem)
        return None
    return price


def _listed(model: str) -> str:
    return _OTHER_NAMES.get(model, model)
