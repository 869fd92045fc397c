"""Session logs are read by whole lines, however they are cut, and from where we were."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.agents.common.tail import READ_AT_ONCE, LogTail, last_records
from dragoman.hub.limits import HubLimits


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


@pytest.mark.parametrize("size", [0, 10, 300_000], ids=["short", "some", "many reads"])
def test_the_line_that_is_being_written_at_the_beginning_is_read_whole(tmp_path: Path, size: int) -> None:
    """A hook is posted while the agent writes to its log: what it writes then is news."""
    path = tmp_path / "log.jsonl"
    append(path, b'{"a":1}\n{"b":"' + b"x" * size + b"\xc3")
    tail = LogTail(path, from_end=True)
    append(path, b'\xa9"}\n{"c":3}\n')
    assert records(tail) == [{"b": "x" * size + "\u00e9"}, {"c": 3}]


def test_the_rest_of_a_line_that_is_too_long_is_left_out_at_the_beginning(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    append(path, b"x" * 700_000)
    tail = LogTail(path, SMALL, from_end=True)
    append(path, b'x\n{"a":1}\n')
    assert records(tail) == [{"a": 1}]


def test_what_lies_before_a_place_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    append(path, b'{"a":1}\n{"b":2}\n')
    assert records(LogTail(path, start=8)) == [{"b": 2}]
    assert records(LogTail(path, start=800)) == [{"a": 1}, {"b": 2}]  # it was cut meanwhile


def test_a_log_that_nobody_touched_is_not_opened(tmp_path: Path) -> None:
    tail = LogTail(tmp_path / "log.jsonl")
    assert not tail.stirred()
    append(tail.path, b'{"a":1}\n')
    long_ago = time.time() - 60
    os.utime(tail.path, (long_ago, long_ago))
    assert tail.stirred()
    assert records(tail) == [{"a": 1}]
    assert not tail.stirred()
    append(tail.path, b'{"b":2}\n')
    assert tail.stirred()
    assert records(tail) == [{"b": 2}]
    assert tail.stirred()  # it was touched just now, and may be again within the same tick of the clock


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


SMALL = HubLimits(hook_bytes=300_000, hook_values=1000)


@pytest.mark.parametrize(
    "line",
    [b"[" + b"[]," * 1000 + b"[]]", b'{"a":"%s"}' % (b"x" * 300_000), b'{"a":"%s"}' % (b"x" * 2_000_000)],
    ids=["values", "bytes", "many reads"],
)
def test_a_line_that_brings_too_much_is_left_out_and_said_once(tmp_path: Path, line: bytes) -> None:
    said: list[str] = []
    tail = LogTail(tmp_path / "log.jsonl", SMALL, say=said.append)
    append(tail.path, b'{"a":1}\n' + line + b'\n{"a":2}\n')
    assert records(tail) == [{"a": 1}, {"a": 2}]
    assert [text.startswith("a line of log.jsonl is left out: it brings more than ") for text in said] == [True]
    append(tail.path, b'{"a":3}\n')
    assert records(tail) == [{"a": 3}]


def test_the_rest_of_a_line_that_is_left_out_is_no_line_of_its_own(tmp_path: Path) -> None:
    tail = LogTail(tmp_path / "log.jsonl", SMALL)
    append(tail.path, b"x" * 400_000)
    assert records(tail) == []
    append(tail.path, b'{"a":1}\n{"a":2}\n')
    assert records(tail) == [{"a": 2}]


def test_a_line_is_measured_before_it_is_taken_apart(tmp_path: Path) -> None:
    """7.8 MB of empty lists took the loop 4.6 s."""
    tail = LogTail(tmp_path / "log.jsonl", HubLimits(hook_bytes=16 * 1024 * 1024))
    append(tail.path, b'{"a":[' + b"[]," * 2_600_000 + b'[]]}\n{"a":1}\n')
    began = time.process_time()
    assert records(tail) == [{"a": 1}]
    assert time.process_time() - began < 1.0


def _another_file(path: Path, data: bytes) -> None:
    """As an agent does that writes a file beside it first."""
    draft = path.with_suffix(".new")
    draft.write_bytes(data)
    draft.replace(path)


def _a_new_file(path: Path, data: bytes) -> None:
    path.unlink()
    path.write_bytes(data)


def _written_over(path: Path, data: bytes) -> None:
    path.write_bytes(data)


@pytest.mark.parametrize("replace", [_another_file, _a_new_file, _written_over])
@pytest.mark.parametrize("size", [3, 30, 100_000])
@pytest.mark.parametrize("from_end", [False, True])
def test_a_log_that_was_replaced_is_read_from_its_beginning(
    tmp_path: Path, replace: Callable[[Path, bytes], None], size: int, from_end: bool
) -> None:
    path = tmp_path / "log.jsonl"
    append(path, b"".join(b'{"old":%d}\n' % number for number in range(10)) + b'{"half":')
    tail = LogTail(path, from_end=from_end)
    records(tail)
    replace(path, b"".join(b'{"new":%d}\n' % number for number in range(size)))
    assert records(tail) == [{"new": number} for number in range(size)]


def test_another_file_with_the_same_beginning_is_another_log(tmp_path: Path) -> None:
    tail = LogTail(tmp_path / "log.jsonl")
    append(tail.path, b'{"a":1}\n' * 100)
    records(tail)
    _another_file(tail.path, b'{"a":1}\n' * 101)
    assert len(records(tail)) == 101


# Going on elsewhere


def line(number: int) -> bytes:
    return b'{"n":%d,"pad":"%s"}\n' % (number, b"x" * (number * 37 % 90))


def numbers(tail: LogTail) -> list[int]:
    return [record["n"] for record in records(tail)]  # type: ignore[index]


@pytest.mark.parametrize("rest", [b"", b'{"n":', b'{"n":99,"long":"' + b"x" * 1000], ids=["whole", "part", "long part"])
@pytest.mark.parametrize("told", [0, 1, 30])
def test_a_place_is_where_another_goes_on(tmp_path: Path, told: int, rest: bytes) -> None:
    """Whole lines only: what was half written is read anew."""
    path = tmp_path / "log.jsonl"
    tail = LogTail(path)
    append(path, b"".join(line(number) for number in range(told)) + rest)
    assert numbers(tail) == list(range(told))
    append(path, b"7}\n" if rest.endswith(b":") else b'"}\n' if rest else b'{"n":1}\n')
    assert len(numbers(LogTail(path, place=tail.place))) == 1
    assert len(numbers(tail)) == 1


def test_a_place_in_a_line_that_is_left_out_is_before_it(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    append(path, line(1) + b"x" * 700_000)
    tail = LogTail(path, SMALL)
    assert numbers(tail) == [1]
    append(path, b"x\n" + line(2))
    assert numbers(LogTail(path, SMALL, place=tail.place)) == [2]


@pytest.mark.parametrize("now", [b"", line(5) * 40], ids=["shorter", "another"])
def test_a_place_in_a_file_that_is_another_now_is_its_end(tmp_path: Path, now: bytes) -> None:
    path = tmp_path / "log.jsonl"
    append(path, line(1) * 3)
    tail = LogTail(path)
    numbers(tail)
    path.write_bytes(now)
    later = LogTail(path, place=tail.place)
    append(path, line(6))
    assert numbers(later) == [6]


def test_what_a_file_held_at_another_time_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    append(path, line(1) + line(2)[:5])
    held = path.stat().st_size
    append(path, line(2)[5:] + line(3))
    assert numbers(LogTail(path, held=held)) == [2, 3]
    assert numbers(LogTail(path, held=0)) == [1, 2, 3]
    assert numbers(LogTail(path, held=10_000)) == [1, 2, 3]  # it was cut meanwhile


@given(st.integers(0, 60), st.integers(0, 60), st.integers(1, 20), st.booleans())
def test_a_file_from_which_old_lines_are_taken_brings_nothing_twice(
    tmp_path_factory: pytest.TempPathFactory, read: int, gone: int, more: int, in_place: bool
) -> None:
    path = tmp_path_factory.mktemp("log") / "log.jsonl"
    lines = [line(number) for number in range(read + more)]
    append(path, b"".join(lines[:read]))
    tail = LogTail(path, rejoin=True)
    assert numbers(tail) == list(range(read))
    kept = lines[min(gone, read) if read - gone >= 10 else max(0, read - 10) :]
    (_written_over if in_place else _another_file)(path, b"".join(kept))
    assert numbers(tail) == list(range(read, read + more))


def test_a_file_without_what_was_read_is_read_from_its_beginning(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    append(path, line(1) * 20 + b'{"half":')
    tail = LogTail(path, rejoin=True)
    numbers(tail)
    _written_over(path, line(2) * 30)
    assert numbers(tail) == [2] * 30


def test_only_a_file_of_our_own_is_read(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    append(path, line(1))
    (tmp_path / "link").symlink_to(path)
    assert numbers(LogTail(tmp_path / "link", own=True)) == []
    assert numbers(LogTail(tmp_path / "link")) == [1]
    assert numbers(LogTail(path, own=True)) == [1]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_another_users_file_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    append(path, line(1))
    os.chown(path, 12345, 12345)
    assert numbers(LogTail(path, own=True)) == []


@given(st.lists(st.integers(0, 3000), max_size=200), st.integers(0, 300_000))
def test_the_last_records_before_a_place_are_those_that_begin_and_end_before_it(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], end: int
) -> None:
    path = tmp_path_factory.mktemp("log") / "log.jsonl"
    lines = [b'{"n":%d,"pad":"%s"}\n' % (number, b"x" * size) for number, size in enumerate(sizes)]
    append(path, b"".join(lines))
    starts = [sum(map(len, lines[:number])) for number in range(len(lines))]
    first = max(0, end - READ_AT_ONCE)
    inside = [
        (start, number)
        for number, (start, line) in enumerate(zip(starts, lines, strict=True))
        if first <= start and start + len(line) <= end
    ]
    found = [(start, record["n"]) for start, record in last_records(path, end, HubLimits())]
    assert found == (inside[1:] if first and inside[:1] and inside[0][0] == first else inside)


def test_the_last_records_of_what_is_no_file_are_none(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    assert list(last_records(path, 100, HubLimits())) == []
    append(path, b'{"a":1}\n[1]\n{"a":"%s"}\n{"b":2}\n' % (b"x" * 5000))
    (tmp_path / "link").symlink_to(path)
    assert list(last_records(tmp_path / "link", 100, HubLimits(), own=True)) == []
    found = last_records(path, path.stat().st_size, HubLimits(hook_bytes=1000))
    assert [record for _, record in found] == [{"a": 1}, {"b": 2}]
