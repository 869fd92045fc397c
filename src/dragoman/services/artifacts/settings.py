"""Settings of artifacts (``[artifacts]``): how much is kept of what comes to sessions. Sizes are bytes."""

from __future__ import annotations

import msgspec


class ArtifactSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Pictures and other bytes that sessions are sent, and that lie in the data folder."""

    size: int = 64 * 1024 * 1024
    """Of one artifact; a larger one is refused."""

    per_session: int = 2 * 1024 * 1024 * 1024
    """Of all artifacts of one session; what would be more is refused."""

    spare: int = 256 * 1024 * 1024
    """Left free on the disk, but no more than a fiftieth of it; what would need more than that leaves is refused."""

    threads: int = 2
    """Artifacts that are written or read at once; others wait."""


class OwnedArtifactSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Pictures and documents that users upload by themselves, and that belong to them and to no session."""

    size: int = 32 * 1024 * 1024
    """Of one artifact; a larger one is refused."""

    per_owner: int = 1024 * 1024 * 1024
    """Of all artifacts of one user; what would be more is refused."""

    count_per_owner: int = 10_000
    """Artifacts that one user may have; one more is refused."""

    spare: int = 256 * 1024 * 1024
    """Left free on the disk, but no more than a fiftieth of it; what would need more than that leaves is refused."""

    days: int = 0
    """After which an artifact goes; 0 is never."""

    sweep_every: float = 3600.0
    """Seconds between two looks for artifacts whose days are over; nobody gets such a one before that either."""

    threads: int = 2
    """Artifacts that are written or read at once; others wait."""
