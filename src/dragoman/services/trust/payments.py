"""Asking whoever knows of payments. Every failure is a no (onion, spec §15, rows 8 and 9)."""

from __future__ import annotations

import asyncio
import logging

from .callers import PaymentVerifier

log = logging.getLogger("dragoman.trust")


class Payments:
    """Asks ``verifier``, if there is one, for at most ``limit`` seconds."""

    def __init__(self, verifier: PaymentVerifier | None, limit: float) -> None:
        self._verifier = verifier
        self._limit = limit

    @property
    def possible(self) -> bool:
        """Whether anybody can be known to have paid."""
        return self._verifier is not None

    async def paid(self, identity: str, amount: float) -> bool:
        """Whether it is known that ``identity`` has paid ``amount``."""
        if self._verifier is None:
            return False
        try:
            async with asyncio.timeout(self._limit):
                return await self._verifier.paid(identity, amount) is True
        except TimeoutError:
            log.warning("no answer about a payment within %g seconds: it counts as not made", self._limit)
        except Exception:
            log.exception("a payment could not be verified: it counts as not made")
        return False
