"""Sessions of native agents that name ``codex-cli``: what it is told of others' turns, and what a lost server left."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from dragoman.agents.common.processes import ProcessTable
from dragoman.agents.native.delegates.codex import Codex
from dragoman.agents.native.factory import NativeFactory
from dragoman.agents.native.settings import NativeSettings
from dragoman.hub.events import LogWritten, SettingsChanged, StepStarted, TurnEnded
from tests.agents.native.native_rig import NativeHub, of, script, settled
from tests.hub.rig import InMemory, proven, until

from .claude_rig import Chooser
from .codex_rig import LIMITS, Script

CODEX: dict[str, Any] = {"provider": "codex-cli", "model": "gpt-test"}


@asynccontextmanager
async def sessions_hub(folder: Path, codex: Script) -> AsyncIterator[NativeHub]:
    settings = NativeSettings(delegates=msgspec.structs.replace(LIMITS, codex=str(codex.program)))
    factory = NativeFactory(Chooser(Codex(settings)), settings)
    async with proven(NativeHub(InMemory(), folder, factories=[factory])) as hub:
        assert isinstance(hub, NativeHub)
        yield hub


async def test_each_turn_goes_on_with_codex_own_conversation(tmp_path: Path) -> None:
    codex = Script(tmp_path / "codex")
    async with sessions_hub(tmp_path, codex) as hub:
        session = await hub.session(**CODEX)
        await hub.turn(session, "one")
        facts = await hub.turn(session, "two")
    assert of(facts, TurnEnded)[0].result == "Hello."
    assert [thread["threadId"] for thread in codex.heard("thread/resume")] == ["thread-1"]
    assert codex.heard("turn/start")[-1]["input"][0]["text"] == "two"


async def test_what_another_provider_said_is_told_to_codex_once(tmp_path: Path) -> None:
    codex = Script(tmp_path / "codex")
    async with sessions_hub(tmp_path, codex) as hub:
        session = await hub.session(provider="scripted")
        await hub.turn(session, script("say Forty-two."))
        session.record(SettingsChanged(changes=CODEX))
        await hub.turn(session, "and now?")
        facts = await hub.turn(session, "again?")
    first, second = (turn["input"][0]["text"] for turn in codex.heard("turn/start"))
    assert "Forty-two." in first
    assert first.endswith("and now?")
    assert second == "again?"
    assert of(facts, StepStarted)[0].provider == "codex-cli"


async def test_a_conversation_that_codex_lost_is_begun_anew_with_what_was_said(tmp_path: Path) -> None:
    codex = Script(tmp_path / "codex")
    async with sessions_hub(tmp_path, codex) as hub:
        session = await hub.session(**CODEX)
        await hub.turn(session, "one")
        codex.does([{"say": "Anew."}], at={"thread/resume": "no rollout found"})
        facts = await hub.turn(session, "two")
    assert of(facts, TurnEnded)[0].result == "Anew."
    assert "no longer has its conversation" in of(facts, LogWritten)[0].line
    text = codex.heard("turn/start")[-1]["input"][0]["text"]
    assert "Hello." in text
    assert text.endswith("two")


async def test_what_a_lost_server_left_running_is_ended(tmp_path: Path) -> None:
    codex = Script(tmp_path / "codex")
    codex.does([{"wander": None}, {"deaf": None}])

    async def living() -> list[int]:
        rows = await ProcessTable().read()
        return [row.pid for row in rows if row.marker is not None and row.marker.startswith(f"{session.id}/")]

    async with sessions_hub(tmp_path, codex) as hub:
        session = await hub.session(**CODEX)
        await hub.submit(session, "go")
        await until(lambda: any("hangs" in note for note in codex.notes))
        assert len(await living()) == 2
        factory = hub.factories[-1]
        assert set(await factory.sweep([session.id])) == {session.id}
        await factory.recover(session, None)
        assert await living() == []
        await settled(session)
