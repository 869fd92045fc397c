"""What surrounds the agents of a server: the person's and the project's configuration, skills, checkpoints."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

from dragoman.services.skills import SkillFolders
from dragoman.services.workspace import LayeredConfigs

from .settings import Settings


class Surroundings:
    """One for a server. ``providers`` are the ids that a configuration may name."""

    def __init__(self, settings: Settings, providers: Collection[str]) -> None:
        # Not Path.home(), which raises where a user has none: such a one has no configuration.
        self.home = Path(os.path.expanduser("~"))  # noqa: PTH111
        self.configs = LayeredConfigs(self.home, os.environ, providers, settings=settings.workspace)
        self.skills = SkillFolders(self.home, os.environ, self.configs, settings=settings.skills)
