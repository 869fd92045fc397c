"""Files that somebody else names: opened without waiting for what they are."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO


def open_regular(path: Path) -> BinaryIO:
    """Open for reading. Raises ``OSError``, also for what is no regular file: a pipe would have us wait for ever.

    ``ValueError`` for what is no path at all, with a NUL in it.
    """
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "it is no regular file", str(path))
    return os.fdopen(fd, "rb")
