"""Why a user's artifact is not taken or not given, beside ``ArtifactGone`` and ``ArtifactProblem`` of the port."""

from __future__ import annotations

from dragoman.hub.artifacts import ArtifactProblem


class TooLarge(ArtifactProblem):
    """It has more bytes than one artifact may have; ``limit`` of them are fine."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"it is longer than {limit} bytes")
        self.limit = limit


class OverQuota(ArtifactProblem):
    """With it the owner would have more than one may have."""


class NoRoom(ArtifactProblem):
    """The disk is as good as full."""


class UnknownType(ArtifactProblem):
    """By its content it is nothing that is taken."""


class UnsafeId(ArtifactProblem):
    """This cannot be the id of any artifact."""
