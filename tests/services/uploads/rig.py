"""A session to send files to, and what it is sent."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import Raw

from dragoman.hub.events import Attachment
from dragoman.hub.session import Session
from dragoman.services.artifacts import ArtifactSettings, ArtifactStore
from dragoman.services.uploads import UPLOAD, Received, UploadSettings, receive
from tests.hub.rig import FakeClock, Hub, InMemory

SECONDS = 1_700_000_000
"""When everything here happens."""

SETTINGS = UploadSettings()

NULL = Raw(b"null")

PNG = b"\x89PNG\r\n\x1a\n" + b"pixels"
JPEG = b"\xff\xd8\xff\xe0" + b"pixels"
GIF = b"GIF89a" + b"pixels"
WEBP = b"RIFF\x10\x00\x00\x00WEBP" + b"pixels"


def coded(data: bytes, head: str = "data:text/plain;base64,") -> str:
    """Bytes as a client sends them."""
    return head + base64.b64encode(data).decode()


def a_file(name: str, data: bytes = b"xyz", head: str = "data:text/plain;base64,") -> dict[str, str]:
    return {"name": name, "data": coded(data, head)}


class Rig:
    """``session`` works in ``cwd``; its uploads lie in ``folder``."""

    def __init__(self, tmp_path: Path, cwd: Path | None = None) -> None:
        self.cwd = cwd if cwd is not None else tmp_path / "work"
        self.cwd.mkdir(exist_ok=True)
        self.folder = self.cwd / ".co" / "uploads"
        self.kept = tmp_path / "artifacts"
        self.store = ArtifactStore(ArtifactSettings(spare=0), self.kept)
        self.hub = Hub(InMemory(), self.cwd, clock=FakeClock(SECONDS * 1000 + 999), artifacts=self.store)
        self.session: Session

    async def begin(self) -> None:
        await self.hub.open()
        self.session = await self.hub.create()

    async def end(self) -> None:
        await self.hub.close()
        await self.store.close()

    async def receive(self, *, prompt: str = "hello", images: Any = None, files: Any = None, **more: Any) -> Received:
        """What comes of these fields; None is one that is not there."""
        more = {"settings": SETTINGS, "inline_images": True, **more}
        return await receive(self.session, prompt, field(images), field(files), **more)

    def uploads(self) -> dict[str, bytes]:
        """All files that lie in the folder."""
        found = sorted(self.folder.iterdir()) if self.folder.is_dir() else []
        return {it.name: it.read_bytes() for it in found}

    def pictures(self) -> list[str]:
        """All artifacts, and what was left of any."""
        return sorted(str(it.relative_to(self.kept)) for it in self.kept.rglob("*") if it.is_file())


def field(value: Any) -> Raw:
    """A wire field, unread."""
    return Raw(b"") if value is None else value if isinstance(value, Raw) else Raw(json.dumps(value).encode())


def names(attachments: Sequence[Attachment]) -> list[str]:
    return [it.name for it in attachments]


def paths(attachments: Sequence[Attachment]) -> list[str]:
    """Where files lie, relative to the session's folder."""
    return [it.artifact.removeprefix(UPLOAD) for it in attachments]
