"""``skill``: what it gives is what whoever knows the skills has now."""

from pathlib import Path

import pytest

from dragoman.agents.native.tools.showing import MOST_OF_FILE
from dragoman.agents.native.tools.skill import Skill
from tests.hub.workspaces import KnownSkills

from .context import FakeTurn, run


@pytest.fixture
def skills() -> KnownSkills:
    return KnownSkills()


async def test_the_file_is_given_whole_and_the_model_hears_where_it_is(
    skills: KnownSkills, root: Path, turn: FakeTurn
) -> None:
    skills.add("pdf", "# P\n", description="Project pdf overrides built-in")
    result = await run(Skill(skills), turn, skill_name="pdf")
    assert result.output == "---\ndescription: Project pdf overrides built-in\n---\n# P\n"
    assert result.text is not None
    assert result.text.startswith(str(result.output))
    assert "/skills/pdf/SKILL.md" in result.text
    assert skills.asked == [root]


async def test_what_lies_beside_the_text_is_not_needed(skills: KnownSkills, turn: FakeTurn) -> None:
    skills.add("pdf")
    skills.known["pdf"] = type(skills.known["pdf"])(skills.known["pdf"].skill, "only this")
    assert (await run(Skill(skills), turn, skill_name="pdf")).output == "only this"


async def test_an_edit_and_a_skill_that_is_switched_off_count_at_once(skills: KnownSkills, turn: FakeTurn) -> None:
    for text in ("one", "two"):
        skills.add("s", text)
        assert str((await run(Skill(skills), turn, skill_name="s")).output).endswith(text)
    await skills.disable(Path(), "s")
    assert (await run(Skill(skills), turn, skill_name="s")).output == 'Skill "s" not found.'
    await skills.enable(Path(), "s")
    assert str((await run(Skill(skills), turn, skill_name="s")).output).endswith("two")


@pytest.mark.parametrize("name", ["absent", "", "..", "../x", "/etc"])
async def test_what_nobody_knows_is_not_found(skills: KnownSkills, turn: FakeTurn, name: str) -> None:
    assert (await run(Skill(skills), turn, skill_name=name)).output == f'Skill "{name}" not found.'


async def test_without_whoever_knows_them_there_are_none(turn: FakeTurn) -> None:
    assert (await run(Skill(), turn, skill_name="pdf")).output == 'Skill "pdf" not found.'


async def test_a_long_one_is_cut_and_says_so(skills: KnownSkills, turn: FakeTurn) -> None:
    skills.add("long", "x" * (MOST_OF_FILE + 1))
    output = str((await run(Skill(skills), turn, skill_name="long")).output)
    assert len(output) == MOST_OF_FILE
    assert output.endswith("(cut here; read shows the rest)")
