"""How large something is in the log: what a limit in bytes counts."""

from __future__ import annotations

import msgspec

from .errors import InvalidRequest

_encoder = msgspec.json.Encoder()


def json_size(value: object) -> int:
    """Bytes of ``value`` as JSON. Raises ``InvalidRequest`` for what no JSON can hold."""
    try:
        return len(_encoder.encode(value))
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError) as problem:
        raise InvalidRequest(f"cannot be stored: {problem}") from problem
