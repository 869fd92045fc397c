"""What an agent's log or hook cannot bring costs nothing but itself, and never opens the stop gate."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.agents.driven import Driven, driven
from tests.hub.rig import until

from dragoman.agents.terminal.drivers import watch as watch_module
from dragoman.agents.terminal.drivers.hook_socket import hook_command
from dragoman.agents.terminal.drivers.watch import AgentWatch
from dragoman.hub.events import HookAnswered, MessageAdded, ToolCalled, ToolEnded


def deep(levels: int) -> Any:
    """Lists in lists."""
    inner: Any = []
    for _ in range(levels):
        inner = [inner]
    return inner


def says(text: str) -> dict[str, Any]:
    message = {"id": text, "type": "message", "role": "assistant", "content": [{"type": "text", "text": text}]}
    return {"type": "assistant", "uuid": text, "message": message}


def calls(given: Any) -> dict[str, Any]:
    block = {"type": "tool_use", "id": "call", "name": "Bash", "input": given}
    return {"type": "assistant", "uuid": "u", "message": {"id": "m", "role": "assistant", "content": [block]}}


def ends(output: Any) -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": "call", "content": "done"}
    return {"type": "user", "uuid": "e", "message": {"role": "user", "content": [block]}, "toolUseResult": output}


DAMAGED = {
    "deep": calls({"x": deep(150)}),
    "very deep": calls({"x": deep(400)}),
    "deep result": ends({"x": deep(150)}),
    "a great number": calls({"x": 10**400}),
    "a great timestamp": {**says("x"), "message": {}, "timestamp": 10**400},
    "a timestamp of the year 9999": {**says("x"), "message": {}, "timestamp": "9999-12-31T23:59:59.999Z"},
    "no text where there is always one": {"type": "assistant", "message": {"content": [{"type": "text", "text": {}}]}},
}


class Followed:
    """An agent and the log that it is told to write."""

    def __init__(self, agent: Driven, log: Path) -> None:
        self.agent = agent
        self._log = log

    def write(self, *records: dict[str, Any]) -> None:
        with self._log.open("a") as file:
            file.writelines(json.dumps(record) + "\n" for record in records)

    async def begin(self) -> None:
        assert self.agent.session.hooks is not None
        self._log.touch()
        began = {"source": "startup", "session_id": "x", "transcript_path": str(self._log)}
        await self.agent.session.hooks.ingest("SessionStart", began)

    async def said(self, text: str) -> list[str]:
        """What was said, once this was."""
        await until(lambda: self.agent.session.shown.status.last_message == text, lambda: text)
        return [message.text for message in await self.agent.facts(MessageAdded)]


@contextlib.asynccontextmanager
async def followed(folder: Path, line: str = "exec sleep 100") -> AsyncIterator[Followed]:
    async with driven(folder, "sh", "-c", line, settings={"stop_config": {"mode": "signal"}}) as agent:
        log = Followed(agent, folder / "log.jsonl")
        await log.begin()
        yield log


@pytest.mark.parametrize("damaged", DAMAGED.values(), ids=DAMAGED)
async def test_a_record_that_cannot_be_kept_costs_none_behind_it(tmp_path: Path, damaged: dict[str, Any]) -> None:
    async with followed(tmp_path) as log:
        log.write(says("first"), damaged, says("second"), says("third"))
        assert await log.said("third") == ["first", "second", "third"]


async def test_a_record_at_which_we_fail_costs_none_behind_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    take = AgentWatch._take

    def fails(watch: AgentWatch, observation: Any, *more: Any) -> None:
        if any(getattr(fact, "text", "") == "bad" for fact in observation.facts):
            raise RuntimeError("ours")
        take(watch, observation, *more)

    monkeypatch.setattr(AgentWatch, "_take", fails)
    async with followed(tmp_path) as log:
        log.write(says("first"), says("bad"), says("second"), says("third"))
        assert await log.said("third") == ["first", "second", "third"]


async def test_a_call_whose_input_and_result_nest_too_deep_is_one_all_the_same(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with followed(tmp_path) as log:
        log.write(calls({"x": deep(150)}), ends({"x": deep(150)}), says("done"))
        await log.said("done")
        (end,) = await log.agent.facts(ToolEnded)
        assert (end.call, end.status, end.output) == ("call", "ok", None)
        (begun,) = await log.agent.facts(ToolCalled)
        assert (begun.call, begun.tool, begun.input) == ("call", "Bash", None)
        assert len([record for record in caplog.records if "left out" in record.message]) == 1
    said, counted = [record for record in caplog.records if "left out" in record.message]
    assert "1 more" in counted.message
    assert said.levelno == logging.WARNING
    assert "nests" in said.message


async def stopped(agent: Driven) -> str | None:
    """The verdict on the agent's stop."""
    async with asyncio.timeout(20):
        while not (stops := [fact for fact in await agent.facts(HookAnswered) if fact.hook == "stop"]):
            await asyncio.sleep(0.02)
    (stop,) = stops
    return str(stop.verdict)


@pytest.mark.parametrize("damaged", DAMAGED.values(), ids=DAMAGED)
async def test_a_log_that_cannot_be_kept_does_not_open_the_stop_gate(
    tmp_path: Path, damaged: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is read by the stop itself."""
    go = tmp_path / "go"
    line = f"until [ -e {go} ]; do sleep 0.05; done; echo '{{}}' | {hook_command('Stop')}; exec sleep 100"
    async with followed(tmp_path, line) as log:
        monkeypatch.setattr(AgentWatch, "_tail_soon", lambda _: None)
        log.write(says("first"), damaged, says("second"))
        go.touch()
        assert await stopped(log.agent) == "blocked"
        await until(lambda: '"decision":"block"' in log.agent.picture, lambda: log.agent.picture)
        assert await log.said("second") == ["first", "second"]


async def test_a_log_at_which_we_fail_does_not_open_the_stop_gate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> None:
        raise RuntimeError("ours")

    async with followed(tmp_path) as log:
        monkeypatch.setattr(AgentWatch, "catch_up", fails)
        assert log.agent.session.hooks is not None
        assert (await log.agent.session.hooks.stop({})).type == "blocked"


@pytest.mark.parametrize("at", [10**400, 10**17, -1, -(10**400)])
async def test_a_stop_at_no_moment_that_can_be_is_judged(tmp_path: Path, at: int) -> None:
    """And what comes after it is not taken for older."""
    async with followed(tmp_path) as log:
        assert log.agent.agent.driver is not None
        environment = log.agent.agent.driver._environment
        reader, writer = await asyncio.open_unix_connection(environment["DRAGOMAN_HOOKS"])
        post = json.dumps({"event": "Stop", "at": at, "data": {}})
        writer.write(f"{environment['DRAGOMAN_HOOK_SECRET']}\n{post}\n".encode())
        assert b"block" in await reader.read()
        writer.close()
        assert await stopped(log.agent) == "blocked"


async def test_a_stop_at_which_we_fail_is_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> Any:
        raise RuntimeError("ours")

    line = f"sleep 0.3; echo '{{}}' | {hook_command('Stop')}; exec sleep 100"
    async with followed(tmp_path, line) as log:
        monkeypatch.setattr(watch_module.AgentWatch, "take_hook", fails)
        assert await stopped(log.agent) == "blocked"


async def test_a_moment_that_is_yet_to_come_does_not_outweigh_what_comes_after(tmp_path: Path) -> None:
    """Sources of one rank are ordered by their clocks."""
    async with followed(tmp_path) as log:
        hooks = log.agent.session.hooks
        assert hooks is not None
        later = "9999-12-31T23:59:59.999Z"
        await hooks.ingest("UserPromptSubmit", {"prompt": "go", "timestamp": later})
        log.write({"type": "user", "uuid": "u", "message": {"content": "on"}, "timestamp": later})
        assert log.agent.agent.driver is not None
        words = log.agent.agent.driver._watch._fusion._words
        await until(lambda: {"hook", "log"} <= words.keys())
        assert {word.at for word in words.values()} == {None}
