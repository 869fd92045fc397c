"""The contract's rules of skills and slash commands, row by row, from the files of a folder to what a client is told
(seed: ``skills_list``, ``skill_content``, ``commands``, ``execute_command``).

Each row is named after what the contract says there. The parts have larger tables in ``tests/services/skills``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from dragoman.dialects.coworker.messages import encode
from dragoman.dialects.coworker.skill_views import commands_list, skill_content, skills_list
from dragoman.hub.errors import InvalidRequest
from tests.services.skills.rig import SVG, SVG_URI, Rig, agent, yaml


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


async def skills(rig: Rig) -> dict[str, dict[str, Any]]:
    """``skills_list`` as it is sent: its entries by name, in order."""
    told = msgspec.json.decode(encode(skills_list("s", await rig.service.skills(rig.cwd))))
    assert (told["type"], told["sessionId"]) == ("skills_list", "s")
    return {entry["name"]: entry for entry in told["skills"]}


async def content(rig: Rig, name: str) -> Any:
    """``skill_content``'s text."""
    found = await rig.service.read(rig.cwd, name)
    assert found is not None
    return msgspec.json.decode(encode(skill_content("s", found)))["content"]


async def commands(rig: Rig) -> dict[str, dict[str, Any]]:
    """``commands`` as it is sent: its entries by name, in order."""
    told = msgspec.json.decode(encode(commands_list("s", await rig.service.commands(rig.cwd))))
    return {entry["name"]: entry for entry in told["commands"]}


# Which skills there are


async def test_places_come_in_their_order_and_the_first_name_wins(rig: Rig) -> None:
    places = {"built-in": rig.built_in, "user": rig.person, "global": rig.enabled, "project": rig.project}
    for source, place in places.items():
        folder = rig.put(place, "pdf", f"of {source}")
        entry = (await skills(rig))["pdf"]
        assert (entry["source"], entry["path"]) == (source, str(folder / "SKILL.md"))
        assert (entry["enabled"], entry["description"]) == (True, f"of {source}")


async def test_a_skill_is_a_folder_with_a_skill_md_and_its_name_is_the_folders(rig: Rig) -> None:
    rig.put(rig.project, "one", "---\nname: other\n---\n")
    (rig.project / "two").mkdir()
    (rig.project / "three.md").write_text("a file")
    assert list(await skills(rig)) == ["one"]


async def test_one_that_is_off_is_listed_as_global_and_hides_what_comes_behind(rig: Rig) -> None:
    folder = rig.put(rig.disabled, "pdf", "off")
    rig.put(rig.person, "pdf", "the person's")
    rig.put(rig.built_in, "pdf", "built in")
    entry = (await skills(rig))["pdf"]
    assert (entry["enabled"], entry["source"], entry["path"]) == (False, "global", str(folder / "SKILL.md"))
    assert await content(rig, "pdf") == "off"
    rig.put(rig.enabled, "pdf", "on")
    assert (await skills(rig))["pdf"]["enabled"] is True


async def test_one_that_is_off_is_no_command(rig: Rig) -> None:
    """There a built-in one of its name was, and was used."""
    rig.put(rig.disabled, "pdf", "off")
    rig.put(rig.built_in, "pdf", "built in")
    assert "pdf" not in await commands(rig)


# What is said of one

DESCRIPTIONS = {
    "of the front matter": ("---\ndescription: Does it\n---\n# Title", "Does it"),
    "behind a byte order mark": ("\ufeff---\ndescription: Does it\n---\n", "Does it"),
    "without its quotes": ("---\ndescription: 'Does it'\n---\n", "Does it"),
    "nested lines and comments are passed over": ("---\n# description: No\nm:\n  description: No\n---\nYes", "Yes"),
    "names of other letters are passed over": ("---\nmy-description: No\n---\nYes", "Yes"),
    "else the first line": ("\n\nThe line\nmore", "The line"),
    "without its heading's marks": ("## The Heading\ntext", "The Heading"),
    "else the name": ("", "skill"),
}


@pytest.mark.parametrize(("text", "said"), DESCRIPTIONS.values(), ids=DESCRIPTIONS.keys())
async def test_description(rig: Rig, text: str, said: str) -> None:
    rig.put(rig.project, "skill", text)
    assert (await skills(rig))["skill"]["description"] == said


SHEET = ["spreadsheet", "excel", ".xlsx", "csv", "data table", "chart"]
SLIDES = ["presentation", "slides", "powerpoint", ".pptx", "deck", "pitch"]
WORD = ["document", "word", ".docx", "report", "letter", "memo"]
TRIGGERS = {
    "of the first such line": ("skill", "# T\nTRIGGERS: a, b , c\nTRIGGERS: d", ["a", "b", "c"]),
    "of one, in any case": ("pdf", "trigger: mine", ["mine"]),
    "else the name": ("skill", "", ["skill"]),
    "xlsx": ("xlsx", "", SHEET),
    "spreadsheet": ("spreadsheet", "", SHEET),
    "pptx": ("pptx", "", SLIDES),
    "slides": ("slides", "", SLIDES),
    "docx": ("docx", "", WORD),
    "doc": ("doc", "", WORD),
    "pdf": ("pdf", "", ["pdf", ".pdf", "form", "merge", "split"]),
}


@pytest.mark.parametrize(("name", "text", "said"), TRIGGERS.values(), ids=TRIGGERS.keys())
async def test_triggers(rig: Rig, name: str, text: str, said: list[str]) -> None:
    rig.put(rig.project, name, text)
    assert (await skills(rig))[name]["triggers"] == said


INTERFACE = (
    *("display_name: G Skill", "short_description: short", "default_prompt: Do it"),
    *("icon_small: icon.svg", "icon_large: missing.png"),
)


async def test_the_interface_is_that_of_openai_and_names_every_agent(rig: Rig) -> None:
    folder = rig.put(rig.enabled, "gskill")
    (folder / "icon.svg").write_bytes(SVG)
    agent(folder, yaml("display_name: other"), "claude.yml")
    agent(folder, yaml(*INTERFACE), "openai.yaml")
    assert (await skills(rig))["gskill"]["interface"] == {
        "displayName": "G Skill",
        "shortDescription": "short",
        "defaultPrompt": "Do it",
        "agents": ["claude", "openai"],
        "iconSmall": SVG_URI,
    }


async def test_without_openai_it_is_that_of_the_first(rig: Rig) -> None:
    folder = rig.put(rig.enabled, "gskill")
    agent(folder, yaml("display_name: B"), "b.yaml")
    agent(folder, yaml("display_name: A"), "a.yml")
    assert (await skills(rig))["gskill"]["interface"] == {"displayName": "A", "agents": ["a", "b"]}


async def test_without_agents_there_is_none(rig: Rig) -> None:
    rig.put(rig.enabled, "gskill")
    assert "interface" not in (await skills(rig))["gskill"]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("i.svg", "image/svg+xml"),
        ("i.png", "image/png"),
        ("i.jpg", "image/jpeg"),
        ("i.jpeg", "image/jpeg"),
        ("i.webp", "image/webp"),
        ("i.bmp", "application/octet-stream"),
    ],
)
async def test_an_icon_is_a_data_uri_of_its_names_type(rig: Rig, name: str, kind: str) -> None:
    folder = rig.put(rig.enabled, "gskill")
    (folder / name).write_bytes(b"A")
    agent(folder, yaml(f"icon_large: {name}"))
    assert (await skills(rig))["gskill"]["interface"]["iconLarge"] == f"data:{kind};base64,QQ=="


async def test_no_icon_leads_out_of_the_skill(rig: Rig) -> None:
    """There it could be any file."""
    folder = rig.put(rig.enabled, "gskill")
    (rig.home / "secret").write_text("secret")
    agent(folder, yaml("icon_small: ../../../secret", "display_name: G"))
    assert (await skills(rig))["gskill"]["interface"] == {"displayName": "G", "agents": ["openai"]}


async def test_the_content_is_the_text_behind_the_front_matter_without_leading_blanks(rig: Rig) -> None:
    rig.put(rig.project, "a", "---\ndescription: x\n---\n\n \n# Title\n\ntext\n")
    assert await content(rig, "a") == "# Title\n\ntext\n"
    assert await content(rig, " a ") == "# Title\n\ntext\n"
    assert await rig.service.read(rig.cwd, "A") is None


# Which commands there are


async def test_built_in_ones_then_the_configurations_then_skills_where_the_name_is_free(rig: Rig) -> None:
    rig.put(rig.project, "review", "a skill")
    rig.put(rig.project, "Greet", "a skill")
    rig.put(rig.project, "free", "---\ndescription: Free\n---\na skill")
    rig.say(INIT={"template": "mine"}, greet={"template": "hello", "description": "Says it"})
    listed = await commands(rig)
    assert {name: entry["source"] for name, entry in listed.items()} == {
        "free": "skill",
        "greet": "command",
        "INIT": "command",
        "review": "command",
    }
    assert listed["greet"] == {"name": "greet", "description": "Says it", "source": "command", "hints": []}
    assert listed["review"]["description"] == "review changes [commit|branch|pr], defaults to uncommitted"
    assert "description" not in listed["INIT"]


async def test_the_built_in_ones(rig: Rig) -> None:
    assert {name: (entry["description"], entry["hints"]) for name, entry in (await commands(rig)).items()} == {
        "init": ("create/update AGENTS.md", ["$ARGUMENTS"]),
        "review": ("review changes [commit|branch|pr], defaults to uncommitted", ["$ARGUMENTS"]),
    }


async def test_they_are_sorted_by_name_whatever_its_case(rig: Rig) -> None:
    rig.say(**{name: {"template": "x"} for name in ("zed", "INIT", "all", "Beta")})
    assert list(await commands(rig)) == ["all", "Beta", "INIT", "review", "zed"]


@pytest.mark.parametrize("source", ["command", "mcp", "skill"])
async def test_a_configured_one_has_the_source_that_it_names(rig: Rig, source: str) -> None:
    rig.say(a={"template": "x", "source": source}, b={"template": "x"})
    listed = await commands(rig)
    assert (listed["a"]["source"], listed["b"]["source"]) == (source, "command")


async def test_blank_ones_are_dropped(rig: Rig) -> None:
    rig.say(a={"template": " \n"}, b={"template": ""}, c={}, d={"template": "x"})
    assert list(await commands(rig)) == ["d", "init", "review"]


HINTS: dict[str, tuple[str, list[str]]] = {
    "none": ("plain", []),
    "numbers, each once, ascending": ("$10 $2 $1 $2", ["$1", "$2", "$10"]),
    "then all": ("$ARGUMENTS $1", ["$1", "$ARGUMENTS"]),
    "all alone": ("x $ARGUMENTS y $ARGUMENTS", ["$ARGUMENTS"]),
    "there is no zeroth": ("$0", []),
}


@pytest.mark.parametrize(("template", "said"), HINTS.values(), ids=HINTS.keys())
async def test_hints(rig: Rig, template: str, said: list[str]) -> None:
    rig.say(it={"template": template})
    assert (await commands(rig))["it"]["hints"] == said


async def test_money_in_a_skill_is_no_hint(rig: Rig) -> None:
    """There it was, and was replaced."""
    rig.put(rig.project, "sums", "It costs $3.")
    assert (await commands(rig))["sums"]["hints"] == []
    assert await rig.expanded("sums", "a") == ("/sums a", "It costs $3.\n\na")


# What they mean

EXPANSIONS = {
    "all that was typed, trimmed": ("args: $ARGUMENTS", "  a   b ", "args: a   b"),
    "a word": ("$1 and $2", "a b", "a and b"),
    "the highest number takes the rest": ("$1 and $2", "a b c d", "a and b c d"),
    "also when it is the only one": ("[$1]", "a b c", "[a b c]"),
    "missing ones are empty": ("hello $1!", "", "hello !"),
    "what is typed is not expanded again, as it was there": ("$ARGUMENTS", "$1 x", "$1 x"),
    "without placeholders behind a blank line": ("plain", "extra words", "plain\n\nextra words"),
    "and nothing where nothing was typed": ("plain", " ", "plain"),
    "white space parts words": ("$1|$2|$3", "a\t b\nc", "a|b|c"),
    "double quotes make one": ("$1|$2", '"a b" c', "a b|c"),
    "single quotes make one": ("$1|$2", "'a b' c", "a b|c"),
    "an image is one": ("$1|$2", "[Image 1] c", "[Image 1]|c"),
    "an apostrophe is no quote, as it was there": ("$1|$2", "don't worry", "don't|worry"),
}


@pytest.mark.parametrize(("template", "typed", "text"), EXPANSIONS.values(), ids=EXPANSIONS.keys())
async def test_expansion(rig: Rig, template: str, typed: str, text: str) -> None:
    rig.say(it={"template": template})
    shown, expanded = await rig.expanded("it", typed)
    assert expanded == text
    assert shown == f"/it {typed.strip()}".strip()


async def test_the_name_is_found_in_any_case_and_echoed_as_it_is_called(rig: Rig) -> None:
    rig.say(Greet={"template": "hello $1"})
    assert await rig.expanded("gREET", " Ann ") == ("/Greet Ann", "hello Ann")
    assert await rig.service.expand(rig.cwd, "nothing", "") is None


async def test_one_may_come_to_nothing_which_is_for_the_caller_to_refuse(rig: Rig) -> None:
    rig.say(it={"template": "$1"})
    assert await rig.expanded("it") == ("/it", "")


# What a toggle says

REFUSALS = {
    ("disable", "project"): "Only global skills can be disabled in v1.",
    ("enable", "person"): "Only global skills can be enabled in v1.",
    ("delete", "built_in"): "Only global skills can be deleted in v1.",
    ("disable", None): 'Skill "a" not found.',
    ("enable", None): 'Skill "a" not found.',
    ("delete", None): 'Skill "a" not found.',
}


@pytest.mark.parametrize(
    ("verb", "place", "said"),
    [pytest.param(*row, said, id=f"{row[0]} {row[1]}") for row, said in REFUSALS.items()],
)
async def test_a_toggle_that_cannot_be(rig: Rig, verb: str, place: str | None, said: str) -> None:
    if place is not None:
        rig.put(getattr(rig, place), "a")
    with pytest.raises(InvalidRequest) as refused:
        await getattr(rig.service, verb)(rig.cwd, "a")
    assert str(refused.value) == said


async def test_a_skill_is_switched_off_and_on_by_moving_its_folder_and_deleted_for_good(rig: Rig) -> None:
    folder = rig.put(rig.enabled, "a", "text")
    await rig.service.disable(rig.cwd, "a")
    await rig.service.disable(rig.cwd, "a")
    assert ((await skills(rig))["a"]["enabled"], "a" in await commands(rig)) == (False, False)
    assert (rig.disabled / "a" / "SKILL.md").exists()
    await rig.service.enable(rig.cwd, "a")
    await rig.service.enable(rig.cwd, "a")
    assert ((await skills(rig))["a"]["enabled"], "a" in await commands(rig)) == (True, True)
    assert folder.exists()
    await rig.service.disable(rig.cwd, "a")
    await rig.service.delete(rig.cwd, "a")
    assert await skills(rig) == {}
    assert not (rig.disabled / "a").exists()
