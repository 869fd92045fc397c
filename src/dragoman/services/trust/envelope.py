"""The three fields that sign a frame, read and checked, in the order and with the texts of spec §4.

Nothing here knows policies or lists; wrong JSON types are refused like everything else that is wrong.
"""

from __future__ import annotations

import json
from typing import NoReturn

import msgspec

from dragoman.hub.errors import NOT_JSON
from dragoman.hub.events import Json
from dragoman.hub.sizes import holds_more
from dragoman.services.identity import MOST_VALUES, address_of, signature_of, verifies

from .callers import Refused, Signed
from .entries import plain_identity

UNSIGNED = "unauthorized: signed request required"
BLACKLISTED = "forbidden: blacklisted"
TOO_LARGE = "unauthorized: payload too large"
INVALID = "unauthorized: invalid signature"


class Envelope(msgspec.Struct, frozen=True):
    """A frame's signature. ``sender`` and ``signature`` are as they came, whatever they are."""

    raw: bytes
    payload: dict[str, Json]
    sender: Json
    signature: Json

    @property
    def identity(self) -> str | None:
        """The address that the sender claims, in its one spelling; not verified."""
        return address_of(self.sender) if isinstance(self.sender, str) else None

    @property
    def proof(self) -> bytes:
        """The signature's bytes; none where it is none."""
        return (signature_of(self.signature) if isinstance(self.signature, str) else None) or b""


def is_unsigned(signed: Signed) -> bool:
    """Whether nobody signed: a *from*, or a payload, alone is no identity (seed: open, careful: accept unsigned)."""
    return not bytes(signed.signature)


def opened(signed: Signed, *, most: int) -> Envelope:
    """The fields read; ``most`` is the bytes of a payload. Raises ``Refused``."""
    raw = bytes(signed.payload)
    if not raw or not bytes(signed.signature):
        raise Refused(UNSIGNED)
    if len(raw) > most:
        raise Refused(TOO_LARGE)
    return Envelope(raw, fields_of(raw), value_of(signed.sender), value_of(signed.signature))


def fields_of(payload: bytes) -> dict[str, Json]:
    """A payload's fields. Raises ``Refused`` for what is no object, or has too much in it."""
    if holds_more(payload, MOST_VALUES):
        raise Refused(TOO_LARGE)
    try:
        fields = json.loads(payload.decode(), parse_constant=_refuse)
    except (ValueError, RecursionError):
        raise Refused("unauthorized: payload must be an object") from None
    if not isinstance(fields, dict):
        raise Refused("unauthorized: payload must be an object")
    return fields


def check(envelope: Envelope, *, host: str, now: float, skew: float, blacklist: frozenset[str]) -> str:
    """The address that signed; ``now`` and ``skew`` are seconds. Raises ``Refused``."""
    if isinstance(envelope.sender, str) and plain_identity(envelope.sender) in blacklist:
        raise Refused(BLACKLISTED)
    if not envelope.sender:
        raise Refused("unauthorized: 'from' field required")
    if not envelope.signature:
        raise Refused("unauthorized: signature required")
    _check_time(envelope.payload.get("timestamp"), now, skew)
    _check_recipient(envelope.payload.get("to"), host)
    identity, proof = envelope.identity, envelope.proof
    if identity is None or not proof or not verifies(identity, proof, envelope.raw):
        raise Refused(INVALID)
    return identity


def check_kind(envelope: Envelope, kind: str, *, on_socket: bool = True) -> None:
    """A payload that names a type is good for frames of that type only; one that names a request, for that.

    Raises ``Refused``.
    """
    names_request = "path" in envelope.payload and "method" in envelope.payload
    if envelope.payload.get("type", kind) != kind or (on_socket and names_request):
        raise Refused("unauthorized: signed for another action")


def _check_time(timestamp: Json, now: float, skew: float) -> None:
    if not timestamp:
        raise Refused("unauthorized: timestamp required in payload")
    if isinstance(timestamp, bool) or not isinstance(timestamp, int | float):
        raise Refused("unauthorized: timestamp must be numeric")
    # Compared, not subtracted: an integer may be too large for that.
    if not now - skew <= timestamp <= now + skew:
        raise Refused("unauthorized: signature expired")


def _check_recipient(to: Json, host: str) -> None:
    if to is not None and (not isinstance(to, str) or address_of(to) != host):
        raise Refused("unauthorized: wrong recipient")


def value_of(raw: msgspec.Raw) -> Json:
    """A field's value; None where it is not there. Raises ``Refused``."""
    data = bytes(raw)
    if not data:
        return None
    try:
        return msgspec.json.decode(data)
    except NOT_JSON:
        raise Refused(INVALID) from None


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)
