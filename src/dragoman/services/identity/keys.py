"""A key pair, and the file that keeps the host's own.

The secret is in memory and in that file and nowhere else: no message, ``repr`` or error shows it (invariant 10).
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from dragoman.hub.durable_folder import sync_folder
from dragoman.hub.events import Json

from .canonical import escaped_form

if TYPE_CHECKING:
    from nacl.signing import SigningKey

SEED_BYTES = 32
"""Bytes that a key pair is made of."""

_MOST_BYTES = 1024


class IdentityProblem(Exception):
    """The key's file cannot be used or made. The message names it and says what to do; nothing of its content."""


class KeyNotKept(IdentityProblem):
    """There is no key yet, and none can be kept: a disk that is full or read-only, a folder of somebody else's."""


class Identity:
    """A key pair. ``address`` is its public half: ``0x`` and 64 hexadecimal digits, in lower case."""

    __slots__ = ("_key", "address")

    def __init__(self, key: SigningKey) -> None:
        self._key = key
        self.address = f"0x{bytes(key.verify_key).hex()}"

    @classmethod
    def passing(cls) -> Identity:
        """A new pair that nobody keeps."""
        return cls.from_seed(secrets.token_bytes(SEED_BYTES))

    @classmethod
    def from_seed(cls, seed: bytes) -> Identity:
        """The pair that these 32 bytes make. Raises ``ValueError`` for another number of them."""
        from nacl.signing import SigningKey  # noqa: PLC0415  40 ms, which not everybody needs

        if len(seed) != SEED_BYTES:
            raise ValueError(f"a key is made of {SEED_BYTES} bytes")
        return cls(SigningKey(seed))

    def sign(self, payload: Json) -> str:
        """128 hexadecimal digits: the signature over the escaped canonical form. Raises ``ValueError`` for no JSON."""
        return self._key.sign(escaped_form(payload)).signature.hex()

    def __repr__(self) -> str:
        return f"Identity({self.address!r})"

    def __reduce__(self) -> str | tuple[object, ...]:
        raise TypeError("an identity is not copied: its key would be")


def load_or_create(file: Path) -> Identity:
    """The identity whose key is in ``file``, which is made with its folder where there is none. Blocks.

    The file has the key as 64 hexadecimal digits, or as 32 bytes, as ConnectOnion's ``agent.key`` does. Several
    processes that make it at once get the same. Raises ``IdentityProblem``, also for a file that others may read, and
    ``KeyNotKept``.
    """
    try:
        seed = _read(file)
        if seed is None:
            _try_to_make(file)
            seed = _read(file)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        why = error.strerror if isinstance(error, OSError) else None
        raise IdentityProblem(f"the key {file} cannot be used: {why or error}") from None
    if seed is None:
        raise IdentityProblem(f"the key {file} is gone again: somebody else removes it")
    return Identity.from_seed(seed)


def _read(file: Path) -> bytes | None:
    try:
        # Without O_NONBLOCK a named pipe in its place would hold us up for ever.
        opened = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        _check_folder(file.parent)
        _check(file, os.fstat(opened))
        return _seed(file, os.read(opened, _MOST_BYTES))
    finally:
        os.close(opened)


def _check_folder(folder: Path) -> None:
    if folder.stat().st_mode & 0o022:
        raise IdentityProblem(f"others may put another key into {folder}: run chmod go-w on it")


def _check(file: Path, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise IdentityProblem(f"the key {file} is no file")
    if found.st_uid != os.geteuid():
        raise IdentityProblem(f"the key {file} belongs to somebody else: move it away, and a new one is made")
    if found.st_mode & 0o077:
        raise IdentityProblem(
            f"others may read the key {file}: if nobody has, run chmod 600 on it; else remove it, and a new one is made"
        )


def _seed(file: Path, data: bytes) -> bytes:
    try:
        seed = bytes.fromhex(data.decode("ascii").strip())
    except ValueError:
        seed = data  # half of the digits are as many bytes, but no key
    if len(seed) != SEED_BYTES:
        raise IdentityProblem(f"the key {file} is damaged: put a copy of it there, or remove it, and a new one is made")
    return seed


def _try_to_make(file: Path) -> None:
    try:
        _make(file)
    except OSError as error:
        raise KeyNotKept(f"the key {file} cannot be kept: {error.strerror or error}") from None


def _make(file: Path) -> None:
    """Write a new key beside it and give that the name, unless another process was faster."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = file.with_name(f".{file.name}.{secrets.token_hex(8)}")
    opened = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(opened, "wb") as writing:
            writing.write(secrets.token_bytes(SEED_BYTES).hex().encode() + b"\n")
            writing.flush()
            os.fsync(writing.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(new, file)
    finally:
        new.unlink()
    sync_folder(file.parent)
