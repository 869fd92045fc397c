"""Artifacts: bytes that came to sessions, kept by their content beside the journal."""

from .settings import ArtifactSettings
from .store import ArtifactStore

__all__ = ["ArtifactSettings", "ArtifactStore"]
