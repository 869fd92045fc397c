"""Settings of files and pictures that come with prompts (``[uploads]``)."""

from __future__ import annotations

from pathlib import PurePosixPath

import msgspec

from .elements import MOST


class UploadSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a prompt may bring along, and where its files go."""

    max_file_size: float = 10.0
    """Of one file or picture, in MB of 1,048,576 bytes: what it is, not what it takes as text."""

    max_files_per_request: int = 10
    """Files and pictures of one prompt, together."""

    folder: str = ".co/uploads"
    """Where files go, below the folder of their session. No checkpoint has what lies there, and none brings it back."""

    name_bytes: int = 200
    """Of a file's name, in UTF-8; a longer one is cut, but for its ending."""

    def __post_init__(self) -> None:
        path = PurePosixPath(self.folder)
        if path.is_absolute() or not path.parts or ".." in path.parts or "\0" in self.folder:
            raise ValueError(f"uploads.folder: {self.folder!r} is no folder below that of a session")

        if not 0 <= self.max_files_per_request <= MOST:
            raise ValueError(f"uploads.max_files_per_request: {self.max_files_per_request} is not between 0 and {MOST}")
        if not 1 <= self.name_bytes <= 220:
            raise ValueError(f"uploads.name_bytes: {self.name_bytes} is not between 1 and 220")

    @property
    def most_bytes(self) -> int:
        """``max_file_size`` in bytes."""
        return int(self.max_file_size * 1024 * 1024)
