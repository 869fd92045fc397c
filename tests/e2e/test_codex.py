"""Codex behind Coop: seen in the right states in the right order, and answered only through ``respond``."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import pytest

from . import lines
from .conftest import Start
from .driven import ModelServer
from .harness import Coop, Truth

pytestmark = pytest.mark.e2e

AGENT = "codex"


async def planning(client: Coop) -> None:
    """Codex asks and plans only in its plan mode, which has no flag."""
    await client.wait_state("idle")
    for _ in range(5):
        await client.keys("shift-tab")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(3.0):  # it does not hear keys at once
                while "Plan mode" not in await client.screen():
                    await asyncio.sleep(0.05)
                return
    raise AssertionError("no plan mode")


async def test_signing_in_is_reported_and_left_to_the_client(start: Start) -> None:
    async with start(AGENT, answered=False) as client:
        prompt = await client.wait_prompt("setup")
        assert prompt["options"] == [
            "Sign in with ChatGPT",
            "Sign in with Device Code",
            "Sign in another way",
        ]
        assert "Choose how you want to use Codex" in await client.screen()


async def test_a_text_turn(start: Start, model: ModelServer) -> None:
    async with start(AGENT) as client:
        await client.wait_state("idle")
        await lines.text_turn(client, model)


async def test_a_command_is_allowed(start: Start, model: ModelServer, tmp_path: Path) -> None:
    async with start(AGENT) as client:
        await client.wait_state("idle")
        prompt = await lines.tool_allowed(client, model, "[[esc:touch made.txt]]", tmp_path / "project" / "made.txt")
        assert prompt["options"][0].startswith("Yes, proceed")
        assert prompt["options"][-1].startswith("No, and tell Codex")


async def test_a_command_is_denied(start: Start, model: ModelServer, tmp_path: Path) -> None:
    async with start(AGENT) as client:
        await client.wait_state("idle")
        await lines.tool_denied(client, model, "[[esc:touch denied.txt]]", tmp_path / "project" / "denied.txt")


async def test_a_patch_is_allowed(start: Start, model: ModelServer, tmp_path: Path) -> None:
    async with start(AGENT) as client:
        await client.wait_state("idle")
        await lines.tool_allowed(client, model, "[[patch:hello.txt]]", tmp_path / "project" / "hello.txt")


async def test_a_patch_is_denied(start: Start, model: ModelServer, tmp_path: Path) -> None:
    async with start(AGENT) as client:
        await client.wait_state("idle")
        await lines.tool_denied(client, model, "[[patch:hello.txt]]", tmp_path / "project" / "hello.txt")


async def test_two_questions_are_answered_at_once(start: Start, model: ModelServer) -> None:
    async with start(AGENT) as client:
        await planning(client)
        truth, since = Truth(model), client.mark()
        await client.ask("[[ask2]]")
        prompt = await client.wait_prompt("question")
        assert prompt["questions"][0]["question"] == "Which database should we use?"
        assert prompt["questions"][0]["options"][:2] == ["PostgreSQL", "SQLite"]
        await client.answers("question", answers=[{"option": 2}, {"option": 1}])
        await client.wait_state("idle")
        lines.follows(client, since, "idle working prompt working idle")
        (result,) = truth.results()
        assert "SQLite" in result
        assert "Redis" in result


async def test_two_questions_are_answered_one_by_one(start: Start, model: ModelServer) -> None:
    async with start(AGENT) as client:
        await planning(client)
        truth, since = Truth(model), client.mark()
        await client.ask("[[ask2]]")
        await client.wait_prompt("question")
        await client.answers("question", answers=[{"option": 1}])
        await client.wait_prompt("question", current=1)
        assert truth.results() == []
        await client.answers("question", answers=[{"option": 2}])
        await client.wait_state("idle")
        lines.follows(client, since, "idle working prompt( prompt)* working idle")
        (result,) = truth.results()
        assert "PostgreSQL" in result
        assert "None" in result


async def test_a_plan_is_approved(start: Start, model: ModelServer) -> None:
    async with start(AGENT) as client:
        await planning(client)
        truth, since = Truth(model), client.mark()
        await client.ask("[[plan]]")
        prompt = await client.wait_prompt("plan")
        assert prompt["options"][0].startswith("Yes, implement this plan")
        assert prompt["options"][2].startswith("No, stay in Plan mode")
        await client.answers("plan", option=1)
        await client.wait_state("working")
        await client.wait_state("idle")
        lines.follows(client, since, "idle working (idle )?prompt working idle")
        assert truth.prompts()[1:] == ["Implement the plan."]


async def test_a_plan_is_rejected(start: Start, model: ModelServer) -> None:
    async with start(AGENT) as client:
        await planning(client)
        truth, since = Truth(model), client.mark()
        await client.ask("[[plan]]")
        await client.wait_prompt("plan")
        await client.answers("plan", accept=False)
        await client.wait_state("idle")
        lines.follows(client, since, "idle working (idle )?prompt idle")
        assert truth.prompts() == ["[[plan]]"]
        await lines.text_turn(client, model)
