"""What users of a dialect have set for themselves: a log of changes for each, and what it folds to."""

from .store import SettingsUnavailable, UserSettings

__all__ = ["SettingsUnavailable", "UserSettings"]
