"""Settings of the git status of folders (``[git]``). Times are seconds, sizes bytes."""

from __future__ import annotations

import msgspec


class GitSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How often folders are looked at, and how much one look may take."""

    program: str = "git"
    """Name or path of git. Where there is none, no folder is a repository."""

    settle: float = 1.0
    """Least time between two looks at a folder, and from what an agent did there to the look that it causes."""

    tick: float = 30.0
    """After which a folder is looked at although nothing is known to have happened there."""

    glance: float = 2.0
    """Between two glances at whether a commit, a checkout or ``git add`` changed a repository. No program is run."""

    rest: float = 10.0
    """A folder that took long is left alone for so many times as long: large ones cost a share, not the machine."""

    patience: float = 5.0
    """That one command may take. What it did not say by then stays as it was, and untracked files are not looked for
    in that folder any more."""

    output_bytes: int = 32 * 1024 * 1024
    """Read of what one command says; what it says beyond that is not counted."""

    config_bytes: int = 1024 * 1024
    """Of a repository's configuration; with a larger one it is treated as if it had none."""

    message_chars: int = 500
    """Of the newest commit's subject; a longer one is cut."""

    folders: int = 1000
    """Watched at once; of further ones nothing is said."""

    def __post_init__(self) -> None:
        for name in ("settle", "tick", "glance", "rest", "patience"):
            if not getattr(self, name) > 0:  # nor what is no number
                raise ValueError(f"git.{name}: {getattr(self, name)} is not more than 0")
