"""What a model is told of its place: skills, memory, the person; and which model that is, as the configuration says.

Each test looks at the request that the provider saw.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dragoman.agents.native.preference import Preference, preference
from dragoman.agents.native.prompt import DESCRIPTION_CHARS, SKILLS_CHARS
from dragoman.hub.events import Answer, LogWritten, ToolEnded
from dragoman.hub.permissions import LOCAL
from tests.hub.rig import until
from tests.hub.workspaces import KnownConfigs, KnownSkills

from .native_rig import NativeHub, Recording, answered, asked, native_hub, of, script, settled

POLICY = "Skills are instructions for kinds of tasks."


@pytest.fixture
def model() -> Recording:
    return Recording()


@pytest.fixture
def skills() -> KnownSkills:
    return KnownSkills()


@pytest.fixture
def configs() -> KnownConfigs:
    return KnownConfigs()


@pytest.fixture
async def hub(tmp_path: Path, model: Recording, skills: KnownSkills, configs: KnownConfigs) -> AsyncIterator[NativeHub]:
    async with native_hub(tmp_path, provider=model, skills=skills, configs=configs) as opened:
        yield opened


def listed(system: str) -> list[str]:
    """The lines of the prompt that list skills."""
    return [line for line in system.splitlines() if line.startswith("- ")]


# Skills


async def test_the_prompt_lists_the_skills_in_use_behind_the_policy(
    hub: NativeHub, model: Recording, skills: KnownSkills
) -> None:
    skills.add("pdf", description="Use when tasks\n involve PDF files")
    skills.add("off", enabled=False)
    skills.add("docs")
    await hub.turn(await hub.session(), "hi")
    system = model.requests[0].system
    assert listed(system) == ["- pdf: Use when tasks involve PDF files", "- docs: What docs is for"]
    assert system.index(POLICY) < system.index("- pdf")
    assert "Do it well." not in system, "what a skill says is loaded when it is needed"


async def test_without_skills_nothing_is_said_of_them(hub: NativeHub, model: Recording, skills: KnownSkills) -> None:
    skills.add("off", enabled=False)
    await hub.turn(await hub.session(), "hi")
    assert POLICY not in model.requests[0].system


async def test_a_session_without_the_tool_is_told_of_no_skill(
    hub: NativeHub, model: Recording, skills: KnownSkills
) -> None:
    skills.add("pdf")
    await hub.turn(await hub.session(disabled_tools=["skill"]), "hi")
    assert POLICY not in model.requests[0].system


async def test_a_skill_that_is_switched_off_or_edited_in_a_turn_counts_at_its_next_step(
    hub: NativeHub, model: Recording, skills: KnownSkills
) -> None:
    skills.add("pdf", "as it was")
    session = await hub.session()
    load = 'call skill {"skillName": "pdf"}'
    question = 'call ask {"question": "Go on?", "options": ["yes"]}'
    await hub.submit(session, script(load, question, load, question, load, "say done"))
    first = await asked(session)
    skills.add("pdf", "as it is")
    await session.answer(LOCAL, first.decision, Answer(option=1), via="test")
    await until(lambda: session.shown.decisions and first.decision not in session.shown.decisions, "it asks again")
    await skills.disable(Path(), "pdf")
    await answered(session, 1)
    told = [bool(listed(request.system)) for request in model.requests]
    assert told == [True, True, True, True, False, False]
    ends = [end.output for end in of(await hub.facts(session), ToolEnded) if end.tool == "skill"]
    assert [str(output).rpartition("\n")[2] for output in ends] == [
        "as it was",
        "as it is",
        'Skill "pdf" not found.',
    ]


async def test_a_step_asks_once_for_skills_and_once_for_the_configuration(
    hub: NativeHub, skills: KnownSkills, configs: KnownConfigs
) -> None:
    question = 'call ask {"question": "Go on?", "options": ["yes"]}'
    session = await hub.session()
    await hub.submit(session, script(question, "say done"))
    opened = await asked(session)
    assert (len(skills.asked), len(configs.asked)) == (1, 1)
    await session.answer(LOCAL, opened.decision, Answer(option=1), via="test")
    await settled(session)
    assert (len(skills.asked), len(configs.asked)) == (2, 2)


async def test_a_list_that_is_too_long_is_cut_and_says_by_how_much(
    hub: NativeHub, model: Recording, skills: KnownSkills
) -> None:
    for number in range(100):
        skills.add(f"skill-{number}", description="word " * 1000)
    await hub.turn(await hub.session(), "hi")
    lines = listed(model.requests[0].system)
    assert all(len(line) <= DESCRIPTION_CHARS + 20 for line in lines)
    assert len("\n".join(lines)) <= SKILLS_CHARS + 100
    assert lines[-1] == f"- and {100 - (len(lines) - 1)} more, which the list has no room for"


async def test_only_sub_agents_that_can_load_skills_are_told_of_them(
    hub: NativeHub, model: Recording, skills: KnownSkills
) -> None:
    skills.add("pdf")
    for kind in ("general", "explore"):
        task = msgspec.json.encode({"task": "look around", "agentType": kind}).decode()
        await hub.turn(await hub.session(), script(f"call spawnAgent {task}", "say thanks"))
    told = [POLICY in request.system for request in model.requests if "another agent" in request.system]
    assert told == [True, False]


# The configuration


async def test_the_person_and_what_a_model_knows_are_told_when_they_are_known(
    hub: NativeHub, model: Recording, configs: KnownConfigs
) -> None:
    session = await hub.session()
    await hub.turn(session, "hi")
    configs.said = {"user_name": "Ada\nLovelace", "knowledge_cutoff": "May 2025"}
    await hub.turn(session, "hi")
    before, after = (request.system for request in model.requests)
    assert "You work for" not in before
    assert "ends at" not in before
    assert "\nYou work for: Ada Lovelace\nWhat you know ends at: May 2025" in after


async def test_the_configurations_memory_takes_the_place_of_the_projects(
    hub: NativeHub, model: Recording, configs: KnownConfigs, tmp_path: Path
) -> None:
    (tmp_path / ".agent").mkdir()
    (tmp_path / ".agent" / "AGENT.md").write_text("Always shout.")
    session = await hub.session()
    for memory in (None, "Always whisper."):
        configs.said = {"memory": memory}
        await hub.turn(session, "hi")
    assert [("whisper" in each.system, "shout" in each.system) for each in model.requests] == [
        (False, False),
        (True, False),
    ]


async def test_what_was_skipped_of_the_configuration_is_said_once(hub: NativeHub, configs: KnownConfigs) -> None:
    configs.said = {"problems": ("config.json: not JSON",)}
    session = await hub.session()
    first = await hub.turn(session, "hi")
    configs.said = {"problems": ("config.json: not JSON", "mcp-servers.json: not JSON")}
    second = await hub.turn(session, "hi")
    told = [[fact.line for fact in of(facts, LogWritten)] for facts in (first, second)]
    assert told == [["config.json: not JSON"], ["mcp-servers.json: not JSON"]]


async def test_sub_agents_run_with_the_model_that_the_configuration_has_for_them(
    hub: NativeHub, model: Recording, configs: KnownConfigs
) -> None:
    configs.said = {"provider": "scripted", "model": "large", "sub_agent_model": "small"}
    task = msgspec.json.encode({"task": "look around"}).decode()
    turn = script(f"call spawnAgent {task}", "say thanks")
    await hub.turn(await hub.session(), turn)
    assert [request.model for request in model.requests] == ["large", "small", "large"]
    model.requests.clear()
    await hub.turn(await hub.session(model="own"), turn)
    assert [request.model for request in model.requests] == ["own", "own", "own"]


@pytest.mark.parametrize(
    ("settings", "config", "wanted"),
    [
        ({}, {}, Preference()),
        ({}, None, Preference()),
        ({"provider": "a", "model": "x"}, None, Preference("a", "x")),
        ({}, {"provider": "a", "model": "x"}, Preference("a", "x")),
        ({}, {"provider": "a", "model": "x", "sub_agent_model": "s"}, Preference("a", "x", "s")),
        ({}, {"sub_agent_model": "s"}, Preference(None, None, "s")),
        # what the session says comes first
        ({"model": "y"}, {"provider": "a", "model": "x", "sub_agent_model": "s"}, Preference("a", "y")),
        ({"provider": "a"}, {"provider": "a", "model": "x", "sub_agent_model": "s"}, Preference("a", "x", "s")),
        # a model of another provider is none
        ({"provider": "b"}, {"provider": "a", "model": "x", "sub_agent_model": "s"}, Preference("b")),
        ({"provider": "b"}, {"model": "x"}, Preference("b")),
        ({"provider": "b", "model": "y"}, {"provider": "a", "model": "x"}, Preference("b", "y")),
        # what is no text says nothing
        ({"provider": "", "model": None}, {"provider": "a", "model": "x"}, Preference("a", "x")),
    ],
)
async def test_the_sessions_settings_come_before_the_configuration(
    settings: dict[str, Any], config: dict[str, Any] | None, wanted: Preference
) -> None:
    found = None if config is None else await KnownConfigs(**config).read(Path("/x"))
    assert preference(settings, found) == wanted


async def test_a_change_of_the_configured_model_counts_from_the_next_turn_on(
    hub: NativeHub, model: Recording, configs: KnownConfigs
) -> None:
    session = await hub.session()
    for name in ("one", "two"):
        configs.said = {"provider": "scripted", "model": name}
        await hub.turn(session, "hi")
    await settled(session)
    assert [request.model for request in model.requests] == ["one", "two"]
