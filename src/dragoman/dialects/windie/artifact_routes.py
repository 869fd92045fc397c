"""Uploaded artifacts: taken, and given back to whom they belong, also in part (seed: Artifacts; spec §8)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from dragoman.dialects import ranges
from dragoman.dialects.base import ROOT
from dragoman.dialects.bodies import TOO_SLOW, body_pieces
from dragoman.hub.artifacts import ArtifactGone, ArtifactProblem
from dragoman.services.artifacts import NoRoom, OverQuota, Owned, TooLarge, UnknownType, UnsafeId

from .http_reading import allow_body
from .route import Call, Problem, Route
from .upload_form import ROOM, UploadForm

ARTIFACTS = "/api/artifacts/"

KINDS = ("application/pdf", "image/gif", "image/jpeg", "image/png", "image/webp")
"""What an artifact may be; the store tells by its content."""

PIECE = 256 * 1024
"""Bytes that are read at once, and held for one client that fetches."""

_STATUS: tuple[tuple[type[ArtifactProblem], int, str | None], ...] = (
    (UnsafeId, 400, "Invalid artifact id"),
    (ArtifactGone, 404, "Artifact not found"),
    (TooLarge, 413, None),
    (OverQuota, 413, None),
    (UnknownType, 415, None),
    (NoRoom, 507, None),
    (ArtifactProblem, 503, None),
)
"""What the store refuses, and the text that is said of it; its own where there is none here."""

_KEPT_APART = {
    "cache-control": "private, no-cache",
    "x-content-type-options": "nosniff",
    "content-security-policy": "default-src 'none'; sandbox",
    "cross-origin-resource-policy": "same-origin",
    "accept-ranges": "bytes",
}
"""Whatever an artifact holds, no page runs it, and no cache shows it to somebody else."""


class Uploaded(msgspec.Struct, frozen=True):
    """``url`` is where it is fetched from, by the address that the upload came to."""

    artifact_id: str
    content_type: str
    size_bytes: int
    sha256: str
    url: str


async def upload(call: Call) -> Uploaded:
    """Keep an artifact. One that is refused, or whose client goes away in the middle, leaves nothing."""
    store = call.host.artifacts
    allow_body(call.request, store.size + ROOM)
    form = UploadForm(call.request.headers.get("content-type"), body_pieces(call.request.receive))
    with _problems():
        try:
            claimed = await form.begin()
            kept = await store.put(call.caller.owner, form.file(), claimed)
        except TimeoutError:
            raise Problem(408, TOO_SLOW) from None
    return Uploaded(kept.id, kept.media_type, kept.size, kept.sha256, _url(call, kept.id))


async def fetch(call: Call) -> Response:
    """An artifact, or the part of it that is asked for."""
    owner, name = call.caller.owner, call.path["artifact_id"]
    with _problems():
        known = await call.host.artifacts.get(owner, name)
        headers = {**_KEPT_APART, "etag": f'"{known.sha256}"', "content-disposition": f'inline; filename="{known.id}"'}
        if _is_known(call, headers["etag"]):
            return Response(None, 304, headers)
        part = _asked(call, headers["etag"], known)
        if isinstance(part, ranges.Unsatisfiable):
            raise Problem(
                416, "Range not satisfiable", headers={"content-range": part.content_range(known.size), **_KEPT_APART}
            )
        if isinstance(part, ranges.Part):
            headers["content-range"] = part.content_range(known.size)
        start, stop = (part.start, part.stop) if isinstance(part, ranges.Part) else (0, known.size)
        status = 206 if isinstance(part, ranges.Part) else 200
        headers["content-length"] = str(stop - start)
        if call.request.method == "HEAD":
            return Response(None, status, headers, known.media_type)
        file = await call.host.artifacts.open(owner, name)
    return _FileResponse(file, start, stop, status=status, headers=headers, media_type=known.media_type)


class _FileResponse(Response):
    """The bytes of a file from ``start`` up to ``stop``, read in threads as they are taken."""

    def __init__(
        self, file: BinaryIO, start: int, stop: int, *, status: int, headers: dict[str, str], media_type: str
    ) -> None:
        super().__init__(None, status, headers, media_type)
        self._file = file
        self._start = start
        self._stop = stop

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            at = self._start
            while at < self._stop:
                piece = await asyncio.to_thread(self._read, at, min(PIECE, self._stop - at))
                at += len(piece)
                await send({"type": "http.response.body", "body": piece, "more_body": at < self._stop})
            if self._start == self._stop:
                await send({"type": "http.response.body", "body": b""})
        finally:
            await asyncio.to_thread(self._file.close)

    def _read(self, at: int, size: int) -> bytes:
        self._file.seek(at)
        piece = self._file.read(size)
        if not piece:
            raise OSError("an artifact is shorter than it was")
        return piece


@contextmanager
def _problems() -> Iterator[None]:
    """What the store refuses, as ``Problem``."""
    try:
        yield
    except ArtifactProblem as problem:
        status, text = next((status, text) for kind, status, text in _STATUS if isinstance(problem, kind))
        raise Problem(status, text or str(problem)) from None


def _url(call: Call, artifact: str) -> str:
    """Where the client that asks finds it: the address that it used itself, whatever the server calls itself."""
    scope = call.request.scope
    return f"{scope['scheme']}://{call.request.headers['host']}{scope.get(ROOT, '')}{ARTIFACTS}{artifact}"


def _is_known(call: Call, tag: str) -> bool:
    """Whether the client says that it has this already."""
    given = call.request.headers.get("if-none-match")
    if given is None:
        return False
    return given.strip() == "*" or tag in (each.strip().removeprefix("W/") for each in given.split(","))


def _asked(call: Call, tag: str, known: Owned) -> ranges.Asked:
    """The part that is asked for; the whole where what the client has a part of is something else by now."""
    condition = call.request.headers.get("if-range")
    if condition is not None and condition.strip() != tag:
        return ranges.Whole()
    return ranges.asked_range(call.request.headers.get("range"), known.size)


ROUTES: tuple[Route, ...] = (
    Route(
        method="POST",
        path=ARTIFACTS,
        summary="Upload an artifact: a form with one file",
        handler=upload,
        answer=Uploaded,
        refusals={
            400: "The form cannot be read",
            408: "It comes too slowly",
            413: "It is too large, or with it the caller would have too much",
            415: "It is no form, or the file is of no type that is taken",
            422: "The form is not one file named `file`",
            503: "It cannot be kept now",
            507: "There is no room",
        },
        streams=True,
    ),
    Route(
        method="GET",
        path=f"{ARTIFACTS}{{artifact_id}}",
        summary="Fetch an artifact",
        handler=fetch,
        media=", ".join(KINDS),
        refusals={
            206: "The part that was asked for",
            304: "The caller has it already",
            400: "This is no artifact's id",
            404: "The caller has no such artifact",
            416: "The artifact has no such part",
            503: "It cannot be read now",
        },
    ),
)
