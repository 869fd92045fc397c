"""The HTTP side of agent-coworker 3.0: there is none but a sign of life.

Whatever is asked, by whatever method, is answered ``OK``; only the WebSocket's own address says that it wanted an
upgrade. Neither tells anything about the server, so neither asks for a token.
"""

from __future__ import annotations

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

WEBSOCKET = "/ws"
"""The one address that is no ``OK``, to the letter: ``/ws/`` is another."""


def make_routes() -> ASGIApp:
    """The application for every HTTP request below the dialect's root."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        wanted = scope["path"] == WEBSOCKET
        response = PlainTextResponse("WebSocket upgrade failed", 400) if wanted else PlainTextResponse("OK")
        await response(scope, receive, send)

    return answer
