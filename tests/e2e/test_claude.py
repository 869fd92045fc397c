"""Claude Code behind Coop: seen in the right states in the right order, and answered only through ``respond``."""

from __future__ import annotations

from pathlib import Path

import pytest

from . import lines
from .conftest import Start
from .driven import ModelServer
from .harness import Truth

pytestmark = pytest.mark.e2e

AGENT = "claude"
PLANNING = ("--permission-mode", "plan")


async def test_start_up_dialogs_are_reported_and_answered(start: Start, model: ModelServer) -> None:
    async with start(AGENT, answered=False, flags=("--groom", "manual")) as client:
        shown = await lines.start_up(
            client, {"Accessing workspace": "Yes, I trust this folder", "custom API key": "Yes"}
        )
        assert [prompt["options"] for prompt in shown] == [
            ["No, exit", "Yes, I trust this folder"],
            ["Yes", "No (recommended)"],
        ]
        await lines.text_turn(client, model)


async def test_a_trusted_folder_is_trusted_by_itself(start: Start, model: ModelServer) -> None:
    async with start(AGENT, answered=False) as client:
        trust = await client.wait_prompt("permission")
        assert trust["subtype"] == "trust"
        shown = await lines.start_up(client, {"custom API key": "Yes"})
        assert len(shown) == 1
        await lines.text_turn(client, model)


async def test_a_text_turn(start: Start, model: ModelServer) -> None:
    async with start(AGENT) as client:
        await client.wait_state("idle")
        await lines.text_turn(client, model)


async def test_a_tool_is_allowed(start: Start, model: ModelServer, tmp_path: Path) -> None:
    async with start(AGENT) as client:
        await client.wait_state("idle")
        prompt = await lines.tool_allowed(client, model, "[[bash:touch made.txt]]", tmp_path / "project" / "made.txt")
        assert prompt["tool"] == "Bash"
        assert "touch made.txt" in prompt["input"]
        assert prompt["options"][0] == "Yes"
        assert prompt["options"][-1] == "No"


async def test_a_tool_is_denied(start: Start, model: ModelServer, tmp_path: Path) -> None:
    async with start(AGENT) as client:
        await client.wait_state("idle")
        await lines.tool_denied(client, model, "[[bash:touch denied.txt]]", tmp_path / "project" / "denied.txt")


async def test_a_file_may_be_written(start: Start, model: ModelServer, tmp_path: Path) -> None:
    async with start(AGENT) as client:
        await client.wait_state("idle")
        prompt = await lines.tool_allowed(client, model, "[[write:hello.txt]]", tmp_path / "project" / "hello.txt")
        assert prompt["tool"] == "Write"


async def test_two_tools_in_a_row_ask_twice(start: Start, model: ModelServer, tmp_path: Path) -> None:
    async with start(AGENT) as client:
        await client.wait_state("idle")
        since = client.mark()
        await client.ask("[[multi:touch one.txt|touch two.txt]]")
        for name in ("one.txt", "two.txt"):
            prompt = await client.wait_prompt("permission")
            assert name in prompt["input"]
            await client.answers("permission", option=1)
        await client.wait_state("idle")
        lines.follows(client, since, "idle working prompt working prompt working idle")
        assert (tmp_path / "project" / "two.txt").exists()


async def test_two_questions_are_answered_at_once(start: Start, model: ModelServer) -> None:
    async with start(AGENT) as client:
        await client.wait_state("idle")
        truth, since = Truth(model), client.mark()
        await client.ask("[[ask2]]")
        prompt = await client.wait_prompt("question")
        assert [question["question"] for question in prompt["questions"]] == [
            "Which database should we use?",
            "Which cache?",
        ]
        assert prompt["questions"][0]["options"][:2] == ["PostgreSQL", "SQLite"]
        await client.answers("question", answers=[{"option": 2}, {"option": 1}])
        await client.wait_state("idle")
        lines.follows(client, since, "idle working prompt working idle")
        (result,) = truth.results()
        assert "SQLite" in result
        assert "Redis" in result


async def test_two_questions_are_answered_one_by_one(start: Start, model: ModelServer) -> None:
    async with start(AGENT) as client:
        await client.wait_state("idle")
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
        assert '"None"' in result or "None" in result


async def test_a_question_is_answered_in_own_words(start: Start, model: ModelServer) -> None:
    async with start(AGENT) as client:
        await client.wait_state("idle")
        truth, since = Truth(model), client.mark()
        await client.ask("[[ask1]]")
        await client.wait_prompt("question")
        await client.answers("question", answers=[{"text": "Neither: my own way"}])
        await client.wait_state("idle")
        lines.follows(client, since, "idle working prompt working idle")
        (result,) = truth.results()
        assert "Neither: my own way" in result


async def test_a_plan_is_approved(start: Start, model: ModelServer) -> None:
    async with start(AGENT, args=PLANNING) as client:
        await client.wait_state("idle")
        truth, since = Truth(model), client.mark()
        await client.ask("[[plan]]")
        prompt = await client.wait_prompt("plan")
        assert prompt["options"][:2] == ["Yes, and use auto mode", "Yes, manually approve edits"]
        await client.answers("plan", accept=True)
        await client.wait_state("idle")
        lines.follows(client, since, "idle working prompt working idle")
        assert "approved" in truth.results()[-1].lower()


async def test_a_plan_is_rejected(start: Start, model: ModelServer) -> None:
    async with start(AGENT, args=PLANNING) as client:
        await client.wait_state("idle")
        truth, since = Truth(model), client.mark()
        await client.ask("[[plan]]")
        await client.wait_prompt("plan")
        before = len(truth.results())
        await client.answers("plan", accept=False)
        await client.wait_state("idle")
        lines.follows(client, since, "idle working prompt( working)? idle")
        assert not any("approved" in result.lower() for result in truth.results()[before:])
        await lines.text_turn(client, model)


async def test_a_plan_is_sent_back_with_feedback(start: Start, model: ModelServer) -> None:
    async with start(AGENT, args=PLANNING) as client:
        await client.wait_state("idle")
        truth, since = Truth(model), client.mark()
        await client.ask("[[plan]]")
        await client.wait_prompt("plan")
        await client.answers("plan", accept=False, text="Leave out the second step")
        await client.wait_state("idle")
        lines.follows(client, since, "idle working prompt working idle")
        assert "Leave out the second step" in truth.results()[-1]
