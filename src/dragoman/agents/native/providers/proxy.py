"""The environment's proxy (``HTTPS_PROXY``, ``NO_PROXY``), never for this machine itself.

Not aiohttp's ``trust_env``: that would also read ``.netrc``, and refuse a key where it finds one there.
"""

from __future__ import annotations

from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from .catalogue import is_this_machine


def proxy_for(url: str) -> str | None:
    """The URL of the proxy through which ``url`` is to be reached, or None."""
    host = urlsplit(url).hostname or ""
    found = None if is_this_machine(url) or proxy_bypass(host) else getproxies().get(urlsplit(url).scheme)
    if not found:
        return None
    return found if "://" in found else f"http://{found}"
