"""Pictures that come with a prompt: files in ``.cin-images`` of the session's folder, named in it (spec §3.2).

Whatever their names say, they end up in that folder and nowhere else: no link is followed, no file replaced.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import errno
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from .calls import Problem

FOLDER = ".cin-images"

MOST = 20
"""Pictures that come with one prompt."""

NAME_CHARS = 100
"""Characters of a picture's name, without its ending."""

MOST_ALIKE = 1000
"""Pictures of one name that lie there at once."""

_ENDINGS = {"image/jpeg": ".jpg", "image/png": ".png", "image/gif": ".gif", "image/webp": ".webp"}
_SAME_ENDINGS = {".jpeg": ".jpg"}
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class ImageBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A picture as it comes: its bytes in base64."""

    data: str = ""
    media_type: str = ""
    name: str | None = None


class Picture(msgspec.Struct, frozen=True):
    """A picture that may be saved, under this name unless it is taken. ``stem`` and ``ending`` are safe."""

    data: bytes
    stem: str
    ending: str


def read_images(given: Sequence[ImageBody], *, most: int, now: int) -> list[Picture]:
    """The pictures, each of at most ``most`` bytes; ``now`` (ms) is in the names of those that have none. Raises
    ``Problem`` (400, 413)."""
    if len(given) > MOST:
        raise Problem(400, f"A prompt has at most {MOST} images")
    return [_read(image, f"image-{now}-{at}", most) for at, image in enumerate(given)]


def save(cwd: str, pictures: Iterable[Picture]) -> list[str]:
    """Write them, all or none; returns their paths. Raises ``Problem`` (409, 507)."""
    saved: list[str] = []
    try:
        with _folder(cwd) as folder:
            try:
                for picture in pictures:
                    saved.append(_write(folder, picture))  # noqa: PERF401  what was written is to be known on failure
            except BaseException:
                _remove(folder, saved)
                raise
    except OSError as problem:
        status = 507 if problem.errno in _NO_ROOM else 409
        raise Problem(status, f"The images cannot be saved in {FOLDER}: {problem.strerror}") from None
    return [str(Path(cwd, FOLDER, name)) for name in saved]


def discard(cwd: str, paths: Iterable[str]) -> None:
    """Remove what was saved for a prompt that was refused."""
    names = [Path(path).name for path in paths]
    if names:
        with contextlib.suppress(OSError), _folder(cwd) as folder:  # they only take up room
            _remove(folder, names)


def with_images(prompt: str, paths: Sequence[str]) -> str:
    """The prompt that names them."""
    if not paths:
        return prompt
    return "\n".join((*(f"[Image: {path}]" for path in paths), "", prompt))


def _read(image: ImageBody, default: str, most: int) -> Picture:
    if not image.data or not image.media_type:
        raise Problem(400, "Each image needs data and mediaType")
    ending = _ENDINGS.get(image.media_type)
    if ending is None:
        raise Problem(400, f"Invalid mediaType: {image.media_type[:100]}; known: {', '.join(_ENDINGS)}")
    if len(image.data) > 4 * (most // 3 + 1):
        raise Problem(413, f"An image is larger than {most} bytes")
    try:
        data = base64.b64decode(image.data, validate=True)
    except (binascii.Error, ValueError):
        raise Problem(400, "The data of an image must be base64") from None
    if len(data) > most:
        raise Problem(413, f"An image is larger than {most} bytes")
    return Picture(data, _stem(image.name, ending) or default, ending)


def _stem(name: str | None, ending: str) -> str:
    """The safe part of a name: no folder, no dot in front, none of its endings that are the file's anyway."""
    last = re.split(r"[/\\]", name or "")[-1]
    safe = _UNSAFE.sub("_", last).lstrip(".-")
    stem, dot, tail = safe.rpartition(".")
    own = f".{tail.lower()}"
    if not dot or _SAME_ENDINGS.get(own, own) != ending:
        stem = safe
    return stem[:NAME_CHARS].strip("._-")


@contextlib.contextmanager
def _folder(cwd: str) -> Iterator[int]:
    """The folder of pictures, open. One that is a link is not used."""
    around = os.open(cwd, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(FileExistsError):
            os.mkdir(FOLDER, 0o700, dir_fd=around)
        folder = os.open(FOLDER, _DIRECTORY, dir_fd=around)
    finally:
        os.close(around)
    try:
        yield folder
    finally:
        os.close(folder)


def _write(folder: int, picture: Picture) -> str:
    """The name that it got."""
    for name in _names(picture):
        try:
            file = os.open(name, _NEW_FILE, 0o600, dir_fd=folder)
        except FileExistsError:
            continue
        try:
            with os.fdopen(file, "wb") as writing:
                writing.write(picture.data)
        except BaseException:
            _remove(folder, [name])
            raise
        return name
    raise Problem(409, f"There are {MOST_ALIKE} images named {picture.stem}{picture.ending} already")


def _names(picture: Picture) -> Iterator[str]:
    yield f"{picture.stem}{picture.ending}"
    for number in range(1, MOST_ALIKE):
        yield f"{picture.stem}-{number}{picture.ending}"


def _remove(folder: int, names: Iterable[str]) -> None:
    for name in names:
        with contextlib.suppress(OSError):  # somebody else was faster
            os.unlink(name, dir_fd=folder)
