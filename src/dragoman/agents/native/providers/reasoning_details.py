"""OpenRouter's ``reasoning_details``: what the provider behind it wants back with a thought, in pieces."""

from __future__ import annotations

from typing import Any

from dragoman.hub.events import Json

_WORTH_KEEPING = ("signature", "data")
"""Without one of these they say nothing that the thought itself does not."""


class ReasoningDetails:
    """The details of one thought. Pieces of the same entry follow each other."""

    def __init__(self) -> None:
        self._entries: list[dict[str, Any]] = []

    def read(self, details: Json) -> None:
        """One delta's list of them."""
        for piece in details if isinstance(details, list) else []:
            if isinstance(piece, dict):
                self._add(piece)

    def taken(self) -> list[dict[str, Any]]:
        """All of them, if any must go back; then nothing is left."""
        entries, self._entries = self._entries, []
        return entries if any(entry.get(name) for entry in entries for name in _WORTH_KEEPING) else []

    def _add(self, piece: dict[str, Any]) -> None:
        last = self._entries[-1] if self._entries else None
        if last is None or any(last.get(name) != piece.get(name) for name in ("type", "index")):
            self._entries.append(dict(piece))
            return
        for name, value in piece.items():
            if name in {"text", "summary", "data"} and isinstance(value, str):
                last[name] = (last.get(name) or "") + value
            elif value is not None:
                last[name] = value
