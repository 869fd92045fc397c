"""Addresses and signatures as they are written, and whether a signature is one (onion, spec §4).

An address is the public key itself: ``0x`` and 64 hexadecimal digits. A signature is Ed25519, 128 of them.
"""

from __future__ import annotations

import re

from .canonical import canonical_forms

_ADDRESS = re.compile(r"(?:0x)?([0-9a-f]{64})", re.IGNORECASE | re.ASCII)
_SIGNATURE = re.compile(r"(?:0x)?([0-9a-f]{128})", re.IGNORECASE | re.ASCII)


def address_of(given: str) -> str | None:
    """An address in its one spelling: ``0x``, lower case. None for what is none."""
    found = _ADDRESS.fullmatch(given)
    return f"0x{found[1].lower()}" if found else None


def signature_of(given: str) -> bytes | None:
    """A signature's 64 bytes. None for what is none."""
    found = _SIGNATURE.fullmatch(given)
    return bytes.fromhex(found[1]) if found else None


def verifies(address: str, signature: bytes, payload: bytes) -> bool:
    """Whether whoever has the key behind ``address`` signed this JSON object, in any of its canonical forms.

    ``address`` is in its one spelling, ``payload`` as it stood in the frame.
    """
    # Late: it costs 40 ms, and only callers that sign need it.
    from nacl.exceptions import BadSignatureError  # noqa: PLC0415
    from nacl.signing import VerifyKey  # noqa: PLC0415

    key = VerifyKey(bytes.fromhex(address[2:]))
    try:
        for form in canonical_forms(payload):
            try:
                key.verify(form, signature)
            except BadSignatureError:
                continue
            return True
    except ValueError:
        return False
    return False
