"""What an uploaded artifact is, told from its bytes, and how artifacts of users are called."""

from __future__ import annotations

import re
import secrets

from dragoman.services.uploads.pictures import ENDINGS, HEAD, media_type

from .refused import UnknownType, UnsafeId

HEAD_BYTES = HEAD
"""So many first bytes say what it is."""

_ENDINGS = {**ENDINGS, "application/pdf": ".pdf"}
_SAFE = re.compile(r"[0-9A-Za-z_-]{1,128}(?:\.[0-9A-Za-z]{1,16})?")
_OURS = re.compile(r"[0-9a-f]{32}(?:" + "|".join(re.escape(ending) for ending in _ENDINGS.values()) + ")")


def kind_of(head: bytes) -> str:
    """The media type of what begins so. Raises ``UnknownType`` for what is no picture and no PDF."""
    found = "application/pdf" if head.startswith(b"%PDF-") else media_type(head)
    if found is None:
        raise UnknownType("it is neither a PNG, JPEG, GIF or WebP picture nor a PDF")
    return found


def new_id(kind: str) -> str:
    """An id that nobody can guess: ``<32 hex>.<ending>``."""
    return secrets.token_hex(16) + _ENDINGS[kind]


def may_be(artifact: str) -> bool:
    """Whether an artifact may be called so. Raises ``UnsafeId`` for what is no plain name of a file at all.

    The seed's own examples (``shot.png``) are plain names: nobody has them, but they are no attempt at a path either.
    """
    if _SAFE.fullmatch(artifact) is None:
        raise UnsafeId("this is no id of an artifact")
    return _OURS.fullmatch(artifact) is not None
