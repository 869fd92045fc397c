"""The official library, imported when a server is first needed: it takes most of a second, and not everybody has it."""

from __future__ import annotations

import asyncio
import logging

from .port import Connect

EXTRA = "MCP servers need the extra mcp: pip install 'dragoman[mcp]'"


class LibraryMissing(Exception):
    """It is not installed. ``str()`` says how to get it."""


async def connector() -> Connect:
    """What reaches servers. Raises ``LibraryMissing``."""
    return await asyncio.to_thread(_load)


def _load() -> Connect:
    try:
        from .link import connect  # noqa: PLC0415 - see the module
    except ImportError as missing:
        raise LibraryMissing(f"{EXTRA} ({missing.name or missing})") from missing
    # What it logs quotes what servers say and where they are; what matters of that is said by us.
    for name in ("mcp", "client"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    for name in ("httpx2", "httpcore2"):  # below that they write down whole URLs, and headers
        logging.getLogger(name).setLevel(logging.WARNING)
    return connect
