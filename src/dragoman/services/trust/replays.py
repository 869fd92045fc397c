"""Signatures that were used: a CONNECT that somebody recorded opens no second socket (onion, spec §15, rows 7 and 40).

An Ed25519 signature of the same payload is always the same, and payloads carry whole seconds: two honest CONNECTs of
one key within a second are the same frame. So it may come again for a moment, and at the socket that sent it first.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from typing import NamedTuple

from dragoman.hub.clock import Clock

from .callers import Refused
from .settings import TrustSettings

USED = "unauthorized: this CONNECT was already used"
USED_ELSEWHERE = "unauthorized: signature already used"


class _Use(NamedTuple):
    at: float
    kind: str
    socket: weakref.ref[object] | None


class Replays:
    """Remembers signatures for as long as they are valid. Times are the clock's monotonic seconds."""

    def __init__(self, settings: TrustSettings, clock: Clock) -> None:
        self._window = {"window": settings.replay_seconds, "strict": 0.0, "off": None}[settings.replay]
        # A frame may be dated ahead by as much as it may be late.
        self._lasts = 2 * settings.clock_skew
        self._most = settings.kept_signatures
        self._clock = clock
        self._uses: OrderedDict[bytes, _Use] = OrderedDict()

    def use(self, signature: bytes, socket: object, kind: str = "CONNECT") -> None:
        """Note a use for a frame of this kind. Raises ``Refused`` for one too many: what has signed one kind signs no
        other. ``socket`` None is another each time.
        """
        if self._window is None:
            return
        now = self._clock.monotonic()
        known = self._noted(signature, socket, kind, now)
        if known is None:
            return
        if known.kind != kind or (not _is(known.socket, socket) and not now - known.at < self._window):
            raise Refused(USED if kind == "CONNECT" else USED_ELSEWHERE)

    def note(self, signature: bytes, socket: object, kind: str) -> None:
        """Note a use that may come again, but only as this kind."""
        if self._window is not None:
            self._noted(signature, socket, kind, self._clock.monotonic())

    def _noted(self, signature: bytes, socket: object, kind: str, now: float) -> _Use | None:
        """Note a first use; the first one, where this is none."""
        self._forget(now)
        known = self._uses.get(signature)
        if known is None:
            self._uses[signature] = _Use(now, kind, _reference(socket))
            if len(self._uses) > self._most:
                self._uses.popitem(last=False)
        return known

    def _forget(self, now: float) -> None:
        while self._uses:
            oldest = next(iter(self._uses.values()))
            if now - oldest.at <= self._lasts:
                return
            self._uses.popitem(last=False)


def _reference(socket: object) -> weakref.ref[object] | None:
    """Weak: a socket's view of a session is large, and this would keep it for minutes."""
    try:
        return weakref.ref(socket)
    except TypeError:
        return None


def _is(reference: weakref.ref[object] | None, socket: object) -> bool:
    return reference is not None and reference() is socket
