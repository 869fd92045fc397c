"""One thing done with a store by a process of its own, which something happens to at a chosen step.

A step is a change of a file system, seen by an audit hook: the store knows nothing of it. ``python -m`` this with the
workspace and the store's folder; each line of its input is a ``Task`` as JSON, each line of its output an ``Ending``.
"""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import signal
import sys
from pathlib import Path
from typing import Any, Literal

import msgspec

from dragoman.hub.checkpoints import CheckpointProblem
from dragoman.services.checkpoints import CheckpointSettings, CheckpointStore


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """What to do. ``at`` is the step, from 0, at which ``fate`` comes; ``uid`` is who does it."""

    do: Literal["take", "restore", "recover"]
    session: str = "s"
    checkpoint: str = ""
    safety: str = ""
    first: str | None = None
    at: int | None = None
    fate: Literal["killed", "fails once", "fails from then on", "disk full from then on", "swapped"] = "killed"
    swap: tuple[str, str] = ("", "")
    """For ``swapped``: this folder of the workspace becomes a link to that place outside."""
    uid: int | None = None
    file_size: int | None = None
    """The length beyond which no file can grow."""


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it. ``steps`` were made; None of both others when it was killed."""

    steps: int = 0
    done: bool | None = None
    problem: str | None = None


CHANGES = frozenset(
    {
        *("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate"),
        *("os.chmod", "os.chown", "os.utime", "os.setxattr", "os.removexattr"),
    }
)
CREATES = frozenset({"os.mkdir", "os.link", "os.symlink"})


class Fate:
    """The audit hook: counts the steps, and comes at the chosen one."""

    def __init__(self, task: Task, work: Path) -> None:
        self._task = task
        self._work = work
        self._struck = False
        self.steps = 0
        self.watching = False

    def __call__(self, event: str, args: tuple[Any, ...]) -> None:
        if not self.watching or not self._counts(event, args):
            return
        step, self.steps = self.steps, self.steps + 1
        if self._task.at is not None and step >= self._task.at:
            self._strike(event in CREATES or (event == "open" and bool(args[2] & os.O_CREAT)))

    def _counts(self, event: str, args: tuple[Any, ...]) -> bool:
        if event == "open":
            return self._task.fate == "swapped" or bool(args[2] & (os.O_CREAT | os.O_WRONLY | os.O_RDWR))
        return event in CHANGES or (self._task.fate == "swapped" and event in ("os.scandir", "os.listdir"))

    def _strike(self, creates: bool) -> None:
        fate, first, self._struck = self._task.fate, not self._struck, True
        if fate == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        elif fate == "swapped" and first:
            self.watching = False
            self._swap()
            self.watching = True
        elif fate == "fails from then on" or (fate == "fails once" and first):
            raise OSError(errno.EIO, "the disk is broken")
        elif fate == "disk full from then on" and creates:
            raise OSError(errno.ENOSPC, "no space left on device")

    def _swap(self) -> None:
        folder, target = self._work / self._task.swap[0], self._task.swap[1]
        if folder.is_dir() and not folder.is_symlink():
            folder.rename(folder.with_name("swapped away"))
            folder.symlink_to(target)


async def _do(task: Task, fate: Fate, work: Path, kept: Path) -> None:
    store = CheckpointStore(CheckpointSettings(sync=False, walk_pause=0.005, per_session=100_000), kept)
    try:
        fate.watching = task.do == "recover"
        await store.recover()
        fate.watching = True
        if task.do == "take":
            await store.take(task.session, work, task.checkpoint, first=task.first)
        elif task.do == "restore":
            assert task.first is not None
            await store.restore(task.session, work, task.checkpoint, safety=task.safety, first=task.first)
        fate.watching = False
    finally:
        await store.close()


def _in_a_fork(task: Task, work: Path, kept: Path, answer: int) -> None:
    fate = Fate(task, work)
    sys.addaudithook(fate)
    if task.uid is not None:
        os.setgroups([])
        os.setgid(task.uid)
        os.setuid(task.uid)
    if task.file_size is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (task.file_size, task.file_size))
    try:
        asyncio.run(_do(task, fate, work, kept))
        ending = Ending(steps=fate.steps, done=True)
    except CheckpointProblem as problem:
        ending = Ending(steps=fate.steps, done=False, problem=str(problem).encode(errors="replace").decode())
    fate.watching = False
    os.write(answer, msgspec.json.encode(ending))


def _run(task: Task, work: Path, kept: Path) -> bytes:
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            _in_a_fork(task, work, kept, write)
            os._exit(0)
        finally:
            os._exit(70)
    os.close(write)
    with open(read, "rb") as pipe:  # noqa: PTH123 (a descriptor)
        answer = pipe.read()
    _, status = os.waitpid(pid, 0)
    if not answer and os.WIFSIGNALED(status):
        return msgspec.json.encode(Ending())
    return answer or b'{"problem":"it crashed"}'


def main() -> None:
    """Until its input ends."""
    work, kept = map(Path, sys.argv[1:])
    for line in sys.stdin.buffer:
        sys.stdout.buffer.write(_run(msgspec.json.decode(line, type=Task), work, kept) + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
