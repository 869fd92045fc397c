"""``memory``: hot and deep, kept within the project."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dragoman.agents.native.tools.memory import Memory
from dragoman.agents.native.tools.tool import ToolDenied, ToolFailed

from .context import FakeTurn, run


@pytest.mark.parametrize(
    ("key", "said", "file"),
    [
        (None, "Hot cache updated.", ".agent/AGENT.md"),
        ("hot", "Hot cache updated.", ".agent/AGENT.md"),
        ("AGENT.md", "Hot cache updated.", ".agent/AGENT.md"),
        ("people/sam", "Memory written: people/sam", ".agent/memory/people/sam.md"),
        ("glossary.md", "Memory written: glossary.md", ".agent/memory/glossary.md"),
        ("über uns", "Memory written: über uns", ".agent/memory/über uns.md"),
        ("v1.2", "Memory written: v1.2", ".agent/memory/v1.2.md"),
        ("-rf", "Memory written: -rf", ".agent/memory/-rf.md"),
    ],
)
async def test_what_is_written_is_read(root: Path, turn: FakeTurn, key: str | None, said: str, file: str) -> None:
    result = await run(Memory(), turn, action="write", key=key, content="Sam likes tea")
    assert (result.output, result.detail) == (said, {"path": str(root / file)})
    assert (root / file).read_text() == "Sam likes tea"
    assert [path for path, _ in turn.edits] == [str(root / file)]
    read = await run(Memory(), turn, action="read", key=key)
    # Hot memory is the project's or else the person's.
    assert (read.output, read.detail) == ("Sam likes tea", result.detail if "/memory/" in file else {})


@pytest.mark.parametrize(
    "key",
    [
        *("../x", "..", "a/../../x", "/etc/passwd", "~/x", "a//b", "a/", "/", ".", ".hidden", "a/.git/x", "a\\..\\x"),
        *("../../outside/secret", "a\0b", "~"),
    ],
)
async def test_a_key_that_would_leave_the_folder_is_refused(root: Path, turn: FakeTurn, key: str) -> None:
    for action in ("read", "write"):
        if key.startswith("~"):
            result = await run(Memory(), turn, action=action, key=key, content="x")  # a name like any other
            assert key in result.output
            continue
        with pytest.raises(ToolFailed) as failed:
            await run(Memory(), turn, action=action, key=key, content="x")
        assert str(failed.value) == f"Memory key resolves outside memory directory: {key}"
    assert not (root.parent / "x.md").exists()


async def test_a_link_out_of_the_folder_is_refused(root: Path, turn: FakeTurn) -> None:
    (root / ".agent" / "memory").mkdir(parents=True)
    (root / ".agent" / "memory" / "out").symlink_to(root.parent / "outside")
    (root.parent / "outside" / "note.md").write_text("the secret")
    for action in ("read", "write"):
        with pytest.raises(ToolFailed, match="resolves outside allowed directories"):
            await run(Memory(), turn, action=action, key="out/note", content="x")
    assert (await run(Memory(), turn, action="search", query="secret")).output == 'No memory found for "secret".'


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"action": "read"}, "No hot cache found."),
        ({"action": "read", "key": "absent"}, 'Memory key "absent" not found.'),
        ({"action": "read", "key": "a/b"}, 'Memory key "a/b" not found.'),
        ({"action": "search", "query": "x"}, 'No memory found for "x".'),
    ],
)
async def test_what_is_not_there_is_said(root: Path, turn: FakeTurn, given: dict[str, str], said: str) -> None:
    assert (await run(Memory(), turn, **given)).output == said
    assert list(root.iterdir()) == []


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"action": "write", "key": "a"}, "content is required for write action"),
        ({"action": "search"}, "query is required for search action"),
    ],
)
async def test_what_is_missing_is_said(turn: FakeTurn, given: dict[str, str], said: str) -> None:
    with pytest.raises(ToolFailed) as failed:
        await run(Memory(), turn, **given)
    assert str(failed.value) == said


async def test_a_denied_note_is_not_written(root: Path) -> None:
    turn = FakeTurn(root, denied={f"{root}/.agent/memory/a.md": "no"})
    with pytest.raises(ToolDenied):
        await run(Memory(), turn, action="write", key="a", content="x")
    assert list(root.iterdir()) == []


async def test_a_search_looks_everywhere_in_any_case(root: Path, turn: FakeTurn) -> None:
    await run(Memory(), turn, action="write", content="# Us\nTEA at four\n")
    await run(Memory(), turn, action="write", key="people/sam", content="Sam\nlikes tea\n")
    await run(Memory(), turn, action="write", key="a", content="Tea (.*)")
    memory = root / ".agent" / "memory"
    (memory / "binary.md").write_bytes(b"tea\0")
    (memory / "not.txt").write_text("tea")
    (memory / "link.md").symlink_to(root.parent / "outside" / "secret")
    os.mkfifo(memory / "fifo.md")
    found = "[AGENT.md]\nTEA at four\n\na:1:Tea (.*)\npeople/sam:2:likes tea"
    assert (await run(Memory(), turn, action="search", query="tea")).output == found
    assert (await run(Memory(), turn, action="search", query="(.*)")).output == "a:1:Tea (.*)"


async def test_what_a_search_shows_is_bounded(turn: FakeTurn) -> None:
    await run(Memory(), turn, action="write", key="a", content="tea\n" * 20_000)
    output = (await run(Memory(), turn, action="search", query="tea")).output
    assert len(output) <= 30_000
    assert output.endswith("... (cut; ask for something rarer)")


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(st.sampled_from(["..", ".", "a", "~", "", "hot", ".md"]) | st.text(max_size=4)).map("/".join))
async def test_no_key_writes_anywhere_else(root: Path, turn: FakeTurn, key: str) -> None:
    before = len(turn.edits)
    try:
        await run(Memory(), turn, action="write", key=key, content="x")
    except ToolFailed:
        return
    (path, _) = turn.edits[before]
    assert path == f"{root}/.agent/AGENT.md" or path.startswith(f"{root}/.agent/memory/")
    assert path.endswith(".md")
    assert [each.name for each in root.iterdir()] == [".agent"]


# The person's


async def test_where_the_project_has_no_hot_memory_the_persons_is_read_and_never_written(
    root: Path, turn: FakeTurn, tmp_path: Path
) -> None:
    memory, home = Memory(tmp_path / "home"), tmp_path / "home" / ".agent"
    assert (await run(memory, turn, action="read")).output == "No hot cache found."
    home.mkdir(parents=True)
    (home / "AGENT.md").write_text("The person likes tea")
    assert (await run(memory, turn, action="read")).output == "The person likes tea"
    assert (await run(memory, turn, action="search", query="TEA")).output == "[AGENT.md]\nThe person likes tea"
    await run(memory, turn, action="write", content="The project likes coffee")
    assert (await run(memory, turn, action="read")).output == "The project likes coffee"
    assert (await run(memory, turn, action="search", query="tea")).output == 'No memory found for "tea".'
    assert (home / "AGENT.md").read_text() == "The person likes tea"
    assert (root / ".agent" / "AGENT.md").read_text() == "The project likes coffee"


async def test_nothing_else_of_the_persons_is_read(turn: FakeTurn, tmp_path: Path) -> None:
    memory, home = Memory(tmp_path / "home"), tmp_path / "home" / ".agent"
    (home / "memory").mkdir(parents=True)
    (home / "memory" / "sam.md").write_text("Sam likes tea")
    (home / "AGENT.md").symlink_to(tmp_path / "outside" / "secret")
    assert (await run(memory, turn, action="read", key="sam")).output == 'Memory key "sam" not found.'
    assert (await run(memory, turn, action="search", query="s")).output == 'No memory found for "s".'
    with pytest.raises(ToolFailed, match="memory blocked"):
        await run(memory, turn, action="read")
