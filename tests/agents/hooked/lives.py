"""Sessions of agents that the tests of states are about, how far each may have come, and a program that is one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dragoman.agents.common.processes import pid_start
from tests.agents.hooked.posts import Life

CLAUDE = Life("claude", "57a7e500-0000-4000-8000-000000000001")
CODEX = Life("codex", "57a7e500-0000-7000-8000-000000000002")
GEMINI = Life("gemini", "57a7e500-0000-4000-8000-000000000003")
GIVEN = {"command": "make"}
SECOND = CLAUDE.in_turn("turn-2")
ASIDE = {"agent_id": "a1", "agent_type": "general-purpose"}

BUSY = [CLAUDE.start(), CLAUDE.prompt()]
IN_CALL = [*BUSY, CLAUDE.before("Bash", "t1", GIVEN)]
DONE = [*BUSY, CLAUDE.stop()]


needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the system shows no processes")


@contextmanager
def program(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is called as the agent is."""
    folder.mkdir(exist_ok=True)
    path = folder / "claude"
    shutil.copy(shutil.which("sleep") or "/bin/sleep", path)
    process = subprocess.Popen([path, "1000"], start_new_session=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def ancestors(process: subprocess.Popen[bytes]) -> tuple[tuple[int, int], ...]:
    """Those of a hook: the shell that ran it, which is over by now, the agent, and who started that."""
    shell = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    start = pid_start(shell.pid)
    shell.communicate(b"\n")
    agent, own = pid_start(process.pid), pid_start(os.getpid())
    known = ((shell.pid, start), (process.pid, agent), (os.getpid(), own))
    return tuple((pid, start) for pid, start in known if start is not None)
