"""Processes under measurement: started on their core, metered, ended by pid."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Self

ROOT = Path(__file__).resolve().parent.parent
"""The folder that holds this package: where ``python -m bench.…`` can be started."""

READY_LIMIT = 20.0
"""Seconds a process may take to say that it is ready."""

STOP_LIMIT = 4.0
"""Seconds a process gets after SIGTERM before it is killed."""


class Failed(Exception):
    """A process did not do what the measurement needs; the message holds the end of what it said."""


def cores() -> tuple[set[int], set[int]] | None:
    """The server's core and the clients', or None where there are not two to pin to."""
    if not hasattr(os, "sched_getaffinity"):
        return None
    usable = sorted(os.sched_getaffinity(0))
    return ({usable[0]}, {usable[1]}) if len(usable) > 1 else None


CORES = cores()


def pin_client() -> None:
    """Keep this process, the load client, off the server's core."""
    if CORES is not None:
        os.sched_setaffinity(0, CORES[1])


@contextlib.contextmanager
def on_server_core() -> Iterator[None]:
    """Processes started inside inherit the server's core."""
    if CORES is None:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, CORES[0])
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """A folder that is gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="dragoman-bench-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def used_by_others() -> float | None:
    """CPU seconds that anything but this process and what it has started and ended used so far; None if unknown."""
    try:
        fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
    except OSError:
        return None
    user, nice, system, _idle, _wait, irq, softirq, steal = map(int, fields)
    busy = (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")
    return busy - sum(os.times()[:4])


class Process:
    """One process on the server's core that prints one JSON line when it is ready. A context manager."""

    def __init__(self, command: Sequence[str], *, folder: Path, is_client: bool = False) -> None:
        """``folder`` is its home and, unless it is a module of this package, its working directory.

        ``is_client``: on the clients' core instead, since it is there for the load.
        """
        self._log = (folder / f"log-{time.monotonic_ns()}").open("w+b")
        ours = {name: value for name, value in os.environ.items() if not name.startswith("DRAGOMAN_")}
        own_module = any(part.startswith("bench.") for part in command)
        self.began = time.perf_counter()
        with contextlib.nullcontext() if is_client else on_server_core():
            self._process = subprocess.Popen(
                command,
                cwd=ROOT if own_module else folder,
                env={**ours, "HOME": str(folder), "XDG_CONFIG_HOME": str(folder), "LOG_LEVEL": "warning"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=self._log,
            )
        self.pid = self._process.pid

    def line(self, limit: float = READY_LIMIT) -> dict[str, Any]:
        """The next line it prints, as JSON. Raises ``Failed``."""
        assert self._process.stdout is not None
        readable, _, _ = select.select([self._process.stdout], [], [], limit)
        text = self._process.stdout.readline() if readable else b""
        if not text:
            raise Failed(f"no line within {limit:.0f} s from {self._process.args!r}: {self.said()}")
        answer: dict[str, Any] = json.loads(text)
        return answer

    def said(self) -> str:
        """The end of what it wrote to stderr."""
        self._log.flush()
        return Path(self._log.name).read_text(errors="replace")[-2000:].strip()

    def stop(self) -> str:
        """End it, and whatever it started that outlives it; returns the end of what it wrote to stderr."""
        family = _descendants(self.pid)
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(STOP_LIMIT)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        for pid, began in family:
            if _began(pid) == began:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        if self._process.stdout is not None:
            self._process.stdout.close()
        said = self.said()
        self._log.close()
        return said

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # Meters

    def rss(self) -> int | None:
        """Bytes of memory in use; None where that cannot be read."""
        try:
            fields = Path(f"/proc/{self.pid}/statm").read_text().split()
        except OSError:
            return None
        return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")

    def cpu(self) -> float | None:
        """CPU seconds of its threads so far; None where that cannot be read."""
        try:
            tasks = list(Path(f"/proc/{self.pid}/task").iterdir())
            return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9
        except OSError:
            return None


def module(name: str, *arguments: object) -> list[str]:
    """The command line of a module of this package."""
    return [sys.executable, "-m", f"bench.{name}", *map(str, arguments)]


def result_of(command: Sequence[str], *, folder: Path, limit: float = 60.0) -> dict[str, Any]:
    """Run a process that prints one line of JSON and ends; return the line."""
    with Process(command, folder=folder) as process:
        return process.line(limit)


def _descendants(pid: int) -> list[tuple[int, str]]:
    """Everything that a process started, with its start time, so that a reused pid is not mistaken for it."""
    found: list[tuple[int, str]] = []
    waiting = [pid]
    while waiting:
        for task in Path(f"/proc/{waiting.pop()}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                children = [int(child) for child in task.read_text().split()]
                found += [(child, _began(child)) for child in children]
                waiting += children
    return found


def _began(pid: int) -> str:
    """The start time of a process in clock ticks; empty when there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return ""
