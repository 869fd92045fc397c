"""Which skills there are: places, names, and what a project may not lead us to."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from dragoman.hub.skills import Skill
from dragoman.services.skills import SkillFolders, SkillSettings
from dragoman.services.skills.places import BUILT_IN

from .rig import Rig, agent, warnings, yaml


async def test_a_skill(rig: Rig) -> None:
    folder = rig.put(rig.project, "deploy", "---\ndescription: Ships it\n---\n\n# Deploy\nTRIGGERS: ship, release\n")
    assert await rig.skills() == {
        "deploy": Skill(
            name="deploy",
            path=str(folder / "SKILL.md"),
            source="project",
            enabled=True,
            triggers=("ship", "release"),
            description="Ships it",
        )
    }
    content = await rig.service.read(rig.cwd, " deploy ")
    assert content is not None
    assert content.skill.name == "deploy"
    assert content.content == "# Deploy\nTRIGGERS: ship, release\n"
    assert await rig.service.read(rig.cwd, "Deploy") is None


async def test_the_order_is_by_place_then_by_name_in_any_case(rig: Rig) -> None:
    for place, names in (
        (rig.built_in, "zB"),
        (rig.person, "yA"),
        (rig.disabled, "d"),
        (rig.enabled, "xC"),
        (rig.project, "wbE"),
    ):
        for name in names:
            rig.put(place, name)
    assert await rig.names() == ["b", "E", "w", "C", "x", "(d)", "A", "y", "B", "z"]
    sources = [skill.source for skill in (await rig.skills()).values()]
    assert sources == ["project"] * 3 + ["global"] * 3 + ["user"] * 2 + ["built-in"] * 2


async def test_the_first_place_that_has_a_name_wins(rig: Rig) -> None:
    places = (rig.built_in, rig.person, rig.enabled, rig.project)
    for place, source in zip(places, ("built-in", "user", "global", "project"), strict=True):
        rig.put(place, "pdf", source)
        (skill,) = await rig.service.skills(rig.cwd)
        assert (skill.source, skill.description) == (source, source)


async def test_the_name_is_the_folders_whatever_the_front_matter_says(rig: Rig) -> None:
    rig.put(rig.project, "one", "---\nname: other\n---\n")
    assert await rig.names() == ["one"]


async def test_a_folder_without_the_file_is_no_skill_and_hides_none(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    (rig.project / "pdf").mkdir(parents=True)
    (rig.project / "file").write_text("no folder")
    rig.put(rig.built_in, "pdf")
    assert [skill.source for skill in await rig.service.skills(rig.cwd)] == ["built-in"]
    assert warnings(caplog.records) == []


async def test_more_places_come_after_the_persons(tmp_path: Path) -> None:
    rig = Rig(tmp_path, SkillSettings(folders=("~/more", str(tmp_path / "most"))))
    for place in (rig.built_in, tmp_path / "most", rig.home / "more", rig.person):
        rig.put(place, "a", place.name)
        assert (await rig.skills())["a"].description == place.name


async def test_the_folder_of_the_environment_is_above_what_is_built_in(rig: Rig, tmp_path: Path) -> None:
    rig.put(rig.built_in, "a", "built in")
    rig.put(tmp_path / "cowork" / "skills", "a", "of the environment")
    rig.environment["COWORK_BUILTIN_DIR"] = str(tmp_path / "cowork")
    skill = (await rig.skills())["a"]
    assert (skill.description, skill.source) == ("of the environment", "built-in")


async def test_skills_of_the_persons_home_are_the_persons_in_a_session_there(rig: Rig) -> None:
    rig.put(rig.person, "mine")
    assert [skill.source for skill in await rig.service.skills(rig.home)] == ["user"]


NAMES = ["../x", "..", ".", "", " ", "a/b", "a\\b", "a\0b", ".hidden", "a\nb", "x" * 101, "\ud800", "/etc"]


@pytest.mark.parametrize("name", NAMES, ids=ascii)
async def test_names_that_could_lead_elsewhere_are_unknown(rig: Rig, name: str) -> None:
    rig.put(rig.enabled, "x")
    rig.put(rig.enabled.parent, "b")
    rig.put(rig.enabled, ".hidden")
    assert await rig.service.read(rig.cwd, name) is None
    assert await rig.service.load(rig.cwd, name) is None
    assert await rig.names() == ["x"]


async def test_a_name_that_is_no_text_is_passed_over(rig: Rig) -> None:
    rig.put(rig.enabled, "good")
    rig.put(rig.enabled, os.fsdecode(b"\xff"))
    rig.put(rig.enabled, "a\x1b[31mb")
    rig.put(rig.enabled, " space ")
    assert await rig.names() == ["good"]


async def test_what_an_agent_may_load(rig: Rig) -> None:
    rig.put(rig.project, "on", "---\na: b\n---\nbody")
    rig.put(rig.disabled, "off", "body")
    loaded = await rig.service.load(rig.cwd, "on")
    assert loaded is not None
    assert (loaded.content, loaded.file) == ("body", "---\na: b\n---\nbody")
    assert await rig.service.load(rig.cwd, "off") is None
    assert await rig.service.read(rig.cwd, "off") is not None


async def test_a_single_file_can_be_loaded_by_name_and_is_not_listed(rig: Rig, tmp_path: Path) -> None:
    rig.put(rig.project, "other")
    rig.put(rig.disabled, "off")
    (rig.disabled / "was.md").write_text("off")
    rig.person.mkdir(parents=True)
    (rig.person / "note.md").write_text("---\na: b\n---\nthe note")
    (rig.person / "off.md").write_text("a file by the name of one that is off")
    (tmp_path / "secret.md").write_text("secret")
    (rig.project / "secret.md").symlink_to(tmp_path / "secret.md")
    note = await rig.service.load(rig.cwd, "note")
    assert note is not None
    assert (note.content, note.skill.source, note.skill.interface) == ("the note", "user", None)
    for name in ("off", "was", "secret", "none"):
        assert await rig.service.load(rig.cwd, name) is None
    assert await rig.in_use() == ["other"]


# Links


async def test_a_persons_skill_may_be_a_link(rig: Rig, tmp_path: Path) -> None:
    rig.put(tmp_path / "src", "deploy", "text")
    rig.enabled.mkdir(parents=True)
    (rig.enabled / "deploy").symlink_to(tmp_path / "src" / "deploy")
    assert await rig.names() == ["deploy"]


async def test_a_projects_skill_is_no_link_that_leads_out_of_it(rig: Rig, tmp_path: Path) -> None:
    rig.put(tmp_path / "src", "stolen", "secret")
    rig.put(rig.project, "good")
    (rig.project / "stolen").symlink_to(tmp_path / "src" / "stolen")
    rig.put(rig.cwd / "docs", "inside")
    (rig.project / "inside").symlink_to("../../docs/inside")
    assert await rig.names() == ["good", "inside"]
    assert await rig.service.read(rig.cwd, "stolen") is None


async def test_nor_is_the_folder_of_its_skills(rig: Rig, tmp_path: Path) -> None:
    rig.put(tmp_path / "src", "stolen", "secret")
    rig.project.parent.mkdir()
    rig.project.symlink_to(tmp_path / "src")
    assert await rig.names() == []


@pytest.mark.parametrize("place", ["project", "enabled", "disabled", "person", "built_in"])
async def test_no_skills_text_leads_out_of_its_folder(
    rig: Rig, place: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "secret").write_text("secret")
    folder = rig.put(getattr(rig, place), "bad")
    (folder / "SKILL.md").unlink()
    (folder / "SKILL.md").symlink_to(tmp_path / "secret")
    assert await rig.names() == []
    assert warnings(caplog.records) == [
        f"skill {folder / 'SKILL.md'} is skipped: it leads out of the folder that it belongs to"
    ]


async def test_a_loop_of_links_costs_itself_alone(rig: Rig) -> None:
    rig.put(rig.project, "good")
    (rig.project / "loop").symlink_to("loop")
    assert await rig.names() == ["good"]


# What is broken


async def test_a_broken_skill_is_skipped_and_the_next_place_asked(rig: Rig) -> None:
    (rig.put(rig.project, "pdf") / "SKILL.md").write_bytes(b"\xff\xfe")
    rig.put(rig.built_in, "pdf")
    rig.put(rig.built_in, "other")
    assert {name: skill.source for name, skill in (await rig.skills()).items()} == {
        "other": "built-in",
        "pdf": "built-in",
    }


async def test_it_is_said_once_and_again_once_it_was_changed(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    path = rig.put(rig.project, "bad") / "SKILL.md"
    path.write_bytes(b"\xff")
    for _ in range(3):
        assert await rig.names() == []
    line = f"skill {path} is skipped: it is not UTF-8 text"
    assert warnings(caplog.records) == [line]
    path.write_bytes(b"\xff\xff")
    await rig.names()
    assert warnings(caplog.records) == [line, line]


async def test_pipes_and_huge_files_hold_nobody_up(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig(tmp_path)
    pipe = rig.put(rig.project, "a-pipe") / "SKILL.md"
    pipe.unlink()
    os.mkfifo(pipe)
    huge = rig.put(rig.project, "huge") / "SKILL.md"
    with huge.open("wb") as file:
        file.truncate(1 << 40)
    (rig.put(rig.project, "folder") / "SKILL.md").unlink()
    (rig.project / "folder" / "SKILL.md").mkdir()
    rig.put(rig.project, "good")
    assert await rig.names() == ["good"]
    assert warnings(caplog.records) == [
        f"skill {pipe} is skipped: it is no regular file",
        f"skill {rig.project / 'folder' / 'SKILL.md'} is skipped: it is no regular file",
        f"skill {huge} is skipped: it is larger than 262144 bytes",
    ]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
async def test_what_may_not_be_read_costs_itself_alone(rig: Rig) -> None:
    (rig.put(rig.project, "closed") / "SKILL.md").chmod(0)
    rig.put(rig.project, "shut").chmod(0)
    rig.put(rig.project, "good")
    rig.put(rig.enabled, "hidden")
    rig.enabled.chmod(0)
    assert await rig.names() == ["good"]


async def test_a_place_has_so_many_at_most(tmp_path: Path) -> None:
    rig = Rig(tmp_path, SkillSettings(most=2))
    for name in "cab":
        rig.put(rig.project, name)
    rig.put(rig.person, "d")
    assert await rig.names() == ["a", "b", "d"]
    assert await rig.service.read(rig.cwd, "c") is None


# Now


async def test_a_skill_that_goes_between_the_list_and_the_look_is_unknown(rig: Rig) -> None:
    folder = rig.put(rig.project, "gone")
    assert await rig.names() == ["gone"]
    (folder / "SKILL.md").unlink()
    assert await rig.service.read(rig.cwd, "gone") is None
    assert await rig.service.load(rig.cwd, "gone") is None
    assert await rig.service.expand(rig.cwd, "gone", "") is None


async def test_skills_may_come_and_go_while_they_are_listed(rig: Rig) -> None:
    rig.put(rig.project, "stays")
    stop = threading.Event()

    def come_and_go() -> None:
        folder = rig.project / "goes"
        while not stop.is_set():
            agent(rig.put(rig.project, "goes"), yaml("display_name: Goes"))
            (folder / "SKILL.md").unlink()
            (folder / "agents" / "openai.yaml").unlink()
            (folder / "agents").rmdir()
            folder.rmdir()

    thread = threading.Thread(target=come_and_go)
    thread.start()
    try:
        for _ in range(50):
            assert set(await rig.names()) in ({"stays"}, {"stays", "goes"})
            await rig.service.load(rig.cwd, "goes")
            await rig.service.commands(rig.cwd)
    finally:
        stop.set()
        thread.join()


# Those that come with the server


@pytest.fixture
def packaged(rig: Rig) -> SkillFolders:
    return SkillFolders(rig.home, {}, rig.configs, built_in=BUILT_IN)


async def test_those_that_come_with_the_server_are_whole(rig: Rig, packaged: SkillFolders) -> None:
    skills = {skill.name: skill for skill in await packaged.skills(rig.cwd)}
    assert [it.name for it in await packaged.in_use(rig.cwd)] == [it.name for it in skills.values() if it.enabled]
    assert set(skills) == {"commit", "debug", "docs", "spreadsheet"}
    for name, skill in skills.items():
        interface = skill.interface
        assert interface is not None
        assert interface.agents == ("openai",)
        assert interface.display_name
        assert interface.short_description
        assert interface.default_prompt
        assert (interface.icon_small or "").startswith("data:image/svg+xml;base64,")
        assert skill.description.startswith("Use when ")
        assert len(skill.triggers) > 2
        content = await packaged.load(rig.cwd, name)
        assert content is not None
        assert content.content.startswith("# ")


async def test_links_without_end_cost_no_other_skill(rig: Rig) -> None:
    chain = rig.cwd / "chain"
    chain.mkdir()
    (chain / "0").mkdir()
    for number in range(1, 1500):
        (chain / str(number)).symlink_to(str(number - 1))
    rig.put(rig.project, "good")
    bad = rig.put(rig.project, "bad")
    (bad / "SKILL.md").unlink()
    (bad / "SKILL.md").symlink_to(chain / "1499")
    (rig.project / "worse").symlink_to(chain / "1499")
    assert [skill.name for skill in await rig.service.skills(rig.cwd)] == ["good"]
    assert "good" in [command.name for command in await rig.service.commands(rig.cwd)]
