"""The tools that clients offer. Each offer is looked at by itself: taken, or refused with its reason."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

import msgspec

from .errors import InvalidRequest
from .events import ClientToolsDeclared, Json
from .events.nesting import nests_too_deep
from .limits import HubLimits
from .sizes import json_size

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,95}")
_NAME_SHOWN = 100
"""Characters of a refused name that are kept: it may be anything."""


class ToolOffer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tool that a client would run.

    ``parameters`` is the JSON schema of its input, ``detail`` whatever else its dialect keeps with it.
    """

    name: str
    description: str = ""
    parameters: Json = {}
    detail: dict[str, Json] = {}


class RefusedOffer(msgspec.Struct, frozen=True):
    """An offer that was not taken, and why."""

    name: str
    reason: str


class OfferedTool(msgspec.Struct, frozen=True):
    """A tool that can be called now, and the link that runs it."""

    offer: ToolOffer
    link: str


def sift(
    offers: Sequence[ToolOffer], *, reserved: Collection[str], limits: HubLimits
) -> tuple[list[ToolOffer], list[RefusedOffer]]:
    """What is taken of one link's offers, and what is not. ``reserved`` are the names of the agent's own tools."""
    taken: dict[str, ToolOffer] = {}
    refused: list[RefusedOffer] = []
    room = limits.client_tools_bytes
    for offer in offers:
        reason = _wrong_name(offer.name, taken, reserved)
        size = 0
        if reason is None and len(taken) >= limits.client_tools:
            reason = f"a client may offer {limits.client_tools} tools (client_tools)"
        if reason is None:
            reason, size = _measure(offer, room, limits)
        if reason is None:
            taken[offer.name] = offer
            room -= size
        else:
            refused.append(RefusedOffer(_shown(offer.name), reason))
    return list(taken.values()), refused


def _wrong_name(name: str, taken: Collection[str], reserved: Collection[str]) -> str | None:
    if _NAME.fullmatch(name) is None:
        return "a name is a letter, then up to 95 letters, digits, - or _"
    if name in reserved:
        return "this is the name of a tool that the agent has itself"
    return "offered twice" if name in taken else None


def _measure(offer: ToolOffer, room: int, limits: HubLimits) -> tuple[str | None, int]:
    """What is wrong with it, if anything is, and its size."""
    if not isinstance(offer.parameters, dict) or offer.parameters.get("type", "object") != "object":
        return "the schema of the parameters is not that of an object", 0
    if nests_too_deep(ClientToolsDeclared(by="", accepted=(offer,))):
        return "it is nested too deeply", 0
    try:
        size = json_size(offer)
    except InvalidRequest as problem:
        return str(problem), 0
    if size > limits.client_tool_bytes:
        return f"a tool is described in {limits.client_tool_bytes} bytes (client_tool_bytes)", size
    if size > room:
        return f"all tools together are described in {limits.client_tools_bytes} bytes (client_tools_bytes)", size
    return None, size


def _shown(name: str) -> str:
    return name[:_NAME_SHOWN].encode(errors="replace").decode()
