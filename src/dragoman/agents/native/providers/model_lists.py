"""Asks providers for their models, where neither catalogue nor settings name any."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable

import msgspec

from .asking import Unanswered, ask
from .catalogue import CatalogueEntry
from .local_servers import LocalModel, listed_models
from .verifying import ANSWER_BYTES, key_headers

LIST_SECONDS = 300.0
"""A list that came holds for so long."""

RETRY_SECONDS = 5.0
"""After none came, before it is asked for again."""


class _Listed(msgspec.Struct, frozen=True):
    mark: int
    until: float
    models: tuple[LocalModel, ...]


class ModelLists:
    """``seconds`` is the limit of each answer."""

    def __init__(self, *, seconds: float, now: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._now = now
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._known: dict[str, _Listed] = {}

    async def models(self, entry: CatalogueEntry, key: str | None) -> tuple[LocalModel, ...]:
        """Its models; empty when it does not say. One question at a time for each provider."""
        mark = hash((entry.base_url, key))
        async with self._turns[entry.id]:
            known = self._known.get(entry.id)
            if known is None or known.mark != mark or known.until <= self._now():
                models = await self._ask(entry, key)
                until = self._now() + (LIST_SECONDS if models else RETRY_SECONDS)
                known = self._known[entry.id] = _Listed(mark, until, models)
            return known.models

    async def _ask(self, entry: CatalogueEntry, key: str | None) -> tuple[LocalModel, ...]:
        url, headers = f"{entry.base_url}/models", key_headers(entry.api, key)
        try:
            answer = await ask(url, headers=headers, seconds=self._seconds, most=ANSWER_BYTES)
        except Unanswered:
            return ()
        return listed_models(answer) or ()
