"""Which program a name stands for, and that it is not one of the folder's own.

An activated virtual environment, `node_modules/.bin`, or a `bin` of the project may be on the PATH, and the agent can
write there. So what runs unasked looks for its programs in every other place first (``trusted_path``), and is judged
by what it finds there.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from .reading import words
from .scope import Scope

BUILT_IN = words("echo pwd type")
"""What the shell does itself."""


def trusted_path(path: str, scope: Scope) -> str:
    """The same search path, the places within the session's folders last."""
    return os.pathsep.join(sorted(_places(path), key=scope.holds))


def is_outside(name: str, scope: Scope, env: Mapping[str, str]) -> bool:
    """Whether this name, looked for on the trusted path, is no program that lies within the session's folders."""
    path = env.get("PATH", os.defpath)
    program = found_outside(name, path, scope)
    if program is None:  # one may be put there in the meantime
        return not any(map(scope.holds, _places(path)))
    return not scope.holds(program)


def found_outside(name: str, path: str, scope: Scope) -> str | None:
    """The program of this name in the first place that is not within the session's folders and has one."""
    for place in _places(path):
        program = Path(place) / name
        if not scope.holds(place) and program.is_file() and os.access(program, os.X_OK):
            return str(program)
    return None


def _places(path: str) -> list[str]:
    return [place for place in path.split(os.pathsep) if place]
