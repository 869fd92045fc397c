"""Asks a provider whether it takes a key: the cheapest question it has, once at a time for each provider."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Literal

import msgspec

from dragoman.hub.events import Json

from .asking import Answer, Unanswered, ask
from .catalogue import Api, CatalogueEntry

ANSWER_BYTES = 4 * 1024 * 1024
"""Of a provider's answer: lists of models are long."""

Verdict = Literal["taken", "refused", "unclear"]
"""What a provider said of a key; ``unclear`` where it said nothing of it."""


class Verification(msgspec.Struct, frozen=True, kw_only=True):
    """What came of asking. ``message`` is for people; ``at`` in milliseconds since 1970."""

    verdict: Verdict
    message: str
    at: int


class _Asked(msgspec.Struct, frozen=True):
    """``mark`` stands for what was asked with, without being it."""

    mark: int
    ended: float
    outcome: Verification


class Verifier:
    """Keeps what each provider said last, for as long as it is asked with the same key at the same place.

    ``now`` gives milliseconds since 1970.
    """

    def __init__(self, *, seconds: float, now: Callable[[], int]) -> None:
        self._seconds = seconds
        self._now = now
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._last: dict[str, _Asked] = {}

    def last(self, entry: CatalogueEntry, key: str) -> Verification | None:
        """What it said of this key, if it was ever asked."""
        known = self._last.get(entry.id)
        return known.outcome if known is not None and known.mark == _mark(entry, key) else None

    async def verify(self, entry: CatalogueEntry, key: str) -> Verification:
        """Ask, or wait for who is asking the same. Never raises for what the provider does."""
        began = time.monotonic()
        async with self._turns[entry.id]:
            known = self._last.get(entry.id)
            if known is not None and known.mark == _mark(entry, key) and known.ended >= began:
                return known.outcome
            outcome = await self._ask(entry, key)
            self._last[entry.id] = _Asked(_mark(entry, key), time.monotonic(), outcome)
            return outcome

    async def _ask(self, entry: CatalogueEntry, key: str) -> Verification:
        try:
            answer = await ask(
                f"{entry.base_url}{entry.check_path}",
                headers=key_headers(entry.api, key),
                seconds=self._seconds,
                most=ANSWER_BYTES,
            )
        except Unanswered as problem:
            return Verification(verdict="unclear", message=f"not verified: {problem}", at=self._now())
        verdict, message = judge(answer)
        return Verification(verdict=verdict, message=message, at=self._now())


def key_headers(api: Api, key: str | None) -> dict[str, str]:
    """How a key is shown to this API."""
    if key is None:
        return {}
    if api == "anthropic":
        return {"x-api-key": key, "anthropic-version": "2023-06-01"}
    if api == "google":
        return {"x-goog-api-key": key}
    return {"Authorization": f"Bearer {key}"}


def judge(answer: Answer) -> tuple[Verdict, str]:
    """What an answer says of the key that came with the question, and how to tell people."""
    if answer.status == 200 and isinstance(answer.value, dict):
        return "taken", "the key was accepted"
    if answer.status == 401 or (answer.status == 400 and _is_about_key(answer.value)):
        return "refused", "key refused"
    if answer.status == 403:
        # A good key may be limited to what is needed, which this question is not part of.
        return "unclear", "not verified: the key may not be used for this question"
    if answer.status == 429:
        return "unclear", "not verified: it was asked too often"
    return "unclear", f"not verified: it answered with HTTP {answer.status}"


def _is_about_key(value: Json) -> bool:
    """Google and xAI call a wrong key a bad request."""
    text = msgspec.json.encode(value).lower()
    return b"api_key_invalid" in text or b"api key" in text


def _mark(entry: CatalogueEntry, key: str) -> int:
    return hash((entry.id, entry.api, entry.base_url, key))
