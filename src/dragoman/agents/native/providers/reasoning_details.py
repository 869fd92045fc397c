"""OpenRouter's ``reasoning_details``: what the provider behind it wants back with a thought, in pieces."""

from __future__ import annotations

from typing import Any

from dragoman.hub.events import Json

from .port import ProviderFailed

_WORTH_KEEPING = ("signature", "data")
"""Without one of these they say nothing that the thought itself does not."""

_GROWING = frozenset({"text", "summary", "data"})

MOST_ENTRIES = 1000
"""Entries of one thought: it has a few."""


class ReasoningDetails:
    """The details of one thought. Pieces of the same entry follow each other."""

    def __init__(self) -> None:
        self._entries: list[dict[str, Any]] = []
        self._pieces: dict[str, list[str]] = {}
        """Of the fields that grow in the last entry. Joined once, however many there are."""

    def read(self, details: Json) -> None:
        """One delta's list of them. Raises ``ProviderFailed`` when there are too many."""
        for piece in details if isinstance(details, list) else []:
            if isinstance(piece, dict):
                self._add(piece)

    def taken(self) -> list[dict[str, Any]]:
        """All of them, if any must go back; then nothing is left."""
        self._join()
        entries, self._entries = self._entries, []
        return entries if any(entry.get(name) for entry in entries for name in _WORTH_KEEPING) else []

    def _add(self, piece: dict[str, Any]) -> None:
        last = self._entries[-1] if self._entries else None
        if last is None or any(last.get(name) != piece.get(name) for name in ("type", "index")):
            self._join()
            if len(self._entries) == MOST_ENTRIES:
                raise ProviderFailed(f"the provider sent more than {MOST_ENTRIES} details of one thought")
            self._entries.append(dict(piece))
            return
        for name, value in piece.items():
            if name in _GROWING and isinstance(value, str):
                self._pieces.setdefault(name, []).append(value)
            elif value is not None:
                last[name] = value

    def _join(self) -> None:
        for name, pieces in self._pieces.items():
            last = self._entries[-1]
            begun = last.get(name)
            last[name] = "".join([begun if isinstance(begun, str) else "", *pieces])
        self._pieces = {}
