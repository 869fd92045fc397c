"""Skills and slash commands on the wire: as recorded, and nothing where nobody said anything."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from dragoman.dialects.coworker import messages
from dragoman.dialects.coworker.skill_views import commands_list, skill_content, skills_list
from dragoman.hub.skills import Command, Skill, SkillContent, SkillInterface

from .recordings import received, recorded

PDF = Skill(
    name="pdf",
    path="/project/.agent/skills/pdf/SKILL.md",
    source="project",
    enabled=True,
    triggers=("pdf", ".pdf"),
    description="Use when tasks involve PDF files",
    interface=SkillInterface(display_name="PDF Skill", icon_small="data:image/svg+xml;base64,QQ==", agents=("openai",)),
)
OFF = Skill(name="off", path="/s", source="global", enabled=False, triggers=("off",), description="off")


def wire(message: messages.ServerMessage) -> Any:
    return msgspec.json.decode(messages.encode(message))


def test_skills_in_their_order() -> None:
    assert wire(skills_list("s", (PDF, OFF))) == {
        "type": "skills_list",
        "sessionId": "s",
        "skills": [
            {
                "name": "pdf",
                "path": "/project/.agent/skills/pdf/SKILL.md",
                "source": "project",
                "enabled": True,
                "triggers": ["pdf", ".pdf"],
                "description": "Use when tasks involve PDF files",
                "interface": {
                    "displayName": "PDF Skill",
                    "iconSmall": "data:image/svg+xml;base64,QQ==",
                    "agents": ["openai"],
                },
            },
            {
                "name": "off",
                "path": "/s",
                "source": "global",
                "enabled": False,
                "triggers": ["off"],
                "description": "off",
            },
        ],
    }


def test_one_with_its_text() -> None:
    told = wire(skill_content("s", SkillContent(OFF, "# Off\n", "---\na: b\n---\n# Off\n")))
    assert (told["skill"]["name"], told["content"]) == ("off", "# Off\n")
    assert told.keys() == {"type", "sessionId", "skill", "content"}


def test_commands_in_their_order() -> None:
    listed = (
        Command(name="review", source="command", hints=("$ARGUMENTS",), description="review changes"),
        Command(name="mcpish", source="mcp", hints=()),
    )
    assert wire(commands_list("s", listed))["commands"] == [
        {"name": "review", "description": "review changes", "source": "command", "hints": ["$ARGUMENTS"]},
        {"name": "mcpish", "source": "mcp", "hints": []},
    ]


@recorded
@pytest.mark.parametrize("name", ["lists", "skills_toggle"])
def test_what_was_recorded_is_said_to_the_letter(name: str) -> None:
    """Each frame, read as what the hub would know, comes out as it was; the order of an object's keys aside."""
    frames = received(name, "skills_list", "skill_content", "commands")
    assert {frame["type"] for frame in frames} == {"skills_list", "skill_content", "commands"}
    for frame in frames:
        assert wire(said_again(frame)) == frame


def said_again(frame: dict[str, Any]) -> messages.ServerMessage:
    session = frame["sessionId"]
    if frame["type"] == "commands":
        return commands_list(session, msgspec.convert(frame["commands"], tuple[Command, ...]))
    if frame["type"] == "skills_list":
        return skills_list(session, map(known, frame["skills"]))
    return skill_content(session, SkillContent(known(frame["skill"]), frame["content"]))


def known(entry: dict[str, Any]) -> Skill:
    shown = entry.pop("interface", None)
    skill = msgspec.convert(entry, Skill)
    if shown is None:
        return skill
    entry["interface"] = shown
    names = {field.name.replace("_", ""): field.name for field in msgspec.structs.fields(SkillInterface)}
    interface = msgspec.convert({names[key.lower()]: value for key, value in shown.items()}, SkillInterface)
    return msgspec.structs.replace(skill, interface=interface)
