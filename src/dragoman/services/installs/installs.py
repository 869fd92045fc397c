"""The installs of one server: registered, known again, listed, revoked (windie, spec §2).

All of them are in memory once the file was read, so a request costs no disk. What changes one is on disk before it is
answered; the disk's work is done in one thread, in the order in which it was asked for.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import msgspec

from dragoman.hub.clock import Clock
from dragoman.hub.tasks import TaskOwner

from .file import InstallFile, Row
from .pace import Pace
from .problems import InstallsUnavailable, InvalidInstall, TooManyInstalls
from .records import Install, InstallRecord, Registered
from .settings import InstallSettings
from .tokens import digest_of, new_token

log = logging.getLogger("dragoman.installs")

T = TypeVar("T")

DISK_SECONDS = 10.0
"""Wait for the disk; a caller is then told that it does not answer, and what it asked for is taken back."""

NOTED_MS = 3_600_000
"""Use is noted on disk at most once in so many milliseconds for each install: expiry counts days."""

DAY_MS = 86_400_000

_ID_BYTES = 16


class Installs:
    """The store and its index. Every method belongs to one event loop; nothing is touched before the first call.

    ``folder`` is made for its owner only (0700), the file in it too (0600). What cannot be read or written raises
    ``InstallsUnavailable``; the next call tries anew.
    """

    def __init__(
        self, settings: InstallSettings, folder: Path, *, clock: Clock, disk_seconds: float = DISK_SECONDS
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._disk_seconds = disk_seconds
        self._file = InstallFile(folder)
        self._pace = Pace(settings.registrations_per_minute, clock)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="installs")
        self._tasks = TaskOwner("installs")
        self._loading = asyncio.Lock()
        self._records: dict[bytes, InstallRecord] | None = None
        """By the token's digest, in the order of registration."""
        self._noted: dict[str, int] = {}
        """When an install's use was last given to the disk."""
        self._registering = 0
        self._closed = False

    async def open(self) -> None:
        """Read the file now rather than at the first call. Raises ``InstallsUnavailable``."""
        await self._known()

    async def close(self, budget: float = 1.0) -> None:
        """End what is under way, within about ``budget`` seconds, and let go of the file."""
        if self._closed:
            return
        self._closed = True
        await self._tasks.close(budget / 2)
        closing = asyncio.wrap_future(self._thread.submit(self._file.close))
        self._thread.shutdown(wait=False)
        await asyncio.wait([closing], timeout=budget / 2)

    async def register(self, operating_system: str | None, *, peer: str = "") -> Registered:
        """A new user and its install, on disk before this returns. ``peer`` is the caller's network address.

        Raises ``InvalidInstall``, ``TooOften``, ``TooManyInstalls``, ``InstallsUnavailable``; then there is no install,
        nor is there one for a caller who was cancelled.
        """
        system = self._checked(operating_system)
        self._pace.count(peer)
        known = await self._known()
        self._make_room(known)
        made = Registered(
            Install(f"user_{secrets.token_hex(_ID_BYTES)}", f"install_{secrets.token_hex(_ID_BYTES)}"), new_token()
        )
        now = self._clock.now()
        row = Row(_digest(made), InstallRecord(made.install, system, now, now))
        self._registering += 1
        try:
            await self._in_thread(lambda: self._file.add(row), else_do=lambda: self._file.remove([made.install_id]))
        finally:
            self._registering -= 1
        known[row.digest] = row.record
        self._noted[made.install_id] = now
        log.info("registered %s for %s", made.install_id, made.user_id)
        return made

    async def identify(self, token: str) -> Install | None:
        """Whose token this is; None for anything that is nobody's, or no longer. Raises ``InstallsUnavailable``."""
        known = await self._known()
        digest = digest_of(token)
        record = known.get(digest) if digest is not None else None
        if digest is None or record is None:
            return None
        if self._is_expired(record):
            self._let_expire(known)
            return None
        self._use(known, digest, record)
        return record.install

    async def revoke(self, install_id: str) -> bool:
        """Forget an install: its token is nobody's from now on, whatever the disk does. Whether there was one.

        Raises ``InstallsUnavailable`` where the disk did not take it: the install would be back after a restart.
        """
        known = await self._known()
        was_known = self._forget(known, install_id)
        was_kept = await self._in_thread(lambda: self._file.remove([install_id]))
        if was_known or was_kept:
            log.info("revoked %s", install_id)
        return was_known or was_kept

    async def records(self) -> list[InstallRecord]:
        """Every install, in the order in which they registered. Raises ``InstallsUnavailable``."""
        known = await self._known()
        return [record for record in known.values() if not self._is_expired(record)]

    # Within

    def _checked(self, operating_system: str | None) -> str | None:
        """What a client calls its system; None where it says nothing. Raises ``InvalidInstall``."""
        given = (operating_system or "").strip()
        most = self._settings.operating_system_length
        if len(given) > most:
            raise InvalidInstall(
                f"operating_system is longer than {most} characters (installs.operating_system_length)"
            )
        if not given.isprintable():
            # It is listed on terminals, which take control characters for orders.
            raise InvalidInstall("operating_system has characters that cannot be shown")
        return given or None

    async def _known(self) -> dict[bytes, InstallRecord]:
        if self._records is None:
            async with self._loading:
                if self._records is None:
                    rows = await self._in_thread(self._file.load)
                    self._records = {row.digest: row.record for row in rows}
                    self._noted = {row.record.install.install_id: row.record.used_at for row in rows}
        return self._records

    def _make_room(self, known: dict[bytes, InstallRecord]) -> None:
        """Raises ``TooManyInstalls`` if those that expired do not make any."""
        if len(known) + self._registering >= self._settings.kept:
            self._let_expire(known)
        if len(known) + self._registering >= self._settings.kept:
            raise TooManyInstalls(f"{self._settings.kept} installs are registered already (installs.kept)")

    def _is_expired(self, record: InstallRecord) -> bool:
        days = self._settings.idle_days
        return days > 0 and self._clock.now() - record.used_at > days * DAY_MS

    def _let_expire(self, known: dict[bytes, InstallRecord]) -> None:
        """Forget all that expired. The disk follows; should it not, they are expired after a restart as well."""
        expired = [record.install.install_id for record in known.values() if self._is_expired(record)]
        for install_id in expired:
            self._forget(known, install_id)
        if expired:
            log.info("%d installs were not used for %g days", len(expired), self._settings.idle_days)
            self._later(lambda: self._file.remove(expired), "expired installs cannot be removed")

    def _forget(self, known: dict[bytes, InstallRecord], install_id: str) -> bool:
        self._noted.pop(install_id, None)
        for digest, record in known.items():
            if record.install.install_id == install_id:
                del known[digest]
                return True
        return False

    def _use(self, known: dict[bytes, InstallRecord], digest: bytes, record: InstallRecord) -> None:
        now, install_id = self._clock.now(), record.install.install_id
        if now > record.used_at:
            known[digest] = msgspec.structs.replace(record, used_at=now)
        if now - self._noted[install_id] >= NOTED_MS:
            # Also where the disk then refuses: one that takes nothing is not asked with every request.
            self._noted[install_id] = now
            self._later(lambda: self._file.use(install_id, now), "when installs are used cannot be noted")

    def _later(self, work: Callable[[], object], trouble: str) -> None:
        """Have the disk do what nobody waits for."""

        async def doing() -> None:
            try:
                await self._in_thread(work)
            except InstallsUnavailable as problem:
                log.warning("%s: %s", trouble, problem)

        if not self._closed:
            self._tasks.start(doing(), "disk")

    async def _in_thread(self, work: Callable[[], T], *, else_do: Callable[[], object] | None = None) -> T:
        """What ``work`` returns. Raises what it does, and ``InstallsUnavailable`` for a disk that does not answer.

        For a caller who is gone by then, ``else_do`` is done after it.
        """
        if self._closed:
            raise InstallsUnavailable("the server stops")
        job = self._thread.submit(work)
        waiting = asyncio.wrap_future(job)
        try:
            await asyncio.wait([waiting], timeout=self._disk_seconds)
        finally:
            if not waiting.done():
                # What has not begun never will; the rest is followed by what undoes it.
                if not job.cancel() and else_do is not None:
                    self._undo(else_do)
                waiting.cancel()
        if waiting.cancelled():
            raise InstallsUnavailable(f"the disk has not answered for {self._disk_seconds:g} seconds")
        return waiting.result()

    def _undo(self, work: Callable[[], object]) -> None:
        def undoing() -> None:
            try:
                work()
            except InstallsUnavailable as problem:
                log.warning("an install that nobody was told of is left behind: %s", problem)

        with suppress(RuntimeError):  # the server stops: it is nobody's, and small harm
            self._thread.submit(undoing)


def _digest(made: Registered) -> bytes:
    digest = digest_of(made.token)
    assert digest is not None, "a new token is one"
    return digest
