"""Which servers of projects a person permitted for good: by folder, and by all that their entry says.

The file holds no entry, only a keyed digest of each: a changed entry is another one, and an entry's secrets cannot be
tried out on it without the key beside it.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import secrets
from pathlib import Path

import msgspec

from dragoman.hub.workspace_config import McpServer

log = logging.getLogger("dragoman.mcp")

_LARGEST = 1024 * 1024
_MOST = 2000
"""Permissions that are kept; the oldest make room."""


class _Stored(msgspec.Struct, kw_only=True):
    """The file."""

    version: int = 1
    key: str = ""
    permitted: list[str] = []


class Consents:
    """The file at ``path``, for its owner only; None keeps nothing beyond the life of this object.

    A file that cannot be read or written counts as empty, with one warning: then a person is asked again.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._stored: _Stored | None = None
        self._lock = asyncio.Lock()

    async def mark(self, folder: Path, entry: McpServer) -> str:
        """What stands for this entry in this folder: the same as long as neither changes."""
        stored = await self._loaded()
        text = msgspec.json.encode([os.fsdecode(folder), entry], order="sorted")
        return hashlib.blake2b(text, key=bytes.fromhex(stored.key), digest_size=16).hexdigest()

    async def has(self, mark: str) -> bool:
        """Whether a person permitted it for good."""
        return mark in (await self._loaded()).permitted

    async def add(self, mark: str) -> None:
        """Keep a permission."""
        async with self._lock:
            stored = await self._loaded_locked()
            if mark not in stored.permitted:
                stored.permitted = [*stored.permitted, mark][-_MOST:]
                await asyncio.to_thread(self._write, stored)

    async def _loaded(self) -> _Stored:
        async with self._lock:
            return await self._loaded_locked()

    async def _loaded_locked(self) -> _Stored:
        if self._stored is None:
            self._stored = await asyncio.to_thread(self._read)
        return self._stored

    def _read(self) -> _Stored:
        stored = _Stored()
        if self._path is not None and self._path.exists():
            try:
                stored = _decoded(self._path)
            except (OSError, ValueError) as problem:
                log.warning("%s cannot be used, servers of projects are asked about again: %s", self._path, problem)
        if len(stored.key) == 64:
            return stored
        stored = _Stored(key=secrets.token_hex(32))
        self._write(stored)  # before any mark is made with it: one in a log must mean the same after a restart
        return stored

    def _write(self, stored: _Stored) -> None:
        if self._path is None:
            return
        new = self._path.with_name(self._path.name + ".new")
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            new.unlink(missing_ok=True)
            file = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            with os.fdopen(file, "wb") as opened:
                opened.write(msgspec.json.encode(stored))
                opened.flush()
                os.fsync(opened.fileno())
            new.replace(self._path)
        except OSError as problem:
            log.warning("what was permitted for good cannot be kept in %s: %s", self._path, problem.strerror or problem)


def _decoded(path: Path) -> _Stored:
    """Raises ``OSError`` and ``ValueError``."""
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW), "rb") as opened:
        status = os.fstat(opened.fileno())
        if status.st_uid != os.getuid() or status.st_mode & 0o077:
            raise ValueError("it is not for its owner only")
        stored = msgspec.json.decode(opened.read(_LARGEST), type=_Stored)
    bytes.fromhex(stored.key)
    return stored
