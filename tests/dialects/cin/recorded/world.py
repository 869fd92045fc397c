"""The folder and the programs that the recorder's machine had, as far as the recordings see them."""

from __future__ import annotations

import subprocess
from pathlib import Path

FOLDERS = ("bin", "coding-agent-bridge", "frames", "proj", "proj-evil", "src")

AUTHOR = ("-c", "user.name=demo", "-c", "user.email=demo@example.invalid", "-c", "init.defaultBranch=main")


def make(root: Path) -> None:
    """What stood in ``/home/user``: a repository with one commit, and some folders beside it."""
    for name in FOLDERS:
        (root / name).mkdir(parents=True)
    project = root / "proj"
    (project / "a.txt").write_text("hi\n", "utf-8")
    _git(project, "init", "-q")
    _git(project, "add", "a.txt")
    _git(project, "commit", "-q", "-m", "first")


def _git(folder: Path, *words: str) -> None:
    subprocess.run(["git", *AUTHOR, *words], cwd=folder, check=True, capture_output=True)
