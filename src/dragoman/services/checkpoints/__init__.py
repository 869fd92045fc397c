"""Checkpoints: true images of workspaces, and the way back to one (docs/checkpoints.md)."""

from .settings import CheckpointSettings
from .store import CheckpointStore

__all__ = ["CheckpointSettings", "CheckpointStore"]
