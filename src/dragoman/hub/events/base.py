"""The base that all facts share."""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

Json: TypeAlias = Any
"""A JSON value exactly as it came: null, bool, number, string, list or object."""


class Origin(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where a fact was seen, when it was not the executor itself that reported it.

    ``source`` is ``hook``, ``log``, ``screen``, ``status``, a dialect's name, or how the hook of an agent elsewhere
    came (``http``, ``file``, with ``:event`` behind it where a script had made an event of it); ``id`` and ``at``
    (milliseconds since 1970) are the poster's own, ``agent_session`` and ``subagent`` the agent's names for themselves.
    """

    source: str
    id: str | None = None
    at: int | None = None
    agent_session: str | None = None
    subagent: str | None = None
    cwd: str | None = None


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why something failed. ``message`` is safe to show: no key, no token, no traceback."""

    code: str
    message: str
    source: str | None = None
    detail: Json = None


class Fact(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type"):
    """Something that happened in a session. Subclasses carry the tag that names them on disk.

    Fields added later must have a default, so that logs written before stay readable. The same ``origin.id`` twice is
    one fact.
    """

    origin: Origin | None = None
