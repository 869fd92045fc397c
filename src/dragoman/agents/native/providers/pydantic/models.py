"""The library's models, and the settings that each API wants for a call."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, cast

import httpx2
from pydantic_ai.models import Model
from pydantic_ai.settings import ModelSettings

from dragoman.agents.native.providers.conversation import AssistantMessage, ModelRequest, Reasoning
from dragoman.agents.native.settings import NativeSettings

if TYPE_CHECKING:
    from .api import Api

_THINKING_BUDGET = 10_000
"""Tokens that older models of Anthropic may think."""
_CACHED = {f"anthropic_cache_{what}": True for what in ("instructions", "tool_definitions", "messages")}
"""Claude reads nothing from a cache that it was not told to write. Others do so by themselves."""


class Models:
    """Makes models of one API. Importing their modules takes its time: make it in a thread.

    Raises ``ImportError`` where the vendor's package is missing.
    """

    def __init__(self, api: Api, key: str, base_url: str, http: httpx2.AsyncClient, settings: NativeSettings) -> None:
        self._api = api
        self._output_tokens = settings.turn.output_tokens
        self._make, self._provider = _maker(api, key, base_url or None, http)

    def model(self, name: str) -> Model[Any]:
        """The model of this name."""
        model: Model[Any] = self._make(name, provider=self._provider)
        return model

    def can_search(self, request: ModelRequest) -> bool:
        """Whether this model takes the provider's search together with our tools."""
        if self._api != "google" or not request.tools:
            return self._api != "openai-chat"
        return bool(self._profile(self.model(request.model)).get("google_supports_tool_combination"))

    def settings(self, model: Model[Any], request: ModelRequest) -> ModelSettings:
        """What goes with a call. The library's own retries are off: they are the turn loop's."""
        settings: Any = {"max_retries": 0, **self._reasoning(model, request)}  # vendors' keys are no base settings'
        if request.max_output_tokens is not None:
            settings["max_tokens"] = request.max_output_tokens
        elif self._api == "anthropic":
            settings["max_tokens"] = self._output_tokens
        if self._api == "anthropic":
            settings.update(_CACHED)
        if self._api == "openai-responses":
            settings["openai_store"] = False
            settings["openai_include_web_search_sources"] = request.web_search
        return cast("ModelSettings", settings)

    def _reasoning(self, model: Model[Any], request: ModelRequest) -> dict[str, Any]:
        """How this API is asked for a summary of thoughts, for models that are known to have any."""
        profile = self._profile(model)
        if not request.reasoning or not profile.get("supports_thinking"):
            return {}
        if self._api == "google":
            return {"google_thinking_config": {"include_thoughts": True}}
        if self._api == "openai-responses":
            return {"openai_reasoning_summary": "auto"}
        return self._claude(profile, request) if self._api == "anthropic" else {}

    def _claude(self, profile: dict[str, Any], request: ModelRequest) -> dict[str, Any]:
        binding = {"block_binding": {"prefix_mismatch_behavior": "drop_block"}}
        binds = binding if profile.get("anthropic_binds_thinking_blocks") else {}
        if profile.get("anthropic_supports_adaptive_thinking"):
            return {"anthropic_thinking": {"type": "adaptive", "display": "summarized", **binds}}
        room = (request.max_output_tokens or self._output_tokens) > 2 * _THINKING_BUDGET
        if not room or _goes_on_without_thoughts(request):
            return {}
        return {"anthropic_thinking": {"type": "enabled", "budget_tokens": _THINKING_BUDGET, **binds}}

    def _profile(self, model: Model[Any]) -> dict[str, Any]:
        return {**model.profile}


def _maker(api: Api, key: str, base_url: str | None, http: httpx2.AsyncClient) -> tuple[Any, Any]:
    """The model class of an API, and the library's provider for it."""
    if api == "anthropic":
        from pydantic_ai.models.anthropic import AnthropicModel  # noqa: PLC0415 - one vendor's package at a time
        from pydantic_ai.providers.anthropic import AnthropicProvider  # noqa: PLC0415

        return AnthropicModel, AnthropicProvider(api_key=key, base_url=base_url, http_client=http)
    if api == "google":
        from pydantic_ai.models.google import GoogleModel  # noqa: PLC0415
        from pydantic_ai.providers.google import GoogleProvider  # noqa: PLC0415

        # It warns at every call that it will not run our tools itself, which nobody asked of it.
        logging.getLogger("google_genai.models").setLevel(logging.ERROR)
        return GoogleModel, GoogleProvider(api_key=key, base_url=base_url, http_client=http)
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel  # noqa: PLC0415
    from pydantic_ai.providers.openai import OpenAIProvider  # noqa: PLC0415

    provider = OpenAIProvider(api_key=key, base_url=base_url, http_client=http)
    return (OpenAIChatModel if api == "openai-chat" else OpenAIResponsesModel), provider


def _goes_on_without_thoughts(request: ModelRequest) -> bool:
    """Whether results are to be answered whose calls were made without thinking: it cannot begin in between."""
    last = next((it for it in reversed(request.messages) if isinstance(it, AssistantMessage)), None)
    if last is None or not last.calls:
        return False
    return not any(isinstance(part, Reasoning) and part.metadata for part in last.parts)
