"""How ``dragoman run`` comes to its end: an agent that rests for long, and one that is at work when it is to stop."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from dragoman.hub.errors import InputRefused
from dragoman.hub.session import Session

ESCAPE = b"\x1b"


async def idle_for(session: Session, seconds: float) -> None:
    """Return once the agent has been idle for so long without a break."""
    loop = asyncio.get_running_loop()
    changed = asyncio.Event()
    stop = session.watch(changed.set)
    since: tuple[int, float] | None = None
    try:
        while True:
            changed.clear()
            status = session.shown.status
            if status.state != "idle":
                since = None
            elif since is None or since[0] != status.since:
                since = (status.since, loop.time())
            left = None if since is None else since[1] + seconds - loop.time()
            if left is not None and left <= 0:
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await changed.wait()
    finally:
        stop()


async def drain(session: Session, *, limit: float, interval: float, hurried: asyncio.Event) -> bool:
    """Escape at once and every ``interval`` until the agent is at rest: True, or False when it did not come to be.

    Only for an agent whose state is known; another one is never seen to rest. A second stop request breaks it off.
    """
    if limit <= 0 or session.driver is None or session.terminal is None:
        return True
    loop = asyncio.get_running_loop()
    deadline = loop.time() + limit
    resting = asyncio.ensure_future(_at_rest(session))
    hurry = asyncio.ensure_future(hurried.wait())
    try:
        while not _rests(session) and not hurried.is_set() and (left := deadline - loop.time()) > 0:
            with suppress(InputRefused):
                session.terminal.write(ESCAPE)
            await asyncio.wait({resting, hurry}, timeout=min(interval, left), return_when=asyncio.FIRST_COMPLETED)
        return _rests(session)
    finally:
        resting.cancel()
        hurry.cancel()


def _rests(session: Session) -> bool:
    return session.shown.exit is not None or session.shown.status.state in ("idle", "error", "exited")


async def _at_rest(session: Session) -> None:
    changed = asyncio.Event()
    stop = session.watch(changed.set)
    try:
        while not _rests(session):
            changed.clear()
            await changed.wait()
    finally:
        stop()
