"""Whether what was promised holds: checks against stored observations (coworker, ``harness_slo_evaluate``).

``report_only`` and ``strict_mode`` are told with the result; nothing is done about a check that fails.
"""

from __future__ import annotations

import asyncio
import operator
from collections.abc import Callable, Coroutine, Sequence
from typing import Literal

import msgspec

from dragoman.hub.errors import InvalidRequest

from .queries import QueryRequest, QueryResult, QueryType, floored
from .samples import value_of

Operator = Literal["<", "<=", ">", ">=", "==", "!="]
Ask = Callable[[QueryRequest], Coroutine[None, None, QueryResult]]

NO_NUMBER = "Unable to derive numeric value from query result"

_COMPARE: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}

_EXACT = 2**53
"""From here on not every whole number can be told from its neighbours."""


class SloCheck(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One promise: the value of ``query`` over the last ``window_sec`` seconds stands in ``op`` to ``threshold``."""

    id: str
    type: Literal["latency", "error_rate", "custom"]
    query_type: QueryType
    query: str
    op: Operator
    threshold: int | float
    window_sec: int | float


class CheckedSlo(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A check with what came of it. ``actual`` is null, and ``reason`` says why, where no value was to be had."""

    id: str
    type: Literal["latency", "error_rate", "custom"]
    query_type: QueryType
    query: str
    op: Operator
    threshold: int | float
    window_sec: int | float
    actual: int | float | None
    passed: bool = msgspec.field(name="pass")
    reason: str | msgspec.UnsetType = msgspec.UNSET


class SloResult(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """All checks; times are milliseconds since 1970 and span the longest window."""

    report_only: bool
    strict_mode: bool
    passed: bool
    from_ms: int
    to_ms: int
    checks: tuple[CheckedSlo, ...]


async def evaluate(
    checks: Sequence[SloCheck],
    ask: Ask,
    *,
    now: int,
    report_only: bool = True,
    strict_mode: bool = False,
    most: int = 100,
) -> SloResult:
    """Ask for all values at once and compare. Raises ``InvalidRequest`` for more than ``most`` checks."""
    if len(checks) > most:
        raise InvalidRequest(f"{len(checks)} checks are more than {most} (observability.checks)")
    async with asyncio.TaskGroup() as group:
        asking = [group.create_task(ask(_request(check, now)), name=f"slo:{check.id[:40]}") for check in checks]
    checked = tuple(judge(check, task.result()) for check, task in zip(checks, asking, strict=True))
    return SloResult(
        report_only=report_only,
        strict_mode=strict_mode,
        passed=all(check.passed for check in checked),
        from_ms=min((_start(check, now) for check in checks), default=now),
        to_ms=now,
        checks=checked,
    )


def judge(check: SloCheck, answer: QueryResult) -> CheckedSlo:
    """One check against the answer to its query."""
    if answer.status == "error":
        why = "the query failed" if answer.error is msgspec.UNSET else answer.error
        return _checked(check, None, passed=False, reason=why)
    value = value_of(answer.data)
    if value is None:
        return _checked(check, None, passed=False, reason=NO_NUMBER)
    return _checked(check, value, passed=_COMPARE[check.op](value, check.threshold))


def _checked(
    check: SloCheck, value: float | None, *, passed: bool, reason: str | msgspec.UnsetType = msgspec.UNSET
) -> CheckedSlo:
    return CheckedSlo(**msgspec.structs.asdict(check), actual=_plain(value), passed=passed, reason=reason)


def _plain(value: float | None) -> float | None:
    """A whole number as one: ``7``, not ``7.0``."""
    return int(value) if value is not None and value.is_integer() and abs(value) < _EXACT else value


def _request(check: SloCheck, now: int) -> QueryRequest:
    return QueryRequest(query_type=check.query_type, query=check.query, from_ms=_start(check, now), to_ms=now)


def _start(check: SloCheck, now: int) -> int:
    return floored(now - check.window_sec * 1000)
