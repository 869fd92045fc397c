"""Which adapter speaks which API. Each is imported when it is first needed, and what it needs may be missing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Protocol

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


def _responses() -> MakeProvider:
    from .openai_responses import OpenAIResponses  # noqa: PLC0415

    return OpenAIResponses


def _chat() -> MakeProvider:
    from .openai_chat import OpenAIChat  # noqa: PLC0415

    return OpenAIChat


def _pydantic_ai(api: Api) -> MakeProvider:
    return partial(import_module(f"{__package__}.pydantic").PydanticAI, api=api)


def _demonstration() -> MakeProvider:
    from .demonstration import Demonstration  # noqa: PLC0415

    return _reaching_nobody(Demonstration)


def _scripted() -> MakeProvider:
    from .scripted import Scripted  # noqa: PLC0415

    return _reaching_nobody(Scripted)


def _reaching_nobody(ours: Callable[[], Provider]) -> MakeProvider:
    """One that needs nothing."""

    def make(*, name: str, base_url: str, key: str | None, settings: NativeSettings) -> Provider:  # noqa: ARG001
        return ours()

    return make


ADAPTERS: Mapping[Api, Adapter] = {
    "openai-responses": Adapter(_responses),
    "openai-chat": Adapter(_chat),
    "anthropic": Adapter(partial(_pydantic_ai, "anthropic"), needs=("pydantic_ai", "anthropic")),
    "google": Adapter(partial(_pydantic_ai, "google"), needs=("pydantic_ai", "google.genai")),
    "scripted": Adapter(_scripted),
    "demonstration": Adapter(_demonstration),
}
"""Every API of the catalogue."""


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False
