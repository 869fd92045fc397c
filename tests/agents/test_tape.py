"""The tape: exact offsets in bounded memory, and the same tape on disk."""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.agents.terminal.stored_tape import DamagedTape, StoredTape
from dragoman.agents.terminal.tape import RingTape
from dragoman.hub.ports import Tape

from .pty_rig import open_fds

MIB = 1024 * 1024


class Model:
    """A tape that keeps everything: what a ring must agree with."""

    def __init__(self, capacity: int, first: int) -> None:
        self.capacity, self.first, self.data = capacity, first, b""

    @property
    def end(self) -> int:
        return self.first + len(self.data)

    @property
    def start(self) -> int:
        return max(self.first, self.end - self.capacity)

    def read(self, offset: int, limit: int | None) -> tuple[int, bytes]:
        if offset > self.end:
            return offset, b""
        offset = max(offset, self.start)
        rest = self.data[offset - self.first :]
        return offset, rest if limit is None else rest[:limit]


chunks = st.one_of(
    st.binary(max_size=12),
    st.builds(lambda size, fill: bytes([fill]) * size, st.integers(0, 6000), st.integers(0, 255)),
)


@settings(max_examples=150, deadline=None)
@given(
    capacity=st.one_of(st.integers(1, 40), st.integers(1000, 20_000)),
    first=st.sampled_from([0, 1, 12345, 2**40]),
    appended=st.lists(st.tuples(chunks, st.integers(-5, 30_000), st.none() | st.integers(0, 9000)), max_size=60),
)
def test_a_ring_agrees_with_a_plain_bytes_model_at_every_step(
    capacity: int, first: int, appended: list[tuple[bytes, int, int | None]]
) -> None:
    tape, model = RingTape(capacity, first), Model(capacity, first)
    longest = 0
    for chunk, back, limit in appended:
        assert tape.append(chunk) == model.end
        model.data += chunk
        longest = max(longest, len(chunk))
        assert (tape.start, tape.end) == (model.start, model.end)
        assert tape.held <= capacity + max(longest, min(capacity, 6144))
        for offset in (0, tape.start, tape.end - back, tape.end, tape.end + 1, first + back):
            assert tape.read(offset, limit) == model.read(offset, limit)
        assert tape.read(0) == model.read(0, None)


def test_following_a_ring_by_offset_gives_every_byte_once() -> None:
    tape, seen, cursor = RingTape(MIB), [], 0
    for number in range(3000):
        tape.append(b"%d;" % number * (number % 7))
        if number % 3 == 0:
            start, data = tape.read(cursor, 100)
            assert start == cursor
            seen.append(data)
            cursor += len(data)
    seen.append(tape.read(cursor)[1])
    assert b"".join(seen) == b"".join(b"%d;" % number * (number % 7) for number in range(3000))


def test_after_two_capacities_a_read_from_zero_gives_the_newest_capacity_and_its_true_offset() -> None:
    data = os.urandom(2 * MIB + 17)
    tape = RingTape(MIB)
    for at in range(0, len(data), 4095):
        tape.append(data[at : at + 4095])
    assert tape.read(0) == (MIB + 17, data[-MIB:])
    assert tape.read(128_000) == (MIB + 17, data[-MIB:])


def test_a_reader_at_the_newest_chunk_gets_that_very_object() -> None:
    tape = RingTape(MIB)
    for size in (1, 5, 4095, 3, 65536, 1):
        chunk = bytes(size)
        assert tape.read(tape.append(chunk))[1] is chunk


def test_a_reader_one_chunk_behind_gets_a_stored_object_too() -> None:
    tape = RingTape(MIB)
    first = tape.append(b"a" * 4095)
    before = tape.append(b"b" * 4095)
    tape.append(b"c" * 4095)
    assert tape.read(before, 4095)[1] is tape.read(before, 4095)[1]
    assert tape.read(first, 4095) == (first, b"a" * 4095)


def test_a_chunk_longer_than_the_tape_leaves_its_end() -> None:
    tape = RingTape(10, start=100)
    tape.append(b"xyz")
    assert tape.append(b"0123456789abcdef") == 103
    assert (tape.start, tape.end, tape.held) == (109, 119, 10)
    assert tape.read(0) == (109, b"6789abcdef")


def test_a_million_single_bytes_lie_in_few_objects() -> None:
    tape = RingTape(MIB)
    for number in range(1_200_000):
        tape.append(b"ab"[number % 2 : number % 2 + 1])
    assert tape.held <= MIB + 6144
    assert tape.pieces < 300
    assert tape.read(tape.end - 5) == (tape.end - 5, b"babab"[-5:] if tape.end % 2 == 0 else b"ababa")


def test_reading_the_live_end_does_not_get_slower_with_the_tape() -> None:
    """A shape, not a speed: near the end of a full tape it must cost no more than ten times an almost empty one."""

    def cost(tape: RingTape) -> float:
        best = 1.0
        for _ in range(5):
            began = time.perf_counter()
            for _ in range(2000):
                tape.read(tape.end - 3000)
            best = min(best, time.perf_counter() - began)
        return best

    short, full = RingTape(16 * MIB), RingTape(16 * MIB)
    short.append(bytes(4095))
    for _ in range(4200):
        full.append(bytes(4095))
    assert cost(full) < 10 * cost(short)


@pytest.mark.parametrize(("capacity", "start"), [(0, 0), (-1, 0), (10, -1)])
def test_a_tape_without_room_is_refused(capacity: int, start: int) -> None:
    with pytest.raises(ValueError, match="a tape needs"):
        RingTape(capacity, start)


def test_a_negative_limit_is_refused() -> None:
    with pytest.raises(ValueError, match="negative"):
        RingTape().read(0, -1)


# On disk


@settings(max_examples=40, deadline=None)
@given(
    data=st.binary(max_size=400),
    first=st.integers(0, 2**50),
    offset=st.integers(-10, 500),
    limit=st.none() | st.integers(0, 500),
)
def test_a_stored_tape_reads_like_the_ring_it_was(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, first: int, offset: int, limit: int | None
) -> None:
    path = tmp_path_factory.mktemp("tape") / "session.tape"
    ring = RingTape(128, first)
    ring.append(data[: len(data) // 2])
    ring.append(data[len(data) // 2 :])
    ring.save(path)
    with StoredTape.open(path) as stored:
        assert (stored.start, stored.end) == (ring.start, ring.end)
        for at in (first + offset, offset, ring.start, ring.end, ring.end + 1):
            assert stored.read(at, limit) == ring.read(at, limit)


def test_both_tapes_are_tapes(tmp_path: Path) -> None:
    ring: Tape = RingTape()
    RingTape().save(tmp_path / "t")
    with StoredTape.open(tmp_path / "t") as opened:
        stored: Tape = opened
        assert ring.read(0) == stored.read(0) == (0, b"")


def test_a_stored_tape_is_private_and_leaves_no_draft(tmp_path: Path) -> None:
    path = tmp_path / "session.tape"
    previous = os.umask(0)
    try:
        RingTape().save(path)
    finally:
        os.umask(previous)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [entry.name for entry in tmp_path.iterdir()] == ["session.tape"]


def test_saving_again_replaces_the_file_in_one_step(tmp_path: Path) -> None:
    path, ring = tmp_path / "session.tape", RingTape()
    ring.append(b"one")
    ring.save(path)
    with StoredTape.open(path) as before:
        ring.append(b"two")
        ring.save(path)
        assert before.read(0) == (0, b"one")
    with StoredTape.open(path) as after:
        assert after.read(0) == (0, b"onetwo")


def test_a_tape_that_cannot_be_saved_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    with pytest.raises(OSError, match="taken"):
        RingTape().save(tmp_path / "taken")
    assert [entry.name for entry in tmp_path.iterdir()] == ["taken"]


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    ring = RingTape(start=7)
    ring.append(b"what the program wrote")
    ring.save(tmp_path / "session.tape")
    return tmp_path / "session.tape"


def test_every_damaged_byte_and_every_cut_is_noticed(stored: Path) -> None:
    sound = stored.read_bytes()
    for at in range(len(sound)):
        stored.write_bytes(sound[:at] + bytes([sound[at] ^ 1]) + sound[at + 1 :])
        with pytest.raises(DamagedTape, match=r"session\.tape"):
            StoredTape.open(stored)
        stored.write_bytes(sound[:at])
        with pytest.raises(DamagedTape, match=r"session\.tape"):
            StoredTape.open(stored)
    stored.write_bytes(sound + b"!")
    with pytest.raises(DamagedTape, match="23 bytes instead of 22"):
        StoredTape.open(stored)


def test_damage_is_named(stored: Path) -> None:
    sound = stored.read_bytes()
    for damaged, words in (
        (b"", "too few for its header"),
        (b"x" * 100, "is not a stored tape"),
        (sound[:10] + b"\xff" + sound[11:], "header does not match"),
        (sound[:-1] + b"?", "bytes do not match"),
        (sound[:-1], "21 bytes instead of 22"),
    ):
        stored.write_bytes(damaged)
        with pytest.raises(DamagedTape, match=words):
            StoredTape.open(stored)


def test_a_file_cut_after_opening_is_noticed_at_the_read(stored: Path) -> None:
    with StoredTape.open(stored) as tape:
        os.truncate(stored, 40)
        with pytest.raises(DamagedTape, match="cut short"):
            tape.read(0)


def test_a_refused_file_leaks_no_descriptor(stored: Path) -> None:
    stored.write_bytes(b"x" * 100)
    before = open_fds()
    for _ in range(3):
        with pytest.raises(DamagedTape):
            StoredTape.open(stored)
    assert open_fds() == before


def test_a_missing_file_is_missing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        StoredTape.open(tmp_path / "none")
