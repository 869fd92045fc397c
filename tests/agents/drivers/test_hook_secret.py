"""Every agent that we start can prove whose its hooks are, also one that we give no hooks ourselves."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.hub.rig import Hub, InMemory, proven, until

from dragoman.agents.terminal.agent import TerminalFactory
from dragoman.agents.terminal.settings import TerminalSettings
from dragoman.hub.permissions import LOCAL


@pytest.mark.parametrize(
    ("agent", "groom"), [("claude", "auto"), ("claude", "pristine"), ("codex", "auto"), ("opencode", "auto")]
)
async def test_an_agent_is_told_its_session_and_its_secret(tmp_path: Path, agent: str, groom: str) -> None:
    seen = tmp_path / "seen"
    line = f"env > '{seen}.new' && mv '{seen}.new' '{seen}'; exec sleep 100"
    factory = TerminalFactory(TerminalSettings(), folder=tmp_path / "terminals", url=lambda _: "http://127.0.0.1:1")
    async with proven(Hub(InMemory(), tmp_path, factories=[factory])) as hub:
        options = {"command": ["sh", "-c", line], "groom": groom, "env": {"HOME": str(tmp_path)}}
        session = await hub.create("terminal", agent=agent, options=options)
        await session.start(LOCAL)
        await until(seen.exists)
        env = dict(line.split("=", 1) for line in seen.read_text().splitlines() if line.startswith("DRAGOMAN_"))
        hooks = session.hooks
        assert hooks is not None
        assert env["DRAGOMAN_SESSION"] == session.id
        assert hooks.proves(env["DRAGOMAN_HOOK_SECRET"])
        assert not hooks.proves("")
        assert ("DRAGOMAN_HOOKS" in env) == (agent == "claude" and groom == "auto")
        await session.close("done with")
        assert not hooks.proves(env["DRAGOMAN_HOOK_SECRET"])
