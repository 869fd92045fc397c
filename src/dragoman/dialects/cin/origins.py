"""Which pages may use the bridge (seed: Connection): those of this machine, on any port."""

from __future__ import annotations

import re

_ORIGIN = re.compile(r"https?://(?:localhost|127\.0\.0\.1)(?::([0-9]{1,5}))?")
_LAST_PORT = 65535


def passes(origin: str) -> bool:
    """Whether an Origin, in small letters, is ``http`` or ``https`` at exactly ``localhost`` or ``127.0.0.1``."""
    found = _ORIGIN.fullmatch(origin)
    return found is not None and int(found[1] or 0) <= _LAST_PORT
