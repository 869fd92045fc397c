"""What a message says of files and pictures, checked as far as that goes without decoding any (spec §8)."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec
from msgspec import Raw

from .elements import MOST, TooManyElements, elements
from .encoded import Encoded
from .names import NAMELESS, safe_name
from .pictures import ENDINGS, HEAD, media_type
from .refused import UploadRefused
from .settings import UploadSettings

_MEDIA_TYPE = re.compile(
    r"data:([a-z0-9][a-z0-9!#$&^_.+-]{0,60}/[a-z0-9][a-z0-9!#$&^_.+-]{0,60})(?:;|$)", re.IGNORECASE
)


class Given(msgspec.Struct, frozen=True):
    """One file or picture. ``media_type`` is what a client says of a file, and what a picture is."""

    name: str
    media_type: str | None
    data: Encoded


class _File(msgspec.Struct):
    name: Raw = Raw()
    data: Raw = Raw()


def read_files(files: Raw, settings: UploadSettings) -> list[Given]:
    """The files of a message: ``[{"name", "data"}]``, null or nothing. Raises ``UploadRefused``."""
    return [_file(item, place, settings) for place, item in enumerate(_items(files, "files"), 1)]


def read_pictures(images: Raw) -> list[Given]:
    """The pictures of a message: a list of texts, null or nothing. Raises ``UploadRefused``."""
    return [_picture(item, place) for place, item in enumerate(_items(images, "images"), 1)]


def check_limits(files: Sequence[Given], pictures: Sequence[Given], settings: UploadSettings) -> None:
    """Raises ``UploadRefused`` for too many, or too large ones."""
    count, most = len(files) + len(pictures), settings.max_files_per_request
    if count > most:
        raise UploadRefused(f"Too many files: {count} (max: {most}). Increase max_files_per_request in host.yaml")
    for kind, given in (("File", files), ("Image", pictures)):
        for it in given:
            if it.data.size > settings.most_bytes:
                size, limit = f"{it.data.size / 1024 / 1024:.1f}MB", f"{settings.max_file_size:g}MB"
                raise UploadRefused(
                    f"{kind} too large: {it.name} ({size}, max: {limit}). Increase max_file_size in host.yaml"
                )


def _items(value: Raw, field: str) -> list[memoryview]:
    if bytes(memoryview(value)[:4]) in {b"", b"null"}:
        return []
    try:
        return elements(value)
    except TooManyElements as error:
        raise UploadRefused(f"Too many {field}: more than {MOST}") from error
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise UploadRefused(f"{field} must be a list") from error


def _file(item: memoryview, place: int, settings: UploadSettings) -> Given:
    try:
        said = msgspec.json.decode(item, type=_File)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise UploadRefused(f"File {place} must be an object with a name and data") from error
    if not memoryview(said.name):
        raise UploadRefused(f"File {place} has no name")
    try:
        name = safe_name(msgspec.json.decode(said.name, type=str), settings.name_bytes)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise UploadRefused(f"File {place}: the name must be a text") from error
    data = Encoded(said.data, f"File {place}" if name == NAMELESS else f"File {name}")
    found = _MEDIA_TYPE.match(data.head)
    return Given(name, found[1].lower() if found else None, data)


def _picture(item: memoryview, place: int) -> Given:
    data = Encoded(item, f"Image {place}")
    kind = media_type(data.beginning(HEAD))
    if kind is None:
        raise UploadRefused(f"Image {place} is none: PNG, JPEG, GIF and WebP are taken")
    return Given(f"image-{place}{ENDINGS[kind]}", kind, data)
