"""The token of an ``Authorization: Bearer`` header: one reading of it, for upgrades and for requests."""

from __future__ import annotations

from collections.abc import Iterable

REPEATED = ""
"""What ``bearer_of`` says of a header that came twice: a token that is nobody's."""


def bearer_of(headers: Iterable[tuple[bytes, bytes]]) -> str | None:
    """The token of an ``Authorization: Bearer`` header, of a request's names (lower case) and values.

    None where there is none: no header, another scheme, no token. ``REPEATED`` for a second header: which of them
    counts would be anybody's guess. The scheme may be written in any case (RFC 9110, section 11.1).
    """
    given = [value for name, value in headers if name == b"authorization"]
    if not given:
        return None
    if len(given) > 1:
        return REPEATED
    scheme, _, token = given[0].decode("latin-1").strip().partition(" ")
    return token.strip() or None if scheme.lower() == "bearer" else None
