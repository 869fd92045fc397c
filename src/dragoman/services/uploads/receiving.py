"""Taking in what came with a prompt: files to the session's folder, pictures to the artifact store.

All of it happens before the prompt is submitted, so that a prompt that is acknowledged has what came with it, on disk.
What is refused leaves nothing behind, and neither does whoever goes away meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath

import msgspec
from msgspec import Raw

from dragoman.hub.artifacts import Artifact, ArtifactProblem, Artifacts, is_artifact
from dragoman.hub.events import Attachment, PromptSubmitted
from dragoman.hub.session import Session

from .folder import UploadFolder, upload_folder
from .given import Given, check_limits, read_files, read_pictures
from .refused import UploadFailed
from .settings import UploadSettings

log = logging.getLogger("dragoman.uploads")

UPLOAD = "upload:"
"""What stands in ``Attachment.artifact`` before the path of a file, relative to the session's folder."""


class Received(msgspec.Struct, frozen=True):
    """What came with a prompt and is kept: attachments for ``Session.submit``, the files before the pictures.

    ``content`` is what the model is told in place of the prompt's text; None where that says it all. ``cwd`` is the
    folder that the files lie below, ``since`` the newest ``seq`` of the session's log before any of it was kept.
    """

    files: tuple[Attachment, ...] = ()
    images: tuple[Attachment, ...] = ()
    content: str | None = None
    cwd: str = ""
    since: int = 0


class _Stopped(Exception):
    """Whoever asked for it is gone."""


class _Work(msgspec.Struct, frozen=True):
    """What a thread is given."""

    cwd: str
    folder: str
    seconds: int
    stop: threading.Event = msgspec.field(default_factory=threading.Event)


async def receive(
    session: Session,
    prompt: str,
    images: Raw,
    files: Raw,
    *,
    settings: UploadSettings,
    artifacts: Artifacts | None = None,
    inline_images: bool | None = None,
) -> Received:
    """Take in the wire fields ``images`` (base64 texts) and ``files`` (``[{"name", "data"}]``) of a message.

    ``artifacts`` is by default the session's store. Pictures are kept as files where there is none, or its agent cannot
    be shown any: ``inline_images`` says so for whoever knows. Raises ``UploadRefused``, ``UploadFailed``.
    """
    if not memoryview(files) and not memoryview(images):
        return Received()
    since = session.head
    given, pictures = await asyncio.to_thread(_read, images, files, settings)
    store = artifacts or session.artifacts
    shown: list[Given] = []
    if pictures and store is not None and (await session.shows_pictures() if inline_images is None else inline_images):
        shown = pictures
    else:
        given += pictures
    state = session.state
    work = _Work(state.cwd, settings.folder, session.clock.now() // 1000)
    written = await _written(work, given) if given else ()
    kept: list[Attachment] = []
    try:
        for picture in shown:
            assert store is not None
            kept.append(await _kept(store, session.id, picture))
    except BaseException:
        await asyncio.shield(_undo(session.id, work.cwd, [*written, *kept], store))
        raise
    return Received(written, tuple(kept), told(prompt, written) if written else None, work.cwd, since)


async def discard(session: Session, received: Received, *, artifacts: Artifacts | None = None) -> None:
    """The prompt was refused after all: let go of what came with it. What cannot be removed is logged.

    What a prompt in the log refers to all the same stays: a submission that was cut off, or that the disk was slow to
    take, may have been recorded.
    """
    events = session.recorded_since(received.since)
    if events is None:
        return  # so much has happened since that nobody can tell
    prompts = [event.fact for event in events if isinstance(event.fact, PromptSubmitted)]
    needed = {it.artifact for prompt in prompts for it in prompt.attachments}
    kept = [it for it in (*received.files, *received.images) if it.artifact not in needed]
    await _undo(session.id, received.cwd, kept, artifacts or session.artifacts)


def told(prompt: str, files: Sequence[Attachment]) -> str:
    """A prompt for a model, with where its files lie."""
    paths = "\n".join(f"- {it.artifact.removeprefix(UPLOAD)} ({it.size} bytes)" for it in files)
    return (
        f"{prompt}\n\n<system-reminder>\nWith this message came files, which lie in the working folder now:\n{paths}\n"
        "What is in them is not part of this message: read them with your tools before you answer.\n</system-reminder>"
    )


def _read(images: Raw, files: Raw, settings: UploadSettings) -> tuple[list[Given], list[Given]]:
    given, pictures = read_files(files, settings), read_pictures(images)
    check_limits(given, pictures, settings)
    return given, pictures


async def _kept(store: Artifacts, session: str, picture: Given) -> Attachment:
    try:
        artifact: Artifact = await store.put(session, picture.data.pieces())
    except ArtifactProblem as problem:
        raise UploadFailed(f"{picture.data.called}: {problem}") from problem
    return Attachment("image", picture.name, artifact.id, picture.media_type, artifact.size)


async def _undo(session: str, cwd: str, kept: Sequence[Attachment], store: Artifacts | None) -> None:
    await asyncio.to_thread(_remove, cwd, kept)
    for it in kept:
        if store is not None and is_artifact(it.artifact):
            try:
                await store.release(session, it.artifact)
            except ArtifactProblem as problem:
                log.warning("session %s: %s is left behind: %s", session, it.name, problem)


async def _written(work: _Work, files: Sequence[Given]) -> tuple[Attachment, ...]:
    """Write them in a thread. One that is cancelled takes back what it wrote."""
    job = asyncio.ensure_future(asyncio.to_thread(_write_all, work, files))
    try:
        return await asyncio.shield(job)
    except asyncio.CancelledError:
        work.stop.set()
        job.add_done_callback(lambda done: _take_back(work, done))
        raise


def _take_back(work: _Work, done: asyncio.Future[tuple[Attachment, ...]]) -> None:
    if not done.cancelled() and done.exception() is None:
        asyncio.get_running_loop().run_in_executor(None, _remove, work.cwd, done.result())


# In a thread


def _write_all(work: _Work, files: Sequence[Given]) -> tuple[Attachment, ...]:
    with upload_folder(work.cwd, work.folder) as folder:
        names: list[str] = []
        try:
            kept = tuple(_write(work, folder, it, names) for it in files)
            folder.sync()
        except BaseException as error:
            folder.remove(names)
            if isinstance(error, OSError):
                raise UploadFailed(f"Files cannot be kept: {error.strerror or error}") from error
            raise
    return kept


def _write(work: _Work, folder: UploadFolder, given: Given, names: list[str]) -> Attachment:
    name, file = folder.create(work.seconds, given.name)
    names.append(name)
    size = 0
    with file:
        for piece in given.data.pieces():
            if work.stop.is_set():
                raise _Stopped
            size += file.write(piece)
        file.flush()
        os.fsync(file.fileno())
    return Attachment("file", name, f"{UPLOAD}{work.folder}/{name}", given.media_type, size)


def _remove(cwd: str, kept: Iterable[Attachment]) -> None:
    for it in kept:
        if it.artifact.startswith(UPLOAD):
            path = PurePosixPath(it.artifact.removeprefix(UPLOAD))
            try:
                with upload_folder(cwd, str(path.parent), make=False) as folder:
                    folder.remove([path.name])
            except UploadFailed as problem:
                if not isinstance(problem.__cause__, FileNotFoundError):
                    log.warning("%s is left behind: %s", path, problem)
