"""What runs on the terminals, and what it writes."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from pathlib import Path

END = b"<<END>>"
"""What follows each flood, so that a reader without offsets knows that it was the last byte."""

READY = b"<<READY>>"
"""What is written once the terminal is raw and keys are listened to."""

GO = b"g"
"""The key that starts a flood."""

_LINE = b"\x1b[3%dm%08d\x1b[0m a line of coloured text such as programs write, with nothing special in it\r\n"


@dataclass(frozen=True)
class Flood:
    """A file of coloured ASCII lines, and the program that writes it again for every ``GO``."""

    file: Path
    size: int
    crc: int

    @property
    def command(self) -> list[str]:
        key = "dd bs=1 count=1 2>/dev/null"
        script = (
            f"stty raw -echo; printf '{READY.decode()}';"
            f' while [ "$({key})" = {GO.decode()} ]; do cat "$0"; printf \'{END.decode()}\'; done'
        )
        return ["sh", "-c", script, str(self.file)]


def make_flood(folder: Path, megabytes: float) -> Flood:
    """Write the file; ``size`` and ``crc`` include ``END``."""
    wanted = int(megabytes * 1e6)
    block = b"".join(_LINE % (number % 8, number) for number in range(wanted // len(_LINE % (0, 0)) + 1))
    data = block[:wanted]
    file = folder / f"flood-{wanted}"
    file.write_bytes(data)
    return Flood(file, wanted + len(END), zlib.crc32(END, zlib.crc32(data)))


ECHO = ["sh", "-c", f"stty raw -echo; printf '{READY.decode()}'; exec cat"]
"""Gives every key back at once."""

IDLE = ["cat"]
"""Waits for ever."""
