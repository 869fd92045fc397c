"""What a client may say, and in which words it is told that something is no message."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.dialects.coworker import client_messages as say
from dragoman.dialects.coworker.client_messages import TYPES, ClientMessage, ProtocolProblem, decode
from dragoman.dialects.coworker.javascript import trimmed
from dragoman.hub.events import Json
from dragoman.services.observability.harness import HarnessContext
from dragoman.services.observability.queries import QueryRequest

from .exchanges import exchanges
from .samples import BLANK, CONTEXT, KEY, METHODS, OAUTH, QUERY, SESSION, VALID, decoded, problem, text

SECRET = "sk-very-secret-0123456789"

# What is right


def test_every_message_of_the_seed_is_known() -> None:
    assert set(TYPES) == set(VALID)
    assert len(TYPES) == 31


@pytest.mark.parametrize("kind", VALID)
def test_a_valid_message_is_what_it_says_whatever_stands_beside_it(kind: str) -> None:
    values, expected = VALID[kind]
    assert decoded(text(kind, **values)) == expected
    assert decoded(text(kind, **values).encode()) == expected
    more = {"type ": 1, "Text": [], "extra": {"text": None}, "__proto__": None, "": "", "session_id": "x"}
    assert decoded(text(kind, **more, **values)) == expected


@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [
        ("client_hello", {"client": "u", "version": ""}, say.ClientHello(client="u", version="")),
        ("user_message", {"text": "t", "clientMessageId": ""}, say.UserMessage(text="t", client_message_id="")),
        ("set_model", {"model": "m", "provider": "openai"}, say.SetModel(model="m", provider="openai")),
        (
            "provider_auth_callback",
            {"provider": "codex-cli", "methodId": OAUTH, "code": ""},
            say.ProviderAuthCallback(provider="codex-cli", method_id=OAUTH, code=""),
        ),
        (
            "execute_command",
            {"name": "n", "arguments": "a", "clientMessageId": "c"},
            say.ExecuteCommand(name="n", arguments="a", client_message_id="c"),
        ),
        (
            "harness_context_set",
            {"context": {**CONTEXT, "taskId": "", "metadata": {"a": "b"}, "more": 1}},
            say.HarnessContextSet(
                context=HarnessContext(
                    run_id="r",
                    objective="o",
                    acceptance_criteria=("a",),
                    constraints=(),
                    task_id="",
                    metadata={"a": "b"},
                )
            ),
        ),
        (
            "observability_query",
            {"query": {**QUERY, "fromMs": 1.5, "toMs": -1, "limit": 2.0}},
            say.ObservabilityQuery(query=QueryRequest(query_type="promql", query="up", from_ms=1.5, to_ms=-1, limit=2)),
        ),
        (
            "session_backup_restore",
            {"checkpointId": "cp-0001"},
            say.SessionBackupRestore(checkpoint_id="cp-0001"),
        ),
    ],
)
def test_what_may_be_left_out_is_taken_where_it_is_there(
    kind: str, values: dict[str, Any], expected: ClientMessage
) -> None:
    assert decoded(text(kind, **values)) == expected


@pytest.mark.parametrize("kind", [kind for kind in VALID if kind != "client_hello"])
def test_another_session_is_unknown_and_a_missing_one_is_said(kind: str) -> None:
    values, _ = VALID[kind]
    known = {"type": kind, **values}
    assert problem(json.dumps({**known, "sessionId": "wrong"})) == ("Unknown sessionId: wrong", "unknown_session")
    padded = f" {SESSION} "
    assert problem(json.dumps({**known, "sessionId": padded})) == (f"Unknown sessionId: {padded}", "unknown_session")
    missing = (f"{kind} missing sessionId", "validation_failed")
    assert problem(json.dumps(known)) == missing
    for session in BLANK:
        assert problem(json.dumps({**known, "sessionId": session})) == missing


def test_of_a_field_that_is_there_twice_the_last_counts() -> None:
    message = text("user_message", text=5)[:-1] + ',"text":"first","te\\u0078t":"last"}'
    assert decoded(message) == say.UserMessage(text="last")
    query = text("observability_query", query=QUERY).replace('"up"', '5, "query": "up", "limit": 0, "limit": 1')
    assert decoded(query) == say.ObservabilityQuery(query=QueryRequest(query_type="promql", query="up", limit=1))


def test_a_hello_needs_no_session() -> None:
    for session in ("wrong", "", None, 5):
        hello = {"type": "client_hello", "client": "ui", "sessionId": session}
        assert decoded(json.dumps(hello)) == say.ClientHello(client="ui")


@pytest.mark.parametrize(
    ("features", "taken"),
    [
        (["resume", "void"], ("resume", "void")),
        (["resume", 5, None, ["void"]], ("resume",)),
        ([], ()),
        (None, ()),
        ("resume", ()),
        ({"resume": True}, ()),
        (["x"] * 100_000, ()),
    ],
    ids=["texts", "some", "none", "null", "text", "object", "very-many"],
)
def test_features_of_a_hello_are_taken_or_ignored_without_a_word(features: Json, taken: tuple[str, ...]) -> None:
    found = decoded(json.dumps({"type": "client_hello", "client": "ui", "features": features}))
    assert found == say.ClientHello(client="ui", features=taken)


def test_secrets_are_in_no_repr() -> None:
    key = decoded(text("provider_auth_set_api_key", provider="openai", methodId=KEY, apiKey=SECRET))
    code = decoded(text("provider_auth_callback", provider="codex-cli", methodId=OAUTH, code=SECRET))
    assert isinstance(key, say.ProviderAuthSetApiKey)
    assert key.api_key == SECRET
    assert SECRET not in repr(key) + repr(code) + str(key) + f"{code}"


# What is no message


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("", ("Invalid JSON", "invalid_json")),
        ("{bad", ("Invalid JSON", "invalid_json")),
        ("[1", ("Invalid JSON", "invalid_json")),
        ("[] x", ("Invalid JSON", "invalid_json")),
        ("NaN", ("Invalid JSON", "invalid_json")),
        ('{"type":"ping",}', ("Invalid JSON", "invalid_json")),
        ('{"type":"a\nb"}', ("Invalid JSON", "invalid_json")),
        ('{"x":"a\x00b"}', ("Invalid JSON", "invalid_json")),
        ("\ufeff{}", ("Invalid JSON", "invalid_json")),
        (b"\xff\xfe", ("Invalid JSON", "invalid_json")),
        ("[]", ("Expected object", "invalid_payload")),
        ("null", ("Expected object", "invalid_payload")),
        (" 5\n", ("Expected object", "invalid_payload")),
        ('"str"', ("Expected object", "invalid_payload")),
        ("true", ("Expected object", "invalid_payload")),
        ("{}", ("Missing type", "missing_type")),
        ('{"type":5}', ("Missing type", "missing_type")),
        ('{"type":null}', ("Missing type", "missing_type")),
        ('{"type":["ping"]}', ("Missing type", "missing_type")),
        ('{"type":""}', ("Unknown type: ", "unknown_type")),
        ('{"type":"nope"}', ("Unknown type: nope", "unknown_type")),
        ('{"type":"Ping"}', ("Unknown type: Ping", "unknown_type")),
        ('{"type":" ping"}', ("Unknown type:  ping", "unknown_type")),
        ('{"type":"server_hello","sessionId":"x"}', ("Unknown type: server_hello", "unknown_type")),
        ('{"type":"connect_provider"}', ("Unknown type: connect_provider", "unknown_type")),
        ('{"type":"__proto__"}', ("Unknown type: __proto__", "unknown_type")),
        ('{"type":"ping","type":"nope2"}', ("Unknown type: nope2", "unknown_type")),
        (r'{"type":"p\u0069ng\ud800"}', ("Unknown type: ping\ufffd", "unknown_type")),
    ],
    ids=lambda value: ascii(value)[:40] if isinstance(value, (str, bytes)) else value[1],
)
def test_what_is_no_message_is_said_as_the_seed_has_it(message: str | bytes, expected: tuple[str, str]) -> None:
    assert problem(message) == expected


# White space


@pytest.mark.parametrize("space", ["\u00a0", "\ufeff", "\u2003", "\u2028", "\u3000", "\v", "\f"], ids=ascii)
def test_what_javascript_trims_is_blank(space: str) -> None:
    assert problem(text("read_skill", skillName=space))[0] == "read_skill missing/invalid skillName"
    assert trimmed(f"{space}a{space}b{space}") == f"a{space}b"


@pytest.mark.parametrize("space", ["\x1c", "\x1f", "\x85", "\x00", "\u200b", "\u180e"], ids=ascii)
def test_what_javascript_does_not_trim_is_something(space: str) -> None:
    assert decoded(text("read_skill", skillName=space)) == say.ReadSkill(skill_name=space)
    assert trimmed(space) == space


# The original


@pytest.mark.parametrize("scenario", ["protocol_errors", "validation"])
def test_the_original_says_the_same(scenario: str) -> None:
    compared = 0
    for sent, answer in exchanges(scenario):
        session = answer["sessionId"]
        if answer.get("source") == "protocol":
            with pytest.raises(ProtocolProblem) as raised:
                decode(sent, session, METHODS)
            assert (raised.value.message, raised.value.code) == (answer["message"], answer["code"])
            compared += 1
        else:
            assert isinstance(decode(sent, session, METHODS), ClientMessage)
    assert compared > 15
