"""The last picture of a terminal whose program has ended: in memory, and as a small file beside its tape."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from dragoman.hub.ports import CursorPosition, ScreenSnapshot, StyledRun

if TYPE_CHECKING:
    from .screen import PyavtScreen


class StoredScreen(msgspec.Struct, frozen=True):
    """A ``Screen`` that no longer changes."""

    picture: ScreenSnapshot
    runs: tuple[tuple[StyledRun, ...], ...]

    @classmethod
    def of(cls, screen: PyavtScreen) -> StoredScreen:
        """What is on that screen now."""
        return cls(screen.snapshot(), screen.styled())

    @classmethod
    def blank(cls, cols: int, rows: int, tape_offset: int = 0) -> StoredScreen:
        """An empty screen: nothing ran yet, or nobody knows what was shown."""
        picture = ScreenSnapshot(
            lines=("",) * rows,
            cols=cols,
            rows=rows,
            alt_screen=False,
            cursor=CursorPosition(0, 0),
            cursor_visible=True,
            seq=0,
            tape_offset=tape_offset,
        )
        return cls(picture, ((),) * rows)

    @property
    def cols(self) -> int:
        return self.picture.cols

    @property
    def rows(self) -> int:
        return self.picture.rows

    @property
    def seq(self) -> int:
        return self.picture.seq

    @property
    def bracketed_paste(self) -> bool:
        return False

    @property
    def held(self) -> bool:
        return False

    def snapshot(self) -> ScreenSnapshot:
        return self.picture

    def styled(self) -> tuple[tuple[StyledRun, ...], ...]:
        return self.runs

    def save(self, path: Path) -> None:
        """Write it, readable by its owner only, in one step. Blocks on the disk; raises ``OSError``."""
        draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
        fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "wb") as file:
            file.write(msgspec.json.encode(self))
        draft.replace(path)

    @classmethod
    def load(cls, path: Path) -> StoredScreen:
        """Read it back. Raises ``OSError`` or ``msgspec.MsgspecError``."""
        return msgspec.json.decode(path.read_bytes(), type=cls)
