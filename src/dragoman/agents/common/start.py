"""Start a program as the leader of a session of its own.

No Python code runs in a forked child: all is done by ``posix_spawn``. The program's pid, process group and session are
one number.
"""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from dragoman.hub.errors import InvalidRequest, LimitReached

from .program import check_command, resolve_folder, resolve_program

_SHELL = "/bin/sh"
_CHANGE_FOLDER = 'cd -- "$1" && unset OLDPWD && shift && exec "$@"'

_OWN_FDS = Path("/proc/self/fd")
_NOT_RESETTABLE = {signal.SIGKILL, signal.SIGSTOP}
_EXHAUSTED = {errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM, errno.ENOSPC, errno.ENODEV}


class Start(NamedTuple):
    """What is handed to the system, checked and resolved: which file, under which words, with which environment."""

    file: str
    argv: list[str]
    env: dict[str, str]


def prepare(command: Sequence[str], *, cwd: str, env: Mapping[str, str]) -> Start:
    """What starts ``command`` in ``cwd`` with ``env`` (and a fitting ``PWD``). Looks at files, starts nothing.

    Where ``cwd`` is not our own, ``/bin/sh`` changes there and then becomes the program (same pid); variables whose
    names a shell does not accept may be lost on that way. Raises ``InvalidRequest`` for what cannot be started,
    naming the resolved path.
    """
    check_command(command, env)
    folder = resolve_folder(cwd)
    program = resolve_program(command[0], folder=folder, env=env)
    file, argv = program, list(command)
    if not _is_own_folder(folder):
        # The shell searches the same PATH for a plain name. A dash at its front would be taken for an option of exec.
        plain = "PATH" in env and not command[0].startswith("-")
        argv = ["sh", "-c", _CHANGE_FOLDER, "sh", folder, command[0] if plain else program, *command[1:]]
        file = _SHELL
    return Start(file, argv, {**env, "PWD": folder})


def start(given: Start, descriptors: Sequence[Any]) -> int:
    """Start it and return its pid. Blocks for about a millisecond.

    ``descriptors`` are the file actions of ``posix_spawn`` that make its descriptors 0, 1 and 2; it gets no others. It
    starts with every signal at its default and none blocked.

    Raises ``InvalidRequest`` for what cannot be started; ``LimitReached`` when the system has no process or descriptor
    left.
    """
    try:
        return _spawn_or_interpret(given, descriptors)
    except OSError as error:
        raise _refusal(given.file, error) from error


def _spawn_or_interpret(given: Start, descriptors: Sequence[Any]) -> int:
    try:
        return _spawn(given, descriptors)
    except OSError as error:
        if error.errno != errno.ENOEXEC or _is_binary(given.file):
            raise
        # A script without a first line: what every shell does.
        return _spawn(Start(_SHELL, ["sh", given.file, *given.argv[1:]], given.env), descriptors)


def _spawn(given: Start, descriptors: Sequence[Any]) -> int:
    return os.posix_spawn(
        given.file,
        given.argv,
        given.env,
        file_actions=[*descriptors, *((os.POSIX_SPAWN_CLOSE, fd) for fd in _inheritable())],
        setsid=True,
        setsigmask=[],
        # All of them: Python ignores SIGPIPE and SIGXFSZ, nohup left SIGHUP ignored, a shell's `&` SIGINT.
        setsigdef=signal.valid_signals() - _NOT_RESETTABLE,
    )


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
