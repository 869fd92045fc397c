"""One upload on its way to disk: all of it is taken back, unless all of it was kept."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from dragoman.hub.durable_folder import sync_folder

from .owned_table import Owned
from .store import Stopped

_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class Incoming:
    """Methods block and belong into threads; whichever comes second waits for the first, so that none undoes half."""

    def __init__(self, new: Path) -> None:
        self._new = new
        self.unwanted = False
        """Whether it is to go even if it was kept: whoever sent it gets no answer. Set on the loop."""
        self._file: BinaryIO | None = None
        self._digest = hashlib.sha256()
        self._lock = threading.Lock()
        self._over = False
        self._undo: Callable[[], None] | None = None

    def write(self, data: bytes) -> None:
        """Append. Raises ``OSError``, and ``Stopped`` after ``discard``."""
        with self._lock:
            self._go_on()
            if self._file is None:
                self._file = os.fdopen(os.open(self._new, _CREATE, 0o600), "wb", buffering=0)
            left = memoryview(data)
            while left:
                left = left[self._file.write(left) :]
            self._digest.update(data)

    def keep(
        self, path: Path, row: Callable[[str], Owned], add: Callable[[Owned], None], undo: Callable[[], None]
    ) -> Owned:
        """Give it its name, then enter its row: whoever finds a row finds the file. Raises as ``write`` and ``add``.

        ``row`` makes the row of the SHA-256, ``undo`` takes file and row away again.
        """
        with self._lock:
            self._go_on()
            assert self._file is not None
            os.fsync(self._file.fileno())
            self._file.close()
            kept = row(self._digest.hexdigest())
            self._undo = undo
            self._new.replace(path)
            sync_folder(path.parent)
            add(kept)
            self._over = True
            return kept

    def discard(self, *, kept_too: bool) -> None:
        """Leave nothing of it; one that was kept in the meantime goes only with ``kept_too``."""
        with self._lock:
            if self._over and not kept_too:
                return
            self._over = True
            if self._file is not None:
                self._file.close()
            self._new.unlink(missing_ok=True)
            if self._undo is not None:
                undo, self._undo = self._undo, None
                undo()

    def _go_on(self) -> None:
        if self._over:
            raise Stopped
