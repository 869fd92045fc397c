"""Which APIs the library is used for."""

from __future__ import annotations

from typing import Literal

Api = Literal["anthropic", "google", "openai-chat", "openai-responses"]
