"""How much a disk still has to give."""

from __future__ import annotations

import os
from pathlib import Path


def free_beyond(folder: Path, spare: int) -> int:
    """Bytes that may be written to the disk of ``folder``: ``spare`` of them stay free, or a fiftieth of a small disk.

    Negative where less than that is free. Raises ``OSError``.
    """
    disk = os.statvfs(folder)
    return disk.f_bavail * disk.f_frsize - min(spare, disk.f_blocks * disk.f_frsize // 50)
