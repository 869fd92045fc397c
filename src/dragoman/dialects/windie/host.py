"""What links and routes of the dialect speak for: everything of it that they need, and no more."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from dragoman.hub.clock import Clock
from dragoman.hub.previews import Previews
from dragoman.hub.providers import Providers
from dragoman.hub.registry import Registry
from dragoman.services.artifacts import OwnedArtifacts
from dragoman.services.installs import Access, Installs
from dragoman.services.runs import Runs
from dragoman.services.user_settings import UserSettings

from .conversations import Conversations
from .settings import WindieSettings


class Host(msgspec.Struct, frozen=True):
    """``folder`` is the server's workplace. ``revoked`` tells the links of an install that its token is nobody's any
    more; ``search_problem`` says why the web cannot be searched now, or None."""

    registry: Registry
    settings: WindieSettings
    clock: Clock
    folder: Path
    access: Access
    installs: Installs
    artifacts: OwnedArtifacts
    runs: Runs
    users: UserSettings
    providers: Providers
    previews: Previews
    conversations: Conversations
    revoked: Callable[[str], None]
    search_problem: Callable[[], str | None]
