"""Whatever a command starts, and wherever that moves: nothing outlives the cancellation (invariant 9)."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

import pytest

from dragoman.agents.common.ending import KillSchedule
from tests.agents.pty_rig import until

from .bash_context import BashContext, bash, nap, running

LIMIT = 2.0
"""Seconds that an ending on the default schedule may take: KILL comes after 0.8."""

DAEMON = (
    "import os, sys, signal, time\n"
    "if os.fork() == 0:\n"
    "    os.setsid()\n"
    "    [signal.signal(n, signal.SIG_IGN) for n in (1, 2, 15)]\n"
    "    if os.fork() == 0: time.sleep(float(sys.argv[1]))\n"
    "    os._exit(0)\n"
    "time.sleep(float(sys.argv[1]))\n"
)

COMMANDS = {
    "one": ("sleep {}", 1),
    "children": ("sleep {0} & sleep {0} & sleep {0}", 4),
    "grandchildren": ("bash -c 'bash -c \"sleep {0}; :\"; :'; :", 4),
    "pipeline": ("sleep {0} | sleep {0} | cat # {0}", 3),
    "own groups": ("set -m; sleep {0} & sleep {0} & wait", 3),
    "own session": ("setsid sleep {0} & wait", 2),
    "own session, parent gone": ("setsid -f sleep {0}; sleep {0}", 2),
    "own session, no environment": ("env -i setsid sleep {0}; :", 2),
    "hang-ups ignored": ("nohup sleep {0} & wait", 2),
    "interrupts and terminations ignored": ("trap '' HUP INT TERM; sleep {0} & sleep {0}; :", 3),
    "ignoring in an own session": ("trap '' HUP INT TERM; setsid sleep {0} & sleep {0}; :", 3),
    "stopped": ("sleep {0} & kill -STOP $!; kill -STOP $$", 2),
    "stopped and ignoring": ("trap '' INT TERM; setsid sleep {0} & sleep 0.1; kill -STOP $!; kill -STOP $$", 2),
    "daemon": (f"{sys.executable} -S -c '{DAEMON}' {{0}}; :", 3),
    "always new ones": ("trap '' INT TERM; while :; do sleep 0.01; : {0}; done", 1),
}


@pytest.mark.parametrize(("command", "count"), COMMANDS.values(), ids=COMMANDS)
async def test_a_cancelled_command_leaves_no_process(tmp_path: Path, command: str, count: int) -> None:
    mark = nap()
    run = asyncio.ensure_future(bash(BashContext(tmp_path, command_ending=KillSchedule()), command.format(mark)))
    await until(lambda: run.done() or len(running(mark)) >= count, lambda: running(mark))
    assert not run.done(), run
    began = time.monotonic()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert running(mark) == []
    assert time.monotonic() - began < LIMIT
