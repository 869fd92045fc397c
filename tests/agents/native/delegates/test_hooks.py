"""How a hook that the person has installed is known for our own inside a program that runs a turn of ours."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dragoman.agents.native.delegates.hooks import KEPT, DelegateHooks
from dragoman.hub.errors import Unsupported
from dragoman.hub.events import StepEnded
from dragoman.hub.permissions import LOCAL
from tests.agents.native.native_rig import of

from .claude_rig import claude_hub
from .codex_rig import Script, codex_hub


async def test_claude_code_is_told_its_session_and_its_secret(tmp_path: Path) -> None:
    async with claude_hub(tmp_path) as hub:
        session = await hub.session(provider="claude-code")
        facts = await hub.turn(session, "text ok")
        hooks = session.hooks
        assert hooks is not None
        env = hub.starts()[0]["env"]
        assert env["DRAGOMAN_SESSION"].partition("/")[0] == session.id
        assert hooks.proves(env["DRAGOMAN_HOOK_SECRET"])
        assert not hooks.proves(env["DRAGOMAN_HOOK_SECRET"][:-1])
        name = (of(facts, StepEnded)[-1].provider_metadata or {})["agent_session"]
        assert hooks.hears("claude", name) is True
        assert hooks.hears("claude", "another") is False
        assert env["DRAGOMAN_HOOK_SECRET"] not in repr(facts)


async def test_codex_is_told_its_session_and_its_secret(tmp_path: Path) -> None:
    script, hooks = Script(tmp_path / "codex"), DelegateHooks()
    seen = tmp_path / "environment"
    script.program.write_text(script.program.read_text().replace("exec ", f"env > '{seen}'; exec ", 1))
    script.does([{"say": "ok"}])
    with hooks.round("codex-cli", None):
        async with codex_hub(tmp_path, script, environment=dict(os.environ), hooks=hooks) as hub:
            session = await hub.session()
            facts = await hub.turn(session, "go")
        env = dict(line.split("=", 1) for line in seen.read_text().splitlines() if line.startswith("DRAGOMAN_"))
        assert env["DRAGOMAN_SESSION"].partition("/")[0] == session.id
        assert hooks.proves(env["DRAGOMAN_HOOK_SECRET"])
        thread = (of(facts, StepEnded)[-1].provider_metadata or {})["agent_session"]
        assert [hooks.hears(*it) for it in (("codex", thread), ("codex", "other"), ("claude", thread))] == [
            True,
            False,
            False,
        ]


def test_whose_a_hook_is_is_open_until_the_program_has_named_its_conversation() -> None:
    hooks = DelegateHooks()
    assert hooks.hears("claude", "a") is False
    with hooks.round("claude-code", None):
        assert [hooks.hears("claude", "a"), hooks.hears("claude", None), hooks.hears("codex", "a")] == [
            None,
            None,
            False,
        ]
        hooks.named("a")
        assert [hooks.hears("claude", "a"), hooks.hears("claude", "b"), hooks.hears("claude", None)] == [
            True,
            False,
            None,
        ]
    assert hooks.hears("claude", "a") is True  # its last hooks come after its end
    with hooks.round("claude-code", "c"):
        assert [hooks.hears("claude", "c"), hooks.hears("claude", "d")] == [True, False]


def test_of_its_conversations_only_the_last_are_remembered() -> None:
    hooks = DelegateHooks()
    for number in range(KEPT + 1):
        with hooks.round("codex-cli", str(number)):
            pass
    assert [hooks.hears("codex", str(number)) for number in (0, 1, KEPT)] == [False, True, True]


async def test_it_is_not_driven_by_hooks() -> None:
    hooks = DelegateHooks()
    for call in (hooks.ingest("Stop", {}), hooks.stop({}), hooks.signal(LOCAL, {}), hooks.start({})):
        with pytest.raises(Unsupported):
            await call
