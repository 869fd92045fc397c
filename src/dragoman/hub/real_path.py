"""Where a path leads once every link is followed."""

from __future__ import annotations

import errno
import os
from pathlib import Path


def real_path(path: str | Path) -> Path:
    """As ``os.path.realpath``: what is not there is taken as it is written.

    Raises ``OSError`` (``ELOOP``) for a chain of links that no system follows: Python would follow it until its own
    stack ends, and folders come from elsewhere. ``ValueError`` for what is no path.
    """
    try:
        return Path(os.path.realpath(path))
    except RecursionError:
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), os.fspath(path)) from None
