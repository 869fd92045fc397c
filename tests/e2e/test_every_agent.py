"""What is the same for Claude Code, Codex and Gemini."""

from __future__ import annotations

import pytest

from . import lines
from .conftest import Start
from .driven import ModelServer

pytestmark = [pytest.mark.e2e, pytest.mark.parametrize("agent", ["claude", "codex", "gemini"])]


async def test_escape_ends_an_answer(agent: str, start: Start, model: ModelServer) -> None:
    async with start(agent) as client:
        await client.wait_state("idle")
        await lines.esc_mid_stream(client, model)


async def test_an_error_of_the_api(agent: str, start: Start, model: ModelServer) -> None:
    async with start(agent) as client:
        await client.wait_state("idle")
        frame = await lines.error_reported(client, model, 500 if agent == "codex" else 400)
        assert agent != "claude" or "scripted failure" in frame["error_detail"]


async def test_nudges_arrive_exactly_once(agent: str, start: Start, model: ModelServer) -> None:
    async with start(agent) as client:
        await client.wait_state("idle")
        await lines.nudges_arrive_once(client, model)


async def test_a_nudge_is_refused_while_it_works(agent: str, start: Start, model: ModelServer) -> None:
    async with start(agent) as client:
        await client.wait_state("idle")
        await lines.refused_while_working(client, model)


async def test_the_end_is_one_exit(agent: str, start: Start) -> None:
    async with start(agent) as client:
        await client.wait_state("idle")
        await client.send(event="nudge", message="/quit")
        frame = await client.wait_state("exited")
        assert frame == {"event": "exit", "code": 0, "signal": None}
        assert client.seen[-1] == frame
