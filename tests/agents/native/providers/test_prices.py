"""What a call costs, where that is known."""

from __future__ import annotations

import subprocess
import sys

import pytest

from dragoman.agents.native.providers.catalogue import REMOTE
from dragoman.agents.native.providers.port import Spent
from dragoman.agents.native.providers.prices import Prices


async def test_cached_tokens_cost_less_and_output_costs_more() -> None:
    prices = Prices()

    async def cost(**spent: int) -> float:
        price = await prices.cost("openai", "gpt-5.2", Spent(**spent))
        assert price is not None
        return price

    plain = await cost(input_tokens=1000, output_tokens=0)
    assert 0 < await cost(input_tokens=1000, output_tokens=0, cached_tokens=900) < plain
    assert await cost(input_tokens=1000, output_tokens=1000) > 2 * plain
    assert await cost(input_tokens=2000, output_tokens=0) == pytest.approx(2 * plain)
    assert await cost(input_tokens=0, output_tokens=0) == 0


async def test_what_is_not_known_is_none_and_never_a_guess() -> None:
    prices = Prices()
    spent = Spent(input_tokens=10, output_tokens=10)
    assert await prices.cost(None, "gpt-5.2", spent) is None
    assert await prices.cost("openai", "no-such-model", spent) is None
    assert await prices.cost("no-such-provider", "gpt-5.2", spent) is None
    assert await prices.cost("openai", "gpt-5.2", Spent()) is None
    assert await prices.cost("openai", "gpt-5.2", Spent(input_tokens=5)) is None
    assert await prices.context_window("openai", "no-such-model") is None
    assert await prices.context_window(None, "gpt-5.2") is None


async def test_numbers_that_cannot_be_have_no_price() -> None:
    prices = Prices()
    assert await prices.cost("openai", "gpt-5.2", Spent(input_tokens=-5, output_tokens=1)) is None
    more = Spent(input_tokens=10, output_tokens=1, cached_tokens=500)
    assert await prices.cost("openai", "gpt-5.2", more) is not None, "more cached than given: all of it was"


async def test_every_model_of_the_catalogue_has_a_price_but_the_router() -> None:
    prices, spent = Prices(), Spent(input_tokens=10, output_tokens=10)
    without = [
        model for entry in REMOTE for model in entry.models if await prices.cost(entry.price_id, model, spent) is None
    ]
    assert without == ["openrouter/auto"]
    assert await prices.context_window("anthropic", "claude-opus-4-6") == 1_000_000


def test_nothing_heavy_is_imported_before_it_is_needed() -> None:
    code = (
        "import sys, dragoman.agents.native.providers.directory as d; "
        "print([m for m in ('aiohttp', 'genai_prices', 'pydantic', 'pydantic_ai') if m in sys.modules])"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.strip() == "[]"
