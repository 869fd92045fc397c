"""A client's message as it came: an object with fields, none of which has been read yet."""

from __future__ import annotations

import msgspec
from msgspec import Raw

from .fields import ABSENT, Wrong
from .javascript import whole


class Given(msgspec.Struct, rename="camel"):
    """Every field of every message. Of one that is there twice, the last."""

    type: Raw = ABSENT
    session_id: Raw = ABSENT
    client: Raw = ABSENT
    version: Raw = ABSENT
    features: Raw = ABSENT
    text: Raw = ABSENT
    client_message_id: Raw = ABSENT
    request_id: Raw = ABSENT
    answer: Raw = ABSENT
    approved: Raw = ABSENT
    model: Raw = ABSENT
    provider: Raw = ABSENT
    method_id: Raw = ABSENT
    code: Raw = ABSENT
    api_key: Raw = ABSENT
    name: Raw = ABSENT
    arguments: Raw = ABSENT
    skill_name: Raw = ABSENT
    enable_mcp: Raw = ABSENT
    context: Raw = ABSENT
    query: Raw = ABSENT
    checks: Raw = ABSENT
    checkpoint_id: Raw = ABSENT


_decoder = msgspec.json.Decoder(Given)
_any = msgspec.json.Decoder(Raw)


def taken_apart(message: str | bytes) -> Given:
    """The fields; all of the message is JSON then. Bytes are UTF-8, and what is none of it is U+FFFD, as are halves of
    characters. Raises ``Wrong``, and ``RecursionError`` for what is nested too deep."""
    text = message if isinstance(message, str) else message.decode(errors="replace")
    try:
        return _read(text)
    except _NO_TEXT:
        mended = whole(text)
    try:
        return _read(mended)
    except _NO_TEXT:
        raise Wrong("Invalid JSON", "invalid_json") from None


_NO_TEXT = (msgspec.DecodeError, UnicodeError)


def _read(text: str) -> Given:
    try:
        return _decoder.decode(text)
    except msgspec.ValidationError:
        _any.decode(text)  # what begins as an array may yet be no JSON
        raise Wrong("Expected object", "invalid_payload") from None
