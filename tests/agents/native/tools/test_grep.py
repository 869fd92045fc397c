"""``grep``: what ripgrep finds, as it is shown, and that nothing is left running or shown from outside."""

import asyncio
import contextlib
import os
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest
import uvloop

from dragoman.agents.native.settings import NativeSettings, ToolLimits
from dragoman.agents.native.tools.grep import Grep
from dragoman.agents.native.tools.matches import Matches
from dragoman.agents.native.tools.ripgrep import find_ripgrep, running
from dragoman.agents.native.tools.tool import ToolFailed

from .context import FakeTurn, run


@pytest.fixture
def tree(root: Path) -> Path:
    (root / "sub").mkdir()
    (root / "a.txt").write_text("one foo\ntwo\nthree\nfour\nfive Foo\n")
    (root / "sub" / "b.py").write_text("foo = 1\r\n")
    (root / "sub" / ".hidden").write_text("foo\n")
    (root / "binary").write_bytes(b"foo\0\n")
    (root / "out").symlink_to("../outside")
    (root / "out_file").symlink_to("../outside/secret")
    (root / "in").symlink_to("sub")
    os.mkfifo(root / "fifo")
    return root


@pytest.mark.parametrize(
    ("given", "lines"),
    [
        ({"pattern": "foo"}, ["{root}/a.txt:1:one foo", "{root}/sub/b.py:1:foo = 1"]),
        ({"pattern": "FOO"}, []),
        (
            {"pattern": "FOO", "case_sensitive": False},
            ["{root}/a.txt:1:one foo", "{root}/a.txt:5:five Foo", "{root}/sub/b.py:1:foo = 1"],
        ),
        ({"pattern": "^f[io]", "file_glob": "*.txt"}, ["{root}/a.txt:4:four", "{root}/a.txt:5:five Foo"]),
        ({"pattern": "foo", "file_glob": "*.py"}, ["{root}/sub/b.py:1:foo = 1"]),
        ({"pattern": "foo", "file_glob": "!*.py"}, ["{root}/a.txt:1:one foo"]),
        ({"pattern": "foo", "file_glob": "--files"}, []),
        ({"pattern": "foo", "file_glob": "../**"}, []),
        ({"pattern": "foo", "path": "sub"}, ["{root}/sub/b.py:1:foo = 1"]),
        ({"pattern": "foo", "path": "in"}, ["{root}/sub/b.py:1:foo = 1"]),
        ({"pattern": "foo", "path": "a.txt"}, ["1:one foo"]),
        ({"pattern": "two", "path": "a.txt", "context_lines": 1}, ["1-one foo", "2:two", "3-three"]),
        (
            {"pattern": "(?i)foo", "context_lines": 1},
            [
                *("{root}/a.txt:1:one foo", "{root}/a.txt-2-two", "--"),
                *("{root}/a.txt-4-four", "{root}/a.txt:5:five Foo", "--", "{root}/sub/b.py:1:foo = 1"),
            ],
        ),
        # a pattern is never an option, nor an option's value
        ({"pattern": "--files"}, []),
        ({"pattern": "-e"}, []),
        ({"pattern": "--pre=touch pwned"}, []),
        ({"pattern": "secret"}, []),
    ],
)
async def test_what_is_found(tree: Path, turn: FakeTurn, given: dict[str, Any], lines: list[str]) -> None:
    expected = "\n".join(lines).replace("{root}", str(tree)) or "No matches found."
    assert (await run(Grep(), turn, **given)).output == expected
    assert not (tree / "pwned").exists()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"pattern": "fo("}, "rg failed: rg: regex parse error"),
        ({"pattern": "a\nb"}, "rg failed: rg: the literal"),
        ({"pattern": "foo", "file_glob": "["}, "rg failed: rg: error parsing glob"),
        ({"pattern": "a\0b"}, "grep: rg cannot be started"),
        ({"pattern": "a" * 300_000}, "grep: rg cannot be started"),
        ({"pattern": "foo", "path": "absent"}, "grep: no such file or directory: absent"),
        ({"pattern": "foo", "path": "fifo"}, "grep blocked: not a regular file: fifo"),
        ({"pattern": "foo", "path": "out"}, "grep blocked: canonical target resolves outside allowed directories: out"),
        ({"pattern": "foo", "path": "out_file"}, "grep blocked: canonical target resolves outside"),
        ({"pattern": "foo", "path": "/etc"}, "grep blocked: path is outside"),
        ({"pattern": "foo", "path": "--help"}, "grep: no such file or directory: --help"),
    ],
)
async def test_what_cannot_be_searched_is_said(
    tree: Path, turn: FakeTurn, given: dict[str, Any], said: str, open_files: None
) -> None:
    with pytest.raises(ToolFailed) as failed:
        await run(Grep(), turn, **given)
    assert str(failed.value).startswith(said)


async def test_odd_names_and_bytes_are_shown_on_one_line(root: Path, turn: FakeTurn) -> None:
    (root / "new\nline").write_text("foo\n")
    Path(os.fsdecode(os.fsencode(root) + b"/\xff")).write_bytes(b"foo \xfe\n")
    (root / "-x:1:").write_text("foo \x0b bar\r\n")
    assert (await run(Grep(), turn, pattern="foo")).output.split("\n") == [
        f"{root}/-x:1::1:foo \x0b bar",
        f"{root}/new\\nline:1:foo",
        f"{root}/\ufffd:1:foo \ufffd",
    ]


async def test_what_is_shown_is_bounded(root: Path, turn: FakeTurn, open_files: None) -> None:
    (root / "f").write_text("foo bar\n" * 1_000_000)
    output = (await run(Grep(), turn, pattern="foo")).output
    assert 29_000 < len(output) <= 30_000
    assert output.endswith("\n... (cut; narrow the search with path, fileGlob or a rarer pattern)")


async def test_a_long_line_is_cut_and_a_huge_one_left_out(root: Path, turn: FakeTurn) -> None:
    (root / "a").write_text("foo" + "x" * 3000 + "\n")
    (root / "b").write_text("foo" + "x" * 9_000_000 + "\nfoo\n")
    assert (await run(Grep(), turn, pattern="foo")).output == (
        f"{root}/a:1:foo{'x' * 1997}...\n{root}/b:2:foo\n(1 matches in very long lines are not shown.)"
    )


async def test_a_configuration_of_the_person_changes_nothing(
    root: Path, turn: FakeTurn, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "config").write_text("--hidden\n")
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(tmp_path / "config"))
    (root / ".hidden").write_text("foo\n")
    assert (await run(Grep(), turn, pattern="foo")).output == "No matches found."


async def test_a_file_that_turns_out_to_lead_outside_is_not_shown(root: Path, turn: FakeTurn) -> None:
    (root / "swapped").symlink_to("../outside")
    matches = Matches(turn.guard, root, grouped=False)
    matches.feed(
        b'{"type":"begin","data":{"path":{"text":"./swapped/secret"}}}\n'
        b'{"type":"match","data":{"path":{"text":"./swapped/secret"},"lines":{"text":"the secret"},"line_number":1}}\n'
    )
    assert matches.text == ""


async def test_a_search_that_takes_too_long_is_ended(tree: Path, open_files: None) -> None:
    turn = FakeTurn(tree, settings=NativeSettings(tools=ToolLimits(search_seconds=0)))
    with pytest.raises(ToolFailed, match="nothing found in 0 s"):
        await run(Grep(), turn, pattern="foo")
    assert searches(tree) == []


async def test_a_search_is_cancelled_at_any_time(tree: Path, open_files: None) -> None:
    for steps in range(40):
        task = asyncio.create_task(run(Grep(), FakeTurn(tree), pattern="foo"))
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        assert searches(tree) == []


async def cancelled(root: Path) -> None:
    started = asyncio.Event()

    async def search() -> None:
        async with running(["sh", "-c", "yes & sleep 1000"], str(root), None):
            started.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(search())
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    while searches(root):
        await asyncio.sleep(0)


def uv(main: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main)


@pytest.mark.parametrize("loop", [asyncio.run, uv])
def test_what_was_started_is_ended_to_the_last_process_on_any_loop(root: Path, loop: Any) -> None:
    loop(cancelled(root))


def test_it_works_on_the_loop_of_the_server(tree: Path) -> None:
    async def search() -> None:
        assert "one foo" in (await run(Grep(), FakeTurn(tree), pattern="foo")).output
        assert (await run(Grep(), FakeTurn(tree), pattern="foo", path="a.txt")).output == "1:one foo"

    uv(search())


def test_ripgrep_comes_with_the_package() -> None:
    assert os.access(find_ripgrep(), os.X_OK)


def searches(root: Path) -> list[int]:
    """Processes that run in this folder."""
    found = []
    for process in Path("/proc").iterdir():
        try:
            if process.name.isdigit() and (process / "cwd").readlink() == root and process.name != str(os.getpid()):
                found.append(int(process.name))
        except OSError:
            continue
    return found


@pytest.mark.parametrize("coding", ["utf-8", "utf-8-sig", "utf-16"])
async def test_lines_are_shown_in_whatever_encoding_a_mark_names(root: Path, turn: FakeTurn, coding: str) -> None:
    (root / "sub").mkdir(exist_ok=True)
    (root / "sub/coded").write_bytes("tee für zwei\nnoch ein tee\n".encode(coding))
    output = (await run(Grep(), turn, pattern="tee", path="sub", context_lines=1)).output
    assert output == f"{root}/sub/coded:1:tee für zwei\n{root}/sub/coded:2:noch ein tee"


def test_the_environment_may_name_another_ripgrep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = find_ripgrep()
    named = tmp_path / "rg"
    monkeypatch.setenv("COWORK_RIPGREP_PATH", str(named))
    assert find_ripgrep() == ours, "there is none"
    named.write_text("")
    assert find_ripgrep() == ours, "it is no program"
    named.chmod(0o700)
    assert find_ripgrep() == str(named)
