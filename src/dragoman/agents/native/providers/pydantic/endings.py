"""How a stream that came to its end has ended: well, or not."""

from __future__ import annotations

from typing import Any

from pydantic_ai.models import StreamedResponse
from pydantic_ai.usage import RequestUsage
from pydantic_core import to_jsonable_python

from dragoman.agents.native.providers.port import Finished, FinishReason, ProviderFailed, Spent

_REASONS: dict[str, FinishReason] = {
    "stop": "stop",
    "length": "length",
    "content_filter": "content_filter",
    "tool_call": "tool_calls",
}


def ending(response: StreamedResponse, provider: str) -> tuple[Spent, Finished]:
    """What was spent, and how it finished. Raises ``ProviderFailed`` where it did not end, or ended badly."""
    message = response.get()
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
    return _spent(message.usage), Finished(reason, str(raw) if raw else None, about)


def _spent(usage: RequestUsage) -> Spent:
    if usage.unmeasured_requests:
        return Spent()
    return Spent(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        reasoning_tokens=usage.output_reasoning_tokens,
        cached_tokens=usage.cache_read_tokens,
    )


def _json(details: dict[str, Any]) -> Any:
    return to_jsonable_python(details, fallback=str)
