"""The file that keeps what came of sessions (spec §7 Persistence; §15 rows 26 and 27)."""

from __future__ import annotations

import json
import os
import stat
import time
from pathlib import Path

import pytest
from msgspec import Raw

from dragoman.dialects.onion.results_file import NAME

from .results_kit import Reader, disk_full_at, line, reading

# The file


def test_the_last_line_of_a_session_wins_also_for_the_next_server(tmp_path: Path) -> None:
    with reading(tmp_path) as first:
        first.file.append(line("a", status="running"))
        first.file.append(line("b"))
        first.file.append(line("a", result="second", session=Raw(b'{"messages":[]}'), duration_ms=7))
        assert first.result("a") == {
            "session_id": "wire-a",
            "status": "done",
            "prompt": "p",
            "created": 1.0,
            "expires": 1e12,
            "result": "second",
            "session": {"messages": []},
            "duration_ms": 7,
        }
        before = first.result("a")
    with reading(tmp_path) as again:
        assert again.result("a") == before
        assert sorted(again.hubs) == ["a", "b"]


def test_nobody_else_may_read_it(tmp_path: Path) -> None:
    with reading(tmp_path / "onion") as reader:
        reader.file.append(line("a"))
        assert stat.S_IMODE(reader.path.stat().st_mode) == 0o600
        assert stat.S_IMODE(reader.path.parent.stat().st_mode) == 0o700
        for _ in range(3):
            reader.file.append(line("a", session=Raw(json.dumps("x" * 100_000).encode())))
        assert stat.S_IMODE(reader.path.stat().st_mode) == 0o600


def test_the_newest_come_first(tmp_path: Path) -> None:
    with reading(tmp_path) as reader:
        for hub, created in (("a", 5.0), ("b", 9.0), ("c", 7.0)):
            reader.file.append(line(hub, created=created))
        assert reader.hubs == ["b", "c", "a"]


ALIEN = [
    b"{",
    b"",
    b"null",
    b"[1]",
    b'"text"',
    b'{"session_id":"x"}',
    b'{"session_id":1,"status":"done","prompt":"p","created":1,"expires":2,"hub":"z"}',
    b"\xff\xfe\x00",
    b"[" * 5000,
]


@pytest.mark.parametrize("alien", ALIEN, ids=range(len(ALIEN)))
def test_a_line_that_is_nobodys_takes_no_neighbour_with_it(tmp_path: Path, alien: bytes) -> None:
    with reading(tmp_path) as first:
        first.file.append(line("a"))
        with first.path.open("ab") as file:
            file.write(alien + b"\n")
    with reading(tmp_path) as second:
        second.file.append(line("b"))
        assert sorted(second.hubs) == ["a", "b"]
        assert second.result("a") is not None
        assert second.result("b") is not None


def test_a_line_that_a_crash_cut_off_anywhere_loses_only_itself(tmp_path: Path) -> None:
    with reading(tmp_path) as first:
        first.file.append(line("a"))
        kept = first.path.stat().st_size
        first.file.append(line("b"))
        whole = first.path.read_bytes()
    for end in range(kept, len(whole)):
        (tmp_path / NAME).write_bytes(whole[:end])
        with reading(tmp_path) as torn:
            torn.file.append(line("c", result="behind it"))
            assert torn.result("a") is not None
            assert torn.result("c") == {**(torn.result("c") or {}), "result": "behind it"}
            assert ("b" in torn.hubs) is (end == len(whole) - 1)
        with reading(tmp_path) as again:
            assert "a" in again.hubs
            assert "c" in again.hubs


def test_what_has_expired_is_not_told_but_what_runs_never_expires(tmp_path: Path) -> None:
    with reading(tmp_path) as reader:
        for hub, status in (("a", "done"), ("b", "running"), ("c", "waiting_approval"), ("d", "interrupted")):
            reader.file.append(line(hub, status=status, expires=200.0))
        reader.now = 199.9
        assert sorted(reader.hubs) == ["a", "b", "c", "d"]
        reader.now = 200.0
        assert sorted(reader.hubs) == ["b", "c"]


def test_it_is_rewritten_when_more_than_half_is_stale(tmp_path: Path) -> None:
    session = Raw(json.dumps("x" * 10_000).encode())
    with reading(tmp_path) as reader:
        reader.file.append(line("kept", session=session, result="still here"))
        for turn in range(2000):
            reader.file.append(line("a", session=session, turn=str(turn), result=f"turn {turn}"))
            assert reader.path.stat().st_size < 4_300_000
        assert (reader.result("a") or {})["result"] == "turn 1999"
        assert (reader.result("kept") or {})["result"] == "still here"
    with reading(tmp_path) as again:
        assert sorted(again.hubs) == ["a", "kept"]


def test_it_is_bounded_and_the_oldest_go_first(tmp_path: Path) -> None:
    most = 1_000_000
    session = Raw(json.dumps("x" * 50_000).encode())
    with reading(tmp_path, most) as reader:
        for number in range(100):
            reader.file.append(line(f"s{number:03}", created=float(number), session=session))
            assert reader.path.stat().st_size <= most + 60_000
        assert reader.hubs[0] == "s099"
        assert reader.hubs == sorted(reader.hubs, reverse=True)
        assert 5 < len(reader.hubs) < 20


def test_a_session_that_is_too_long_is_kept_without_it(tmp_path: Path) -> None:
    with reading(tmp_path, 100_000) as reader:
        reader.file.append(line("a", result="short", session=Raw(json.dumps("x" * 60_000).encode())))
        assert reader.result("a") == {**(reader.result("a") or {}), "result": "short", "session": None}
        assert reader.path.stat().st_size < 1000


def test_what_is_forgotten_is_not_in_the_file_any_more(tmp_path: Path) -> None:
    with reading(tmp_path) as reader:
        reader.file.append(line("a", prompt="private"))
        reader.file.append(line("b"))
        reader.file.forget("a")
        assert reader.hubs == ["b"]
        reader.file.purge()
        assert reader.hubs == ["b"]
        assert b"private" not in reader.path.read_bytes()


def test_a_look_up_reads_one_line_of_twenty_megabytes(tmp_path: Path) -> None:
    session = Raw(json.dumps("x" * 10_000).encode())
    with reading(tmp_path) as reader:
        for number in range(2000):
            reader.file.append(line(f"s{number}", session=session))
        assert reader.path.stat().st_size > 20_000_000
        began = time.perf_counter()
        whole = len(reader.path.read_bytes().split(b"\n"))
        reading_all = time.perf_counter() - began
        assert whole > 2000
        times = []
        for number in range(0, 2000, 100):
            entry = reader.file.entry(f"s{number}")
            assert entry is not None
            began = time.perf_counter()
            assert reader.file.read(entry) is not None
            times.append(time.perf_counter() - began)
        assert sorted(times)[10] < reading_all / 10


@pytest.mark.parametrize("what", ["link", "folder", "pipe"])
def test_what_is_no_file_of_ours_is_not_used(tmp_path: Path, what: str) -> None:
    place = tmp_path / "onion" / NAME
    place.parent.mkdir()
    other = tmp_path / "other"
    other.write_text("theirs")
    if what == "link":
        place.symlink_to(other)
    elif what == "folder":
        place.mkdir()
    else:
        os.mkfifo(place)
    with pytest.raises(OSError, match=NAME):
        Reader(place.parent)
    assert other.read_text() == "theirs"


def test_a_full_disk_leaves_no_half_line(tmp_path: Path) -> None:
    with reading(tmp_path) as reader:
        reader.file.append(line("a"))
        before = reader.path.read_bytes()
        with disk_full_at(len(before) + 100), pytest.raises(OSError, match="too large"):
            reader.file.append(line("b", prompt="x" * 100_000))
        assert reader.path.read_bytes() == before
        reader.file.append(line("c"))
        assert sorted(reader.hubs) == ["a", "c"]
        assert reader.result("a") is not None
