"""Responses: OpenAI's newer API, which some local servers have as well.

Imports aiohttp, so whoever starts quickly imports this late.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from dragoman.agents.native.settings import NativeSettings
from dragoman.hub.events import Json

from .conversation import ModelRequest
from .openai_stream import OpenAIProvider
from .port import ProviderFailed
from .responses_reader import ResponsesReader
from .responses_request import response_items, response_tool

_NO_REASONING = re.compile(r"(gpt-3|gpt-4|chatgpt-|gpt-5[\w.]*-chat|gpt-audio)", re.IGNORECASE)
"""OpenAI's models that refuse to be asked for thoughts. What others refuse is learnt from them."""

_ENCRYPTED = "reasoning.encrypted_content"
_SOURCES = "web_search_call.action.sources"


class OpenAIResponses(OpenAIProvider):
    """See the module. ``searches`` says that the server has OpenAI's own ``web_search`` tool."""

    path = "responses"

    def __init__(
        self,
        *,
        name: str,
        base_url: str,
        key: str | None,
        settings: NativeSettings,
        searches: bool = True,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(name=name, base_url=base_url, key=key, settings=settings, searches=searches, headers=headers)
        self._refused: set[tuple[str, str]] = set()
        """Models, and which of ``summary`` and ``include`` each of them does not take."""

    def body(self, request: ModelRequest) -> dict[str, Json]:
        """See the base."""
        searching = request.web_search and self.searches
        tools = [response_tool(tool) for tool in request.tools] + ([{"type": "web_search"}] if searching else [])
        include = [_ENCRYPTED] if self._takes(request.model, "include") else []
        body: dict[str, Json] = {
            "model": request.model,
            "input": response_items(request.messages, self.name),
            "stream": True,
            "store": False,
        }
        if request.system:
            body["instructions"] = request.system
        if tools:
            body["tools"] = tools
        if include or searching:
            body["include"] = include + ([_SOURCES] if searching else [])
        if request.reasoning and self._takes(request.model, "summary"):
            body["reasoning"] = {"summary": "auto"}
        if request.max_output_tokens is not None:
            body["max_output_tokens"] = request.max_output_tokens
        return body

    def reader(self) -> ResponsesReader:
        """See the base."""
        return ResponsesReader()

    def relent(self, failed: ProviderFailed, body: dict[str, Json]) -> bool:
        """Models that do not reason, and organisations that may not see thoughts, refuse to be asked for them."""
        if failed.status not in {400, 422}:
            return False
        said = str(failed).lower()
        refused = set()
        if "reasoning" in body and "reasoning" in said and "encrypted" not in said:
            refused.add((str(body["model"]), "summary"))
        if _ENCRYPTED in (body.get("include") or []) and ("encrypted" in said or "include" in said):
            refused.add((str(body["model"]), "include"))
        self._refused |= refused
        return bool(refused)

    def _takes(self, model: str, extra: str) -> bool:
        return not _NO_REASONING.match(model) and (model, extra) not in self._refused
