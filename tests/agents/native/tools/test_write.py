"""``write``: what is written, and that nothing is before it is permitted."""

import asyncio
import os
from pathlib import Path

import pytest

from dragoman.agents.native.tools.tool import ToolDenied, ToolFailed
from dragoman.agents.native.tools.write import Write

from .context import FakeTurn, run


async def test_a_file_is_created_with_the_folders_above_it(root: Path, turn: FakeTurn) -> None:
    result = await run(Write(), turn, file_path="a/b/n.txt", content="one\ntwo\n")
    assert result.output == f"Wrote 8 chars to {root}/a/b/n.txt"
    assert (root / "a/b/n.txt").read_bytes() == b"one\ntwo\n"


async def test_a_file_is_replaced_and_keeps_its_mode(root: Path, turn: FakeTurn) -> None:
    (root / "f").write_text("old")
    (root / "f").chmod(0o750)
    await run(Write(), turn, file_path="f", content="")
    assert (root / "f").read_bytes() == b""
    assert (root / "f").stat().st_mode & 0o777 == 0o750


async def test_the_person_is_shown_where_it_really_goes_and_what(root: Path, turn: FakeTurn) -> None:
    (root / "real").write_text("")
    (root / "link").symlink_to("real")
    await run(Write(), turn, file_path="link", content="x\r\n")
    assert turn.edits == [(f"{root}/real", {"filePath": "link", "content": "x\r\n"})]
    assert (root / "link").is_symlink()
    assert (root / "real").read_bytes() == b"x\r\n"


async def test_nothing_is_touched_when_it_is_denied(root: Path) -> None:
    turn = FakeTurn(root, denied={f"{root}/a/f": "no"})
    with pytest.raises(ToolDenied):
        await run(Write(), turn, file_path="a/f", content="x")
    assert list(root.iterdir()) == []


@pytest.mark.parametrize(
    ("path", "said"),
    [
        (
            "/etc/nope.txt",
            "write blocked: path is outside workingDirectory/outputDirectory/project root: /etc/nope.txt",
        ),
        ("out/x", "write blocked: canonical target resolves outside allowed directories: out/x"),
        ("folder", "write: it is a folder, not a file: folder"),
        ("new/", "write: it is a folder, not a file: new/"),
        (".", "write: it is a folder, not a file: ."),
        ("text/x", "write: a file stands where the path needs a folder: text/x"),
        ("fifo", "write blocked: not a regular file: fifo"),
    ],
)
async def test_what_cannot_be_written_is_refused(root: Path, turn: FakeTurn, path: str, said: str) -> None:
    (root / "folder").mkdir()
    (root / "text").write_text("x")
    (root / "out").symlink_to("../outside")
    os.mkfifo(root / "fifo")
    with pytest.raises(ToolFailed) as failed:
        await run(Write(), turn, file_path=path, content="x")
    assert str(failed.value) == said
    assert list((root.parent / "outside").iterdir()) == [root.parent / "outside" / "secret"]


async def test_half_a_character_is_refused_before_anyone_is_asked(root: Path, turn: FakeTurn) -> None:
    with pytest.raises(ToolFailed, match="character 1 is half of one"):
        await run(Write(), turn, file_path="f", content="a\ud800")
    assert turn.edits == []


async def test_a_link_that_appears_while_the_person_thinks_is_not_followed(root: Path) -> None:
    (root / "other").write_text("other")

    def swap(_: str) -> None:
        (root / "f").symlink_to("other")

    with pytest.raises(ToolFailed, match="lead elsewhere"):
        await run(Write(), FakeTurn(root, meanwhile=swap), file_path="f", content="x")
    assert (root / "other").read_text() == "other"


async def test_nothing_is_written_when_cancelled_while_the_person_thinks(root: Path) -> None:
    asked = asyncio.Event()

    async def think(_: str) -> None:
        asked.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(run(Write(), FakeTurn(root, meanwhile=think), file_path="f", content="x"))
    await asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not (root / "f").exists()
