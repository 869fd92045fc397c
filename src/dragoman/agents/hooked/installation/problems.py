"""What keeps hooks from being installed or removed."""

from __future__ import annotations


class CannotInstall(Exception):
    """The text names the file, says what is wrong with it, and what to do. Nothing was changed."""
