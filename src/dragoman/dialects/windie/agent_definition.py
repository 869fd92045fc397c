"""An agent as its client describes it, and what that does to a session: tools, prompt (spec §3; seed: Handshake)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Annotated, Any, Literal

import msgspec

from .client_manifest import RESERVED_GROUNDING, AcceptedTool
from .fields import Distinct, Shape, Text, Whole

NAME = r"[a-zA-Z0-9_.:-]+"

Mode = Literal["default", "default_plus_client", "client_only", "explicit"]
Capability = Literal["ocr", "vision", "embeddings", "web_search", "browser"]
CoordinateMethod = Literal["manual", "ocr", "prediction"]

ContributionId = Annotated[str, Text(least=1, most=128, pattern=NAME)]
Entry = Annotated[str, Text(trim=True, filled=True)]
Entries = Annotated[tuple[Entry, ...], Distinct]

_TOOLS_OF: dict[Capability, str] = {"web_search": "web_search", "browser": "browser"}
_GROUNDED_BY: dict[Capability, CoordinateMethod] = {"ocr": "ocr", "vision": "prediction"}


class SystemPrompt(Shape, frozen=True, kw_only=True):
    """The client's system prompt."""

    mode: Literal["default", "replace"] = "default"
    content: Annotated[str, Text(most=400_000)] | None = None

    @property
    def replacement(self) -> str | None:
        """The text that stands in for the server's, if it is to be replaced and there is one."""
        if self.mode != "replace" or self.content is None or not self.content.strip():
            return None
        return self.content


class Contribution(Shape, frozen=True, kw_only=True):
    """A piece of the prompt; a lower ``priority`` comes first."""

    id: ContributionId
    type: Annotated[str, Text(least=1, most=64, pattern=NAME)]
    content: Annotated[str, Text(least=1, most=200_000, filled=True)]
    priority: Annotated[int, Whole(0, 1000)] = 100
    revision: Annotated[str, Text(most=128)] | None = None
    source_path: Annotated[str, Text(most=4096)] | None = None


class Plugin(Shape, frozen=True, kw_only=True):
    """What a plugin of the client adds."""

    id: ContributionId
    name: Annotated[str, Text(most=128)] | None = None
    version: Annotated[str, Text(most=64)] | None = None
    prompt_layers: tuple[Contribution, ...] = ()
    metadata: dict[str, Any] = {}


class Tools(Shape, frozen=True, kw_only=True):
    """Which tools a session sees. ``client_manifest`` is any JSON: what is wrong with it is told and refuses nothing
    (``client_manifest.validate_manifest``)."""

    mode: Mode = "default_plus_client"
    client_manifest: Any = None
    available_tools: Entries | None = None
    enabled_remote_tools: Entries = ()
    disabled_tools: Entries = ()
    disabled_capabilities: Annotated[tuple[Capability, ...], Distinct] = ()

    @property
    def is_policy(self) -> bool:
        """Whether it says itself which tools are seen, so that an empty manifest means: none."""
        return (
            self.mode in {"client_only", "explicit"}
            or self.available_tools is not None
            or bool(self.enabled_remote_tools or self.disabled_tools or self.disabled_capabilities)
        )


class Runtime(Shape, frozen=True, kw_only=True):
    """Where the client runs. ``coordinate_methods`` None: it does not say."""

    operating_system: Annotated[str, Text(most=64, blank_is_null=True)] | None = None
    workspace_path: Annotated[str, Text(most=4096, blank_is_null=True)] | None = None
    coordinate_methods: Annotated[tuple[CoordinateMethod, ...], Distinct] | None = None


class AgentDefinition(Shape, frozen=True, kw_only=True):
    """The whole of it; every object refuses fields that it does not name."""

    version: Literal[1] = 1
    id: Annotated[str, Text(most=128, blank_is_null=True)] | None = None
    name: Annotated[str, Text(most=128)] | None = None
    mode: Literal["default", "default_plus_overrides", "custom"] = "default_plus_overrides"
    system_prompt: SystemPrompt = SystemPrompt()
    tools: Tools = Tools()
    prompt_layers: tuple[Contribution, ...] = ()
    skills: tuple[Contribution, ...] = ()
    agents_md: tuple[Contribution, ...] = ()
    plugins: tuple[Plugin, ...] = ()
    runtime: Runtime = Runtime()
    metadata: dict[str, Any] = {}


def merged(handshake: AgentDefinition | None, query: AgentDefinition | None) -> AgentDefinition | None:
    """The definition that a query's turn has: its own, but for a manifest that it leaves out (spec §5 query).

    An empty manifest replaces the handshake's only beside a policy (``Tools.is_policy``).
    """
    if query is None or handshake is None:
        return query or handshake
    if not _leaves_out_manifest(query.tools):
        return query
    tools = msgspec.structs.replace(query.tools, client_manifest=handshake.tools.client_manifest)
    return msgspec.structs.replace(query, tools=tools)


def _leaves_out_manifest(tools: Tools) -> bool:
    manifest = tools.client_manifest
    if manifest is None:
        return True
    empty = isinstance(manifest, dict) and manifest.get("tools") == []
    return empty and not tools.is_policy


def prompt_layers_of(definition: AgentDefinition | None) -> tuple[Contribution, ...]:
    """Everything that adds to the prompt, in its order: by priority, then agents, skills, layers, plugins."""
    if definition is None:
        return ()
    gathered = [*definition.agents_md, *definition.skills, *definition.prompt_layers]
    for plugin in definition.plugins:
        gathered.extend(plugin.prompt_layers)
    return tuple(sorted(gathered, key=lambda layer: layer.priority))


def visible_tools(
    definition: AgentDefinition | None,
    server_defaults: Sequence[str],
    client_accepted: Sequence[AcceptedTool],
    backend_available: Collection[str],
) -> tuple[str, ...]:
    """The names of the tools that a session's model is offered, in order, each once (spec §3).

    ``server_defaults`` are what the server offers unasked, ``backend_available`` all that its policy, its settings and
    the interaction mode allow: a client chooses among those and adds its own, it never makes another one available.
    """
    tools = definition.tools if definition is not None else Tools(mode="default")
    clients = {tool.name: tool for tool in client_accepted}
    wanted = dict.fromkeys(_wanted(tools, server_defaults, clients))
    allowed = (name for name in wanted if name in clients or name in backend_available)
    narrowed = _narrowing(tools, definition.runtime if definition is not None else Runtime(), clients)
    off = frozenset(narrowed)
    return tuple(name for name in allowed if name not in off)


def _wanted(tools: Tools, server_defaults: Sequence[str], clients: Iterable[str]) -> Iterator[str]:
    if tools.mode == "client_only":
        return iter((*clients, *tools.enabled_remote_tools))
    if tools.mode == "explicit" or tools.available_tools is not None:
        return iter((*(tools.available_tools or ()), *clients, *tools.enabled_remote_tools))
    return iter((*server_defaults, *(clients if tools.mode == "default_plus_client" else ())))


def _narrowing(tools: Tools, runtime: Runtime, clients: dict[str, AcceptedTool]) -> Iterator[str]:
    """The names that are off."""
    yield from tools.disabled_tools
    yield from (_TOOLS_OF[each] for each in tools.disabled_capabilities if each in _TOOLS_OF)
    if not _can_ground(tools, runtime):
        yield from RESERVED_GROUNDING
        yield from (tool.name for tool in clients.values() if tool.argument_resolution == "backend_grounding")


def _can_ground(tools: Tools, runtime: Runtime) -> bool:
    """Whether a way is left in which the server finds a point in a picture."""
    methods = runtime.coordinate_methods
    return any(
        capability not in tools.disabled_capabilities and (methods is None or method in methods)
        for capability, method in _GROUNDED_BY.items()
    )
