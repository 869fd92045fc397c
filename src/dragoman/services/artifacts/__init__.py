"""Artifacts: bytes that came to sessions, kept by their content beside the journal, and those that users uploaded."""

from .owned import OwnedArtifacts
from .owned_table import Owned
from .settings import ArtifactSettings, OwnedArtifactSettings
from .store import ArtifactStore

__all__ = ["ArtifactSettings", "ArtifactStore", "Owned", "OwnedArtifactSettings", "OwnedArtifacts"]
