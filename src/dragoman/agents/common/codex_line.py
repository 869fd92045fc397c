"""One record of Codex' rollout, with what all records have in common."""

from __future__ import annotations

from typing import Any

from dragoman.hub.events import AnyFact, Origin

from .fields import dict_of, millis_of
from .observation import Observation, Sighting


class Line:
    """``payload`` is what it is about."""

    def __init__(self, record: dict[str, Any]) -> None:
        self.record = record
        self.payload = dict_of(record, "payload")
        self.at = millis_of(record)
        self.origin = Origin(source="log", at=self.at)

    def says(
        self,
        *facts: AnyFact,
        sighting: Sighting | None = None,
        prompt: str | None = None,
        interrupted: bool = False,
        compacted: bool = False,
        agent_session: str | None = None,
    ) -> Observation:
        return Observation(
            facts=facts,
            sighting=sighting,
            prompt=prompt,
            interrupted=interrupted,
            compacted=compacted,
            agent_session=agent_session,
            at=self.at,
        )
