"""Where the server is: the argument, else the environment, else the hosted one (seed: WebSocket API, URL)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

HOSTED = "https://api.windieos.com"
PORT = 8765
"""The port of a server of one's own where only ``BACKEND_HOST`` is said."""

_TO_SOCKET = {"http": "ws", "https": "wss", "ws": "ws", "wss": "wss"}
_TO_HTTP = {"http": "http", "https": "https", "ws": "http", "wss": "https"}


@dataclass(frozen=True, slots=True)
class Addresses:
    """``http`` is the root that ``/api/...`` is added to, ``socket`` the whole URL of the WebSocket."""

    http: str
    socket: str


def resolved(backend_url: str | None, ws_url: str | None, environment: Mapping[str, str]) -> Addresses:
    """The addresses. An argument hides the whole environment.

    In the environment ``BACKEND_WS_URL`` is the socket; ``BACKEND_HTTP_URL``, else ``BACKEND_HOST`` with
    ``BACKEND_PORT``, is the root, from which the socket is derived where it is not said. Raises ``ValueError`` for what
    is no such URL.
    """
    if backend_url is None and ws_url is None:
        backend_url = environment.get("BACKEND_HTTP_URL") or _from_host(environment)
        ws_url = environment.get("BACKEND_WS_URL") or None
    if ws_url is not None:
        socket = _with_scheme(ws_url, _TO_SOCKET)
        return Addresses(_root(_with_scheme(backend_url or ws_url, _TO_HTTP)), socket)
    root = _root(_with_scheme(backend_url or HOSTED, _TO_HTTP))
    return Addresses(root, _with_scheme(root, _TO_SOCKET) + "/ws")


def _from_host(environment: Mapping[str, str]) -> str | None:
    host, port = environment.get("BACKEND_HOST"), environment.get("BACKEND_PORT")
    if not (host or port):
        return None
    host = host or "127.0.0.1"
    if ":" in host and not host.startswith("["):
        host = f"[{host}]"
    return f"http://{host}:{port or PORT}"


def _root(url: str) -> str:
    return url.rstrip("/").removesuffix("/ws").rstrip("/")


def _with_scheme(url: str, schemes: Mapping[str, str]) -> str:
    parts = urlsplit(url.strip())
    if parts.scheme not in schemes or not parts.hostname:
        raise ValueError(f"not an address of a server: {url!r}")
    assert parts.port is None or parts.port > 0  # reading it raises ValueError where it is no number
    return parts._replace(scheme=schemes[parts.scheme], query="", fragment="").geturl()
