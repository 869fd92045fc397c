"""``AGENT.md`` of the person and of the project."""

from __future__ import annotations

from pathlib import Path

from dragoman.services.workspace import WorkspaceSettings

from .rig import Rig


async def test_both_are_given_the_persons_first_each_below_a_line_that_says_whose_it_is(rig: Rig) -> None:
    (rig.person / "AGENT.md").write_text("\nI like tests.\n")
    (rig.project / "AGENT.md").write_text("# Project\n\nUse make.\n")
    assert (await rig.read()).memory == (
        "What the person wants you to know, in every project (~/.agent/AGENT.md):\n\nI like tests.\n\n"
        "What this project wants you to know (.agent/AGENT.md):\n\n# Project\n\nUse make."
    )


async def test_one_of_them_is_enough(rig: Rig) -> None:
    (rig.project / "AGENT.md").write_text("Use make.")
    assert (await rig.read()).memory == "What this project wants you to know (.agent/AGENT.md):\n\nUse make."


async def test_a_blank_one_says_nothing(rig: Rig) -> None:
    (rig.person / "AGENT.md").write_text(" \n\t\n")
    assert (await rig.read()).memory is None


async def test_each_is_cut_at_its_limit_between_characters(tmp_path: Path) -> None:
    rig = Rig(tmp_path, WorkspaceSettings(memory_bytes=5))
    (rig.person / "AGENT.md").write_text("abcd€efgh", encoding="utf-8")
    (rig.project / "AGENT.md").write_text("short")
    memory = (await rig.read()).memory or ""
    assert memory.endswith("\n\nshort")
    assert "\n\nabcd\n[cut here]\n\n" in memory


async def test_a_huge_one_is_not_read_whole(rig: Rig) -> None:
    with (rig.project / "AGENT.md").open("wb") as file:
        file.truncate(1 << 40)  # a hole: nothing of it is on disk
    memory = (await rig.read()).memory or ""
    assert len(memory) < 40_000


async def test_what_is_no_text_is_shown_as_far_as_it_can_be(rig: Rig) -> None:
    (rig.project / "AGENT.md").write_bytes(b"\xef\xbb\xbfcaf\xe9")
    assert (
        await rig.read()
    ).memory == "What this project wants you to know (.agent/AGENT.md):\n\ncaf\N{REPLACEMENT CHARACTER}"


async def test_an_edit_is_seen_at_once(rig: Rig) -> None:
    for text in ("one", "two", "six"):
        (rig.project / "AGENT.md").write_text(text)
        assert ((await rig.read()).memory or "").endswith(text)
