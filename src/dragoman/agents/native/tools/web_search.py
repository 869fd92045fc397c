"""``webSearch`` by a search engine whose key we have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, ClassVar

import msgspec

from dragoman.agents.native.web.search_engines import Brave, Engine, Exa, Found, SearchFailed

from .tool import Result, ToolContext, ToolFailed, ToolInput

KeyOf = Callable[[str], str | None]
"""The key that goes by this name (``BRAVE_API_KEY``), or None."""


class WebSearchInput(ToolInput, frozen=True, kw_only=True):
    """What the model gives."""

    query: Annotated[str, msgspec.Meta(min_length=1, max_length=1000, description="What to look for.")]
    max_results: Annotated[int, msgspec.Meta(ge=1, le=20, description="Results to return at most.")] = 10


class WebSearch:
    """The tool. ``engines`` are asked in their order, each one only if there is a key and those before it failed."""

    name: ClassVar[str] = "webSearch"
    description: ClassVar[str] = (
        "Search the web. Gives a numbered list of pages: title, URL and what they say about it."
    )
    input: ClassVar[type[ToolInput]] = WebSearchInput

    def __init__(self, key_of: KeyOf, engines: Sequence[Engine] | None = None) -> None:
        self._key_of = key_of
        self._engines = tuple(engines) if engines is not None else (Brave(), Exa())

    async def run(self, given: WebSearchInput, context: ToolContext) -> Result:
        """See ``Tool``. Engines that failed before one answered are named in the result."""
        query = " ".join(given.query.split())
        if not query:
            raise ToolFailed("webSearch: the query is empty")
        seconds = context.settings.tools.fetch_seconds
        failed: list[str] = []
        for engine in self._engines:
            key = (self._key_of(engine.key_name) or "").strip()
            if not key:
                continue
            try:
                found = await engine.search(query, given.max_results, key=key, seconds=seconds)
            except SearchFailed as error:
                failed.append(str(error))
            else:
                return Result(_told(found[: given.max_results], failed, engine.name))
        if failed:
            raise ToolFailed(f"webSearch failed: {'; '.join(failed)}")
        raise ToolFailed(f"webSearch disabled: set {' or '.join(each.key_name for each in self._engines)}")


def _told(found: Sequence[Found], failed: Sequence[str], name: str) -> str:
    notes = [f"[{'; '.join(failed)}; these results are from {name}]"] if failed else []
    items = [_item(number, each) for number, each in enumerate(found, 1)]
    return "\n\n".join([*notes, *(items or ["No results found."])])


def _item(number: int, found: Found) -> str:
    indent = " " * len(f"{number}. ")
    lines = [f"{number}. {found.title or found.url}", f"{indent}{found.url}"]
    return "\n".join(lines + [f"{indent}{found.snippet}"] * bool(found.snippet))
