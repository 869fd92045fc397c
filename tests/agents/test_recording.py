"""Recording to asciicast v2."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import stat
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import avt
import pytest

from dragoman.agents.terminal.recording import Recording
from dragoman.hub.errors import InvalidRequest

from .pty_rig import Run, open_fds, until


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def read(path: Path) -> tuple[dict[str, Any], list[list[Any]]]:
    header, *events = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return header, events


async def start(path: Path, **options: Any) -> Recording:
    return await Recording.start(path, cols=80, rows=24, **options)


async def test_header_and_events(tmp_path: Path) -> None:
    path, clock = tmp_path / "session.cast", Clock()
    recording = await start(path, title="my session", now=1700000000.9, clock=clock)
    clock.now += 0.25
    recording.output(b"hello\r\n\x1b[31m")
    clock.now += 1
    recording.resize(100, 30)
    recording.output("é中\U0001f600".encode())
    recording.mark("turn 1")
    await recording.close()
    header, events = read(path)
    assert header == {
        "version": 2,
        "width": 80,
        "height": 24,
        "timestamp": 1700000000,
        "env": {"TERM": "xterm-256color"},
        "title": "my session",
    }
    assert events == [
        [0.25, "o", "hello\r\n\x1b[31m"],
        [1.25, "r", "100x30"],
        [1.25, "o", "é中\U0001f600"],
        [1.25, "m", "turn 1"],
    ]
    assert recording.stopped is None


async def test_without_a_title_there_is_none(tmp_path: Path) -> None:
    recording = await start(tmp_path / "a.cast")
    await recording.close()
    header, events = read(tmp_path / "a.cast")
    assert "title" not in header
    assert events == []


async def test_characters_split_at_every_place_are_whole(tmp_path: Path) -> None:
    text = "a\u00e9\u4e2d\U0001f600\u0416\u05d0\u0939 \ufffd!"
    data = text.encode()
    for cut in range(len(data) + 1):
        recording = await start(tmp_path / f"{cut}.cast")
        recording.output(data[:cut])
        recording.resize(90, 20 + cut)
        recording.output(data[cut:])
        await recording.close()
        _, events = read(tmp_path / f"{cut}.cast")
        assert "".join(event[2] for event in events if event[1] == "o") == text
        assert [event[2] for event in events if event[1] == "r"] == [f"90x{20 + cut}"]


async def test_one_byte_at_a_time(tmp_path: Path) -> None:
    text = "\u4e2d\u6587 caf\u00e9 \U0001f468\u200d\U0001f469 " * 50
    recording = await start(tmp_path / "a.cast")
    for byte in text.encode():
        recording.output(bytes([byte]))
    await recording.close()
    _, events = read(tmp_path / "a.cast")
    assert "".join(event[2] for event in events) == text
    assert all(event[2] for event in events)


async def test_bytes_that_are_not_text_are_left_out_and_no_replacement_is_invented(tmp_path: Path) -> None:
    recording = await start(tmp_path / "a.cast")
    recording.output(b"a\xff\xfeb\xe4\xb8")
    recording.output(b"c")
    recording.output("\ud83d".encode("utf-8", "surrogatepass") + b"d\xe4\xb8")
    await recording.close()
    _, events = read(tmp_path / "a.cast")
    assert "".join(event[2] for event in events) == "abcd"


async def test_the_recording_replays_to_the_very_screen(tmp_path: Path) -> None:
    """Resizes are in their place: a player that knows nothing but the file shows what the live model showed."""
    live = avt.Vt(80, 24, 100)
    recording = await start(tmp_path / "a.cast")
    for number in range(40):
        chunk = f"\x1b[{number % 7 + 31}mline {number} 中文 {'=' * number * 5}\r\n".encode()
        live.feed_str(chunk.decode())
        recording.output(chunk)
        if number % 10 == 5:
            live.resize(40 + number, 20 + number % 4)
            recording.resize(40 + number, 20 + number % 4)
    await recording.close()
    header, events = read(tmp_path / "a.cast")
    player = avt.Vt(header["width"], header["height"], 100)
    for _, code, data in events:
        if code == "o":
            player.feed_str(data)
        else:
            player.resize(*map(int, data.split("x")))
    assert player.dump() == live.dump()


async def test_a_real_program_is_recorded_whole_and_its_input_is_not(tmp_path: Path) -> None:
    recording = await start(tmp_path / "a.cast")
    script = "stty -echo; echo password:; read x; seq 3000; echo done"
    async with Run("sh", "-c", script, also=recording.output) as run:
        await run.says("password:")
        run.pty.write(b"secret-word\n")
        await run.end()
    await recording.close()
    _, events = read(tmp_path / "a.cast")
    assert "".join(event[2] for event in events) == run.text
    assert "secret-word" not in (tmp_path / "a.cast").read_text()
    times = [event[0] for event in events]
    assert times == sorted(times)


async def test_the_file_is_private_and_never_replaces_another(tmp_path: Path) -> None:
    path = tmp_path / "a.cast"
    previous = os.umask(0)
    try:
        recording = await start(path)
    finally:
        os.umask(previous)
    await recording.close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    content = path.read_bytes()
    with pytest.raises(InvalidRequest, match="exists already: choose another file"):
        await start(path)
    with pytest.raises(InvalidRequest, match="cannot be made: No such file or directory"):
        await start(tmp_path / "none" / "a.cast")
    assert path.read_bytes() == content


async def test_after_the_close_nothing_is_written(tmp_path: Path) -> None:
    recording = await start(tmp_path / "a.cast")
    recording.output(b"one")
    await recording.close()
    await recording.close()
    recording.output(b"two")
    recording.mark("three")
    _, events = read(tmp_path / "a.cast")
    assert [event[2] for event in events] == ["one"]


class StuckDisk(ThreadPoolExecutor):
    """One worker that can be held: a disk that takes nothing for a while."""

    def __init__(self) -> None:
        super().__init__(max_workers=1)
        self.free = threading.Event()
        self.held = threading.Event()

    def hold(self) -> None:
        self.submit(lambda: (self.held.set(), self.free.wait(20)))
        assert self.held.wait(5)


@pytest.fixture
def disk() -> Iterator[StuckDisk]:
    executor = StuckDisk()
    yield executor
    executor.free.set()
    executor.shutdown()


async def test_a_slow_disk_ends_the_recording_with_a_reason_and_never_the_session(
    tmp_path: Path, disk: StuckDisk
) -> None:
    path, reasons = tmp_path / "a.cast", list[str]()
    recording = await start(path, executor=disk, on_stopped=reasons.append, queue_limit=10_000)
    disk.hold()
    for _ in range(100):
        recording.output(b"x" * 400)
    assert recording.stopped is not None
    assert reasons == [recording.stopped]
    assert "the disk is too slow" in recording.stopped
    assert "limit is 10000" in recording.stopped
    disk.free.set()
    await recording.close()
    _, events = read(path)
    assert "".join(event[2] for event in events if event[1] == "o") == "x" * 400 * (10_000 // 464)
    assert events[-1][1:] == ["m", f"recording stopped: {recording.stopped}"]


async def test_closing_gives_a_stuck_disk_no_more_than_its_budget(tmp_path: Path, disk: StuckDisk) -> None:
    recording = await start(tmp_path / "a.cast", executor=disk)
    disk.hold()
    recording.output(b"late")
    await recording.close(budget=0.05)
    assert recording.stopped == "the disk did not take the rest of the recording within 0.05 s"
    disk.free.set()
    await until(lambda: "late" in (tmp_path / "a.cast").read_text())


async def test_a_full_disk_ends_the_recording_at_a_whole_line(tmp_path: Path) -> None:
    path, reasons = tmp_path / "a.cast", list[str]()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    recording = await start(path, on_stopped=reasons.append)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, hard))
    try:
        for number in range(300):
            recording.output(f"{number:03}".encode() + b"y" * 500)
        await until(lambda: recording.stopped)
        await recording.close()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert reasons == [recording.stopped]
    assert "the disk refused" in reasons[0]
    assert 45_000 < path.stat().st_size <= 50_000
    _, events = read(path)
    kept = [event[2][:3] for event in events if event[1] == "o"]
    assert kept == [f"{number:03}" for number in range(len(kept))]


async def test_a_file_at_its_limit_ends_with_the_reason(tmp_path: Path) -> None:
    path = tmp_path / "a.cast"
    recording = await start(path, file_limit=5000)
    while recording.stopped is None:
        recording.output(b"z" * 100)
        await asyncio.sleep(0)
    await recording.close()
    assert recording.stopped == "the file has reached its limit of 5000 bytes"
    assert path.stat().st_size < 5200
    _, events = read(path)
    assert events[-1][1:] == ["m", f"recording stopped: {recording.stopped}"]


async def test_recordings_leave_no_descriptor(tmp_path: Path) -> None:
    warm = await start(tmp_path / "warm.cast")
    await warm.close()
    before = open_fds()
    for number in range(20):
        recording = await start(tmp_path / f"{number}.cast", file_limit=200 if number % 2 else 10_000)
        for _ in range(10):
            recording.output(b"w" * 50)
        await recording.close()
    assert open_fds() == before
