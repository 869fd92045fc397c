"""The Artifacts port: bytes that came to a session and are no part of its log, pictures above all.

An artifact's id is the SHA-256 of what it holds, in hex: the same bytes are one artifact, however often they come to a
session. It means nothing outside of its session (invariant 12). The log says what an artifact is (``artifact.stored``)
and where it belongs (``prompt.submitted.attachments``); whoever implements this port holds its bytes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import BinaryIO, Protocol

import msgspec

_ID = re.compile(r"[0-9a-f]{64}")


class ArtifactProblem(Exception):
    """It could not be done, and nothing was changed. ``str()`` is for people: it says what stood in the way."""


class ArtifactGone(ArtifactProblem):
    """This session has no such artifact, or no longer."""


class Artifact(msgspec.Struct, frozen=True):
    """One that is kept: its id, and its size in bytes."""

    id: str
    size: int


def is_artifact(name: str) -> bool:
    """Whether this is how an artifact is called. Other attachments name where else they lie: ``upload:PATH``."""
    return _ID.fullmatch(name) is not None


class Artifacts(Protocol):
    """See the module. Sessions are named by their ids. What is ``put`` is on disk when the call returns."""

    async def put(self, session: str, pieces: Iterable[bytes]) -> Artifact:
        """Keep what these bytes make together, for one more who refers to it; they are taken in a thread.

        Raises ``ArtifactProblem`` (too large, no room), and whatever ``pieces`` raises: then nothing of it is kept. So
        it is with a call that is cancelled.
        """

    async def release(self, session: str, artifact: str) -> None:
        """Whoever put it does not refer to it after all: it goes, unless others do. Fine if there is none."""

    async def stat(self, session: str, artifact: str) -> Artifact:
        """What is kept under this id. Raises ``ArtifactGone``."""

    async def read(self, session: str, artifact: str) -> bytes:
        """The whole of it. Raises ``ArtifactGone`` (also for one that is not what its id says), ``ArtifactProblem``."""

    async def open(self, session: str, artifact: str) -> BinaryIO:
        """A file to read from, also in part: seekable, and whole even if the artifact goes meanwhile.

        The caller closes it, and reads in a thread. Raises as ``stat``.
        """

    def dropped(self, session: str) -> None:
        """The session's log is gone: let everything of it go."""

    async def sweep(self, kept: Callable[[str], bool]) -> None:
        """Let go of what belongs to sessions that are no longer there, and of what was never finished.

        ``kept`` says of a session whether it is there; it is asked on the loop, after what lies here was listed.
        """
