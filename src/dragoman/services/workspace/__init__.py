"""What a person and a project want in a folder, in layers: docs/configuration.md."""

from .configs import LayeredConfigs
from .settings import WorkspaceSettings

__all__ = ["LayeredConfigs", "WorkspaceSettings"]
