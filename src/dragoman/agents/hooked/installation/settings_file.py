"""One settings file under change: read, changed as text, and written only if nobody else has meanwhile."""

from __future__ import annotations

import os
from pathlib import Path

from dragoman.agents.common.files import open_regular

from .edits import undone
from .problems import CannotInstall
from .record import Change, hash_of_text
from .replacing import replace_file

BYTES = 16 * 1024 * 1024
"""The most that a settings file may hold."""

_MARK = "\ufeff"


class Changed(Exception):
    """Somebody else wrote the file meanwhile: it is to be read anew."""


class SettingsFile:
    """``text`` is what it holds, None where it is not there."""

    def __init__(self, path: Path) -> None:
        """Read it. Raises ``CannotInstall``."""
        self.path = path
        self._bytes = _read(path)
        self._mark = ""
        self.text: str | None = None
        if self._bytes is not None:
            try:
                text = self._bytes.decode()
            except UnicodeDecodeError:
                raise CannotInstall(f"{path} is not UTF-8, and is left alone") from None
            self._mark = _MARK if text.startswith(_MARK) else ""
            self.text = text.removeprefix(_MARK)

    def without(self, change: Change | None) -> str | None:
        """What it held before a change of ours, to the last byte; None where it has been edited since, or by nobody."""
        if change is None or self.text is None or hash_of_text(self.text) != change.after:
            return None
        try:
            return undone(self.text, change.edits)
        except ValueError:
            return None

    def write(self, text: str, *, private: bool) -> None:
        """Have it hold this. Raises ``CannotInstall``, ``Changed``."""
        if text == self.text:
            return
        if _read(self.path) != self._bytes:
            raise Changed
        data = (self._mark + text).encode()
        replace_file(self.path, data, mode=0o600 if private else 0o644, folders=0o700)
        self._bytes, self.text = data, text

    def delete(self) -> None:
        """Take it away. Raises ``CannotInstall``, ``Changed``."""
        if self._bytes is None:
            return
        if _read(self.path) != self._bytes:
            raise Changed
        try:
            Path(os.path.realpath(self.path)).unlink()
        except OSError as problem:
            raise CannotInstall(f"{self.path} cannot be removed: {problem.strerror}") from problem
        self._bytes = self.text = None


def missing_folder(path: Path) -> str | None:
    """The folder that would be made for a file, where it is the only one."""
    parent = path.parent
    return str(parent) if not parent.exists() and parent.parent.exists() else None


def _read(path: Path) -> bytes | None:
    try:
        with open_regular(path) as file:
            data = file.read(BYTES + 1)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as problem:
        raise CannotInstall(f"{path} cannot be read: {getattr(problem, 'strerror', None) or problem}") from problem
    if len(data) > BYTES:
        raise CannotInstall(f"{path} is larger than {BYTES} bytes, and is left alone")
    return data
