"""The Previews port: what an agent would give its model, without a session and without asking anybody.

Implemented by the native agent with the functions that its turns use, so that what is shown is what would be sent.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from .events import HistoryMessage, Json
from .tool_offers import ToolOffer


class PreviewWanted(msgspec.Struct, frozen=True, kw_only=True):
    """A prompt that nobody sends.

    ``settings`` are those of the session that it would be in, ``history`` is what was said there before, ``tools`` are
    what clients would run.
    """

    cwd: str
    settings: dict[str, Json]
    prompt: str
    history: tuple[HistoryMessage, ...] = ()
    tools: tuple[ToolOffer, ...] = ()


class Previewed(msgspec.Struct, frozen=True, kw_only=True):
    """What the model would be given.

    Tools are objects of ``name``, ``description`` and ``schema``, as ``context.reported`` has them: those that are
    ``known`` before the settings take any away, and those that are ``offered``. ``messages`` are roles and texts, the
    prompt's last. ``tokens`` is an estimate, or None for the reason ``uncounted``.
    """

    provider: str | None
    model: str | None
    system: str
    messages: tuple[HistoryMessage, ...]
    known: list[Json]
    offered: list[Json]
    web_search: bool
    tokens: int | None
    uncounted: str | None = None


class Previews(Protocol):
    """See the module."""

    async def preview(self, wanted: PreviewWanted) -> Previewed:
        """Nothing is recorded, and no model is asked.

        Raises ``InvalidRequest`` for a model that nobody has, ``Unsupported`` where a program of its own runs the
        turns: what its model is given is not ours to say.
        """
