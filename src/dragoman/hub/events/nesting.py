"""How deep a fact goes: what is written once must be readable again, inside whatever it is wrapped in by then."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

MAX_NESTING = 128
"""Levels of objects and lists in a fact. The encoder's own limit is the interpreter's stack, and so differs with the
caller: a fact that one can write, another could not write again, or read."""

_LEAVES = frozenset({str, int, float, bool, type(None)})


def may_nest_too_deep(encoded: bytes) -> bool:
    """Whether a fact, as JSON, has enough brackets for more levels than ``MAX_NESTING``. Asked of every one."""
    return encoded.count(b"{") + encoded.count(b"[") > MAX_NESTING


def nests_too_deep(fact: msgspec.Struct) -> bool:
    """Whether the fact has more levels than ``MAX_NESTING``."""
    if _LEAVES.issuperset(map(type, msgspec.structs.astuple(fact))):
        return False
    level: list[object] = [fact]
    for _ in range(MAX_NESTING):
        level = [inner for outer in level for inner in _inside(outer) if type(inner) not in _LEAVES]
        if not level:
            return False
    return True


def _inside(holder: object) -> Iterable[object]:
    if isinstance(holder, msgspec.Struct):
        return msgspec.structs.astuple(holder)
    if isinstance(holder, dict):
        return holder.values()
    return holder if isinstance(holder, list | tuple) else ()
