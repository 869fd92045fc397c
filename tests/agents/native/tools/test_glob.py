"""``glob``: what a pattern finds, in which order, and that it never leaves."""

import asyncio
import os
import time
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dragoman.agents.native.settings import NativeSettings, ToolLimits
from dragoman.agents.native.tools.glob import Glob
from dragoman.agents.native.tools.patterns import Pattern
from dragoman.agents.native.tools.tool import ToolFailed
from dragoman.agents.native.tools.walk import Patience, find

from .context import FakeTurn, run

FILES = (
    *("a.py", "b.txt", "sub/c.py", "sub/deep/d.py", "sub/deep/e.txt", ".hidden", ".dir/f.py", "sub/.g.py"),
    *("[x].py", "{a,b}.py", "back\\slash"),
)


@pytest.fixture
def tree(root: Path) -> Path:
    for age, name in enumerate(FILES):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
        os.utime(root / name, (1000 - age, 1000 - age))
    (root / "out").symlink_to("../outside")
    (root / "out_file").symlink_to("../outside/secret")
    (root / "in").symlink_to("sub")
    (root / "loop").symlink_to(".")
    os.mkfifo(root / "fifo")
    return root


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("*.py", ["a.py", "[x].py", "{a,b}.py"]),
        ("**/*.py", ["a.py", "sub/c.py", "sub/deep/d.py", "[x].py", "{a,b}.py"]),
        ("**", ["a.py", "b.txt", "sub/c.py", "sub/deep/d.py", "sub/deep/e.txt", "[x].py", "{a,b}.py", "back\\slash"]),
        ("sub/**", ["sub/c.py", "sub/deep/d.py", "sub/deep/e.txt"]),
        ("sub/**/**/d.py", ["sub/deep/d.py"]),
        ("**/deep/*", ["sub/deep/d.py", "sub/deep/e.txt"]),
        ("sub/*", ["sub/c.py"]),
        ("./sub/./*", ["sub/c.py"]),
        ("sub//*", ["sub/c.py"]),
        ("*/*/?.py", ["sub/deep/d.py"]),
        ("[ab].*", ["a.py", "b.txt"]),
        ("[!a].*", ["b.txt"]),
        ("[[]x].py", ["[x].py"]),
        ("A.PY", []),
        # hidden names only for a part that says so
        (".*", [".hidden"]),
        (".dir/*", [".dir/f.py"]),
        ("**/.g.py", ["sub/.g.py"]),
        ("?hidden", []),
        ("[.]hidden", []),
        # nothing expands
        ("{a,b}.py", ["{a,b}.py"]),
        ("{a,b}.*", ["{a,b}.py"]),
        ("{/etc/passwd,*}", []),
        ("{../outside/secret,*}", []),
        ("{a.py,../../*}", None),
        ("$HOME/*", []),
        ("~/*", []),
        # links, folders and pipes are no files
        ("out/*", []),
        ("out_file", []),
        ("in/*", []),
        ("loop/a.py", []),
        ("**/loop/**", []),
        ("fifo", []),
        ("sub", []),
        ("sub/", []),
        (".", []),
        ("./", []),
        ("/", None),
        # not what a name can be
        ("a.py/*", []),
        ("\0", []),
        ("[", []),
        ("x" * 5000, []),
        ("!*.py", []),
        ("!a.py", []),
    ],
)
async def test_what_a_pattern_finds(tree: Path, turn: FakeTurn, pattern: str, found: list[str] | None) -> None:
    if found is None:
        with pytest.raises(ToolFailed, match="glob blocked"):
            await run(Glob(), turn, pattern=pattern)
        return
    assert (await run(Glob(), turn, pattern=pattern)).output == ("\n".join(found) or "No files found.")


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("/etc/passwd", "relative to cwd"),
        ("!/etc/passwd", "relative to cwd"),
        ("//etc/*", "relative to cwd"),
        ("C:/x", "relative to cwd"),
        ("C:\\x", "relative to cwd"),
        ("\\etc", "relative to cwd"),
        ("..", "cannot escape"),
        ("../*", "cannot escape"),
        ("../outside/*", "cannot escape"),
        ("!../*", "cannot escape"),
        ("sub/../../*", "cannot escape"),
        ("sub/..", "cannot escape"),
        ("**/../*", "cannot escape"),
        ("..\\*", "cannot escape"),
    ],
)
async def test_a_pattern_that_would_leave_is_refused(tree: Path, turn: FakeTurn, pattern: str, said: str) -> None:
    with pytest.raises(ToolFailed, match=f"^glob blocked: pattern .*{said}"):
        await run(Glob(), turn, pattern=pattern)


async def test_the_model_hears_that_braces_are_not_expanded(tree: Path, turn: FakeTurn) -> None:
    result = await run(Glob(), turn, pattern="*.{py,txt}")
    assert result.output == "No files found."
    assert "Braces" in result.text


async def test_paths_start_at_the_folder_searched(tree: Path, turn: FakeTurn) -> None:
    assert (await run(Glob(), turn, pattern="*", cwd="sub/deep")).output == "d.py\ne.txt"
    assert (await run(Glob(), turn, pattern="*", cwd=f"{tree}/in")).output == "c.py"


@pytest.mark.parametrize(
    ("cwd", "said"),
    [
        ("..", "glob blocked: path is outside workingDirectory/outputDirectory/project root: .."),
        ("/", "glob blocked: path is outside workingDirectory/outputDirectory/project root: /"),
        ("out", "glob blocked: canonical target resolves outside allowed directories: out"),
        ("absent", "glob: no such file or directory: absent"),
        ("a.py", "glob: a file stands where the path needs a folder: a.py"),
    ],
)
async def test_only_a_folder_within_the_roots_is_searched(tree: Path, turn: FakeTurn, cwd: str, said: str) -> None:
    with pytest.raises(ToolFailed) as failed:
        await run(Glob(), turn, pattern="*", cwd=cwd)
    assert str(failed.value) == said


async def test_the_newest_thousand_are_shown(root: Path, turn: FakeTurn) -> None:
    for number in range(1010):
        (root / f"{number:04}").touch()
        os.utime(root / f"{number:04}", (number, number))
    lines = (await run(Glob(), turn, pattern="*")).output.split("\n")
    assert lines[:2] == ["1009", "1008"]
    assert lines[999:] == ["0010", "... truncated to the newest 1000 of 1010 matches"]


async def test_long_paths_are_bounded_too(root: Path, turn: FakeTurn) -> None:
    for number in range(200):
        (root / (f"{number:03}" + "x" * 200)).touch()
    output = (await run(Glob(), turn, pattern="*")).output
    assert len(output) < 30_100
    assert output.endswith("of 200 matches")


async def test_names_are_shown_on_one_line_each(root: Path, turn: FakeTurn) -> None:
    for age, name in enumerate((b"new\nline", b"\xff", "\u202fü".encode(), b"\x1b[2J")):
        path = os.fsencode(root) + b"/" + name
        Path(os.fsdecode(path)).touch()
        os.utime(path, (1000 - age, 1000 - age))
    assert (await run(Glob(), turn, pattern="*")).output == "new\\nline\n\ufffd\n\u202fü\n\\x1b[2J"


async def test_a_search_that_takes_too_long_ends(tree: Path) -> None:
    turn = FakeTurn(tree, settings=NativeSettings(tools=ToolLimits(search_seconds=0)))
    with pytest.raises(ToolFailed, match="stopped after 0 s"):
        await run(Glob(), turn, pattern="**")


async def test_folders_that_are_too_deep_are_left_out(root: Path, turn: FakeTurn, open_files: None) -> None:
    folder = os.open(root, os.O_RDONLY)
    for depth in range(250):
        os.mkdir("d", dir_fd=folder)
        below = os.open("d", os.O_RDONLY, dir_fd=folder)
        if depth in (50, 249):
            os.close(os.open("found", os.O_CREAT | os.O_WRONLY, dir_fd=below))
        os.close(folder)
        folder = below
    os.close(folder)
    assert (await run(Glob(), turn, pattern="**/found")).output == "d/" * 51 + "found"


async def test_a_cancelled_search_stops(tree: Path, turn: FakeTurn, open_files: None) -> None:
    for folder in range(20):
        (tree / f"many{folder}").mkdir()
        for file in range(50):
            (tree / f"many{folder}" / str(file)).touch()
    task = asyncio.create_task(run(Glob(), turn, pattern="**"))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


PARTS = st.sampled_from(
    ["*", "**", "..", ".", "", "?", "*.py", "[a-z]*", "out", "in", "sub", "loop", "{..,*}", "!", "~"]
)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(PARTS | st.text(max_size=5), min_size=1, max_size=6).map("/".join))
async def test_no_pattern_finds_anything_outside(tree: Path, turn: FakeTurn, pattern: str) -> None:
    try:
        output = (await run(Glob(), turn, pattern=pattern)).output
    except ToolFailed:
        return
    if output != "No files found.":
        assert set(output.split("\n")) <= set(FILES)


NAMES = st.text(st.sampled_from("ab."), min_size=1, max_size=3).filter(lambda name: name.strip("."))


@settings(deadline=None)
@given(
    st.lists(NAMES, min_size=1, max_size=4),
    st.lists(st.just("**") | st.text(st.sampled_from("ab?*"), min_size=1, max_size=3), min_size=1, max_size=4),
)
def test_a_path_without_hidden_names_is_matched_as_the_standard_library_does(
    names: list[str], parts: list[str]
) -> None:
    names = [name.strip(".") for name in names]
    parts = [part if part == "**" else part.replace("**", "*") for part in parts]
    pattern = Pattern("/".join(parts))
    places = pattern.start
    for name in names:
        places = pattern.step(places, name)
    assert pattern.reached(places) == matched(tuple(names), tuple(parts))


def matched(names: tuple[str, ...], parts: tuple[str, ...]) -> bool:
    """The slow and obvious way: try every length for each ``**``."""
    if not parts:
        return not names
    if parts[0] == "**":
        return any(matched(names[count:], parts[1:]) for count in range(len(names) + 1))
    return bool(names) and PurePosixPath(names[0]).match(parts[0]) and matched(names[1:], parts[1:])


def test_a_folder_that_becomes_a_link_on_the_way_is_not_entered(tree: Path) -> None:
    folder = os.open(tree, os.O_RDONLY)
    try:
        found = find(folder, Pattern("**/*"), Patience(60))
        first = next(found)
        (tree / "sub").rename(tree / "elsewhere")
        (tree / "sub").symlink_to("../outside")
        assert {first.path, *(each.path for each in found)} <= set(FILES)
    finally:
        os.close(folder)


@pytest.mark.parametrize("pattern", ["**/" * 1365, "**/a/" * 819, "a/" * 2048, "*" * 4096, "[" * 4096, "**/*/" * 800])
async def test_no_pattern_takes_long_to_read_or_to_match(root: Path, turn: FakeTurn, pattern: str) -> None:
    for number in range(200):
        (root / f"{'a' * 100}{number}").touch()
    (root / "/".join("a" * 50)).mkdir(parents=True)
    began = time.process_time()
    await run(Glob(), turn, pattern=pattern)
    assert time.process_time() - began < 2


async def test_a_pattern_has_a_longest_length(root: Path, turn: FakeTurn) -> None:
    with pytest.raises(ToolFailed, match="longer than 8192"):
        await run(Glob(), turn, pattern="a" * 8193)
