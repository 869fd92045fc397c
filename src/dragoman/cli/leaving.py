"""The way out of a process in which a thread hangs: on a disk that answers nobody, say. Nobody waits for that one."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

log = logging.getLogger("dragoman.server")

PATIENCE = 0.2
"""Seconds that threads get to end once all that is of use has been done."""


def own_threads() -> ThreadPoolExecutor:
    """The pool of the running loop's ``to_thread``, so that it can be told to end without waiting for it."""
    pool = ThreadPoolExecutor(thread_name_prefix="dragoman")
    asyncio.get_running_loop().set_default_executor(pool)
    return pool


def leave_without_waiting(pool: ThreadPoolExecutor, code: int) -> None:
    """Return if all threads end. Where one does not, the process ends here and now, with this exit code.

    The interpreter would wait for it. Called last, when everything is written and closed.
    """
    pool.shutdown(wait=False, cancel_futures=True)
    hung = _hung(time.monotonic() + PATIENCE)
    if not hung:
        return
    log.warning("the process ends without waiting for its threads: %s", ", ".join(sorted(hung)))
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)


def _hung(deadline: float) -> list[str]:
    others = [it for it in threading.enumerate() if it is not threading.current_thread() and not it.daemon]
    for thread in others:
        thread.join(max(0.0, deadline - time.monotonic()))
    return [thread.name for thread in others if thread.is_alive()]
