"""The folder that a server works in: where it was started, or where ``--dir`` or ``AGENT_WORKING_DIR`` says."""

from __future__ import annotations

import asyncio
import os
from collections.abc import MutableMapping
from pathlib import Path

from dragoman.hub.workspace_config import WorkspaceConfigs
from dragoman.services.workspace.folders import working_folder

from .use import UseError

WORKING_FOLDER = "AGENT_WORKING_DIR"
"""The variable that names another folder; ``--dir`` wins over it."""

PROJECT = ".agent"
"""Where a project says what it wants."""


def enter(folder: str, environment: MutableMapping[str, str]) -> Path:
    """Go into ``folder`` for good; its absolute path, its links as they are written.

    Whatever ``AGENT_WORKING_DIR`` said is forgotten: every layer of configuration has to mean the same folder. Raises
    ``UseError``.
    """
    path = Path(os.path.abspath(folder))  # noqa: PTH100  as it is written: a client may compare it
    if not folder or not path.is_dir():
        raise UseError(f"--dir {folder!r} is not a directory: give the path of an existing folder")
    try:
        os.chdir(path)
    except OSError as problem:
        raise UseError(f"--dir {folder!r} cannot be entered: {problem.strerror} (choose another folder)") from None
    environment.pop(WORKING_FOLDER, None)
    return path


def workplace(environment: MutableMapping[str, str], home: Path) -> Path:
    """Where ``AGENT_WORKING_DIR`` says, else the current folder. Raises ``UseError``.

    The variable is made absolute: configuration reads it, too, and would take it from the folder that it names.
    """
    try:
        here = Path.cwd()
    except OSError:
        raise UseError("the current folder is gone: start the server in another, or give --dir") from None
    named = environment.get(WORKING_FOLDER, "").strip() or None
    folder = working_folder(named, here, home)
    if named is not None and not folder.is_dir():
        raise UseError(f"{WORKING_FOLDER} names {named!r}, which is not a directory: correct it, or give --dir")
    if named is not None:
        environment[WORKING_FOLDER] = str(folder)
    return folder


async def make_folders(folder: Path, configs: WorkspaceConfigs) -> None:
    """Make ``.agent``, the output folder and the uploads folder, where they are not there. Raises ``UseError``."""
    config = await configs.read(folder)
    wanted = (folder / PROJECT, config.output_directory, config.uploads_directory)
    await asyncio.to_thread(_make, wanted)


def _make(folders: tuple[Path, ...]) -> None:
    for folder in folders:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            raise UseError(
                f"the folder {str(folder)!r} cannot be made: {problem.strerror} (--make-folders asks for it)"
            ) from None
