"""How often one network address may register: whoever may for ever fills the disk."""

from __future__ import annotations

import math
from collections import OrderedDict, deque

from dragoman.hub.clock import Clock
from dragoman.services.networks import network_of

from .problems import TooOften

SECONDS = 60.0
"""The stretch of time in which registrations are counted."""

MOST_KEPT = 10_000
"""Networks whose registrations are remembered; those that registered longest ago are forgotten first."""


class Pace:
    """Counts registrations by network. ``most`` a minute; 0 sets no limit."""

    def __init__(self, most: int, clock: Clock) -> None:
        self._most = most
        self._clock = clock
        self._made: OrderedDict[str, deque[float]] = OrderedDict()

    def count(self, peer: str) -> None:
        """Count one of this address. Raises ``TooOften``, and then does not."""
        if self._most <= 0:
            return
        now, network = self._clock.monotonic(), network_of(peer)
        made = self._made.setdefault(network, deque())
        self._made.move_to_end(network)
        while made and now - made[0] >= SECONDS:
            made.popleft()
        if len(made) >= self._most:
            raise TooOften(max(1, math.ceil(made[0] + SECONDS - now)))
        made.append(now)
        if len(self._made) > MOST_KEPT:
            self._made.popitem(last=False)
