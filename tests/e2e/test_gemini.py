"""Gemini CLI behind Coop: seen in the right states in the right order, and answered only through ``respond``."""

from __future__ import annotations

from pathlib import Path

import pytest

from . import lines
from .conftest import Start
from .driven import ModelServer
from .harness import Truth

pytestmark = pytest.mark.e2e

AGENT = "gemini"
WANTS_TO_BE_STARTED_AGAIN = 199


async def test_trust_is_reported_and_refused(start: Start, model: ModelServer, tmp_path: Path) -> None:
    async with start(AGENT, answered=False, flags=("--groom", "manual")) as client:
        (prompt,) = await lines.start_up(client, {"Do you trust": "Don't trust"})
        parent = f"Trust parent folder ({tmp_path.name})"
        assert prompt["options"] == ["Trust folder (project)", parent, "Don't trust"]
        await lines.text_turn(client, model)


async def test_trust_given_ends_it_for_a_new_start(start: Start) -> None:
    async with start(AGENT, answered=False) as client:
        await lines.start_up(client, {"Do you trust": "Trust folder (project)"})
        frame = client.seen[-1]
        assert frame == {"event": "exit", "code": WANTS_TO_BE_STARTED_AGAIN, "signal": None}


async def test_a_text_turn(start: Start, model: ModelServer) -> None:
    async with start(AGENT) as client:
        await client.wait_state("idle")
        await lines.text_turn(client, model)


async def test_a_tool_is_allowed(start: Start, model: ModelServer, tmp_path: Path) -> None:
    async with start(AGENT) as client:
        await client.wait_state("idle")
        prompt = await lines.tool_allowed(client, model, "[[bash:touch made.txt]]", tmp_path / "project" / "made.txt")
        assert prompt["options"][0] == "Allow once"
        assert prompt["options"][-1].startswith("No, suggest changes")


async def test_a_tool_is_denied(start: Start, model: ModelServer, tmp_path: Path) -> None:
    async with start(AGENT) as client:
        await client.wait_state("idle")
        await lines.tool_denied(client, model, "[[bash:touch denied.txt]]", tmp_path / "project" / "denied.txt")


async def test_two_questions_are_answered_at_once(start: Start, model: ModelServer) -> None:
    async with start(AGENT) as client:
        await client.wait_state("idle")
        truth, since = Truth(model), client.mark()
        await client.ask("[[ask2]]")
        await client.wait_prompt("question")
        await client.answers("question", answers=[{"option": 2}, {"option": 1}])
        await client.wait_state("idle")
        lines.follows(client, since, "idle working prompt( prompt)* working idle")
        (result,) = truth.results()
        assert "SQLite" in result
        assert "Redis" in result
