"""Text tiles (spec §2.4): none are kept yet."""

from __future__ import annotations

from pathlib import Path

from . import messages as wire
from .settings import CinSettings


class Tiles:
    """``path`` is the file that they will lie in."""

    def __init__(self, path: Path, settings: CinSettings) -> None:
        self._path = path
        self._settings = settings

    def all(self) -> list[wire.TextTile]:
        """Every tile."""
        return []
