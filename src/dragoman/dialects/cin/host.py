"""What the bridge's HTTP routes speak for: everything of the dialect that they need, and no more."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from starlette.requests import Request
from starlette.types import Scope

from dragoman.hub.permissions import Principal
from dragoman.hub.ports import HookIntake
from dragoman.hub.registry import Registry

from . import messages as wire
from .disk import Disk
from .projects import Projects
from .settings import CinSettings

if TYPE_CHECKING:
    from dragoman.hub.journal import SessionRow

    from .feedback import FeedbackStore
    from .known_folders import KnownFolders
    from .tiles import Tiles


class Host(msgspec.Struct, frozen=True):
    """``folder`` is the server's workplace; ``disk`` where files are read and written, ``known`` which folders may be
    looked into.

    ``makes_sessions``: clients may make some. ``principal`` is who sends a request, None for whoever may not;
    ``may_post`` whether its hooks are taken. ``show`` is a session as clients see it.
    """

    registry: Registry
    settings: CinSettings
    intake: HookIntake
    folder: Path
    makes_sessions: bool
    disk: Disk
    known: KnownFolders
    projects: Projects
    tiles: Tiles
    feedback: FeedbackStore
    principal: Callable[[Request], Principal | None]
    may_post: Callable[[Scope], bool]
    show: Callable[[SessionRow], wire.Session]
    clients: Callable[[], int]
