"""Screenshots that come with a query or a tool's result: into the artifact store of their session.

They come as the ids of artifacts that their user uploaded, or inline in base64. What they are, their bytes say.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import BinaryIO

from dragoman.hub.artifacts import Artifact, ArtifactProblem, Artifacts
from dragoman.hub.errors import InvalidRequest
from dragoman.hub.events import Attachment
from dragoman.hub.session import Session
from dragoman.services.artifacts import OwnedArtifacts
from dragoman.services.uploads import UploadRefused
from dragoman.services.uploads.encoded import Encoded
from dragoman.services.uploads.pictures import ENDINGS, HEAD, media_type

log = logging.getLogger("dragoman.windie")

PIECE = 256 * 1024
"""Bytes that are copied at once."""


async def uploaded(session: Session, artifacts: OwnedArtifacts, owner: str, ref: str) -> Attachment | None:
    """A picture that the user has uploaded. None, and a line in our log, where there is none (seed: a lookup that fails
    leaves the text)."""
    try:
        kind, store = (await artifacts.get(owner, ref)).media_type, _store(session)
        if kind in ENDINGS:
            kept = await store.put(session.id, _read(await artifacts.open(owner, ref)))
            return _attachment(ref, kind, kept)
        log.warning("session %s goes without screenshot %.100r: it is no picture but %s", session.id, ref, kind)
    except ArtifactProblem as problem:
        log.warning("session %s goes without screenshot %.100r: %s", session.id, ref, problem)
    return None


async def inline(session: Session, text: str) -> Attachment:
    """A picture in base64, bare or as a data URL. Raises ``InvalidRequest`` for what is none, or cannot be kept."""
    try:
        encoded = Encoded(memoryview(b'"%b"' % text.encode("ascii", "replace")), "it")
        kind = media_type(encoded.beginning(HEAD))
        if kind is None:
            raise InvalidRequest("Invalid screenshot: PNG, JPEG, GIF and WebP are taken")
        kept = await _store(session).put(session.id, encoded.pieces())
    except (UploadRefused, ArtifactProblem) as problem:
        raise InvalidRequest(f"Invalid screenshot: {problem}") from problem
    return _attachment(f"screenshot{ENDINGS[kind]}", kind, kept)


async def let_go(session: Session, attachments: tuple[Attachment, ...]) -> None:
    """Nothing refers to them after all."""
    for it in attachments:
        try:
            await _store(session).release(session.id, it.artifact)
        except ArtifactProblem as problem:
            log.warning("session %s: %s is left behind: %s", session.id, it.name, problem)


def _store(session: Session) -> Artifacts:
    if session.artifacts is None:
        raise ArtifactProblem("this server keeps no pictures")
    return session.artifacts


def _read(file: BinaryIO) -> Iterator[bytes]:
    """Called in a thread, piece by piece."""
    with file:
        while piece := file.read(PIECE):
            yield piece


def _attachment(name: str, kind: str, kept: Artifact) -> Attachment:
    return Attachment(kind="screenshot", name=name, artifact=kept.id, media_type=kind, size=kept.size)
