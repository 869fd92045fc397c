"""Chat Completions: OpenAI's older API, and that of nearly everybody else (Ollama, vLLM, OpenRouter, DeepSeek…).

Imports aiohttp, so whoever starts quickly imports this late.
"""

from __future__ import annotations

from collections.abc import Mapping

from dragoman.agents.native.settings import NativeSettings
from dragoman.hub.events import Json

from .chat_reader import ChatReader
from .chat_request import chat_messages, chat_tool
from .conversation import ModelRequest
from .openai_stream import OpenAIProvider
from .port import ProviderFailed

_OPENAI = "api.openai.com"


class OpenAIChat(OpenAIProvider):
    """See the module. ``searches`` says that the models take ``web_search_options``."""

    path = "chat/completions"

    def __init__(
        self,
        *,
        name: str,
        base_url: str,
        key: str | None,
        settings: NativeSettings,
        searches: bool = False,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(name=name, base_url=base_url, key=key, settings=settings, searches=searches, headers=headers)
        self._asks_usage = True

    def body(self, request: ModelRequest) -> dict[str, Json]:
        """See the base."""
        body: dict[str, Json] = {
            "model": request.model,
            "messages": chat_messages(request.system, request.messages, self.name),
            "stream": True,
        }
        if self._asks_usage:
            body["stream_options"] = {"include_usage": True}
        if request.tools:
            body["tools"] = [chat_tool(tool) for tool in request.tools]
        if request.max_output_tokens is not None:
            body[self._limit_field()] = request.max_output_tokens
        if request.web_search and self.searches:
            body["web_search_options"] = {}
        return body

    def reader(self) -> ChatReader:
        """See the base."""
        return ChatReader()

    def relent(self, failed: ProviderFailed, body: dict[str, Json]) -> bool:
        """Some servers know no ``stream_options``: they are asked without, and count no tokens."""
        if failed.status in {400, 422} and "stream_options" in body and "stream_options" in str(failed):
            self._asks_usage = False
            return True
        return False

    def _limit_field(self) -> str:
        """OpenAI's newer models refuse the name that all others know."""
        return "max_completion_tokens" if self.endpoint.host == _OPENAI else "max_tokens"
