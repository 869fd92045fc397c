"""``edit``: literally, once, and nothing else of the file."""

import asyncio
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from dragoman.agents.native.settings import NativeSettings, ToolLimits
from dragoman.agents.native.tools.edit import Edit
from dragoman.agents.native.tools.replacing import NotOnce, replaced
from dragoman.agents.native.tools.tool import ToolDenied, ToolFailed

from .context import FakeTurn, run


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        (b"one\ntwo\n", "two", "three", b"one\nthree\n"),
        (b"a", "a", "$&", b"$&"),
        (b"a", "a", "$1 $$ \\1 \\g<0> $`", b"$1 $$ \\1 \\g<0> $`"),
        (b"a.c abc", "a.c", "x", b"x abc"),
        (b"a", "a", "", b""),
        (b"a\nb\nc", "a\nb", "x\ny\nz", b"x\ny\nz\nc"),
        # line ends are kept, whichever the model writes
        (b"a\r\nb\r\nc\r\n", "a\nb", "x\ny", b"x\r\ny\r\nc\r\n"),
        (b"a\r\nb\r\nc\r\n", "a\r\nb", "x\r\ny", b"x\r\ny\r\nc\r\n"),
        (b"a\r\nb\r\n", "a", "x\ny", b"x\r\ny\r\nb\r\n"),
        (b"a\r\nb\nc\nd\n", "c", "x\ny", b"a\r\nb\nx\ny\nd\n"),
        (b"a\r\nb\nc\nd\n", "a\n", "x\ny\n", b"x\r\ny\r\nb\nc\nd\n"),
        (b"a\nb\n", "a", "x\r\ny", b"x\r\ny\nb\n"),
        # a byte order mark stays where it is
        (b"\xef\xbb\xbfa\n", "a", "b", b"\xef\xbb\xbfb\n"),
        ("schön ü".encode(), "ö", "\U0001f600", "sch\U0001f600n ü".encode()),
    ],
)
async def test_the_text_is_replaced_and_nothing_else(
    root: Path, turn: FakeTurn, before: bytes, old: str, new: str, after: bytes
) -> None:
    (root / "f").write_bytes(before)
    assert (await run(Edit(), turn, file_path="f", old_string=old, new_string=new)).output == "Edit applied."
    assert (root / "f").read_bytes() == after


async def test_all_are_replaced_where_asked(root: Path, turn: FakeTurn) -> None:
    (root / "f").write_bytes(b"a\r\na\na")
    await run(Edit(), turn, file_path="f", old_string="a", new_string="aa", replace_all=True)
    assert (root / "f").read_bytes() == b"aa\r\naa\naa"


@pytest.mark.parametrize(
    ("old", "new", "every", "said"),
    [
        ("four", "x", False, "oldString not found in f"),
        ("four", "x", True, "oldString not found in f"),
        ("one", "x", False, "oldString found 2 times in f: give more of what surrounds it, or set replaceAll"),
        ("aa", "x", False, "oldString found 2 times in f: give more of what surrounds it, or set replaceAll"),
        ("", "x", False, "edit: oldString is empty; to create a file use write"),
        ("", "x", True, "edit: oldString is empty; to create a file use write"),
        ("two", "two", False, "edit: oldString and newString are the same"),
        ("two", "\ud800", False, "edit: newString is not text: it holds half a character"),
        ("two", "x" * 100, False, "edit: the result would have more than 100 bytes"),
        ("two", "ü" * 60, False, "edit: the result would have 132 bytes, and 100 is the most"),
    ],
)
async def test_an_edit_that_cannot_be_is_refused_before_anyone_is_asked(
    root: Path, old: str, new: str, every: bool, said: str
) -> None:
    turn = FakeTurn(root, settings=NativeSettings(tools=ToolLimits(read_bytes=100)))
    (root / "f").write_text("one two one aaa")
    with pytest.raises(ToolFailed) as failed:
        await run(Edit(), turn, file_path="f", old_string=old, new_string=new, replace_all=every)
    assert str(failed.value) == said
    assert (root / "f").read_text() == "one two one aaa"
    assert turn.edits == []


async def test_a_result_that_would_fill_the_memory_is_refused(root: Path, turn: FakeTurn) -> None:
    (root / "f").write_text("a" * 1_000_000)
    with pytest.raises(ToolFailed, match="more than"):
        await run(Edit(), turn, file_path="f", old_string="a", new_string="b" * 2_000_000, replace_all=True)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("absent", "edit: no such file or directory: absent"),
        ("binary", "edit: binary is a binary file, not text"),
        ("latin", "edit: latin is not UTF-8 text"),
        ("link", "edit blocked: canonical target resolves outside allowed directories: link"),
        ("..", "edit blocked: path is outside"),
    ],
)
async def test_only_text_within_the_roots_is_edited(root: Path, turn: FakeTurn, path: str, said: str) -> None:
    (root / "binary").write_bytes(b"the secret\0")
    (root / "latin").write_bytes(b"the secret\xf6")
    (root / "link").symlink_to("../outside/secret")
    with pytest.raises(ToolFailed) as failed:
        await run(Edit(), turn, file_path=path, old_string="the secret", new_string="x")
    assert str(failed.value).startswith(said)
    assert (root.parent / "outside" / "secret").read_text() == "the secret\n"


async def test_a_denied_edit_changes_nothing(root: Path) -> None:
    (root / "f").write_text("a")
    turn = FakeTurn(root, denied={f"{root}/f": "no"})
    with pytest.raises(ToolDenied):
        await run(Edit(), turn, file_path="f", old_string="a", new_string="b")
    assert (root / "f").read_text() == "a"


async def test_what_changed_while_the_person_thought_is_kept(root: Path) -> None:
    (root / "f").write_text("a b")
    turn = FakeTurn(root, meanwhile=lambda _: (root / "f").write_text("a b c") and None)
    await run(Edit(), turn, file_path="f", old_string="a", new_string="x")
    assert (root / "f").read_text() == "x b c"


async def test_an_edit_whose_place_has_gone_meanwhile_fails(root: Path) -> None:
    (root / "f").write_text("a b")
    turn = FakeTurn(root, meanwhile=lambda _: (root / "f").write_text("b") and None)
    with pytest.raises(ToolFailed, match="oldString not found in f"):
        await run(Edit(), turn, file_path="f", old_string="a", new_string="x")
    assert (root / "f").read_text() == "b"


async def test_edits_of_one_file_at_once_are_all_in_it(root: Path, turn: FakeTurn) -> None:
    names = [f"<{number}>" for number in range(40)]
    (root / "f").write_text(" ".join(names))
    (root / "link").symlink_to("f")
    await asyncio.gather(
        *(
            run(Edit(), turn, file_path=("f", "link")[number % 2], old_string=name, new_string=f"done{number}")
            for number, name in enumerate(names)
        )
    )
    assert (root / "f").read_text() == " ".join(f"done{number}" for number in range(40))


TEXT = st.text(st.sampled_from("ab$\\&1\n\r."), max_size=30)
PIECE = st.text(st.sampled_from("ab$\\&1\n\r."), min_size=1, max_size=4)


@settings(deadline=None)
@given(TEXT, PIECE, TEXT, TEXT)
def test_one_occurrence_is_replaced_exactly_and_literally(before: str, old: str, new: str, after: str) -> None:
    text = before + old + after
    assume("\r\n" not in text)
    assume(text.find(old, text.find(old) + 1) < 0)
    assert replaced(text, old, new, every=False, most=1000) == before + new + after


@settings(deadline=None)
@given(TEXT, PIECE, TEXT)
def test_text_without_the_other_line_ends_is_replaced_as_python_does(text: str, old: str, new: str) -> None:
    assume("\r\n" not in text)
    if old in text:
        assert replaced(text, old, new, every=True, most=10_000) == text.replace(old, new)
        return
    with pytest.raises(NotOnce) as refused:
        replaced(text, old, new, every=True, most=10_000)
    assert refused.value.count == 0


@settings(deadline=None)
@given(st.lists(st.text(st.sampled_from("abc"), max_size=3), min_size=2, max_size=8), st.data())
def test_line_ends_that_are_not_replaced_stay_as_they_are(lines: list[str], data: st.DataObject) -> None:
    ends = data.draw(st.lists(st.sampled_from(["\n", "\r\n"]), min_size=len(lines), max_size=len(lines)))
    at = data.draw(st.integers(0, len(lines) - 1))
    marked = [*lines[:at], "X" + lines[at], *lines[at + 1 :]]
    text = "".join(line + end for line, end in zip(marked, ends, strict=True))
    expected = "".join(line + end for line, end in zip(lines, ends, strict=True))
    assert replaced(text, "X", "", every=False, most=1000) == expected


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(TEXT, PIECE, TEXT)
async def test_a_file_holds_the_old_or_the_new_whole(root: Path, turn: FakeTurn, text: str, old: str, new: str) -> None:
    (root / "f").write_bytes(text.encode())
    try:
        await run(Edit(), turn, file_path="f", old_string=old, new_string=new)
    except ToolFailed:
        assert (root / "f").read_bytes() == text.encode()
    else:
        assert (root / "f").read_bytes() == replaced(text, old, new, every=False, most=1000).encode()
