"""Real repositories, made by the real git, with nothing of this machine's own configuration."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from dragoman.services.git import FolderStatus, GitSettings
from dragoman.services.git.looking import Looker, Seen
from dragoman.services.git.program import Git

AT = 1_700_000_000
"""When commits are made, in seconds since 1970."""


class Person:
    """Somebody with a home, and a git that knows nothing else of them."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.home.mkdir(parents=True)
        self.environment = {"PATH": os.environ["PATH"], "HOME": str(self.home)}

    def git(self, folder: Path, *words: str, status: int = 0, env: Mapping[str, str] | None = None) -> str:
        """Run git there, as the person would; what it says."""
        names = {f"GIT_{who}_{what}": "x@example" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        times = {f"GIT_{who}_DATE": f"{AT} +0000" for who in ("AUTHOR", "COMMITTER")}
        own = {"GIT_CONFIG_NOSYSTEM": "1", **names, **times}
        done = subprocess.run(  # noqa: PLW1510  looked at below
            ("git", "-c", "protocol.file.allow=always", *words),
            cwd=folder,
            env={**self.environment, **own, **(env or {})},
            capture_output=True,
            text=True,
            errors="replace",
            timeout=60,
        )
        assert done.returncode == status or status < 0, (words, done)
        return done.stdout

    def repository(self, folder: Path, *words: str, files: Mapping[str, str] | None = None) -> Path:
        """A repository on branch main, with one commit of these files: ``a.txt`` by default, no commit for no files."""
        folder.mkdir(parents=True, exist_ok=True)
        self.git(folder, "init", "-q", "-b", "main", *words)
        wanted = {"a.txt": "one\ntwo\n"} if files is None else files
        for name, text in wanted.items():
            write(folder / name, text)
        if wanted:
            self.commit(folder, "first")
        return folder

    def commit(self, folder: Path, subject: str) -> None:
        """Commit all that there is."""
        self.git(folder, "add", "-A")
        self.git(folder, "commit", "-q", "-m", subject)


def write(path: Path, text: str = "new\n") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


class Eye:
    """Looks at folders as the poller does, without its loop."""

    def __init__(self, person: Person, folder: Path, **changes: Any) -> None:
        # Other work on the machine must not make git look slow.
        self.settings = msgspec.structs.replace(GitSettings(patience=30.0), **changes)
        self.git = Git(self.settings, person.environment)
        base = folder / "base"
        base.mkdir()
        self.looker = Looker(self.git, self.settings, base)
        self.base = base

    def look(self, folder: Path, before: Seen | None = None) -> Seen:
        seen = self.looker.look(str(folder), before, 123)
        assert not [left for left in self.base.iterdir() if left.is_dir()], "what is needed for a look goes with it"
        return seen

    def sees(self, folder: Path) -> FolderStatus:
        """The status, of which nothing was left out."""
        seen = self.look(folder)
        assert seen.failure is None, seen.failure
        return seen.status


def counts(status: FolderStatus) -> dict[str, Any]:
    """What there is to count, without what is zero: ``{"staged.added": 1, "untracked": 2, "total": 3}``."""
    found: dict[str, int] = {}
    for side in ("staged", "unstaged"):
        for kind in ("added", "modified", "deleted"):
            found[f"{side}.{kind}"] = getattr(getattr(status, side), kind)
    found |= {"untracked": status.untracked, "total": status.total_files}
    return {name: count for name, count in found.items() if count}
