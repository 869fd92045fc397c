"""``webFetch``: one page of the public web as text."""

from __future__ import annotations

import asyncio
from typing import Annotated, ClassVar

import msgspec

from dragoman.agents.native.url_guard import MAX_URL, UrlBlocked, UrlGuard, UrlInvalid
from dragoman.agents.native.web.fetch import Fetched, Fetcher, FetchFailed
from dragoman.agents.native.web.page import Page, page

from .tool import Result, ToolContext, ToolFailed, ToolInput

READ_AT_ONCE = 2
"""Pages that are made readable at the same time; each may take a processor and much memory for a while."""


class WebFetchInput(ToolInput, frozen=True, kw_only=True):
    """What the model gives."""

    url: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_URL, description="An http or https URL.")]
    max_length: Annotated[
        int, msgspec.Meta(ge=1000, le=200_000, description="Characters of text to return at most.")
    ] = 50_000


class WebFetch:
    """The tool. ``fetcher``: how it reaches the web; by default under the guard that lets only public addresses by."""

    name: ClassVar[str] = "webFetch"
    description: ClassVar[str] = (
        "Fetch a page of the public web. HTML comes as Markdown of its main content, text, JSON, XML and JavaScript as "
        "they are; other types are refused. Redirects are followed. Private and internal hosts cannot be reached."
    )
    input: ClassVar[type[ToolInput]] = WebFetchInput

    def __init__(self, fetcher: Fetcher | None = None) -> None:
        self._fetcher = fetcher or Fetcher(UrlGuard())
        self._reading = asyncio.Semaphore(READ_AT_ONCE)

    async def run(self, given: WebFetchInput, context: ToolContext) -> Result:
        """See ``Tool``. The result is the page's title, its last URL and its text, cut to ``max_length``."""
        limits = context.settings.tools
        try:
            document = await self._fetcher.fetch(
                given.url, hop_seconds=limits.fetch_seconds, body_limit=limits.fetch_bytes
            )
        except (UrlBlocked, UrlInvalid, FetchFailed) as error:
            raise ToolFailed(str(error)) from error
        async with self._reading:
            read = await page(document, limit=given.max_length, seconds=limits.page_seconds)
        return Result(_told(document, read))


def _told(document: Fetched, read: Page) -> str:
    head = [f"Title: {read.title}"] if read.title else []
    notes = []
    if read.plain:
        notes.append("[plain text: this page could not be made readable]")
    if read.length > len(read.text):
        notes.append(f"[cut: the first {len(read.text)} of {read.length} characters; maxLength says how many]")
    if document.cut:
        notes.append(f"[cut: only the first {len(document.body)} bytes of the document were read]")
    body = read.text if read.text.strip() else "(no text)"
    return "\n\n".join(["\n".join([*head, f"URL: {document.url}"]), body, *notes])
