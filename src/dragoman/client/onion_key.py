"""A caller's key in ConnectOnion's protocol: its address, and what it signs (seed: Authentication)."""

from __future__ import annotations

import json
import os
import time
from typing import Any

SEED_BYTES = 32


class OnionKey:
    """An Ed25519 key of a ``seed`` of 32 bytes; the same seed is the same caller. Never shows its secret.

    ``address`` is ``0x`` and 64 hex digits: who the server takes the caller for. Raises ``ValueError`` for another
    length, ``ImportError`` without PyNaCl, which is imported here and not before.
    """

    def __init__(self, seed: bytes) -> None:
        from nacl.signing import SigningKey  # noqa: PLC0415  takes 40 ms, and callers without a key need none

        if len(seed) != SEED_BYTES:
            raise ValueError(f"a key's seed has {SEED_BYTES} bytes, not {len(seed)}")
        self._key = SigningKey(seed)
        self.address: str = "0x" + self._key.verify_key.encode().hex()

    @classmethod
    def generate(cls) -> OnionKey:
        """A new one, which lasts as long as this object: keep a seed of your own for more."""
        return cls(os.urandom(SEED_BYTES))

    def signed(self, payload: dict[str, Any]) -> dict[str, Any]:
        """``payload`` with the time, and the fields that say who signed it.

        The time is in microseconds, so that no two are the same to a server that takes each only once.
        """
        stamped = {**payload, "timestamp": round(time.time(), 6)}
        text = json.dumps(stamped, sort_keys=True, separators=(",", ":"))
        return {"payload": stamped, "from": self.address, "signature": self._key.sign(text.encode()).signature.hex()}

    def __repr__(self) -> str:
        return f"OnionKey({self.address})"
