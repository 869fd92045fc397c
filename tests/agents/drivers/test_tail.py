"""Session logs are read by whole lines, however they are cut, and from where we were."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.agents.terminal.drivers.tail import LogTail


def records(tail: LogTail) -> list[object]:
    """All that is there, in as many steps as it takes."""
    seen: list[object] = list(tail.records())
    while tail.behind:
        seen += tail.records()
    return seen


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def test_a_log_that_is_not_there_yet_is_waited_for(tmp_path: Path) -> None:
    tail = LogTail(tmp_path / "log.jsonl")
    assert records(tail) == []
    append(tail.path, b'{"a":1}\n')
    assert records(tail) == [{"a": 1}]
    assert records(tail) == []


def test_a_line_without_its_end_waits_for_it(tmp_path: Path) -> None:
    """A writer is seen in the middle of its write."""
    tail = LogTail(tmp_path / "log.jsonl")
    append(tail.path, b'{"a":')
    assert records(tail) == []
    append(tail.path, b'1}\n{"b"')
    assert records(tail) == [{"a": 1}]
    append(tail.path, b":2}\n")
    assert records(tail) == [{"b": 2}]


@given(
    st.lists(st.dictionaries(st.text(max_size=5), st.text(max_size=20), max_size=3), max_size=8),
    st.lists(st.integers(1, 40), max_size=30),
)
def test_every_cut_gives_the_same_records(
    tmp_path_factory: pytest.TempPathFactory, lines: list[dict[str, str]], cuts: list[int]
) -> None:
    path = tmp_path_factory.mktemp("log") / "log.jsonl"
    data = b"".join(json.dumps(line, ensure_ascii=False).encode() + b"\n" for line in lines)
    tail, seen = LogTail(path), []
    for size in [*cuts, len(data)]:
        append(path, data[:size])
        data = data[size:]
        seen += records(tail)
    assert seen == lines


def test_a_log_that_was_cut_short_is_read_anew(tmp_path: Path) -> None:
    tail = LogTail(tmp_path / "log.jsonl")
    append(tail.path, b'{"a":1}\n{"b":2}\n')
    records(tail)
    tail.path.write_bytes(b'{"c":3}\n')
    assert records(tail) == [{"c": 3}]


def test_what_a_resumed_log_holds_already_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    append(path, b'{"a":1}\n')
    tail = LogTail(path, from_end=True)
    append(path, b'{"b":2}\n')
    assert records(tail) == [{"b": 2}]


@pytest.mark.parametrize("line", [b"", b"{", b"[1]", b"null", b"\xff\xfe", b'{"a":' * 100_000])
def test_a_damaged_line_costs_nothing_but_itself(tmp_path: Path, line: bytes) -> None:
    tail = LogTail(tmp_path / "log.jsonl")
    append(tail.path, line + b'\n{"a":1}\n')
    assert records(tail) == [{"a": 1}]


@pytest.mark.parametrize("kind", ["fifo", "folder", "device", "nul"])
def test_what_is_no_file_is_never_waited_for(tmp_path: Path, kind: str) -> None:
    """A hook names the log, and so may anything that the agent runs."""
    path = {"device": Path("/dev/zero"), "nul": tmp_path / "a\0b"}.get(kind, tmp_path / kind)
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    assert records(LogTail(path)) == []


def test_a_large_log_is_read_in_steps(tmp_path: Path) -> None:
    tail = LogTail(tmp_path / "log.jsonl")
    append(tail.path, b'{"a":"%s"}\n' % (b"x" * 100) * 10_000)
    first = len(list(tail.records()))
    assert 0 < first < 10_000
    assert tail.behind
    assert first + len(records(tail)) == 10_000


def test_a_line_that_is_no_record_is_left_out(tmp_path: Path) -> None:
    tail = LogTail(tmp_path / "log.jsonl")
    append(tail.path, b'{"a":"\xff"}\n{"a":"\\ud800"}\n\0\n[1]\n' + b"[" * 10_000 + b'\n{"a":1}\n')
    assert records(tail) == [{"a": 1}]
