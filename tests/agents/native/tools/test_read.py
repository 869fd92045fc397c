"""``read``: which lines, how they look, and what is no text."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dragoman.agents.native.settings import NativeSettings, ToolLimits
from dragoman.agents.native.tools.read import Read
from dragoman.agents.native.tools.tool import ToolFailed

from .context import FakeTurn, run


@pytest.mark.parametrize(
    ("content", "given_", "output"),
    [
        (b"one\ntwo\n", {}, "1\tone\n2\ttwo"),
        (b"one\ntwo", {}, "1\tone\n2\ttwo"),
        (b"one\n\n", {}, "1\tone\n2\t"),
        (b"\n", {}, "1\t"),
        (b"one\r\ntwo\r\n", {}, "1\tone\n2\ttwo"),
        (b"\xef\xbb\xbfone\n", {}, "1\tone"),
        (b"a\x0bb\x0cc\xe2\x80\xa8d\n", {}, "1\ta\x0bb\x0cc\u2028d"),
        (b"1\n2\n3\n4\n", {"offset": 2, "limit": 2}, "2\t2\n3\t3"),
        (b"1\n2\n", {"offset": 2, "limit": 20_000}, "2\t2"),
        (b"x" * 2001, {}, "1\t" + "x" * 2000 + "..."),
        (b"x" * 2000, {}, "1\t" + "x" * 2000),
        (b"", {}, ""),
        (b"1\n", {"offset": 9}, ""),
        ("schön\n".encode(), {}, "1\tschön"),
    ],
)
async def test_lines_are_numbered(root: Path, turn: FakeTurn, content: bytes, given_: dict, output: str) -> None:
    (root / "f").write_bytes(content)
    assert (await run(Read(), turn, file_path="f", **given_)).output == output


async def test_two_thousand_lines_unless_told_otherwise_and_the_model_hears_of_the_rest(
    root: Path, turn: FakeTurn
) -> None:
    (root / "f").write_text("x\n" * 2005)
    result = await run(Read(), turn, file_path="f")
    assert result.output.count("\n") == 1999
    assert result.text == result.output + "\n\n(5 more lines; go on with offset 2001.)"
    assert (await run(Read(), turn, file_path="f", offset=2001)).text is None


async def test_wide_lines_end_before_their_number_does(root: Path, turn: FakeTurn) -> None:
    (root / "f").write_text(("x" * 1999 + "\n") * 2000)
    result = await run(Read(), turn, file_path="f")
    assert 190_000 < len(result.output) <= 200_000
    shown = result.output.count("\n") + 1
    assert result.text.endswith(f"({2000 - shown} more lines; go on with offset {shown + 1}.)")


@pytest.mark.parametrize(
    ("content", "given_", "text"),
    [
        (b"", {}, "(The file is empty.)"),
        (b"1\n2\n", {"offset": 9}, "(There is no line 9: the file has 2.)"),
    ],
)
async def test_the_model_hears_why_there_is_nothing(
    root: Path, turn: FakeTurn, content: bytes, given_: dict, text: str
) -> None:
    (root / "f").write_bytes(content)
    assert (await run(Read(), turn, file_path="f", **given_)).text == text


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("absent", "read: no such file or directory: absent"),
        ("folder", "read: it is a folder, not a file: folder"),
        ("text/under", "read: a file stands where the path needs a folder: text/under"),
        ("fifo", "read blocked: not a regular file: fifo"),
        ("link", "read blocked: canonical target resolves outside allowed directories: link"),
        (
            "../outside/secret",
            "read blocked: path is outside workingDirectory/outputDirectory/project root: ../outside/secret",
        ),
        ("/etc/passwd", "read blocked: path is outside workingDirectory/outputDirectory/project root: /etc/passwd"),
        ("", "read: invalid path: it is empty"),
        ("a\0b", "read: invalid path: it holds a NUL"),
        ("nul", "read: nul is a binary file, not text"),
        ("latin", "read: latin is not UTF-8 text: byte 3 is no part of a character"),
        ("large", "read: large has 101 bytes, and 100 is the most; grep finds a part of it"),
        ("x" * 300, f"read: File name too long: {'x' * 300}"),
    ],
)
async def test_what_cannot_be_read_is_refused_in_words(root: Path, path: str, said: str) -> None:
    turn = FakeTurn(root, settings=NativeSettings(tools=ToolLimits(read_bytes=100)))
    (root / "folder").mkdir()
    (root / "text").write_text("x")
    (root / "nul").write_bytes(b"a\0b")
    (root / "latin").write_bytes(b"sch\xf6n")
    (root / "large").write_text("x" * 101)
    (root / "link").symlink_to("../outside/secret")
    os.mkfifo(root / "fifo")
    with pytest.raises(ToolFailed) as failed:
        await run(Read(), turn, file_path=path)
    assert str(failed.value) == said


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
async def test_a_file_without_leave_is_refused(root: Path, turn: FakeTurn) -> None:
    (root / "f").write_text("x")
    (root / "f").chmod(0)
    with pytest.raises(ToolFailed, match="permission denied"):
        await run(Read(), turn, file_path="f")


async def test_links_within_and_odd_names_are_read(root: Path, turn: FakeTurn) -> None:
    for name in ("-n", "a b", "new\nline", "ü", "*", "$(x)"):
        (root / name).write_text(name)
        (root / "link").unlink(missing_ok=True)
        (root / "link").symlink_to(name)
        assert (await run(Read(), turn, file_path=name)).output.startswith("1\t")
        assert (await run(Read(), turn, file_path="link")).output.startswith("1\t")


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(st.text(st.characters(exclude_characters="\n\r\0\ufeff", exclude_categories=["Cs"]))), st.booleans())
async def test_every_line_is_shown_once(root: Path, turn: FakeTurn, lines: list[str], ended: bool) -> None:
    if lines and not lines[-1]:
        ended = True
    (root / "f").write_bytes(("\n".join(lines) + "\n" * (ended and bool(lines))).encode())
    output = (await run(Read(), turn, file_path="f", limit=20_000)).output
    assert output == "\n".join(f"{number}\t{line}" for number, line in enumerate(lines, 1))
