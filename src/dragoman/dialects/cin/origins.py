"""Which pages may use the bridge (seed: Connection): those of this machine, on any port."""

from __future__ import annotations

from urllib.parse import urlsplit

_HOSTS = frozenset({"localhost", "127.0.0.1"})


def passes(origin: str) -> bool:
    """Whether an Origin is ``http`` or ``https`` at exactly ``localhost`` or ``127.0.0.1``."""
    try:
        parts = urlsplit(origin)
        parts.port  # noqa: B018  raises for what is no port
    except ValueError:
        return False
    plain = not (parts.path or parts.query or parts.fragment or "@" in parts.netloc)
    return plain and parts.scheme in ("http", "https") and parts.hostname in _HOSTS
