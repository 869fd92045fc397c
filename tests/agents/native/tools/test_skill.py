"""``skill``: where it is looked for, and that what it says is as new as the file."""

import os
from pathlib import Path

import pytest

from dragoman.agents.native.settings import NativeSettings
from dragoman.agents.native.tools.skill import Skill
from dragoman.agents.native.tools.tool import ToolFailed

from .context import FakeTurn, run


@pytest.fixture
def folders(root: Path) -> list[Path]:
    """Folders of skills in their order: the project's, then those of the settings."""
    folders = [root / ".agent" / "skills", root.parent / "first", root.parent / "second"]
    for folder in folders:
        folder.mkdir(parents=True)
    return folders


@pytest.fixture
def turn(root: Path, folders: list[Path]) -> FakeTurn:
    return FakeTurn(root, settings=NativeSettings(skills=tuple(map(str, folders[1:]))))


async def test_the_first_folder_that_has_it_wins(folders: list[Path], turn: FakeTurn) -> None:
    for folder in reversed(folders):
        (folder / "pdf.md").write_text(f"file in {folder}")
        assert (await run(Skill(), turn, skill_name="pdf")).output == f"file in {folder}"
        (folder / "pdf").mkdir()
        (folder / "pdf" / "SKILL.md").write_text(f"folder in {folder}")
        assert (await run(Skill(), turn, skill_name="pdf")).output == f"folder in {folder}"


async def test_it_is_given_whole_and_the_model_hears_where_it_is(folders: list[Path], turn: FakeTurn) -> None:
    content = "---\ndescription: Project pdf overrides built-in\n---\n# P\n"
    (folders[0] / "pdf").mkdir()
    (folders[0] / "pdf" / "SKILL.md").write_text(content)
    result = await run(Skill(), turn, skill_name="pdf")
    assert result.output == content
    assert result.text.startswith(content)
    assert f"{folders[0]}/pdf/SKILL.md" in result.text


async def test_an_edit_is_seen_at_once(folders: list[Path], turn: FakeTurn) -> None:
    for text in ("one", "two"):
        (folders[1] / "s.md").write_text(text)
        assert (await run(Skill(), turn, skill_name="s")).output == text
    (folders[1] / "s.md").unlink()
    assert (await run(Skill(), turn, skill_name="s")).output == 'Skill "s" not found.'


@pytest.mark.parametrize("name", ["absent", "", ".", "..", "../x", "a/b", "/etc", "a\\b", ".hidden", "a\0b", "x" * 500])
async def test_a_name_that_is_none_is_not_found(folders: list[Path], turn: FakeTurn, name: str) -> None:
    (folders[1].parent / "x.md").write_text("x")
    (folders[1] / "a").mkdir()
    (folders[1] / "a" / "b.md").write_text("x")
    (folders[1] / ".hidden.md").write_text("x")
    assert (await run(Skill(), turn, skill_name=name)).output == f'Skill "{name}" not found.'


@pytest.mark.parametrize("index", [0, 1])
async def test_a_link_out_of_its_folder_is_refused(folders: list[Path], turn: FakeTurn, index: int) -> None:
    (folders[index] / "s.md").symlink_to(folders[0].parents[2] / "outside" / "secret")
    with pytest.raises(ToolFailed, match="skill blocked"):
        await run(Skill(), turn, skill_name="s")


async def test_what_is_no_text_is_refused(folders: list[Path], turn: FakeTurn) -> None:
    (folders[0] / "binary.md").write_bytes(b"\0")
    os.mkfifo(folders[0] / "fifo.md")
    for name in ("binary", "fifo"):
        with pytest.raises(ToolFailed):
            await run(Skill(), turn, skill_name=name)


async def test_a_folder_of_the_settings_may_start_at_home_or_be_absent(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".skills").mkdir()
    (tmp_path / ".skills" / "s.md").write_text("at home")
    turn = FakeTurn(root, settings=NativeSettings(skills=("/absent", "~/.skills")))
    assert (await run(Skill(), turn, skill_name="s")).output == "at home"
