"""Keys of providers and how they are signed in to: one file that only its owner may read; and the environment's keys.

A key goes in and is given to who calls the provider; nothing here puts one into a message, a log line or a ``repr``
(invariant 10). Writers in several processes take turns by a lock beside the file, and the file is replaced as a whole:
whenever the power goes, it has the old keys or the new ones.
"""

from __future__ import annotations

import fcntl
import logging
import os
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import msgspec

from dragoman.hub.durable_folder import sync_folder
from dragoman.hub.errors import InvalidRequest, StorageUnavailable
from dragoman.hub.events import Json
from dragoman.hub.providers import AuthMode, KeySource

log = logging.getLogger("dragoman.providers")

FILE = "providers.json"
"""Its name, in the folder of secrets."""

KEY_CHARS = 4096
"""Characters of one key."""

FILE_BYTES = 1024 * 1024
"""Bytes of the file; a larger one is none of ours."""

LOCK_SECONDS = 5.0
"""Wait for another process that writes the file."""

SignIn = Literal["oauth", "oauth_pending"]
"""A sign-in at a provider's own program: done, or begun and not known to be done."""

_SIGN_INS: dict[str, SignIn] = {"oauth": "oauth", "oauth_pending": "oauth_pending"}
_LOCK_PAUSE = 0.01
_VERSION = 1


class _Stored(msgspec.Struct, kw_only=True):
    """The file. What is no text among ``keys``, or no mode among ``sign_ins``, is kept as it is, and not used."""

    version: int = _VERSION
    keys: dict[str, Json] = {}
    sign_ins: dict[str, Json] = {}

    def __repr__(self) -> str:
        return f"<keys of {', '.join(sorted(self.keys)) or 'nobody'}>"

    def holds(self, name: str) -> bool:
        """Whether anything is kept for this provider."""
        return name in self.keys or name in self.sign_ins


class _Damaged(Exception):
    """The file is there and cannot be used."""


class FoundKey:
    """A key, or that there is none, and where it comes from: ``variable`` is the environment's name for it."""

    __slots__ = ("key", "source", "variable")

    def __init__(self, source: KeySource, key: str | None = None, variable: str | None = None) -> None:
        self.source: KeySource = source
        self.key = key
        self.variable = variable

    def __repr__(self) -> str:
        return f"FoundKey({self.source!r})"


class KeyStore:
    """The file at ``path``, made with its folder when the first key is kept. Everything here may block for the disk.

    A file that cannot be read counts as empty, with one warning, and is moved aside before another takes its place.
    """

    def __init__(self, path: Path, *, lock_seconds: float = LOCK_SECONDS) -> None:
        self._path = path
        self._new = path.with_name(path.name + ".new")
        self._lock = path.with_name(path.name + ".lock")
        self._lock_seconds = lock_seconds
        self._seen: tuple[int, ...] | None = None
        self._held: dict[str, str] = {}
        self._sign_ins: dict[str, SignIn] = {}

    @property
    def path(self) -> Path:
        """Where the file is, or will be."""
        return self._path

    def get(self, name: str) -> str | None:
        """The key kept under that name. Looks at the file, and reads it when it is not the one read last."""
        self._look()
        return self._held.get(name)

    def mode(self, name: str) -> AuthMode:
        """What is kept for that provider: a sign-in at its own program, which counts more, a key, or nothing."""
        self._look()
        return self._sign_ins.get(name) or ("api_key" if name in self._held else "missing")

    def set(self, name: str, key: str) -> None:
        """Keep a key, trimmed, in place of a sign-in; returns once it is on disk.

        Raises ``InvalidRequest``, ``StorageUnavailable``.
        """
        cleaned = clean_key(key)
        with self._writing() as stored:
            stored.keys[name] = cleaned
            stored.sign_ins.pop(name, None)
            self._replace(stored)

    def sign_in(self, name: str, mode: SignIn) -> None:
        """Keep that somebody signed in there, or began to. A key that is kept stays. Raises ``StorageUnavailable``."""
        with self._writing() as stored:
            stored.sign_ins[name] = mode
            self._replace(stored)

    def forget(self, name: str) -> bool:
        """Remove a key and a sign-in; False when there was neither. Raises ``StorageUnavailable``."""
        if _identity(self._path) is None:
            return False
        with self._writing() as stored:
            if not stored.holds(name):
                return False
            stored.keys.pop(name, None)
            stored.sign_ins.pop(name, None)
            self._replace(stored)
        return True

    def _look(self) -> None:
        seen = _identity(self._path)
        if seen == self._seen:
            return
        stored = self._usable()
        self._held = {name: key for name, given in stored.keys.items() if (key := usable_key(given)) is not None}
        self._sign_ins = {name: mode for name, given in stored.sign_ins.items() if (mode := _SIGN_INS.get(str(given)))}
        # Reading may have closed it to others: that is no other file.
        now = _identity(self._path)
        self._seen = now if seen is not None and now is not None and seen[:-1] == now[:-1] else seen

    @contextmanager
    def _writing(self) -> Iterator[_Stored]:
        """What is stored now, while nobody else may write."""
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self._locked():
                yield self._to_change()
        except OSError as error:
            raise StorageUnavailable(f"keys cannot be kept in {self._path}: {error.strerror or error}") from error

    @contextmanager
    def _locked(self) -> Iterator[None]:
        lock = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            self._take(lock)
            yield
        finally:
            os.close(lock)

    def _take(self, lock: int) -> None:
        deadline = time.monotonic() + self._lock_seconds
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise StorageUnavailable(f"another process holds {self._lock}") from None
                time.sleep(_LOCK_PAUSE)
            else:
                return

    def _to_change(self) -> _Stored:
        try:
            return _read(self._path)
        except _Damaged as damage:
            aside = _free_name(self._path)
            self._path.rename(aside)
            log.warning("%s %s: it lies in %s now", self._path, damage, aside)
            return _Stored()

    def _usable(self) -> _Stored:
        try:
            return _read(self._path)
        except _Damaged as damage:
            log.warning("%s %s: no key is taken from it", self._path, damage)
            return _Stored()

    def _replace(self, stored: _Stored) -> None:
        # One name for what is being written: a writer that was killed leaves no second copy of the keys for ever.
        self._new.unlink(missing_ok=True)
        file = os.open(self._new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(file, "wb") as opened:
                opened.write(msgspec.json.format(msgspec.json.encode(stored)) + b"\n")
                opened.flush()
                os.fsync(opened.fileno())
            self._new.replace(self._path)
        except OSError:
            self._new.unlink(missing_ok=True)
            raise
        sync_folder(self._path.parent)


class KeyRing:
    """Where a key is looked for: the store first, then the environment."""

    def __init__(self, store: KeyStore, environment: Mapping[str, str] | None = None) -> None:
        self.store = store
        self._environment = os.environ if environment is None else environment

    def find(self, name: str, variables: Sequence[str]) -> FoundKey:
        """The key of ``name``, which the environment may give in any of ``variables``, the first first."""
        stored = self.store.get(name)
        if stored is not None:
            return FoundKey("stored", stored)
        for variable in variables:
            given = usable_key(self._environment.get(variable))
            if given is not None:
                return FoundKey("environment", given, variable)
        return FoundKey("missing")


def clean_key(given: str) -> str:
    """The key without what surrounds it. Raises ``InvalidRequest``, which does not repeat it."""
    key = given.strip()
    if not key:
        raise InvalidRequest("the key is empty")
    if len(key) > KEY_CHARS:
        raise InvalidRequest(f"a key has at most {KEY_CHARS} characters")
    # It becomes part of a header: what ends a line there would add a header of somebody else's choice.
    if not key.isascii() or not key.isprintable() or " " in key:
        raise InvalidRequest("the key has a character that no key has: a space, a line break, or one beyond ASCII")
    return key


def usable_key(given: object) -> str | None:
    """The cleaned key, or None for what cannot be one."""
    if not isinstance(given, str):
        return None
    try:
        return clean_key(given)
    except InvalidRequest:
        return None


def _identity(path: Path) -> tuple[int, ...] | None:
    """What tells one state of a file from the next; None where there is no file."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    except OSError:
        return (0,)
    return (found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size, found.st_mode)


def _read(path: Path) -> _Stored:
    """What the file says, empty where there is none. Raises ``_Damaged``, whose text says nothing of its content."""
    try:
        # Without O_NONBLOCK a named pipe in its place would hold us up for ever.
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return _Stored()
    except OSError as error:
        raise _Damaged(f"cannot be read ({error.strerror})") from None
    try:
        _check_file(file)
        data = _all_of(file)
    except OSError as error:
        raise _Damaged(f"cannot be read ({error.strerror})") from None
    finally:
        os.close(file)
    return _decode(data)


def _check_file(file: int) -> None:
    found = os.fstat(file)
    if not stat.S_ISREG(found.st_mode):
        raise _Damaged("is no file")
    if found.st_mode & 0o077 and found.st_uid == os.getuid():
        os.fchmod(file, 0o600)
        log.warning("the file of the keys was open to others; now only its owner may read it")


def _all_of(file: int) -> bytes:
    """Everything, or a little more than is taken."""
    data = b""
    while len(data) <= FILE_BYTES and (piece := os.read(file, FILE_BYTES + 1 - len(data))):
        data += piece
    return data


def _decode(data: bytes) -> _Stored:
    if len(data) > FILE_BYTES:
        raise _Damaged(f"is larger than {FILE_BYTES} bytes")
    try:
        stored = msgspec.json.decode(data, type=_Stored)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        # The decoder's own words may quote what stands there.
        raise _Damaged("is damaged") from None
    if stored.version != _VERSION:
        raise _Damaged(f"is of version {stored.version}, which is not known here")
    return stored


def _free_name(path: Path) -> Path:
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    for number in range(1000):
        name = path.with_name(f"{path.name}.damaged-{stamp}-{number}")
        if not os.path.lexists(name):
            return name
    raise OSError("no free name for the damaged file")
