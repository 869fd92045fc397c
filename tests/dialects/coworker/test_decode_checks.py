"""The table of spec 2: each check in the original's words, and which of two is said."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.dialects.coworker import client_messages as say
from dragoman.hub.events import Json
from dragoman.services.observability.queries import QueryRequest

from .samples import BLANK, CHECK, KEY, QUERY, SESSION, VALID, decoded, problem, text

NO_TEXT: tuple[Json, ...] = (None, 5, True, [], {})
NO_FLAG: tuple[Json, ...] = (None, 0, 1, "true", [], {})
NO_OBJECT: tuple[Json, ...] = (None, 5, "x", [], [{}], True)
NO_TEXTS: tuple[Json, ...] = (None, "x", {}, [1], ["a", None], [["a"]])
NO_NUMBER: tuple[Json, ...] = (None, "1", True, [], {})

Check = tuple[str, tuple[Json, ...], str, bool]
"""A field, values that are wrong, what is said then, and whether the field must be there."""

UNKNOWN = "unknown methodId"
_ID: Check = ("requestId", BLANK, "missing requestId", True)
_MESSAGE_ID: Check = ("clientMessageId", NO_TEXT, "invalid clientMessageId", False)
_NAME: Check = ("skillName", BLANK, "missing/invalid skillName", True)
_METHOD: tuple[Check, ...] = (
    ("provider", (*BLANK, "x", "OpenAI", " openai", "demonstration"), "missing/invalid provider", True),
    ("methodId", BLANK, "missing/invalid methodId", True),
    ("methodId", ("zzz", f" {KEY} ", "API_KEY"), UNKNOWN, False),
)

CHECKS: dict[str, tuple[Check, ...]] = {
    "client_hello": (
        ("client", BLANK, "missing/invalid client", True),
        ("version", NO_TEXT, "invalid version", False),
    ),
    "user_message": (("text", NO_TEXT, "missing text", True), _MESSAGE_ID),
    "ask_response": (_ID, ("answer", NO_TEXT, "missing answer", True)),
    "approval_response": (_ID, ("approved", NO_FLAG, "missing/invalid approved", True)),
    "set_model": (
        ("model", BLANK, "missing/invalid model", True),
        ("provider", ("nope",), "invalid provider: nope", False),
    ),
    "provider_auth_authorize": _METHOD,
    "provider_auth_callback": (*_METHOD, ("code", NO_TEXT, "invalid code", False)),
    "provider_auth_set_api_key": (*_METHOD, ("apiKey", BLANK, "missing/invalid apiKey", True)),
    "execute_command": (
        ("name", BLANK, "missing/invalid name", True),
        ("arguments", NO_TEXT, "invalid arguments", False),
        _MESSAGE_ID,
    ),
    "read_skill": (_NAME,),
    "disable_skill": (_NAME,),
    "enable_skill": (_NAME,),
    "delete_skill": (_NAME,),
    "set_enable_mcp": (("enableMcp", NO_FLAG, "missing/invalid enableMcp", True),),
    "harness_context_set": (
        ("context", NO_OBJECT, "missing/invalid context", True),
        ("context.runId", BLANK, "invalid context.runId", True),
        ("context.objective", BLANK, "invalid context.objective", True),
        ("context.acceptanceCriteria", NO_TEXTS, "invalid context.acceptanceCriteria", True),
        ("context.constraints", NO_TEXTS, "invalid context.constraints", True),
        ("context.taskId", NO_TEXT, "invalid context.taskId", False),
        ("context.metadata", NO_OBJECT, "invalid context.metadata", False),
        ("context.metadata", ({"a": 1}, {"a": "b", "c": None}), "invalid context.metadata values", False),
    ),
    "observability_query": (
        ("query", NO_OBJECT, "missing/invalid query", True),
        ("query.queryType", (*BLANK, "sql", "PromQL"), "invalid query.queryType", True),
        ("query.query", BLANK, "invalid query.query", True),
        ("query.fromMs", NO_NUMBER, "invalid query.fromMs", False),
        ("query.toMs", NO_NUMBER, "invalid query.toMs", False),
        ("query.limit", (*NO_NUMBER, 0, -0.0, -1, 1.5), "invalid query.limit", False),
    ),
    "harness_slo_evaluate": (
        ("checks", (None, 5, "x", {}, []), "missing/invalid checks", True),
        ("checks", ([5], [None], [[]], [CHECK, "x"]), "invalid check object", False),
        ("checks.id", BLANK, "invalid check.id", True),
        ("checks.type", (*BLANK, "x"), "invalid check.type", True),
        ("checks.queryType", (*BLANK, "x"), "invalid check.queryType", True),
        ("checks.query", BLANK, "invalid check.query", True),
        ("checks.op", (*BLANK, "=", "< "), "invalid check.op", True),
        ("checks.threshold", NO_NUMBER, "invalid check.threshold", True),
        ("checks.windowSec", (*NO_NUMBER, 0, -1), "invalid check.windowSec", True),
    ),
    "session_backup_restore": (("checkpointId", BLANK, "invalid checkpointId", False),),
    "session_backup_delete_checkpoint": (("checkpointId", BLANK, "missing checkpointId", True),),
}
MISSING = object()
VALUES = [
    (kind, place, number, value)
    for kind, checks in CHECKS.items()
    for place, (_, values, _, needed) in enumerate(checks)
    for number, value in enumerate((*values, MISSING) if needed else values)
]
PAIRS = [
    (kind, first, second)
    for kind, checks in CHECKS.items()
    for first in range(len(checks))
    for second in range(first + 1, len(checks))
    if checks[first][0].split(".")[0] != checks[second][0] and not checks[second][0].startswith(f"{checks[first][0]}.")
    if checks[first][0] != checks[second][0]
]


def with_value(values: dict[str, Any], place: str, value: Any) -> dict[str, Any]:
    """Those values with another one at ``field`` or ``field.inner``; of a list, in its first object."""
    field, _, inner = place.partition(".")
    if inner:
        whole_value = values[field]
        first = whole_value[0] if isinstance(whole_value, list) else whole_value
        changed = with_value(first, inner, value)
        value = [changed, *whole_value[1:]] if isinstance(whole_value, list) else changed
    rest = {name: given for name, given in values.items() if name != field}
    return rest if value is MISSING else {**rest, field: value}


def test_every_check_is_in_the_table_that_a_message_has_beyond_its_session() -> None:
    assert {kind for kind, (values, _) in VALID.items() if values} == {*CHECKS} - {"session_backup_restore"}


@pytest.mark.parametrize(
    ("kind", "place", "value"),
    [
        pytest.param(kind, place, value, id=f"{kind}-{CHECKS[kind][place][2]}-{number}")
        for kind, place, number, value in VALUES
    ],
)
def test_each_check_is_said_in_the_originals_words(kind: str, place: int, value: Any) -> None:
    field, _, words, _ = CHECKS[kind][place]
    message = text(kind, **with_value(VALID[kind][0], field, value))
    assert problem(message) == (f"{kind} {words}", "validation_failed")


@pytest.mark.parametrize(
    ("kind", "first", "second"), [pytest.param(*pair, id=f"{pair[0]}-{pair[1]}-{pair[2]}") for pair in PAIRS]
)
def test_of_two_wrong_fields_the_first_of_the_table_is_said(kind: str, first: int, second: int) -> None:
    values = VALID[kind][0]
    for place in (second, first):
        values = with_value(values, CHECKS[kind][place][0], CHECKS[kind][place][1][0])
    assert problem(text(kind, **values)) == (f"{kind} {CHECKS[kind][first][2]}", "validation_failed")


@pytest.mark.parametrize("kind", [kind for kind in CHECKS if kind != "client_hello"])
def test_the_session_is_looked_for_before_the_fields_and_compared_after_them(kind: str) -> None:
    field, wrong, words, _ = CHECKS[kind][0]
    values = with_value(VALID[kind][0], field, wrong[0])
    assert problem(json.dumps({"type": kind, **values})) == (f"{kind} missing sessionId", "validation_failed")
    other = {"type": kind, "sessionId": "wrong", **values}
    assert problem(json.dumps(other)) == (f"{kind} {words}", "validation_failed")


def test_the_first_wrong_check_of_a_list_is_said() -> None:
    for later in ("x", {**CHECK, "id": ""}):
        checks = [CHECK, {**CHECK, "op": "="}, later]
        assert problem(text("harness_slo_evaluate", checks=checks))[0] == "harness_slo_evaluate invalid check.op"


@pytest.mark.parametrize("number", ["1e999", "-1e999", "9" * 400, "9" * 5000])
def test_what_javascript_makes_infinity_of_is_no_number(number: str) -> None:
    for kind, field, place in (
        ("observability_query", "query", "query.fromMs"),
        ("observability_query", "query", "query.limit"),
        ("harness_slo_evaluate", "checks", "check.threshold"),
        ("harness_slo_evaluate", "checks", "check.windowSec"),
    ):
        inner = {**(QUERY if field == "query" else CHECK), place.partition(".")[2]: 4711}
        message = text(kind, **{field: inner if field == "query" else [inner]}).replace("4711", number)
        assert problem(message) == (f"{kind} invalid {place}", "validation_failed")
    assert decoded(f'{{"type":"ping","sessionId":"{SESSION}","more":[{number}]}}') == say.Ping()


def test_numbers_are_those_that_javascript_has() -> None:
    check = {**CHECK, "threshold": 12345678901234567890, "windowSec": 1e300}
    found = decoded(text("harness_slo_evaluate", checks=[check]))
    assert isinstance(found, say.HarnessSloEvaluate)
    assert (found.checks[0].threshold, found.checks[0].window_sec) == (12345678901234567000.0, 1e300)
    query = text("observability_query", query={**QUERY, "limit": 4711}).replace("4711", "1.0e2")
    assert decoded(query) == say.ObservabilityQuery(query=QueryRequest(query_type="promql", query="up", limit=100))


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("null", "null"),
        ("true", "true"),
        ("{}", "[object Object]"),
        ("[]", ""),
        ("[[],[]]", ","),
        ('[null,1,[2,[3.50]],{"a":[]},false,"x"]', ",1,2,3.5,[object Object],false,x"),
        ("1.0", "1"),
        ("-0.0", "0"),
        ("0.1", "0.1"),
        ("1e21", "1e+21"),
        ("1e20", "100000000000000000000"),
        ("1.25e-7", "1.25e-7"),
        ("0.000001", "0.000001"),
        ("123456789012345678901", "123456789012345680000"),
        ("1234567890123456.5", "1234567890123456.5"),
        ("-1.5e300", "-1.5e+300"),
        ("1e999", "Infinity"),
        ("[-1e999]", "-Infinity"),
        (r'"\ud800"', "\ufffd"),
        ('"OpenAI"', "OpenAI"),
        ('""', ""),
        ("[" * 500 + "]" * 500, ""),
    ],
    ids=lambda value: ascii(value)[:40],
)
def test_a_provider_that_is_none_is_shown_as_javascript_prints_it(value: str, shown: str) -> None:
    message = f'{{"type":"set_model","sessionId":"{SESSION}","model":"m","provider":{value}}}'
    assert problem(message) == (f"set_model invalid provider: {shown}", "validation_failed")
