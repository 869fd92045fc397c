"""The original's answers to a client that lists, switches and calls, in the places that were recorded."""

from __future__ import annotations

import pytest

from .rig import SVG, SVG_URI, Rig, agent, yaml

GLOBAL = "# Global Skill\n\nTRIGGERS: alpha, beta , gamma\n\nUse $1 with $2 then $ARGUMENTS.\n"


@pytest.fixture
def recorded(rig: Rig) -> Rig:
    rig.put(rig.project, "emptyskill", "")
    rig.put(rig.project, "pskill", "---\ndescription: Project skill\n---\nProject body\n")
    rig.put(rig.project, "pdf", "---\ndescription: Project pdf overrides built-in\n---\n# P\n")
    folder = rig.put(rig.enabled, "gskill", f"---\ndescription: Global test skill\n---\n{GLOBAL}")
    (folder / "icon.svg").write_bytes(SVG)
    agent(folder, yaml("display_name: other"), "claude.yaml")
    agent(
        folder,
        yaml("display_name: G Skill", "short_description: short", "default_prompt: Do it", "icon_small: icon.svg"),
    )
    rig.put(rig.person, "uskill", "# User Skill heading\n")
    for name in ("doc", "pdf", "slides", "spreadsheet"):
        rig.put(rig.built_in, name, "It is $3.")
    rig.say(
        greet={"template": "Say hello to $1 and rest $2", "description": "Say hello"},
        all={"template": "args: $ARGUMENTS"},
        plain={"template": "plain"},
        noargs={"template": "$1"},
        mcpish={"template": "x", "source": "mcp"},
        INIT={"template": "overridden init $1"},
        blank={"template": "  "},
    )
    return rig


async def test_the_list(recorded: Rig) -> None:
    skills = await recorded.skills()
    sources = {name: skill.source for name, skill in skills.items()}
    # The original's order within a place is the file system's; ours is by name.
    assert list(sources.items()) == [
        ("emptyskill", "project"),
        ("pdf", "project"),
        ("pskill", "project"),
        ("gskill", "global"),
        ("uskill", "user"),
        ("doc", "built-in"),
        ("slides", "built-in"),
        ("spreadsheet", "built-in"),
    ]
    assert (skills["emptyskill"].description, skills["emptyskill"].triggers) == ("emptyskill", ("emptyskill",))
    assert skills["uskill"].description == "User Skill heading"
    assert skills["pdf"].triggers == ("pdf", ".pdf", "form", "merge", "split")
    skill = skills["gskill"]
    assert (skill.description, skill.triggers) == ("Global test skill", ("alpha", "beta", "gamma"))
    interface = skill.interface
    assert interface is not None
    assert (interface.display_name, interface.short_description, interface.default_prompt) == (
        "G Skill",
        "short",
        "Do it",
    )
    assert (interface.agents, interface.icon_small, interface.icon_large) == (("claude", "openai"), SVG_URI, None)


async def test_switching(recorded: Rig) -> None:
    before = await recorded.names()
    await recorded.service.disable(recorded.cwd, "gskill")
    assert await recorded.names() == [name.replace("gskill", "(gskill)") for name in before]
    content = await recorded.service.read(recorded.cwd, "gskill")
    assert content is not None
    assert content.skill.path == str(recorded.disabled / "gskill" / "SKILL.md")
    assert content.content == GLOBAL
    assert "gskill" not in await recorded.commands()
    await recorded.service.enable(recorded.cwd, "gskill")
    assert await recorded.names() == before
    await recorded.service.delete(recorded.cwd, "gskill")
    assert await recorded.names() == [name for name in before if name != "gskill"]


async def test_the_commands(recorded: Rig) -> None:
    commands = await recorded.commands()
    assert " ".join(commands) == (
        "all doc greet gskill INIT mcpish noargs pdf plain pskill review slides spreadsheet uskill"
    )
    assert commands["greet"].hints == ("$1", "$2")
    assert (commands["mcpish"].source, commands["pdf"].source) == ("mcp", "skill")


CALLS = {
    ("greet", "Ann 'Bob C' dave"): ("/greet Ann 'Bob C' dave", "Say hello to Ann and rest Bob C dave"),
    ("GREET", ""): ("/greet", "Say hello to  and rest"),
    ("all", "  a   b "): ("/all a   b", "args: a   b"),
    ("plain", "extra words"): ("/plain extra words", "plain\n\nextra words"),
    ("init", "zed"): ("/INIT zed", "overridden init zed"),
    ("noargs", ""): ("/noargs", ""),
    ("pskill", ""): ("/pskill", "Project body"),
}


@pytest.mark.parametrize(("call", "answer"), CALLS.items(), ids=[name for name, _ in CALLS])
async def test_a_call(recorded: Rig, call: tuple[str, str], answer: tuple[str, str]) -> None:
    assert await recorded.expanded(*call) == answer
    assert await recorded.service.expand(recorded.cwd, "blank", "") is None
