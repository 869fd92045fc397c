"""What the model calls a server's tools: names that every provider takes, and that are nobody else's."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection

from dragoman.agents.native.history import LONGEST_NAME

_UNSPEAKABLE = re.compile(r"[^A-Za-z0-9_-]")
_MARK = 8
"""Hexadecimal digits that tell names apart that would be the same."""


def tool_name(server: str, tool: str, taken: Collection[str]) -> str:
    """``mcp__SERVER__TOOL``; with a mark of the full name at its end where it is too long, or taken."""
    plain = _UNSPEAKABLE.sub("_", f"mcp__{server}__{tool}")
    if len(plain) <= LONGEST_NAME and plain not in taken:
        return plain
    number = 0
    while True:
        mark = hashlib.sha256(f"{server}\0{tool}\0{number}".encode(errors="surrogatepass")).hexdigest()[:_MARK]
        name = f"{plain[: LONGEST_NAME - _MARK - 1]}_{mark}"
        if name not in taken:
            return name
        number += 1
