"""What a client asked to run, checked before anything is started: its words, its environment, its folder, its file.

Every refusal names the path that was really looked at and what to do about it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from dragoman.hub.errors import InvalidRequest

_FIRST_LINE = 256
"""The kernel reads no more of a ``#!`` line either."""


def check_command(command: Sequence[str], env: Mapping[str, str]) -> None:
    """Raise ``InvalidRequest`` unless these strings can be handed to a program at all."""
    if isinstance(command, str) or not command or not command[0]:
        raise InvalidRequest("the command is empty: give a program and its arguments, one string each")
    for word in command:
        if not _can_pass(word):
            raise InvalidRequest(f"the command holds what no program can be given (NUL or half a character): {word!r}")
    for name, value in env.items():
        if not name or "=" in name or not _can_pass(name):
            raise InvalidRequest(f"{name!r} cannot be the name of an environment variable")
        if not _can_pass(value):
            raise InvalidRequest(
                f"environment variable {name} holds what cannot be passed on (NUL or half a character)"
            )


def resolve_folder(cwd: str) -> str:
    """The absolute path of an existing folder that we may enter. Raises ``InvalidRequest``."""
    if not cwd or not _can_pass(cwd):
        raise InvalidRequest(f"the working folder {cwd!r} is not a path: give the path of an existing folder")
    try:
        folder = Path(cwd).absolute()
        entered = folder.stat() and os.access(folder, os.X_OK)
    except OSError as error:
        # Also where a relative path has nothing to start from, our own folder having been deleted.
        raise InvalidRequest(f"the working folder {cwd!r} does not exist: create it, or choose another") from error
    if not folder.is_dir():
        raise InvalidRequest(f"the working folder {str(folder)!r} is not a folder: choose another")
    if not entered:
        raise InvalidRequest(f"the working folder {str(folder)!r} may not be entered: change its permissions")
    return str(folder)


def resolve_program(name: str, *, folder: str, env: Mapping[str, str]) -> str:
    """The absolute path of the file that ``name`` means to a program with that environment, running in ``folder``.

    A name with a slash is a path from ``folder``; one without is looked for along the environment's ``PATH``. Raises
    ``InvalidRequest`` if there is none, or if it is not something that can be run.
    """
    if "/" in name:
        path = Path(folder, name)
        _check_file(path)
    else:
        path = _search(name, folder, env)
    _check_interpreter(path, folder)
    return str(path)


def _search(name: str, folder: str, env: Mapping[str, str]) -> Path:
    places = os.get_exec_path(env)
    candidates = [Path(folder, place, name) for place in places]
    found = [path for path in candidates if _is_file(path)]
    for path in found:
        if os.access(path, os.X_OK):
            return path
    if found:
        _check_file(found[0])
    raise InvalidRequest(
        f"no program {name!r} along PATH ({os.pathsep.join(places)}): install it, or give its full path"
    )


def _check_file(path: Path) -> None:
    shown = repr(str(path))
    try:
        path.stat()
    except OSError as error:
        raise InvalidRequest(f"there is no program {shown} ({error.strerror}): check the path") from error
    if path.is_dir():
        raise InvalidRequest(f"{shown} is a folder, not a program: give the path of the program in it")
    if not path.is_file():
        raise InvalidRequest(f"{shown} is not a program but a device, pipe or socket: choose another")
    if not os.access(path, os.X_OK):
        raise InvalidRequest(f"{shown} may not be run: make it executable (chmod +x), or choose another")


def _check_interpreter(path: Path, folder: str) -> None:
    """A script whose ``#!`` names nothing fails with "no such file" although it is there: say which one is missing."""
    try:
        with path.open("rb") as file:
            first = file.read(_FIRST_LINE).split(b"\n", 1)[0]
    except OSError:
        return  # one may run what one may not read
    if not first.startswith(b"#!"):
        return
    words = first[2:].strip(b" \t").split(maxsplit=1) if b"\r" not in first else [first[2:].strip(b" \t")]
    if words and words[0] and not _is_file(Path(folder, os.fsdecode(words[0]))):
        raise InvalidRequest(
            f"program {str(path)!r} wants the interpreter {os.fsdecode(words[0])!r}, which does not exist: "
            "install it, or mend the first line of the program"
        )


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def _can_pass(text: str) -> bool:
    try:
        return b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        return False
