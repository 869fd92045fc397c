"""Which model a session wants: as it says itself, else as its folder's configuration does."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from dragoman.hub.events import Json
from dragoman.hub.workspace_config import WorkspaceConfig


class Preference(msgspec.Struct, frozen=True):
    """None stands for what nobody said: the server's own settings decide, and sub-agents have their agent's model."""

    provider: str | None = None
    model: str | None = None
    subagent_model: str | None = None


def preference(settings: Mapping[str, Json], config: WorkspaceConfig | None) -> Preference:
    """What the session's settings ``provider`` and ``model`` say, and behind them the configuration.

    A model of the configuration is one of its provider: a session that names another provider does not get it. One that
    names a model has it for its sub-agents too.
    """
    provider, model = _text(settings.get("provider")), _text(settings.get("model"))
    if config is None or provider not in (None, config.provider):
        return Preference(provider, model)
    if model is not None:
        return Preference(config.provider, model)
    return Preference(config.provider, config.model, config.sub_agent_model)


def _text(value: Json) -> str | None:
    return value if isinstance(value, str) and value else None
