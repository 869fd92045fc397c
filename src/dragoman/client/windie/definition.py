"""The agent as a handshake defines it (seed: Handshake, agent_definition): only keys that the protocol has."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Part = Mapping[str, Any]
"""A prompt layer, a skill, a plugin: as on the wire."""

_SYSTEMS = {"Darwin": "macOS"}


@dataclass(frozen=True, kw_only=True)
class Definition:
    """What ``wake_up`` is told of the agent, but for its tools' functions.

    ``tool_mode`` is ``default``, ``default_plus_client``, ``client_only`` or ``explicit``; the lists of names only
    narrow what the server offers. None leaves it to the server.
    """

    agent_id: str | None = None
    name: str | None = None
    mode: str | None = None
    system_prompt: str | None = None
    workspace_path: str | None = None
    plugins: Sequence[Part] = ()
    prompt_layers: Sequence[Part] = ()
    skills: Sequence[Part] = ()
    agents_md: Sequence[Part] = ()
    tool_mode: str | None = None
    available_tools: Sequence[str] | None = None
    enabled_remote_tools: Sequence[str] | None = None
    disabled_tools: Sequence[str] | None = None
    disabled_capabilities: Sequence[str] | None = None
    coordinate_methods: Sequence[str] | None = None
    operating_system: str | None = None
    metadata: Part | None = None

    def encoded(self, manifest: Part | None) -> dict[str, Any]:
        """The ``agent_definition``, with these client tools."""
        prompt = None if self.system_prompt is None else {"mode": "replace", "content": self.system_prompt}
        said = {
            "id": self.agent_id,
            "name": self.name,
            "mode": self.mode,
            "system_prompt": prompt,
            "tools": self._tools(manifest) or None,
            "plugins": [_plugin(plugin) for plugin in self.plugins] or None,
            "prompt_layers": list(self.prompt_layers) or None,
            "skills": list(self.skills) or None,
            "agents_md": list(self.agents_md) or None,
            "runtime": self._runtime(),
            "metadata": self.metadata,
        }
        return {"version": 1, **_given(said)}

    def client_tools(self) -> list[Any]:
        """Tools that came with the plugins, which run here and are no part of a plugin on the wire."""
        return [tool for plugin in self.plugins for tool in plugin.get("tools", ())]

    def _tools(self, manifest: Part | None) -> dict[str, Any]:
        return _given(
            {
                "mode": self.tool_mode or ("default_plus_client" if manifest is not None else None),
                "client_manifest": manifest,
                "available_tools": _names(self.available_tools),
                "enabled_remote_tools": _names(self.enabled_remote_tools),
                "disabled_tools": _names(self.disabled_tools),
                "disabled_capabilities": _names(self.disabled_capabilities),
            }
        )

    def _runtime(self) -> dict[str, Any]:
        here = platform.system()
        return _given(
            {
                "operating_system": self.operating_system or _SYSTEMS.get(here, here) or None,
                "workspace_path": self.workspace_path,
                "coordinate_methods": _names(self.coordinate_methods),
            }
        )


def _plugin(plugin: Part) -> dict[str, Any]:
    return {name: value for name, value in plugin.items() if name != "tools"}


def _names(names: Sequence[str] | None) -> list[str] | None:
    return None if names is None else list(names)


def _given(said: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in said.items() if value is not None}
