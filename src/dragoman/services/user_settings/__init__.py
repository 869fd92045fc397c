"""What users of a dialect have set for themselves: a log of changes for each, and what it folds to."""

from .file import SettingsUnavailable
from .store import Change, UserSettings

__all__ = ["Change", "SettingsUnavailable", "UserSettings"]
