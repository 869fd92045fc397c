"""Artifacts: bytes that came to sessions, kept by their content beside the journal, and those that users uploaded."""

from .owned import OwnedArtifacts
from .owned_table import Owned
from .refused import NoRoom, OverQuota, TooLarge, UnknownType, UnsafeId
from .settings import ArtifactSettings, OwnedArtifactSettings
from .store import ArtifactStore

__all__ = [
    "ArtifactSettings",
    "ArtifactStore",
    "NoRoom",
    "OverQuota",
    "Owned",
    "OwnedArtifactSettings",
    "OwnedArtifacts",
    "TooLarge",
    "UnknownType",
    "UnsafeId",
]
