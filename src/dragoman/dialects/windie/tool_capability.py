"""What the server knows of one of its tools (seed: ``tool-capabilities``; spec §8 "Introspection")."""

from __future__ import annotations

from typing import Literal

import msgspec

from dragoman.hub.previews import Previewed

from .host import Host
from .projection import WEB_SEARCH, wire_name
from .turn_settings import SERVERS_OWN

NOT_ALLOWED = "the server's settings do not offer it here (host_tools)"
NOT_IN_CHAT = "chat mode has no tools that touch the server's machine"


class ToolCapability(msgspec.Struct, frozen=True, kw_only=True):
    """``name`` is the contract's, ``provider_name`` what the model's provider is told.

    ``execution_owner`` is who runs it: the server, or the model's provider itself. ``touches_host``: it works on the
    server's machine, so that conversations have it only where the server's settings say so. ``enabled`` is whether a
    model would be offered it, ``available`` whether it could be used; if not, ``reason_unavailable`` says why.
    """

    name: str
    provider_name: str
    description: str
    execution_owner: Literal["backend", "provider"]
    touches_host: bool
    enabled: bool
    available: bool
    reason_unavailable: str | None


def capability_of(name: str, shown: Previewed, host: Host, *, chat: bool) -> ToolCapability | None:
    """The tool that the contract, or we ourselves, call so; None where the server has none."""
    known = next((tool for tool in shown.known if isinstance(tool, dict) and name in _names(tool["name"])), None)
    if known is None:
        return None
    own = str(known["name"])
    wire = wire_name(own)
    hosted = shown.web_search and wire == WEB_SEARCH
    reason = None if hosted else _problem(wire, host, chat=chat)
    return ToolCapability(
        name=wire,
        provider_name=wire if hosted else own,
        description=str(known["description"]),
        execution_owner="provider" if hosted else "backend",
        touches_host=wire not in SERVERS_OWN,
        enabled=hosted or any(isinstance(tool, dict) and tool["name"] == own for tool in shown.offered),
        available=reason is None,
        reason_unavailable=reason,
    )


def _names(own: object) -> tuple[str, str]:
    return str(own), wire_name(str(own))


def _problem(name: str, host: Host, *, chat: bool) -> str | None:
    if name in SERVERS_OWN:
        return host.search_problem()
    if name not in host.settings.host_tools:
        return NOT_ALLOWED
    return NOT_IN_CHAT if chat else None
