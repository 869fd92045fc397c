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
from .settings import CinSettings

if TYPE_CHECKING:
    from dragoman.hub.journal import SessionRow


class Host(msgspec.Struct, frozen=True):
    """``folder`` is the server's workplace, ``state`` where the dialect keeps what it writes.

    ``principal`` is who sends a request, None for whoever may not; ``may_post`` whether its hooks are taken. ``show``
    is a session as clients see it.
    ``announce`` tells all links of an extension by its name without a namespace (``text_tiles``) and its data.
    """

    registry: Registry
    settings: CinSettings
    intake: HookIntake
    folder: Path
    state: Path
    principal: Callable[[Request], Principal | None]
    may_post: Callable[[Scope], bool]
    show: Callable[[SessionRow], wire.Session]
    announce: Callable[[str, object], None]
    clients: Callable[[], int]
