"""Where the working, output and uploads folders are.

What lies in a folder is the project's, links among it. So whoever names a folder by a path that starts there, it has to
stay there; and a project may name no other one.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from dragoman.hub.real_path import real_path

from .values import named


class Named(NamedTuple):
    """A folder as a layer has it; ``where`` is what lines call the layer."""

    text: str
    where: str
    project: bool = False


def absolute(text: str, cwd: Path, home: Path) -> Path:
    """A path that starts at ``cwd``, ``..`` taken as it is written. ``~`` is the person's home."""
    if text == "~" or text.startswith("~/"):
        text = str(home) + text[1:]
    return Path(os.path.normpath(cwd / text))


def working_folder(text: str | None, cwd: Path, home: Path) -> Path:
    """Where ``AGENT_WORKING_DIR`` says, else the session's folder."""
    return cwd if text is None else absolute(text, cwd, home)


def folder_of(key: str, layers: Iterable[Named], cwd: Path, home: Path, problems: list[str]) -> Path:
    """The first of these that may be used, the highest layer first; the session's folder where none may."""
    for layer in layers:
        why = _wrong_with(layer, cwd, home)
        if why is None:
            return absolute(layer.text, cwd, home)
        problems.append(f"{layer.where}: {named(key)} is skipped: {why}")
    return cwd


def _wrong_with(layer: Named, cwd: Path, home: Path) -> str | None:
    if layer.project and layer.text.startswith("~"):
        return "a project may name folders inside itself only"
    path = absolute(layer.text, cwd, home)
    try:
        if real_path(path).is_relative_to(real_path(cwd)):
            return None
    except OSError:
        return "its links lead nowhere"
    if layer.project:
        return "a project may name folders inside itself only"
    if path.is_relative_to(cwd):
        return "a link in the project leads out of it"
    return None
