"""The contract's internal error codes (seed: Error Codes): each stands in our log where what it means happens."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from dragoman.dialects.base import Upgrade
from dragoman.dialects.windie.settings import WindieSettings
from dragoman.hub.events import Problem
from dragoman.hub.turns import TurnContext, TurnFailed
from tests.agents.native.native_rig import script
from tests.hub.rig import until

from .link_rig import Client, Place, definition, place, tool

CALL = script('call save_note {"text": "a"}', "say done")

ELSEWHERE = {"MEMORY_ERROR", "MEMORY_STORE_ERROR", "EMBEDDING_ERROR"}
"""Those of services that are not here yet."""


async def failing(here: Place, text: str) -> None:
    client = await here.client()
    await client.ended(client.ask(text))
    await until(lambda: not here.dialect.tasks, "all is worked on")


async def broken_agent(here: Place) -> None:
    """A turn that fails for no reason of the model's."""
    client = await here.client()
    await client.ended(client.ask(script("say hello")))
    session = await here.session()
    session.ensure_agent().run_turn = _broken  # type: ignore[method-assign]
    await client.ended(client.ask(script("say hello")))
    await until(lambda: not here.dialect.tasks, "all is worked on")


async def _broken(turn: TurnContext) -> str | None:
    raise TurnFailed(Problem(code="broken", message="it is broken"))


async def refused_settings(here: Place) -> None:
    client = await here.client()
    await client.reply(client.send("update-settings", {"model_mode": "sideways"}), "error")


async def failed_tool(here: Place) -> None:
    client = await here.client(agent_definition=definition(tool()))
    name = client.ask(CALL)
    request = (await client.called())["request_id"]
    client.send("tool-result", {"request_id": request, "success": False, "error": "nope"})
    await client.ended(name)


async def unknown_result(here: Place) -> None:
    client = await here.client()
    client.send("tool-result", {"request_id": "nobody-1", "success": True, "data": {"output": ""}})
    await until(lambda: not here.dialect.tasks, "it is worked on")


async def rejected_manifest(here: Place) -> None:
    client = await here.client()
    await client.ended(client.ask("hello", agent_definition=definition({"name": "1bad"})))


async def refused_query(here: Place) -> None:
    client = await here.client()
    name = client.ask(script("say hello"))
    await client.ended(name)
    client.ask(script("say something else"), name=name)
    await client.hears(lambda frame: frame["type"] == "error")


async def long_query(here: Place) -> None:
    client = await here.client()
    await client.reply(client.ask("x" * (here.hub.registry.limits.prompt_bytes + 1)), "error")


async def unreadable(here: Place) -> None:
    client = await here.client()
    client.link.receive("{")
    await client.hears(lambda frame: frame["type"] == "error")


async def silent(here: Place) -> None:
    client = Client(here.dialect)
    upgrade = Upgrade(path="/ws", query={}, bearer=None, peer="127.0.0.1", loopback=True)
    client.link = await here.dialect.open(upgrade, client)
    await until(lambda: client.closed, "it is closed")


WHERE: dict[str, Callable[[Place], Awaitable[None]]] = {
    "CONFIG_ERROR": refused_settings,
    "LLM_ERROR": broken_agent,
    "LLM_API_ERROR": lambda here: failing(here, script("fail unauthorized no")),
    "LLM_RATE_LIMIT": lambda here: failing(here, script("fail rate_limited no")),
    "TOOL_EXECUTION_ERROR": failed_tool,
    "TOOL_VALIDATION_ERROR": rejected_manifest,
    "TOOL_NOT_FOUND": unknown_result,
    "SESSION_ERROR": refused_query,
    "INPUT_SIZE_LIMIT_ERROR": long_query,
    "PARSE_TIMEOUT_ERROR": silent,
    "PARSE_VALIDATION_ERROR": unreadable,
}


@pytest.mark.parametrize("code", WHERE)
async def test_a_code_stands_in_the_log_where_what_it_means_happens(
    code: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with place(tmp_path, settings=WindieSettings(handshake_seconds=0.5)) as here:
        await WHERE[code](here)
        lines = [record.getMessage() for record in caplog.records]
    assert any(code in line for line in lines), lines
    others = (WHERE.keys() | ELSEWHERE) - {code}
    assert not [line for line in lines if any(f"{other}:" in line for other in others)]
