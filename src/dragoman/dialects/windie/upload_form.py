"""A form with one file, taken apart while it comes: nothing of it is gathered here (seed: Artifacts; spec §8)."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from .http_reading import invalid
from .route import Problem

FIELD = "file"

ROOM = 64 * 1024
"""Bytes that a form may have beside its file."""

NO_FORM = "Content-Type must be multipart/form-data"
NO_BOUNDARY = "Missing boundary in multipart."
BROKEN = "There was an error parsing the body"


class UploadForm:
    """The one file of a form whose ``content_type`` is given and whose bytes come in ``pieces``.

    Raises ``Problem`` here (400, 415) and while it is read: 400 for what is no form, 422 for a form that has not just
    this one file; and whatever ``pieces`` raises.
    """

    def __init__(self, content_type: str | None, pieces: AsyncIterator[bytes]) -> None:
        kind, options = parse_options_header(content_type)
        if kind.lower() != b"multipart/form-data":
            raise Problem(415, NO_FORM)
        if not options.get(b"boundary"):
            raise Problem(400, NO_BOUNDARY)
        self._pieces = pieces
        self._found: deque[bytes] = deque()
        self._header_name = b""
        self._header_value = b""
        self._headers: dict[bytes, bytes] = {}
        self._files = 0
        self._complete = False
        try:
            self._parser = MultipartParser(
                options[b"boundary"],
                {
                    "on_part_begin": self._part_begins,
                    "on_header_field": self._name_goes_on,
                    "on_header_value": self._value_goes_on,
                    "on_header_end": self._header_ends,
                    "on_headers_finished": self._headers_end,
                    "on_part_data": self._data,
                    "on_end": self._ends,
                },
            )
        except FormParserError:
            raise Problem(400, BROKEN) from None

    async def begin(self) -> str | None:
        """Read up to where the file begins; the media type that it is said to have."""
        async for piece in self._pieces:
            self._take(piece)
            if self._files:
                claimed = self._headers.get(b"content-type")
                return claimed.decode("latin-1") if claimed is not None else None
        raise self._missing()

    async def file(self) -> AsyncIterator[bytes]:
        """The file's bytes, after ``begin``. It ends when the whole form has come, and was one."""
        while True:
            while self._found:
                yield self._found.popleft()
            piece = await anext(self._pieces, None)
            if piece is None:
                break
            self._take(piece)
        if not self._complete:
            raise Problem(400, BROKEN)

    def _take(self, piece: bytes) -> None:
        if self._complete:
            return  # what comes after a form is none of its parts, and is dropped
        try:
            self._parser.write(piece)
        except FormParserError:
            raise Problem(400, BROKEN) from None

    def _missing(self) -> Problem:
        """Nothing came that was the file."""
        return invalid(["body", FIELD], "Field required", "missing") if self._complete else Problem(400, BROKEN)

    # What the parser finds

    def _part_begins(self) -> None:
        self._headers = {}

    def _name_goes_on(self, data: bytes, start: int, end: int) -> None:
        self._header_name += data[start:end]

    def _value_goes_on(self, data: bytes, start: int, end: int) -> None:
        self._header_value += data[start:end]

    def _header_ends(self) -> None:
        self._headers[self._header_name.lower()] = self._header_value
        self._header_name = self._header_value = b""

    def _headers_end(self) -> None:
        _, options = parse_options_header(self._headers.get(b"content-disposition"))
        if b"name" not in options:
            raise Problem(400, BROKEN)
        name = options[b"name"].decode("utf-8", "replace")
        if name != FIELD:
            raise invalid(["body", name[:64]], "unknown field")
        if b"filename" not in options:
            raise invalid(["body", FIELD], "must be a file")
        if self._files:
            raise invalid(["body", FIELD], "given more than once")
        self._files += 1

    def _data(self, data: bytes, start: int, end: int) -> None:
        self._found.append(data[start:end])

    def _ends(self) -> None:
        self._complete = True
