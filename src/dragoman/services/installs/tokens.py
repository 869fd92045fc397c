"""Install tokens: how one is made, and what is kept of it (windie, spec §2).

A token has 256 random bits, so its plain SHA-256 can neither be guessed nor turned back; a slow hash would add nothing.
A token is looked up by that digest: how long it takes tells of digests at most, never of a token that is kept.
"""

from __future__ import annotations

import hashlib
import re
import secrets

PREFIX = "wnd_install_"

_TOKEN = re.compile(PREFIX + r"[A-Za-z0-9_-]{43}")


def new_token() -> str:
    """A token that nobody can guess: the prefix and 43 characters that may stand in an URL."""
    return PREFIX + secrets.token_urlsafe(32)


def digest_of(token: str) -> bytes | None:
    """What is kept of a token: 32 bytes; None for what is none, of whatever length."""
    return hashlib.sha256(token.encode()).digest() if _TOKEN.fullmatch(token) is not None else None
