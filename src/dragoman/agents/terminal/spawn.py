"""Start a program on a PTY of its own.

No Python code runs in a forked child: ``posix_spawn`` makes the new session and opens the slave by its path, which is
what makes it the controlling terminal of that session. The program's pid, process group and session are one number.
"""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import struct
import termios
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from dragoman.hub.errors import InvalidRequest, InvalidSize, LimitReached

from .program import check_command, resolve_folder, resolve_program

_SHELL = "/bin/sh"
_CHANGE_FOLDER = 'cd -- "$1" && unset OLDPWD && shift && exec "$@"'

_IUTF8 = 0o40000
"""Linux: erase whole UTF-8 characters in line mode. The termios module does not name it."""

_TIOCGPTPEER = 0x5441
"""Linux: open the other side of a terminal. The termios module does not name it."""

_MAX_SIZE = 65535
_OWN_FDS = Path("/proc/self/fd")
_NOT_RESETTABLE = {signal.SIGKILL, signal.SIGSTOP}
_EXHAUSTED = {errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM, errno.ENOSPC, errno.ENODEV}


class Spawned(NamedTuple):
    """A started program and the master side of its terminal (non-blocking, inherited by nobody)."""

    pid: int
    master: int


def spawn_on_pty(command: Sequence[str], *, cwd: str, env: Mapping[str, str], cols: int, rows: int) -> Spawned:
    """Start ``command`` in ``cwd`` with ``env`` (and a fitting ``PWD``) on a new terminal of that size.

    Blocks for about a millisecond. The program starts with every signal at its default, none blocked, and the
    descriptors 0, 1 and 2 only. Where ``cwd`` is not our own, ``/bin/sh`` changes there and then becomes the program
    (same pid); variables whose names a shell does not accept may be lost on that way.

    Raises ``InvalidRequest`` for what cannot be started, naming the resolved path; ``InvalidSize``; ``LimitReached``
    when the system has no terminal, process or descriptor left.
    """
    check_size(cols, rows)
    check_command(command, env)
    folder = resolve_folder(cwd)
    program = resolve_program(command[0], folder=folder, env=env)
    file, argv = program, list(command)
    if not _is_own_folder(folder):
        # The shell searches the same PATH for a plain name. A dash at its front would be taken for an option of exec.
        plain = "PATH" in env and not command[0].startswith("-")
        argv = ["sh", "-c", _CHANGE_FOLDER, "sh", folder, command[0] if plain else program, *command[1:]]
        file = _SHELL
    master, slave = _open_terminal(cols, rows)
    try:
        pid = _start(file, argv, {**env, "PWD": folder}, os.ttyname(slave))
    except OSError as error:
        os.close(master)
        raise _refusal(file, error) from error
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


def _start(file: str, argv: list[str], env: dict[str, str], tty: str) -> int:
    def start(file: str, argv: list[str]) -> int:
        return os.posix_spawn(
            file,
            argv,
            env,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, tty, os.O_RDWR, 0),
                (os.POSIX_SPAWN_DUP2, 0, 1),
                (os.POSIX_SPAWN_DUP2, 0, 2),
                *((os.POSIX_SPAWN_CLOSE, fd) for fd in _inheritable()),
            ],
            setsid=True,
            setsigmask=[],
            # All of them: Python ignores SIGPIPE and SIGXFSZ, nohup left SIGHUP ignored, a shell's `&` SIGINT.
            setsigdef=signal.valid_signals() - _NOT_RESETTABLE,
        )

    try:
        return start(file, argv)
    except OSError as error:
        if error.errno != errno.ENOEXEC or _is_binary(file):
            raise
        return start(_SHELL, ["sh", file, *argv[1:]])  # a script without a first line: what every shell does


def _inheritable() -> Iterator[int]:
    """Descriptors that our own parent left us and that a child would get. Everything Python opens is not among them."""
    try:
        names = os.listdir(_OWN_FDS)  # noqa: PTH208 - a busy server has thousands, and this is on the loop
    except OSError:
        return
    for name in names:
        try:
            if int(name) > 2 and os.get_inheritable(int(name)):
                yield int(name)
        except OSError:
            continue  # the descriptor of the listing itself


def _is_own_folder(folder: str) -> bool:
    try:
        return Path(folder).samefile(".")
    except OSError:  # ours was deleted
        return False


def _is_binary(file: str) -> bool:
    try:
        with Path(file).open("rb") as opened:
            return b"\0" in opened.read(256)
    except OSError:
        return True


def _refusal(file: str, error: OSError) -> Exception:
    if error.errno in _EXHAUSTED:
        return LimitReached(f"the system cannot start another process: {error.strerror}")
    if error.errno == errno.E2BIG:
        return InvalidRequest("the command and its environment are longer than the system passes on: shorten them")
    return InvalidRequest(f"program {file!r} cannot be started: {error.strerror}")
