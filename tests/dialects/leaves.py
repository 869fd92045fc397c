"""JSON values of a recording and of our server, compared leaf by leaf."""

from __future__ import annotations

from typing import Any

ANYTHING = "<anything>"
"""Stands where something has to stand, whatever it is; at the end of a text, for the rest of it."""

UNEXPECTED = "failed unexpectedly"
"""What our server says of itself where it has a mistake: never the answer to anything."""


def unlike(wanted: Any, given: Any, where: str) -> list[str]:
    """Every leaf that is not the same, by its path. 1 and 1.0 are the same; 1 and true are not."""
    if wanted == ANYTHING and not isinstance(given, str):
        return []
    if isinstance(wanted, dict) and isinstance(given, dict):
        found = [f"{where}.{key} missing: {wanted[key]!r}" for key in wanted if key not in given]
        found += [f"{where}.{key} not expected: {given[key]!r}" for key in given if key not in wanted]
        for key in wanted:
            if key in given:
                found += unlike(wanted[key], given[key], f"{where}.{key}")
        return found
    if isinstance(wanted, list) and isinstance(given, list):
        found = [f"{where}: {len(given)} items, not {len(wanted)}"] if len(wanted) != len(given) else []
        for at, (one, other) in enumerate(zip(wanted, given, strict=False)):
            found += unlike(one, other, f"{where}[{at}]")
        return found
    return [] if _same(wanted, given) else [f"{where} is {given!r}, not {wanted!r}"]


def _same(wanted: Any, given: Any) -> bool:
    if isinstance(wanted, bool) or isinstance(given, bool):
        return wanted is given
    if isinstance(wanted, str) and isinstance(given, str) and wanted.endswith(ANYTHING):
        return given.startswith(wanted.removesuffix(ANYTHING)) and UNEXPECTED not in given
    return bool(wanted == given)
