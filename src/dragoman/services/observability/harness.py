"""What a run is about, as whoever runs it says (coworker, ``harness_context``). Kept in a session's settings."""

from __future__ import annotations

import msgspec

from dragoman.hub.clock import iso_time

SETTING = "harness_context"
"""The key of a session's settings that holds it, in its wire form. It survives a reset of the conversation."""


class HarnessContext(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The payload of ``harness_context_set``; what else a client sends with it is not kept."""

    run_id: str
    objective: str
    acceptance_criteria: tuple[str, ...]
    constraints: tuple[str, ...]
    task_id: str | msgspec.UnsetType = msgspec.UNSET
    metadata: dict[str, str] | msgspec.UnsetType = msgspec.UNSET


class KeptContext(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The payload of ``harness_context``: as it was set, tidied up, with the time of that (ISO 8601, UTC)."""

    run_id: str
    task_id: str | msgspec.UnsetType = msgspec.UNSET
    objective: str
    acceptance_criteria: tuple[str, ...]
    constraints: tuple[str, ...]
    metadata: dict[str, str] | msgspec.UnsetType = msgspec.UNSET
    updated_at: str


def tidied(given: HarnessContext, now: int) -> KeptContext:
    """Texts without white space around them, blank ones left out; metadata as it is. ``now`` is in milliseconds."""
    task = given.task_id.strip() if given.task_id is not msgspec.UNSET else ""
    return KeptContext(
        run_id=given.run_id.strip(),
        task_id=task or msgspec.UNSET,
        objective=given.objective.strip(),
        acceptance_criteria=_filled(given.acceptance_criteria),
        constraints=_filled(given.constraints),
        metadata=given.metadata,
        updated_at=iso_time(now),
    )


def _filled(texts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(text.strip() for text in texts if text.strip())
