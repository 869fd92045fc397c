"""What a user's turns are run with, as introspection shows it: four keys, with what a request puts in their place.

Spec §8 "Introspection"; seed: ``config`` of the routes below ``/api/sdk/``.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from dragoman.hub.events import Json
from dragoman.hub.providers import Preferred

from .preferences import DEFAULTS


class ConfigSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """All four are texts: who answers is empty where nobody would."""

    model_mode: str
    model_provider: str
    selected_model_id: str
    interaction_mode: str


def overridden(
    preferences: Mapping[str, Json],
    *,
    model_id: str | None,
    model_provider: str | None,
    interaction_mode: str | None,
) -> dict[str, Json]:
    """A user's settings with what a request says instead, for this one request."""
    instead = {
        "selected_model_id": model_id,
        "model_provider": model_provider,
        "interaction_mode": interaction_mode,
    }
    return {**preferences, **{name: value for name, value in instead.items() if value is not None}}


def config_of(preferences: Mapping[str, Json], answerer: Preferred | None) -> ConfigSnapshot:
    """The snapshot of these settings. ``answerer`` would answer a turn with them; None: nobody can."""
    return ConfigSnapshot(
        model_mode=_text(preferences, "model_mode"),
        model_provider=_text(preferences, "model_provider") or (answerer.provider if answerer else ""),
        selected_model_id=_text(preferences, "selected_model_id") or (answerer.model if answerer else ""),
        interaction_mode=_text(preferences, "interaction_mode"),
    )


def _text(preferences: Mapping[str, Json], name: str) -> str:
    value = preferences.get(name) or DEFAULTS[name]
    return value if isinstance(value, str) else ""
