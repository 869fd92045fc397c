"""How often somebody may be wrong: a code is short enough to be guessed by whoever may try for ever."""

from __future__ import annotations

import math
from collections import OrderedDict

from dragoman.hub.clock import Clock
from dragoman.services.networks import network_of

from .callers import Refused
from .settings import TrustSettings

MOST_KEPT = 10_000
"""Identities and network addresses whose attempts are remembered; those that tried longest ago are forgotten first."""


class Attempts:
    """Counts what was tried in vain, by identity and by network address."""

    def __init__(self, settings: TrustSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._tried: OrderedDict[tuple[str, str], list[float]] = OrderedDict()

    def begin(self, identity: str, peer: str) -> Attempt:
        """Count one, which ``Attempt.succeeded`` takes back. Raises ``Refused`` where there were too many.

        It counts from its beginning: many that wait for their outcome at once are many.
        """
        now = self._clock.monotonic()
        limits = {("identity", identity): self._settings.code_attempts}
        if peer:
            limits["peer", network_of(peer)] = self._settings.peer_code_attempts
        waits = [self._wait(key, most, now) for key, most in limits.items()]
        if wait := max(waits):
            raise Refused(f"forbidden: too many attempts to get in; wait {math.ceil(wait)} seconds")
        for key in limits:
            self._tried.setdefault(key, []).append(now)
            self._tried.move_to_end(key)
        while len(self._tried) > MOST_KEPT:
            self._tried.popitem(last=False)
        return Attempt(self, tuple(limits), now)

    def take_back(self, key: tuple[str, str], at: float) -> None:
        """It was not in vain."""
        tried = self._tried.get(key, [])
        if at in tried:
            tried.remove(at)
        if not tried:
            self._tried.pop(key, None)

    def _wait(self, key: tuple[str, str], most: int, now: float) -> float:
        """Seconds until another attempt; 0 for now."""
        most = max(1, most)
        tried = self._tried.get(key, [])
        tried[:] = [at for at in tried if now - at < self._settings.code_seconds]
        return tried[-most] + self._settings.code_seconds - now if len(tried) >= most else 0.0


class Attempt:
    """One that was begun."""

    def __init__(self, attempts: Attempts, keys: tuple[tuple[str, str], ...], at: float) -> None:
        self._attempts = attempts
        self._keys = keys
        self._at = at

    def succeeded(self) -> None:
        """It was not in vain: forget it."""
        for key in self._keys:
            self._attempts.take_back(key, self._at)
