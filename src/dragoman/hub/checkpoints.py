"""The Checkpoints port: images of a session's workspace, kept beside the log.

The log says which checkpoints a session has; whoever implements this port holds what is in them. It keeps the work on
one folder in series, whichever sessions work there: a checkpoint is never taken of a folder that is being restored.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import msgspec

from .events import Json


class CheckpointProblem(Exception):
    """It could not be done, and nothing was changed. ``str()`` is for people: it says what stood in the way."""


class CheckpointGone(CheckpointProblem):
    """Nothing is kept of this checkpoint, for whatever reason: it cannot come back."""


class Saved(msgspec.Struct, frozen=True, kw_only=True):
    """A checkpoint that was taken. ``changed``: the workspace differs from the session's first checkpoint.

    ``size`` is the bytes on disk that it took beyond what was there. ``dropped`` are older checkpoints of the session
    that were let go to keep within the quota: never the first one.
    """

    changed: bool
    size: int
    dropped: tuple[str, ...] = ()
    detail: dict[str, Json] = {}


class Checkpoints(Protocol):
    """See the module. Every call that is cancelled leaves things as they were before it."""

    def folder(self, session: str) -> Path:
        """Where what belongs to this session's checkpoints lies, whether or not there is any."""

    async def take(self, session: str, cwd: Path, checkpoint: str, *, first: str | None) -> Saved:
        """Save ``cwd`` under this id, new in its session. ``first`` is the session's first checkpoint, or None.

        Raises ``CheckpointProblem`` when the image would not be true: a file changed meanwhile, or cannot be read.
        """

    async def restore(self, session: str, cwd: Path, checkpoint: str, *, safety: str, first: str) -> Saved:
        """Save ``cwd`` as ``safety``, then make it what ``checkpoint`` holds. Raises ``CheckpointProblem``.

        When it raises, the folder is as it was, and no ``safety`` is kept.
        """

    async def delete(self, session: str, checkpoint: str) -> None:
        """Let one go. What others share stays. Raises ``CheckpointProblem``."""

    def closed(self, session: str) -> None:
        """The session is over: nothing will be taken of it any more."""

    def dropped(self, session: str) -> None:
        """The session's log is gone: let everything of it go."""

    async def close(self) -> None:
        """End what runs."""
