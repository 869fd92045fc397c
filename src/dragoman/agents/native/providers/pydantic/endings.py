"""How a stream that came to its end has ended: well, or not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pydantic_ai.messages import ModelResponse
from pydantic_core import to_jsonable_python

from dragoman.agents.native.providers.port import Finished, FinishReason, ProviderFailed, Spent

from .messages import strict

_REASONS: dict[str, FinishReason] = {
    "stop": "stop",
    "length": "length",
    "content_filter": "content_filter",
    "tool_call": "tool_calls",
}


_PAUSES = 10
"""So often an answer may pause; then it is left as it stands."""


def is_paused(message: ModelResponse, before: int) -> bool:
    """Whether the provider paused in the middle of its answer, and is to go on. ``before``: its pauses so far."""
    return message.state == "suspended" and before < _PAUSES


def resumed(paused: Sequence[ModelResponse]) -> list[ModelResponse]:
    """What the provider is given to go on from: all that it said before, as one."""
    if not paused:
        return []
    return [replace(paused[-1], parts=[strict(part) for message in paused for part in message.parts])]


def ending(message: ModelResponse, provider: str) -> Finished:
    """How an answer finished. Raises ``ProviderFailed`` where it did not end, or ended badly."""
    details = dict(message.provider_details or {})
    raw = details.get("finish_reason") or details.get("block_reason")
    reason = _REASONS.get(message.finish_reason or "", "other")
    if message.state == "incomplete" or (raw is None and message.finish_reason is None):
        raise ProviderFailed(f"{provider} ended its answer before it was complete.", cause="network", retryable=True)
    if message.finish_reason == "error":
        raise ProviderFailed(f"{provider} failed: {raw}.", retryable=True, detail=_json(details))
    if reason == "content_filter" and not message.parts:
        text = details.get("block_reason_message") or f"{provider} refused to answer: {raw or 'content_filter'}."
        raise ProviderFailed(str(text), cause="invalid_request", detail=_json(details))
    if reason == "stop" and message.tool_calls:
        reason = "tool_calls"  # not every API has a word for it
    about = {"id": message.provider_response_id, "model": message.model_name}
    return Finished(reason, str(raw) if raw else None, about)


def spent(*messages: ModelResponse) -> Spent:
    """What the segments of an answer have cost; nothing is said where one of them does not say."""
    usages = [message.usage for message in messages]
    if any(usage.unmeasured_requests for usage in usages):
        return Spent()
    return Spent(
        input_tokens=sum(usage.input_tokens for usage in usages),
        output_tokens=sum(usage.output_tokens for usage in usages),
        reasoning_tokens=sum(usage.output_reasoning_tokens for usage in usages),
        cached_tokens=sum(usage.cache_read_tokens for usage in usages),
        cache_write_tokens=sum(usage.cache_write_tokens for usage in usages),
    )


def _json(details: dict[str, Any]) -> Any:
    told = {name: value for name, value in details.items() if name != "timestamp"}
    return to_jsonable_python(told, fallback=str)
