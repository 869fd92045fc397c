"""``agents/*.yaml`` and the icons they name."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.hub.skills import SkillInterface
from dragoman.services.skills import SkillSettings
from dragoman.services.skills.interface import _texts
from dragoman.services.workspace.files import FileProblem

from .rig import SVG, SVG_URI, Rig, agent, warnings, yaml


async def interface(rig: Rig) -> SkillInterface | None:
    return (await rig.skills())["skill"].interface


@pytest.fixture
def skill(rig: Rig) -> Path:
    folder = rig.put(rig.enabled, "skill")
    (folder / "icon.svg").write_bytes(SVG)
    return folder


async def test_all_of_it(rig: Rig, skill: Path) -> None:
    (skill / "big.PNG").write_bytes(b"png")
    agent(
        skill,
        yaml(
            'display_name: "A Skill"',
            "short_description: short",
            "default_prompt: |\n    Do it\n    well",
            "icon_small: ./icon.svg",
            "icon_large: big.PNG",
            "unknown: [x]",
        ),
    )
    assert await interface(rig) == SkillInterface(
        display_name="A Skill",
        short_description="short",
        default_prompt="Do it\nwell",
        icon_small=SVG_URI,
        icon_large="data:image/png;base64,cG5n",
        agents=("openai",),
    )


async def test_without_agents_there_is_none(rig: Rig, skill: Path) -> None:
    assert await interface(rig) is None
    agent(skill, "text", "readme.txt")
    assert await interface(rig) is None


async def test_openais_file_is_read_where_there_is_one(rig: Rig, skill: Path) -> None:
    agent(skill, yaml("display_name: Last"), "zed.yml")
    agent(skill, yaml("display_name: First"), "claude.yaml")
    assert await interface(rig) == SkillInterface(display_name="First", agents=("claude", "zed"))
    agent(skill, yaml("display_name: Favourite"), "openai.yaml")
    assert await interface(rig) == SkillInterface(display_name="Favourite", agents=("claude", "openai", "zed"))


@pytest.mark.parametrize(
    ("name", "media_type"),
    [
        ("a.svg", "image/svg+xml"),
        ("a.png", "image/png"),
        ("a.jpg", "image/jpeg"),
        ("a.jpeg", "image/jpeg"),
        ("a.WebP", "image/webp"),
        ("a.gif", "application/octet-stream"),
        ("a", "application/octet-stream"),
    ],
)
async def test_an_icons_type_is_its_names(rig: Rig, skill: Path, name: str, media_type: str) -> None:
    (skill / name).write_bytes(b"x")
    agent(skill, yaml(f"icon_small: {name}"))
    found = await interface(rig)
    assert found is not None
    assert found.icon_small == f"data:{media_type};base64,eA=="


@pytest.mark.parametrize("place", ["enabled", "project"])
@pytest.mark.parametrize(
    "icon", ["../secret", "../../../../secret", "link", "folder/secret", "/etc/hostname", "~/secret", "http://x/y.svg"]
)
async def test_no_icon_leads_out_of_the_skill(rig: Rig, place: str, icon: str) -> None:
    folder = rig.put(getattr(rig, place), "skill")
    for above in (folder.parent, rig.home, rig.cwd):
        (above / "secret").write_text("secret")
    (folder / "link").symlink_to("../secret")
    (folder / "folder").symlink_to("..")
    agent(folder, yaml("display_name: Icons", f"icon_small: {icon}"))
    assert await interface(rig) == SkillInterface(display_name="Icons", agents=("openai",))


async def test_icons_that_are_missing_pipes_or_large_are_left_out(rig: Rig, skill: Path) -> None:
    os.mkfifo(skill / "pipe.svg")
    with (skill / "large.svg").open("wb") as file:
        file.truncate(1 << 30)
    (skill / "blank.svg").touch()
    for icon in ("none.svg", "pipe.svg", "large.svg", "agents", ".", "blank.svg", "''", "~", "null", "[a]"):
        agent(skill, yaml("display_name: x", f"icon_small: {icon}", "icon_large: icon.svg"))
        found = await interface(rig)
        assert found == SkillInterface(display_name="x", icon_large=SVG_URI, agents=("openai",)), icon


async def test_a_list_has_so_many_icons_at_most(tmp_path: Path) -> None:
    rig = Rig(tmp_path, SkillSettings(icons_bytes=100))
    for name, size in (("a", 10), ("b", 100), ("c", 10)):
        folder = rig.put(rig.enabled, name)
        (folder / "icon.svg").write_bytes(b"x" * size)
        agent(folder, yaml(f"display_name: {name}", "icon_small: icon.svg"))
    found = {name: skill.interface for name, skill in (await rig.skills()).items()}
    assert [name for name, each in found.items() if each is not None and each.icon_small] == ["a", "c"]
    assert found["b"] == SkillInterface(display_name="b", agents=("openai",))


BROKEN = {
    "no YAML": "interface: [",
    "tabs": "interface:\n\tdisplay_name: x",
    "brackets without end": "[" * 8000,
    "nested without end": "- " * 8000,
    "an alias of nothing": "interface: *x",
    "two documents": "a: b\n---\nc: d",
    "a key that is a list": "[a]: b",
    "control characters": "interface: \x00",
    "too large": "#" * 20_000,
}


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN.keys())
async def test_a_broken_file_costs_the_interface_alone(
    rig: Rig, skill: Path, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    agent(skill, text)
    assert await interface(rig) is None
    await interface(rig)
    (line,) = warnings(caplog.records)
    assert line.startswith(f"skill {skill / 'agents'} has no interface: agents/openai.yaml: it ")


NOTHING = {
    "another kind": "- a",
    "a text": "just text",
    "nothing": "",
    "no interface": "other: x",
    "an interface of another kind": "interface: [x]",
    "values of other kinds": yaml("display_name: [x]", "short_description: {a: b}", "default_prompt:"),
}


@pytest.mark.parametrize("text", NOTHING.values(), ids=NOTHING.keys())
async def test_one_that_says_nothing_is_no_problem(
    rig: Rig, skill: Path, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    agent(skill, text)
    assert await interface(rig) == SkillInterface(agents=("openai",))
    assert warnings(caplog.records) == []


async def test_an_edit_is_seen_at_once(rig: Rig, skill: Path) -> None:
    for name, encoded in (("One", "T25l"), ("Two", "VHdv")):
        agent(skill, yaml(f"display_name: {name}", "icon_small: icon.svg"))
        (skill / "icon.svg").write_text(name)
        found = await interface(rig)
        assert found is not None
        assert (found.display_name, found.icon_small) == (name, f"data:image/svg+xml;base64,{encoded}")


async def test_agents_of_another_folder_are_not_this_skills(rig: Rig, skill: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "private.yaml").write_text(yaml("display_name: x"))
    (skill / "agents").symlink_to(tmp_path / "other")
    assert await interface(rig) is None


def test_yaml_makes_nothing_but_texts() -> None:
    text = yaml(
        "display_name: 2024-01-01", "short_description: yes", "default_prompt: 0x10", "icon_small: !!python/x y"
    )
    assert _texts(text.encode()) == {
        "display_name": "2024-01-01",
        "short_description": "yes",
        "default_prompt": "0x10",
        "icon_small": "y",
    }


def test_merged_keys_do_not_grow_for_ever() -> None:
    lines = ["a0: &a0 {display_name: x}"]
    lines += [f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}], x: [*a{n - 1}, *a{n - 1}]}}" for n in range(1, 60)]
    assert _texts("\n".join([*lines, "interface: *a59"]).encode()) == {}


@given(
    st.binary(max_size=100)
    | st.lists(st.sampled_from(["interface:", "  ", "a: ", "&x ", "*x", "- ", "[", "{", "'", "\n", "!!", "|", "<<: "]))
    .map("".join)
    .map(str.encode)
)
def test_any_bytes_are_texts_or_a_problem(data: bytes) -> None:
    try:
        texts: dict[str, Any] = _texts(data)
    except FileProblem:
        return
    assert all(isinstance(text, str) for text in texts.values())
