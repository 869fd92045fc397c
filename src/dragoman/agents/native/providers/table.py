"""Which adapter speaks which API. Each is imported when it is first needed, and what it needs may be missing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Protocol

import msgspec

from dragoman.agents.native.settings import NativeSettings

from .catalogue import Api
from .port import Provider


class MakeProvider(Protocol):
    """Makes an adapter; connects to nothing yet. ``key`` is None where none is needed."""

    def __call__(self, *, name: str, base_url: str, key: str | None, settings: NativeSettings) -> Provider: ...


class Adapter(msgspec.Struct, frozen=True):
    """``load`` imports it, which may take a second. ``needs`` are modules that may not be installed, and ``extra`` what
    installs them."""

    load: Callable[[], MakeProvider]
    needs: tuple[str, ...] = ()
    extra: str = "models"

    @property
    def problem(self) -> str | None:
        """Why it cannot be used here, or None. Imports nothing of it."""
        if all(map(_is_installed, self.needs)):
            return None
        return f"a library is missing: pip install 'dragoman[{self.extra}]'"


def _import(module: str, name: str) -> Any:
    return getattr(import_module(f"{__package__}.{module}"), name)


def _pydantic_ai(api: Api) -> MakeProvider:
    return partial(_import("pydantic_ai", "PydanticAI"), api=api)


def _ours(module: str, name: str) -> MakeProvider:
    """One of ours that reaches nobody, and so needs nothing."""
    ours = _import(module, name)

    def make(*, name: str, base_url: str, key: str | None, settings: NativeSettings) -> Provider:  # noqa: ARG001
        made: Provider = ours()
        return made

    return make


ADAPTERS: Mapping[Api, Adapter] = {
    "openai-responses": Adapter(partial(_import, "openai_responses", "OpenAIResponses")),
    "openai-chat": Adapter(partial(_import, "openai_chat", "OpenAIChat")),
    "anthropic": Adapter(partial(_pydantic_ai, "anthropic"), needs=("pydantic_ai", "anthropic")),
    "google": Adapter(partial(_pydantic_ai, "google"), needs=("pydantic_ai", "google.genai")),
    "scripted": Adapter(partial(_ours, "scripted", "Scripted")),
    "demonstration": Adapter(partial(_ours, "demonstration", "Demonstration")),
}
"""Every API of the catalogue."""


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False
