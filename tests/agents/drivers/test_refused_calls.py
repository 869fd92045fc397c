"""A call has one end, the true one, although the agent is at rest before its log says what became of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.agents.driven import Driven, driven
from tests.fake_agent.rig import command as fake_agent
from tests.hub.rig import until

from dragoman.agents.terminal.drivers import driver as driver_module
from dragoman.hub.events import AgentExited, Answer, ToolCalled, ToolEnded, TurnEnded
from dragoman.hub.permissions import LOCAL


def _told(agent: Driven, decision: str) -> bool:
    given = agent.session.shown.decisions[decision].input
    return isinstance(given, dict) and "command" in given  # as the hook has it, not as the screen shows it


PERMIT = "[[permission:touch x]]"


async def turn_with(agent: Driven, prompt: str, answer: Answer, *, hooks: bool = True) -> list[Any]:
    """A turn in which one dialog is answered: what it says of calls and of its end, in order."""
    await agent.becomes("idle")
    await agent.session.submit(LOCAL, prompt, via="test", when_busy="queue")
    decision = (await agent.asked()).decision
    # All that is told of it: what comes after an answer is about a dialog that is gone.
    await until(lambda: agent.session.shown.decisions[decision].ready and (not hooks or _told(agent, decision)))
    await agent.session.answer(LOCAL, decision, answer, via="test")
    await until(lambda: agent.session.shown.turn is None and not agent.session.shown.queue)
    return await agent.facts(ToolCalled, ToolEnded, TurnEnded)


@pytest.mark.parametrize(
    ("delay", "flags"), [(0, ()), (100, ()), (500, ()), (0, ("--no-hooks",)), (100, ("--no-hooks",))]
)
async def test_a_call_that_was_refused_ends_once_as_denied_and_before_its_turn(
    tmp_path: Path, delay: int, flags: tuple[str, ...]
) -> None:
    command = fake_agent("--record", str(tmp_path / "record"), "--delay-log", str(delay), *flags)
    async with driven(tmp_path, *command) as agent:
        called, ended, turn = await turn_with(agent, PERMIT, Answer(accept=False), hooks=not flags)
        assert (ended.call, ended.status) == (called.call, "denied")
        assert turn.outcome == "cancelled"
        assert called.turn == ended.turn == turn.turn


async def test_a_call_that_was_allowed_ends_once_and_its_turn_is_completed(tmp_path: Path) -> None:
    async with driven(tmp_path, *fake_agent("--record", str(tmp_path / "record"), "--delay-log", "300")) as agent:
        _, ended, turn = await turn_with(agent, PERMIT, Answer(accept=True))
        assert (ended.status, turn.outcome) == ("ok", "completed")


async def test_an_end_that_comes_too_late_is_no_second_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_module, "LATE_ENDS", 0.1)
    command = fake_agent("--record", str(tmp_path / "record"), "--delay-log", "700")
    async with driven(tmp_path, *command) as agent:
        *_, ended, turn = await turn_with(agent, PERMIT, Answer(accept=False))
        assert (ended.status, turn.outcome) == ("interrupted", "completed")
        assert agent.agent.driver is not None
        watch = agent.agent.driver._watch
        await until(lambda: watch.broken_off)
        assert len(await agent.facts(ToolEnded)) == 1


async def post(agent: Driven, event: str, **payload: Any) -> None:
    assert agent.session.hooks is not None
    await agent.session.hooks.ingest(event, {"session_id": "s", **payload})


async def test_a_subagents_call_goes_on_after_the_turn_in_which_it_began(tmp_path: Path) -> None:
    """It is not marked as interrupted, and its end is the true one."""
    call = {"tool_name": "Bash", "tool_input": {"command": "x"}, "tool_use_id": "c1", "agent_id": "a1"}
    async with driven(tmp_path, *fake_agent("--record", str(tmp_path / "record"))) as agent:
        await agent.becomes("idle")
        await agent.session.submit(LOCAL, "[[say:hello]]", via="test", when_busy="queue")
        await until(lambda: agent.session.shown.turn)
        await post(agent, "PreToolUse", **call)
        await until(lambda: agent.session.shown.turn is None)
        assert await agent.facts(ToolEnded) == []
        await post(agent, "PostToolUse", **call, tool_response={"stdout": "y"})
        (ended,) = await agent.facts(ToolEnded)
        assert (ended.call, ended.status) == ("c1", "ok")


async def test_a_call_that_is_open_when_the_program_ends_is_interrupted(tmp_path: Path) -> None:
    async with driven(tmp_path, "sh", "-c", "read line") as agent:
        await post(agent, "PreToolUse", tool_name="Bash", tool_input={}, tool_use_id="c1")
        agent.agent.terminal.write(b"\r")
        await agent.becomes("exited")
        ended, _ = await agent.facts(ToolEnded, AgentExited)
        assert (ended.call, ended.status) == ("c1", "interrupted")
