"""Switching a global skill off and on, and removing it: its folder is renamed, never copied, never half there."""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import shutil
from pathlib import Path

from dragoman.hub.errors import InvalidRequest, StorageUnavailable
from dragoman.services.workspace.files import in_words

log = logging.getLogger("dragoman.skills")

_REMOVED = ".removed-"
"""What a folder that is being removed is called: no skill has a name that begins with a dot."""


def move(name: str, source: Path, target: Path, verb: str) -> None:
    """Rename the skill's folder. Raises ``InvalidRequest`` when it is gone, or another one stands in its way;
    ``StorageUnavailable`` when the disk does not let us.
    """
    # A rename would take the place of an empty folder, or of a link.
    if os.path.lexists(target):
        raise InvalidRequest(f"Failed to {verb} skill: {target.parent} has another one of that name.")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        source.rename(target)
    except OSError as error:
        raise _failed(name, source, verb, error) from error


def remove(name: str, folder: Path) -> None:
    """Take the skill's folder away, and what is in it; of a link only the link. Raises as ``move`` does."""
    _sweep(folder.parent)
    removed = folder.with_name(_REMOVED + secrets.token_hex(8))
    try:
        folder.rename(removed)
    except OSError as error:
        raise _failed(name, folder, "delete", error) from error
    try:
        _erase(removed)
    except OSError as error:
        raise _failed(name, removed, "delete", error) from error


def _sweep(folder: Path) -> None:
    """What an earlier removal left behind: the power went, or something could not be erased."""
    with contextlib.suppress(OSError):
        for left in folder.glob(f"{_REMOVED}*"):
            _erase(left)


def _erase(path: Path) -> None:
    with contextlib.suppress(FileNotFoundError):  # another server swept
        if path.is_symlink() or not path.is_dir():
            path.unlink()
        else:
            shutil.rmtree(path)  # follows no link, also none that is put there meanwhile


def _failed(name: str, folder: Path, verb: str, error: OSError) -> InvalidRequest | StorageUnavailable:
    if isinstance(error, FileNotFoundError) and not os.path.lexists(folder):
        return InvalidRequest(f'Skill "{name}" not found.')
    log.warning("skill %s: cannot %s it: %s", folder, verb, in_words(error))
    return StorageUnavailable(f"Failed to {verb} skill: {in_words(error)}")
