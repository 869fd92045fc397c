"""Tokens of each session: those of the newest answer and the sum over all (``cin:tokens``)."""

from __future__ import annotations

from dragoman.hub.events import UsageReported

from . import messages as wire

MESSAGES = 4096
"""Answers of one session whose newest report is remembered; of an older one a second report counts again."""


class TokenCounts:
    """Output and input tokens, as they were reported. The last report for an answer counts."""

    def __init__(self) -> None:
        self._reported: dict[str, dict[str, int]] = {}
        self._sums: dict[str, int] = {}
        self._newest: dict[str, int] = {}

    def add(self, session: str, fact: UsageReported) -> bool:
        """Take a report. False when it tells of no tokens."""
        count = (fact.input_tokens or 0) + (fact.output_tokens or 0)
        if count == 0:
            return False
        reported = self._reported.setdefault(session, {})
        self._sums[session] = self._sums.get(session, 0) + count - reported.pop(fact.message, 0)
        reported[fact.message] = self._newest[session] = count
        if len(reported) > MESSAGES:
            del reported[next(iter(reported))]
        return True

    def of(self, session: str) -> wire.Tokens:
        """What is known of it."""
        return wire.Tokens(
            session_id=session,
            session=session,
            current=self._newest.get(session, 0),
            cumulative=self._sums.get(session, 0),
        )

    def forget(self, session: str) -> None:
        """It is gone."""
        for known in (self._reported, self._sums, self._newest):
            known.pop(session, None)
