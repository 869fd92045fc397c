"""Tools as the routes of introspection show them: flat, and without what only the socket says (spec §6, §8)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from dragoman.hub.events import Json
from dragoman.hub.previews import Previewed

from .client_manifest import AcceptedTool
from .messages import ToolFunction
from .projection import WEB_SEARCH, tool_schemas, wire_name


class FunctionSpec(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="function"):
    """A function that a model may call; ``parameters`` is a JSON schema."""

    name: str
    description: str | msgspec.UnsetType = msgspec.UNSET
    parameters: dict[str, Any]


class HostedSearchSpec(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="web_search"):
    """A search of the web that the provider makes by itself, in place of our own function."""

    name: str = WEB_SEARCH


ProviderSpec = FunctionSpec | HostedSearchSpec


def canonical_specs(shown: Previewed, accepted: Iterable[AcceptedTool] = ()) -> tuple[FunctionSpec, ...]:
    """All tools there are, before anything takes one away: the server's own by the contract's names, then the client's.
    A client's goes before an own one of its name, as it does in a session."""
    theirs = {
        tool.name: FunctionSpec(name=tool.name, description=tool.description, parameters=tool.model_schema)
        for tool in accepted
    }
    own = (_spec(wire_name(tool["name"]), tool) for tool in _tools(shown.known))
    return (*(spec for spec in own if spec.name not in theirs), *theirs.values())


def provider_specs(shown: Previewed) -> tuple[ProviderSpec, ...]:
    """What the model's provider is sent, by the names that it is sent."""
    functions = tuple(_spec(tool["name"], tool) for tool in _tools(shown.offered))
    return (*functions, HostedSearchSpec()) if shown.web_search else functions


def transparent_specs(shown: Previewed) -> tuple[FunctionSpec, ...]:
    """What ``tool-schemas`` says in a turn, flat."""
    return tuple(_flat(tool.function) for tool in tool_schemas(shown.offered).tool_schemas)


def _flat(function: ToolFunction) -> FunctionSpec:
    return FunctionSpec(name=function.name, description=function.description, parameters=function.parameters)


def _spec(name: str, tool: dict[str, Any]) -> FunctionSpec:
    return FunctionSpec(name=name, description=tool["description"], parameters=tool["schema"])


def _tools(reported: list[Json]) -> Iterable[dict[str, Any]]:
    return (tool for tool in reported if isinstance(tool, dict))
