"""Settings of the windie dialect (``[dialects.windie]``)."""

from __future__ import annotations

from typing import Literal

import msgspec

Tolerance = Literal["python_handshake"]
"""What the contract refuses and may be let through: ``python_handshake`` (the fields that the Python SDK puts into its
handshake: ``operating_system`` beside the agent definition, ``mcps`` in it; both are ignored)."""


class WindieSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What windie links may say, and how much."""

    tolerate: tuple[Tolerance, ...] = ()
    """What is let through though the contract refuses it."""

    message_limit: int = 10 * 1024 * 1024
    """Bytes of a message."""
