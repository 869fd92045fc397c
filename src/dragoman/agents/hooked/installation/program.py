"""What installed hooks run: copies of ours in the person's own folder, which outlive the Python that made them.

``dragoman-hook`` is a few lines of shell that find a Python: the one that installed them, else the one on the PATH,
else none, and then the hook says nothing. It and the script are renewed by each server that starts and finds them
older, so the entries in the agents' settings stay as they are when dragoman is updated.
"""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

from dragoman.agents.hooked import post_script

from .agents import PROGRAM
from .replacing import replace_file

SCRIPT = "post.py"

_SHELL = """\
#!/bin/sh
# Run by coding agents as their hook: tells the dragoman server of this user what they do, and prints nothing but the
# answer to a permission. Made by `dragoman hooks install`; `dragoman hooks uninstall` takes it out again.
script={script}
if [ -r "$script" ]; then
  for python in {python} python3 /usr/bin/python3; do
    if command -v "$python" >/dev/null 2>&1; then
      exec "$python" -I -S "$script" "$@" 2>/dev/null
    fi
  done
fi
exit 0
"""


def program_in(folder: Path) -> Path:
    """Where what is run lies in the folder of the installation."""
    return folder / PROGRAM


def contents(folder: Path) -> dict[Path, bytes]:
    """The files that should be there."""
    script = folder / SCRIPT
    shell = _SHELL.format(script=shlex.quote(str(script)), python=shlex.quote(interpreter()))
    return {
        script: Path(post_script.__file__).read_bytes(),
        program_in(folder): shell.encode("utf-8", "surrogateescape"),
    }


def interpreter() -> str:
    """The Python that a virtual environment was made of, which outlives it."""
    base: str = getattr(sys, "_base_executable", None) or sys.executable
    return os.path.realpath(base)


def is_whole(folder: Path) -> bool:
    """Whether all is there, as this version has it."""
    try:
        return all(path.read_bytes() == data and os.access(path, os.R_OK) for path, data in contents(folder).items())
    except OSError:
        return False


def write_program(folder: Path) -> None:
    """Make or renew it; a hook that runs meanwhile has the old one or the new one. Raises ``CannotInstall``."""
    for path, data in contents(folder).items():
        mode = 0o700 if path.name == PROGRAM else 0o600
        replace_file(path, data, mode=mode, folders=0o700)


def remove_program(folder: Path) -> None:
    """Take it away. Raises ``OSError``."""
    for path in contents(folder):
        path.unlink(missing_ok=True)


def refresh_program(folder: Path) -> bool:
    """Renew it where hooks are installed and it is another version's; whether that was so. Raises ``CannotInstall``.

    For a server that starts: the one that was updated need not be told to install its hooks anew.
    """
    if not program_in(folder).exists() or is_whole(folder):
        return False
    write_program(folder)
    return True
