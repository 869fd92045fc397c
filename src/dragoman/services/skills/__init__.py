"""Skills and slash commands, as they lie in folders: docs/skills.md."""

from .folders import SkillFolders
from .settings import SkillSettings

__all__ = ["SkillFolders", "SkillSettings"]
