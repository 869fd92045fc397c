"""What only the programs that a session has started can know: it proves that a hook is that session's own.

It is in the environment of every agent that we start, beside the session's id (``DRAGOMAN_SESSION``), so that a hook
that the person has installed is known for what it is inside a session of ours.
"""

from __future__ import annotations

import hmac
import secrets

SECRET = "DRAGOMAN_HOOK_SECRET"  # noqa: S105  its name
"""The environment variable."""


def new_secret() -> str:
    """One that nobody can guess."""
    return secrets.token_urlsafe(24)


def same_secret(given: str, ours: str) -> bool:
    """Compares in constant time."""
    return hmac.compare_digest(given.encode("utf-8", "replace"), ours.encode())
