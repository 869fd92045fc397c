"""What kind of picture bytes are, told from the bytes: what a client says of them is no authority."""

from __future__ import annotations

HEAD = 12
"""So many bytes say it."""

ENDINGS = {"image/png": ".png", "image/jpeg": ".jpg", "image/gif": ".gif", "image/webp": ".webp"}
"""The kinds that models take, each with the ending of such a file."""


def media_type(head: bytes) -> str | None:
    """The media type of what begins so, if it is a picture that a model can be shown."""
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if head.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if head.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return "image/webp"
    return None
