"""What a program tells its terminal beside drawing."""

from __future__ import annotations

import pytest

from dragoman.agents.terminal.findings import (
    Clipboard,
    Directory,
    Finding,
    Mark,
    Notification,
    ProgramStatus,
    Reply,
    Reset,
    Title,
)

from .fed_screen import FedScreen


@pytest.fixture
def tape() -> FedScreen:
    return FedScreen()


def test_the_title_is_told_when_it_changes(tape: FedScreen) -> None:
    assert tape.feed(b"ab\x1b]0;one\x07\x1b]0;one\x07\x1b]1;icon\x07", "\x1b]2;zwei 世\x1b\\".encode()) == [
        Title(2, "one"),
        Title(27, "zwei 世"),
    ]
    assert tape.screen.snapshot().title == "zwei 世"


def test_titles_are_bounded_and_plain(tape: FedScreen) -> None:
    tape.feed(b"\x1b]2;a\x00b\nc\x7fd" + b"x" * 5000 + b"\x07")
    title = tape.screen.snapshot().title
    assert title is not None
    assert title.startswith("abcdx")
    assert len(title) == 1024


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        ("7;file://host/a/b", Directory(1, "file://host/a/b")),
        ("9;done: 3 files", Notification(1, "message", "done: 3 files")),
        ("9;4;1;50", Notification(1, "progress", "1;50")),
        ("777;notify;Title;Body; more", Notification(1, "message", "Body; more", "Title")),
        ("99;;Hello", Notification(1, "message", "", "Hello")),
        ("99;i=1:p=body;Hello", Notification(1, "message", "Hello")),
        ("99;e=1:p=body;SGVsbG8=", Notification(1, "message", "Hello")),
        ("52;c;SGVsbG8=", Clipboard(1, "c", query=False)),
        ("52;p;?", Clipboard(1, "p", query=True)),
        ("133;A;k=i", Mark(1, "prompt")),
        ("133;B", Mark(1, "input")),
        ("133;C", Mark(1, "output")),
        ("133;D;130", Mark(1, "finished", 130)),
        ("133;D", Mark(1, "finished")),
        ("133;D;x", Mark(1, "finished")),
        ("7501;state=blocked:kind=permission", ProgramStatus(1, "state=blocked:kind=permission")),
    ],
)
def test_what_a_program_tells(tape: FedScreen, text: str, finding: Finding) -> None:
    assert tape.feed(b".", b"\x1b]" + text.encode() + b"\x07") == [finding]
    assert tape.first() == "."


@pytest.mark.parametrize(
    "text",
    [
        "8;;http://x",
        "9;9;/a/path",
        "9;",
        "777;other;x;y",
        "99;p=?;",
        "99;p=body:e=1;!!",
        "133;Z",
        "1337;File=x",
        "7;" + "x" * 5000,
        "7501;" + "x" * 5000,
        "7501;?x",
        "",
        ";",
        "abc",
    ],
)
def test_what_nobody_wants_to_know(tape: FedScreen, text: str) -> None:
    assert tape.feed(b"\x1b]" + text.encode() + b"\x07") == []


def test_they_come_in_stream_order(tape: FedScreen) -> None:
    findings = tape.feed(b"\x1b[c\x1b]2;t\x07\x1b[6n\x1bc\x1b]133;A\x07")
    assert [type(finding) for finding in findings] == [Reply, Title, Reply, Reset, Mark]
    offsets = [finding.offset for finding in findings]
    assert offsets == sorted(offsets)
