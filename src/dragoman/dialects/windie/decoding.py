"""A frame's text to the message that it is, or to what is wrong with it (spec §3 handshake, §4 envelope)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import msgspec

from dragoman.hub.errors import NOT_JSON
from dragoman.hub.sizes import holds_more

from .client_messages import PAYLOADS, ClientMessage, Envelope, Handshake, MessageId
from .fields import Faults, Shape, shaped
from .settings import Tolerance

MESSAGE_VALUES = 100_000
"""Values of a message, where nothing else is set."""

TOLD_TYPE = 64
"""Characters of an unknown type that its error repeats."""

_TYPES: dict[type, str] = {
    list: "list",
    str: "str",
    int: "int",
    float: "float",
    bool: "bool",
    type(None): "NoneType",
}


class ProtocolProblem(Exception):
    """A message that is none. The text is for ``error``; ``message_id`` is the client's, where it could be read."""

    def __init__(self, message: str, message_id: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.message_id = message_id


class HandshakeRefused(Exception):
    """A first message that lets nobody in: close 1008 and say nothing (spec §3). The text is for our own log."""


class _Identified(Shape, frozen=True, kw_only=True):
    id: MessageId


def decode(message: str | bytes, *, limit: int, values: int = MESSAGE_VALUES) -> ClientMessage:
    """The message that this frame holds; ``limit`` is in bytes of UTF-8, ``values`` is how many values it may have.

    Raises ``ProtocolProblem``, nothing else.
    """
    size = size_of(message)
    if size > limit:
        raise ProtocolProblem(f"Message too large: {size} bytes (max: {limit} bytes)")
    root = _root(message, values)
    message_id = _id_of(root)
    faults = Faults()
    envelope = _envelope(root, faults)
    kind = root.get("type")
    shape = PAYLOADS.get(kind) if isinstance(kind, str) else None
    payload = None
    if shape is not None:
        payload = shaped(root.get("payload", {}), shape, f"{kind}.payload", faults)
    if faults or envelope is None or payload is None:
        raise ProtocolProblem(f"Invalid message format: {faults}", message_id)
    return ClientMessage(
        id=envelope.id,
        payload=payload,
        session_id=envelope.session_id,
        conversation_ref=envelope.conversation_ref,
        turn_ref=envelope.turn_ref,
    )


def size_of(message: str | bytes) -> int:
    """Bytes of a frame's payload."""
    if isinstance(message, bytes) or message.isascii():
        return len(message)
    return len(message.encode("utf-8", "surrogatepass"))


def _root(message: str | bytes, values: int) -> dict[str, Any]:
    """The object that it is. One of too many values is not taken apart: nobody else would get a turn meanwhile, not
    even if a thread did it."""
    raw = message if isinstance(message, bytes) else message.encode("utf-8", "surrogatepass")
    if holds_more(raw, values):
        raise ProtocolProblem(f"Message too large: more than {values} values")
    try:
        root = msgspec.json.decode(raw)
    except NOT_JSON:
        raise ProtocolProblem("Malformed JSON") from None
    if not isinstance(root, dict):
        raise ProtocolProblem(f"Invalid message format: root must be an object, got {_TYPES[type(root)]}")
    return root


def _id_of(root: dict[str, Any]) -> str | None:
    found = shaped({"id": root.get("id")}, _Identified, "", Faults())
    return found.id if found is not None else None


def _envelope(root: dict[str, Any], faults: Faults) -> Envelope | None:
    """The envelope. A type that is none is told alone: what the rest should be depends on it."""
    kind = root.get("type")
    if not isinstance(kind, str):
        faults.add("type", "must be a string" if "type" in root else "field required")
    elif kind not in PAYLOADS:
        faults.add("type", f"unknown message type '{kind[:TOLD_TYPE]}'")
    else:
        return shaped(root, Envelope, kind, faults)
    return None


def decode_handshake(
    message: str | bytes, *, limit: int, values: int = MESSAGE_VALUES, tolerate: Collection[Tolerance] = ()
) -> Handshake:
    """A link's first message. Raises ``HandshakeRefused``, nothing else.

    A manifest is not looked into: it refuses nothing (``client_manifest.validate_manifest``).
    """
    if isinstance(message, bytes):
        raise HandshakeRefused("the first frame is binary")
    size = size_of(message)
    if size > limit:
        raise HandshakeRefused(f"{size} bytes, of {limit} that are allowed")
    try:
        root = _root(message, values)
    except ProtocolProblem as problem:
        raise HandshakeRefused(problem.message) from None
    faults = Faults()
    given = _without_python_fields(root) if "python_handshake" in tolerate else root
    handshake = shaped(given, Handshake, "", faults)
    if handshake is None:
        raise HandshakeRefused(str(faults))
    return handshake


def _without_python_fields(root: dict[str, Any]) -> dict[str, Any]:
    """Less what the Python SDK adds: where it runs it says in its definition, too; its MCP servers are its own."""
    kept = {key: value for key, value in root.items() if key != "operating_system"}
    definition = kept.get("agent_definition")
    if isinstance(definition, dict):
        kept["agent_definition"] = {key: value for key, value in definition.items() if key != "mcps"}
    return kept
