"""How large something is: what a limit counts, in the log and before JSON is taken apart."""

from __future__ import annotations

import msgspec

from .errors import InvalidRequest
from .events import PromptSubmitted

_encoder = msgspec.json.Encoder()


def json_size(value: object) -> int:
    """Bytes of ``value`` as JSON. Raises ``InvalidRequest`` for what no JSON can hold."""
    try:
        return len(_encoder.encode(value))
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError) as problem:
        raise InvalidRequest(f"cannot be stored: {problem}") from problem


def prompt_size(prompt: PromptSubmitted) -> int:
    """Bytes of what clients are shown of a prompt, ids and all, or of what its agent is told: whichever is more."""
    beside = json_size(prompt.detail) if prompt.detail else 0
    shown = _length(prompt.text) + _length(prompt.client_message_id or "") + beside
    return max(shown, _length(prompt.content or ""))


def holds_more(raw: bytes, most: int) -> bool:
    """Whether JSON has more than so many values, as counted by what opens or parts them outside of texts.

    Text costs next to nothing; what stalls everybody is to make an object of each of a million ``{}``.
    """
    if _opening(raw) <= most:
        return False
    bare = raw.replace(b"\\\\", b"").replace(b'\\"', b"")
    if bare.count(b'"') > 4 * most:  # names and texts: a value has at most one of each
        return True
    return _opening(b"".join(bare.split(b'"')[::2])) > most


def _length(text: str) -> int:
    return len(text.encode(errors="surrogatepass"))


def _opening(raw: bytes) -> int:
    return raw.count(b",") + raw.count(b"[") + raw.count(b"{")
