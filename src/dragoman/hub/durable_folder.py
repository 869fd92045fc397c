"""What is needed beside ``fsync`` of a file, so that its name outlives a loss of power."""

from __future__ import annotations

import os
from pathlib import Path


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on disk: of files that were made there, replaced or removed.

    Blocks as long as the disk takes. Raises ``OSError``, also where ``folder`` is none.
    """
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
