"""Files that somebody else names: opened without waiting for what they are."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO


def open_regular(path: Path, *, own: bool = False) -> BinaryIO:
    """Open for reading. Raises ``OSError``, also for what is no regular file: a pipe would have us wait for ever.

    ``own`` takes only a file of this user's, and no link to one. ``ValueError`` for what is no path at all, with a NUL
    in it.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
    fd = os.open(path, flags | os.O_NOFOLLOW if own else flags)
    found = os.fstat(fd)
    problem = None
    if not stat.S_ISREG(found.st_mode):
        problem = errno.EINVAL, "it is no regular file"
    elif own and found.st_uid != os.geteuid():
        problem = errno.EPERM, "it is another user's file"
    if problem is not None:
        os.close(fd)
        raise OSError(*problem, str(path))
    return os.fdopen(fd, "rb")
