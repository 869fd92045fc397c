"""What this dialect's HTTP side speaks for: the host, as its routes see it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec

from dragoman.dialects.base import TokenCheck
from dragoman.hub.clock import Clock
from dragoman.services.trust import Trust
from dragoman.services.uploads import UploadSettings

from .console import Console
from .results import Results
from .sessions import Sessions
from .settings import OnionSettings


class Skill(msgspec.Struct, frozen=True):
    """A skill, as ``/info`` names it."""

    name: str
    description: str


class About(msgspec.Struct, frozen=True):
    """What there is to know of the agent that new sessions get."""

    tools: tuple[str, ...] = ()
    model: str = "unknown"
    skills: tuple[Skill, ...] = ()


class Host(msgspec.Struct, frozen=True, kw_only=True):
    """What the routes speak for. ``address`` is the host's own identity; ``token`` checks the server's token in
    constant time, None when it has none; ``started`` is on the clock's monotonic scale (seconds); ``recheck`` has links
    look whether who is at their other end is still let in."""

    settings: OnionSettings
    clock: Clock
    trust: Trust
    sessions: Sessions
    results: Results
    console: Console
    uploads: UploadSettings
    address: str
    token: TokenCheck | None
    about: Callable[[], Awaitable[About]]
    started: float
    recheck: Callable[[], None]
