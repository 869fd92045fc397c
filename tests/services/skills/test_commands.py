"""Slash commands: which there are, and what they mean."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.hub.errors import LimitReached
from dragoman.hub.skills import Command
from dragoman.services.skills import SkillSettings

from .rig import Rig


async def test_two_are_built_in(rig: Rig) -> None:
    assert await rig.service.commands(rig.cwd) == (
        Command(name="init", source="command", hints=("$ARGUMENTS",), description="create/update AGENTS.md"),
        Command(
            name="review",
            source="command",
            hints=("$ARGUMENTS",),
            description="review changes [commit|branch|pr], defaults to uncommitted",
        ),
    )


@pytest.mark.parametrize("name", ["init", "review"])
async def test_they_mean_something_with_arguments_and_without(rig: Rig, name: str) -> None:
    shown, text = await rig.expanded(name, " HEAD~3 ")
    assert shown == f"/{name} HEAD~3"
    assert "HEAD~3" in text
    assert "$" not in text
    shown, text = await rig.expanded(name)
    assert shown == f"/{name}"
    assert len(text) > 200


async def test_the_configurations_take_their_place_in_any_case_and_with_all(rig: Rig) -> None:
    rig.say(INIT={"template": "mine $1"})
    assert (await rig.commands())["INIT"] == Command(name="INIT", source="command", hints=("$1",))
    assert list(await rig.commands()) == ["INIT", "review"]
    assert await rig.expanded("init", "zed") == ("/INIT zed", "mine zed")


async def test_a_commands_source_is_what_its_entry_says(rig: Rig) -> None:
    rig.say(ask={"template": "Ask", "source": "mcp", "description": "asks"})
    assert (await rig.commands())["ask"] == Command(name="ask", source="mcp", hints=(), description="asks")


async def test_every_skill_that_is_on_and_has_a_text_is_one(rig: Rig) -> None:
    rig.put(rig.project, "deploy", "---\ndescription: Ships it\n---\nbody")
    rig.put(rig.project, "empty", "---\ndescription: Nothing\n---\n\n")
    rig.put(rig.disabled, "off", "body")
    assert await rig.own_commands() == {"deploy"}
    assert (await rig.commands())["deploy"] == Command(name="deploy", source="skill", hints=(), description="Ships it")


async def test_a_skills_command_needs_a_free_name(rig: Rig) -> None:
    rig.say(Deploy={"template": "configured"})
    rig.put(rig.project, "deploy", "the skill's")
    rig.put(rig.project, "review", "the skill's")
    assert (await rig.expanded("deploy"))[1] == "configured"
    assert (await rig.expanded("review"))[1] != "the skill's"
    assert (await rig.commands())["review"].source == "command"


async def test_of_skills_that_differ_in_case_alone_the_first_listed_is_the_command(rig: Rig) -> None:
    rig.put(rig.project, "Deploy", "project's")
    rig.put(rig.enabled, "deploy", "global")
    assert await rig.own_commands() == {"Deploy"}
    assert await rig.expanded("DEPLOY") == ("/Deploy", "project's")


async def test_they_are_sorted_by_name_in_any_case(rig: Rig) -> None:
    rig.say(**{name: {"template": "x"} for name in ("b", "C", "_x", "A", "zed", "INIT", "ä")})
    assert list(await rig.commands()) == ["_x", "A", "b", "C", "INIT", "review", "zed", "ä"]


async def test_a_skills_text_stands_as_it_is_with_the_arguments_behind_it(rig: Rig) -> None:
    rig.put(rig.project, "sums", "---\na: b\n---\n\nIt costs $3 or $ARGUMENTS.\n")
    assert (await rig.commands())["sums"].hints == ()
    assert await rig.expanded("sums", " one two ") == (
        "/sums one two",
        "It costs $3 or $ARGUMENTS.\n\none two",
    )
    assert await rig.expanded("sums") == ("/sums", "It costs $3 or $ARGUMENTS.")


async def test_one_may_come_to_nothing(rig: Rig) -> None:
    rig.say(noargs={"template": "$1"})
    assert await rig.expanded("noargs") == ("/noargs", "")


@pytest.mark.parametrize("name", ["none", "", "/review", "../review", "re view"])
async def test_there_is_no_other(rig: Rig, name: str) -> None:
    assert await rig.service.expand(rig.cwd, name, "x") is None


async def test_one_that_would_grow_without_measure_is_refused(tmp_path: Path) -> None:
    rig = Rig(tmp_path, SkillSettings(expanded_chars=10_000))
    rig.say(grow={"template": "$ARGUMENTS" * 1000}, small={"template": "$ARGUMENTS" * 10})
    with pytest.raises(LimitReached, match="/grow would come to more than 10000 characters"):
        await rig.service.expand(rig.cwd, "grow", "x" * 1000)
    assert len((await rig.expanded("small", "x" * 100))[1]) == 1000
