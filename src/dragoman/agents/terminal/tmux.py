"""Which pane of which tmux ``attach`` means: the words of the option, and the search."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping

import msgspec

from dragoman.agents.common.processes import MARKER, pid_start
from dragoman.agents.common.program import resolve_program
from dragoman.hub.errors import InvalidRequest

_LOOK = 5.0
"""Seconds in which tmux must have told of the session."""

_FORMAT = (
    "#{session_id} #{pane_id} #{pane_dead} #{pane_pid} #{pane_width} #{pane_height} #{window_width} #{window_height}"
)

_PASSED_ON = frozenset(("PATH", "HOME", "TERM", "LANG", "LC_ALL", "LC_CTYPE", "TMUX_TMPDIR", MARKER))


class Pane(msgspec.Struct, frozen=True, kw_only=True):
    """One pane of a running tmux. ``command`` reaches its server.

    ``size`` is columns and rows, ``around`` what its window has beside it, ``wanted`` the size to give it, if any.
    ``pasting``: whether its program is known to take marked pastes, for a tmux that does not tell.
    """

    command: tuple[str, ...]
    session: str
    pane: str
    pid: int
    pid_start: int | None
    size: tuple[int, int]
    around: tuple[int, int]
    wanted: tuple[int, int] | None = None
    pasting: bool = False


def check_attach(attach: str) -> str:
    """The tmux target that an ``attach`` option means. Raises ``InvalidRequest``."""
    kind, _, name = attach.partition(":")
    if kind == "screen" and name:
        raise InvalidRequest("screen cannot be attached to in this version, only tmux")
    if kind != "tmux" or not name or not name.isprintable():
        raise InvalidRequest(f"{attach!r} is not tmux:NAME")
    if name[0] in "$@%=":
        return name
    # Without the sign tmux takes the beginning of a name, or a pattern, for the name.
    return f"={name}" if ":" in name else f"={name}:"


def tmux_environment(env: Mapping[str, str]) -> dict[str, str]:
    """The environment of our own client, which its server is sent: nothing of ours that it does not need.

    Without ``TMUX``: tmux refuses a client inside of tmux. And short: until a control client has sent all of it, a
    tmux 3.3 whose pane enters or leaves a mode (copy mode) just then falls over.
    """
    return {name: value for name, value in env.items() if name in _PASSED_ON}


def tmux_command(env: Mapping[str, str]) -> tuple[str, ...]:
    """How the tmux that this environment means is reached, as tmux itself does: ``TMUX``, else ``TMUX_TMPDIR``.

    Never starts a server. Raises ``InvalidRequest`` where there is no tmux.
    """
    program = resolve_program("tmux", folder="/", env=env)
    socket = env.get("TMUX", "").partition(",")[0]
    return (program, "-u", "-N", *(("-S", socket) if socket else ()))


async def find_pane(
    attach: str, env: Mapping[str, str], *, wanted: tuple[int | None, int | None], pasting: bool
) -> Pane:
    """The pane that is active in that session now. Raises ``InvalidRequest`` if it cannot be attached to."""
    target, command = check_attach(attach), tmux_command(env)
    client = await asyncio.create_subprocess_exec(
        # The second one alone takes another pane for one that is not there.
        *(*command, "has-session", "-t", target, ";", "display-message", "-p", "-t", target, _FORMAT),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=tmux_environment(env),
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(_LOOK):
            said, complaint = await client.communicate()
    except TimeoutError:
        raise InvalidRequest(f"tmux does not answer within {_LOOK:g} s") from None
    finally:
        if client.returncode is None:
            client.kill()
            await client.wait()
    if client.returncode != 0:
        raise InvalidRequest(f"{attach}: {complaint.decode(errors='replace').strip() or 'tmux failed'}")
    session, pane, dead, pid, *sizes = said.decode().split()
    if dead == "1":
        raise InvalidRequest(f"{attach}: its program has ended")
    if _is_ours(int(pid)):
        raise InvalidRequest(f"{attach}: this server runs there itself")
    cols, rows, window_cols, window_rows = map(int, sizes)
    return Pane(
        command=command,
        session=session,
        pane=pane,
        pid=int(pid),
        pid_start=pid_start(int(pid)),
        size=(cols, rows),
        around=(window_cols - cols, window_rows - rows),
        wanted=None if wanted == (None, None) else (wanted[0] or cols, wanted[1] or rows),
        pasting=pasting,
    )


def _is_ours(pid: int) -> bool:
    try:
        return os.getsid(pid) == os.getsid(0)
    except OSError:
        return False
