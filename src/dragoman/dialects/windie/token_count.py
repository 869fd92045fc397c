"""What a turn cost: the sum of what was reported of it, each message of the provider once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

from dragoman.hub.events import UsageReported

from .messages import TokenCount


class Spending:
    """The reports of one turn. Of reports on the same message the last one counts."""

    def __init__(self) -> None:
        self._reports: dict[str, UsageReported] = {}
        self._conversation: int | None = None

    def take(self, report: UsageReported) -> None:
        """Count a report in."""
        self._reports[report.message] = report
        if report.conversation_tokens is not None:
            self._conversation = report.conversation_tokens

    def total(self) -> TokenCount | None:
        """The sum, or None where nothing was reported. The provider's word it is only where all of it is."""
        reports = list(self._reports.values())
        if not reports:
            return None
        prompt = sum(each.input_tokens or 0 for each in reports)
        output = sum(each.output_tokens or 0 for each in reports)
        thinking = _sum(each.reasoning_tokens for each in reports)
        cached = _sum(each.cached_tokens for each in reports)
        estimated = any(each.estimated or None in (each.input_tokens, each.output_tokens) for each in reports)
        count = TokenCount(
            prompt_tokens=prompt,
            visible_output_tokens=max(0, output - (thinking or 0)),
            thinking_tokens=thinking,
            output_tokens_total=output,
            total_tokens=prompt + output,
            conversation_tokens=prompt + output if self._conversation is None else self._conversation,
            usage_source="estimated" if estimated else "provider",
        )
        if cached is None:
            return count
        status: Literal["hit", "miss"] = "hit" if cached else "miss"
        return msgspec.structs.replace(count, cached_tokens=cached, cache_hit=cached > 0, cache_status=status)


def _sum(counts: Iterable[int | None]) -> int | None:
    """Their sum; None where nobody gave one."""
    given = [count for count in counts if count is not None]
    return sum(given) if given else None
