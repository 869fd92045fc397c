"""What can go wrong for a client."""

from __future__ import annotations

from typing import Any

_WORDS = 500
"""Bytes of a server's own words that an error repeats."""


class ClientError(Exception):
    """Base of everything that this library raises by itself."""


class Refused(ClientError):
    """The server answered no. ``code`` is stable, ``detail`` holds the whole answer (an ``outcome``, say)."""

    def __init__(self, code: str, message: str, detail: dict[str, Any] | None = None) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.detail = detail or {}


class ConnectionLost(ClientError):
    """The link was cut before the answer came: whether the request was carried out is not known."""


class Denied(ClientError):
    """The server does not want this client, or cannot be spoken to: trying again would end the same way.

    ``status`` is the HTTP status of a refused upgrade, ``close_code`` the code of a final close.
    """

    def __init__(self, message: str, *, status: int | None = None, close_code: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.close_code = close_code


def upgrade_refused(status: int, body: bytes | bytearray | None) -> Denied:
    """Why there is no connection, in the server's own words where it says any."""
    said = bytes(body or b"")[:_WORDS].decode(errors="replace").strip()
    return Denied(f"the server refuses the connection: HTTP {status}{said and ': ' + said}", status=status)


class ClientClosed(ClientError):
    """The client was closed by its owner."""


class OnboardingRequired(ClientError):
    """The caller is a stranger to the server, and may become none by one of ``methods``.

    ``identity`` is who the server takes the caller for; ``detail`` holds the whole frame (prices, say).
    """

    def __init__(self, detail: dict[str, Any]) -> None:
        self.methods: tuple[str, ...] = tuple(detail.get("methods", ()))
        self.identity: str | None = detail.get("identity")
        self.detail = detail
        super().__init__(f"the server wants one of: {', '.join(self.methods)}")


class TurnFailed(ClientError):
    """A turn ended without a result, and the server said why."""
