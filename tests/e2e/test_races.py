"""Two clients answer and a person types, all at once, at a real dialog: one effect, and the one that was told."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from websockets.asyncio.client import connect

from .conftest import Start
from .driven import ModelServer
from .harness import Coop, Truth

pytestmark = pytest.mark.e2e

RACES = 20
SPREAD = 0.6
"""Seconds over which the three set out: long enough for each of them to be first now and then."""


@contextlib.asynccontextmanager
async def beside(client: Coop) -> AsyncIterator[Coop]:
    """Another client of the same agent."""
    host, port = client.wire.remote_address[:2]
    async with connect(f"ws://{host}:{port}/ws?mode=state", compression=None, proxy=None) as wire:
        other = Coop(wire)
        reading = asyncio.create_task(other.read())
        try:
            yield other
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)


async def test_of_three_who_answer_one_is_heard(start: Start, model: ModelServer, tmp_path: Path) -> None:
    chance = random.Random(20)
    heard = {"first": 0, "second": 0, "person": 0}
    async with start("claude") as first, beside(first) as second, beside(first) as person:
        await first.wait_state("idle")
        for number in range(RACES):
            truth, made = Truth(model), tmp_path / "project" / f"race-{number}.txt"
            await first.ask(f"[[bash:touch {made.name}]]")
            await asyncio.gather(first.wait_prompt("permission"), second.wait_prompt("permission"))

            async def allow() -> bool:
                await asyncio.sleep(chance.random() * SPREAD)
                return bool((await first.respond(accept=True))["delivered"])

            async def deny() -> bool:
                await asyncio.sleep(chance.random() * SPREAD)
                return bool((await second.respond(accept=False))["delivered"])

            async def type_yes() -> None:
                await asyncio.sleep(chance.random() * SPREAD)
                await person.send(event="input:raw", data=base64.b64encode(b"1").decode())

            allowed, denied, _ = await asyncio.gather(allow(), deny(), type_yes())
            await first.wait_state("idle")
            assert not (allowed and denied), number
            assert made.exists() is not denied, (number, allowed, denied)
            assert len(truth.prompts()) == 1, number
            heard["first" if allowed else "second" if denied else "person"] += 1
    assert all(heard.values()), f"a race that one of them never wins proves little: {heard}"
