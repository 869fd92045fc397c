"""Git: what a repository says of itself, looked at now and then, with nothing but git run for it."""

from .folders import GitFolders
from .settings import GitSettings
from .status import Changes, FolderStatus

__all__ = ["Changes", "FolderStatus", "GitFolders", "GitSettings"]
