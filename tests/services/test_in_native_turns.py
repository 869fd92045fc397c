"""Skills and configuration as they lie on disk, in the turns of a native session."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dragoman.hub.events import LogWritten, ToolEnded
from tests.agents.native.native_rig import NativeHub, native_hub, of, script
from tests.agents.native.test_turn_loop import Recording

from .skills.rig import Rig

LOAD = 'call skill {"skillName": "deploy"}'


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


@pytest.fixture
def model() -> Recording:
    return Recording()


@pytest.fixture
async def hub(rig: Rig, model: Recording) -> AsyncIterator[NativeHub]:
    async with native_hub(rig.cwd, provider=model, skills=rig.service, configs=rig.configs) as opened:
        yield opened


async def test_a_turn_sees_what_is_on_disk_when_it_looks(hub: NativeHub, rig: Rig, model: Recording) -> None:
    session = await hub.session()
    cwd = Path(session.state.cwd)
    skill = rig.put(rig.enabled, "deploy", "---\ndescription: Ships it\n---\nfirst\n")
    (cwd / ".agent").mkdir(parents=True, exist_ok=True)
    (cwd / ".agent" / "AGENT.md").write_text("Use make.")
    (cwd / ".agent" / "config.json").write_text('{"userName": "Ann", "outputDirectory": "/"}')
    facts = await hub.turn(session, script(LOAD, "text done"))
    system = model.requests[0].system
    for told in ("- deploy: Ships it", "Use make.", "Ann"):
        assert told in system
    assert [end.output for end in of(facts, ToolEnded)] == ["---\ndescription: Ships it\n---\nfirst\n"]
    (told,) = of(facts, LogWritten)
    assert told.line.endswith("'outputDirectory' is skipped: a project may name folders inside itself only")

    (skill / "SKILL.md").write_text("second\n")
    facts = await hub.turn(session, script(LOAD, "text done"))
    assert [end.output for end in of(facts, ToolEnded)] == ["second\n"]
    assert not of(facts, LogWritten), "it was said"

    await rig.service.disable(cwd, "deploy")
    facts = await hub.turn(session, script(LOAD, "text done"))
    assert [end.output for end in of(facts, ToolEnded)] == ['Skill "deploy" not found.']
    assert "deploy" not in model.requests[-1].system
