"""Providers by way of the pydantic-ai library: Anthropic, Google, and OpenAI's two APIs.

`PydanticAI` is the adapter; its other modules import the library, and are imported at the first model call.
"""

from __future__ import annotations

from .adapter import PydanticAI
from .api import Api

__all__ = ["Api", "PydanticAI"]
