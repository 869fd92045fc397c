"""Functions that a test has an agent call by ``module``."""

from __future__ import annotations


def save_note(text: str) -> str:
    """Keep a note.

    The rest of this is for who reads the source.
    """
    return f"saved {text}"


class Notes:
    @staticmethod
    async def count(of: str = "all") -> dict[str, object]:
        return {"of": of, "count": 3}


NOT_A_FUNCTION = 7
