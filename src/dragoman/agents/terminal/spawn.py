"""Start a program on a PTY of its own.

The new session's leader opens the slave by its path, which is what makes it the controlling terminal of that session.
"""

from __future__ import annotations

import fcntl
import os
import struct
import termios
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from dragoman.agents.common.start import prepare, start
from dragoman.hub.errors import InvalidSize, LimitReached

_IUTF8 = 0o40000
"""Linux: erase whole UTF-8 characters in line mode. The termios module does not name it."""

_TIOCGPTPEER = 0x5441
"""Linux: open the other side of a terminal. The termios module does not name it."""

_MAX_SIZE = 65535


class Spawned(NamedTuple):
    """A started program and the master side of its terminal (non-blocking, inherited by nobody)."""

    pid: int
    master: int


def spawn_on_pty(command: Sequence[str], *, cwd: str, env: Mapping[str, str], cols: int, rows: int) -> Spawned:
    """Start ``command`` in ``cwd`` with ``env`` (and a fitting ``PWD``) on a new terminal of that size.

    Blocks for about a millisecond. See ``common.start`` for what the program finds; its descriptors 0, 1 and 2 are the
    terminal.

    Raises ``InvalidRequest`` for what cannot be started, naming the resolved path; ``InvalidSize``; ``LimitReached``
    when the system has no terminal, process or descriptor left.
    """
    check_size(cols, rows)
    prepared = prepare(command, cwd=cwd, env=env)
    master, slave = _open_terminal(cols, rows)
    try:
        tty = os.ttyname(slave)
        pid = start(
            prepared,
            [
                (os.POSIX_SPAWN_OPEN, 0, tty, os.O_RDWR, 0),
                (os.POSIX_SPAWN_DUP2, 0, 1),
                (os.POSIX_SPAWN_DUP2, 0, 2),
            ],
        )
    except OSError as error:
        os.close(master)
        raise LimitReached(f"the system gives us no terminal: {error.strerror}") from error
    except BaseException:
        os.close(master)
        raise
    finally:
        # Only now: without any open slave the master would report the end before the program has begun.
        os.close(slave)
    return Spawned(pid, master)


def check_size(cols: int, rows: int) -> None:
    """Raise ``InvalidSize`` unless a terminal can have that size at all: 1 to 65535 each way."""
    if not (1 <= cols <= _MAX_SIZE and 1 <= rows <= _MAX_SIZE):
        raise InvalidSize(f"a terminal cannot be {cols}x{rows}: both must be from 1 to {_MAX_SIZE}")


def set_size(fd: int, cols: int, rows: int) -> None:
    """Give the terminal its size; the kernel sends ``SIGWINCH`` to the foreground group if that is a change."""
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))


def unread_input(master: int) -> int:
    """Bytes of input that wait in a terminal for its program to read them. Raises ``OSError``."""
    slave = fcntl.ioctl(master, _TIOCGPTPEER, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        return int(struct.unpack("i", fcntl.ioctl(slave, termios.FIONREAD, b"\0" * 4))[0])
    finally:
        os.close(slave)


def _open_terminal(cols: int, rows: int) -> tuple[int, int]:
    try:
        master, slave = os.openpty()
    except OSError as error:
        raise LimitReached(f"the system gives us no terminal: {error.strerror}") from error
    try:
        os.set_blocking(master, False)
        set_size(master, cols, rows)
        modes = termios.tcgetattr(slave)
        modes[0] |= _IUTF8
        termios.tcsetattr(slave, termios.TCSANOW, modes)
    except BaseException:
        os.close(master)
        os.close(slave)
        raise
    return master, slave
