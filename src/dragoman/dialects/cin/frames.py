"""Frames of the bridge: the seed's with ``data``, for the dashboards in use their twins with ``payload`` (spec §10.0).

What is told to many is encoded once; the parts of a frame are joined as bytes.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from dragoman.dialects.frames import text_frame

from . import messages as wire

encode = msgspec.json.Encoder().encode

PONG = text_frame(b'{"type":"pong"}')


class Frames:
    """``twins``: what the seed says has ``payload`` as well, and the frames of the legacy protocol go out beside it."""

    def __init__(self, *, twins: bool) -> None:
        self.twins = twins

    def plain(self, kind: str, data: bytes) -> bytes:
        """One frame of the seed."""
        if self.twins:
            return text_frame(b'{"type":"%b","data":%b,"payload":%b}' % (kind.encode(), data, data))
        return text_frame(b'{"type":"%b","data":%b}' % (kind.encode(), data))

    def event(self, event: bytes) -> bytes:
        """``event``."""
        return self.plain("event", event)

    def init(self, sessions: Iterable[bytes]) -> bytes:
        """``init``, the first frame of every link."""
        return self.plain("init", b'{"sessions":[%b]}' % b",".join(sessions))

    def extension(self, name: str, data: object) -> bytes:
        """``cin:NAME``, and its twin ``NAME``."""
        own = self.plain(f"cin:{name}", encode(data))
        return own + self.legacy(name, data) if self.twins else own

    def legacy(self, name: str, payload: object) -> bytes:
        """One frame of the legacy protocol."""
        return text_frame(b'{"type":"%b","payload":%b}' % (name.encode(), encode(payload)))

    def problem(self, message: str) -> bytes:
        """A message of the client's could not be taken: the seed has no word for that."""
        return self.extension("error", {"message": message})

    def prompt(self, prompt: wire.PermissionPrompt) -> bytes:
        """``cin:permission_prompt``."""
        return self.extension("permission_prompt", prompt)

    def resolved(self, resolved: wire.PermissionResolved) -> bytes:
        """``cin:permission_resolved``."""
        return self.extension("permission_resolved", resolved)
