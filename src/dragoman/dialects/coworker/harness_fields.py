"""What a client asks of observability and says of its harness, checked in the protocol's order (spec 2)."""

from __future__ import annotations

from typing import get_args

import msgspec
from msgspec import UNSET, Raw, UnsetType

from dragoman.services.observability.harness import HarnessContext
from dragoman.services.observability.queries import QueryRequest, QueryType
from dragoman.services.observability.slo import Operator, SloCheck

from . import fields
from .fields import ABSENT, Wrong

MOST_COMMAS = 100_000
"""In a list of checks; one with more is not taken apart."""

PAYLOAD_BYTES = 1024 * 1024
"""Bytes of JSON of a context, a query or a list of checks; more is not taken apart. Replies repeat all of it."""

_QUERY_TYPES = get_args(QueryType)
_CHECK_TYPES = ("latency", "error_rate", "custom")
_OPERATORS = get_args(Operator)


class _Context(msgspec.Struct, rename="camel"):
    run_id: Raw = ABSENT
    objective: Raw = ABSENT
    acceptance_criteria: Raw = ABSENT
    constraints: Raw = ABSENT
    task_id: Raw = ABSENT
    metadata: Raw = ABSENT


class _Query(msgspec.Struct, rename="camel"):
    query_type: Raw = ABSENT
    query: Raw = ABSENT
    from_ms: Raw = ABSENT
    to_ms: Raw = ABSENT
    limit: Raw = ABSENT


class _Check(msgspec.Struct, rename="camel"):
    id: Raw = ABSENT
    type: Raw = ABSENT
    query_type: Raw = ABSENT
    query: Raw = ABSENT
    op: Raw = ABSENT
    threshold: Raw = ABSENT
    window_sec: Raw = ABSENT


class _Object(msgspec.Struct):
    """Anything with keys."""


_context = msgspec.json.Decoder(_Context)
_query = msgspec.json.Decoder(_Query)
_check = msgspec.json.Decoder(_Check)
_checks = msgspec.json.Decoder(list[Raw])
_object = msgspec.json.Decoder(_Object)
_metadata = msgspec.json.Decoder(dict[str, str])


def context(raw: Raw) -> HarnessContext:
    """The payload of ``harness_context_set``, as it was given. Raises ``Wrong``, as all here."""
    _check_length(raw, "context")
    given = fields.read(raw, _context)
    if given is None:
        raise Wrong("missing/invalid context")
    run_id = fields.filled(given.run_id, "invalid context.runId")
    objective = fields.filled(given.objective, "invalid context.objective")
    criteria = fields.texts(given.acceptance_criteria, "invalid context.acceptanceCriteria")
    constraints = fields.texts(given.constraints, "invalid context.constraints")
    task = fields.maybe_text(given.task_id, "invalid context.taskId")
    return HarnessContext(
        run_id=run_id,
        objective=objective,
        acceptance_criteria=criteria,
        constraints=constraints,
        task_id=UNSET if task is None else task,
        metadata=_texts_by_name(given.metadata),
    )


def query(raw: Raw) -> QueryRequest:
    """The payload of ``observability_query``."""
    _check_length(raw, "query")
    given = fields.read(raw, _query)
    if given is None:
        raise Wrong("missing/invalid query")
    kind = fields.one_of(given.query_type, _QUERY_TYPES, "invalid query.queryType")
    asked = fields.filled(given.query, "invalid query.query")
    from_ms = fields.maybe_finite(given.from_ms, "invalid query.fromMs")
    to_ms = fields.maybe_finite(given.to_ms, "invalid query.toMs")
    limit = fields.maybe_finite(given.limit, "invalid query.limit")
    if limit is not None and (limit <= 0 or not float(limit).is_integer()):
        raise Wrong("invalid query.limit")
    found = {"queryType": kind, "query": asked, "fromMs": from_ms, "toMs": to_ms, "limit": limit}
    return msgspec.convert(found, QueryRequest)


def checks(raw: Raw) -> tuple[SloCheck, ...]:
    """The payload of ``harness_slo_evaluate``: one check at least."""
    if bytes(raw).count(b",") > MOST_COMMAS:
        raise Wrong("missing/invalid checks")
    _check_length(raw, "checks")
    found = fields.read(raw, _checks)
    if not found:
        raise Wrong("missing/invalid checks")
    return tuple(map(_one_check, found))


def _check_length(raw: Raw, name: str) -> None:
    if memoryview(raw).nbytes > PAYLOAD_BYTES:
        raise Wrong(f"invalid {name}: longer than {PAYLOAD_BYTES} bytes")


def _one_check(raw: Raw) -> SloCheck:
    given = fields.read(raw, _check)
    if given is None:
        raise Wrong("invalid check object")
    found = {
        "id": fields.filled(given.id, "invalid check.id"),
        "type": fields.one_of(given.type, _CHECK_TYPES, "invalid check.type"),
        "queryType": fields.one_of(given.query_type, _QUERY_TYPES, "invalid check.queryType"),
        "query": fields.filled(given.query, "invalid check.query"),
        "op": fields.one_of(given.op, _OPERATORS, "invalid check.op"),
        "threshold": fields.finite(given.threshold, "invalid check.threshold"),
        "windowSec": fields.finite(given.window_sec, "invalid check.windowSec"),
    }
    check = msgspec.convert(found, SloCheck)
    if check.window_sec <= 0:
        raise Wrong("invalid check.windowSec")
    return check


def _texts_by_name(raw: Raw) -> dict[str, str] | UnsetType:
    if not fields.given(raw):
        return UNSET
    if fields.read(raw, _object) is None:
        raise Wrong("invalid context.metadata")
    found = fields.read(raw, _metadata)
    if found is None:
        raise Wrong("invalid context.metadata values")
    return found
