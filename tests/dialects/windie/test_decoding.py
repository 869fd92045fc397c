"""Frames of a client: each is its message, or the error that the protocol has for it (spec §3, §4, §5)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from dragoman.dialects.windie import client_messages as asked
from dragoman.dialects.windie.decoding import HandshakeRefused, ProtocolProblem, decode, decode_handshake

from . import anything, recordings

LIMIT = 10_485_760
QUERY = {"text": "hi", "conversation_ref": "c"}
REHYDRATE = {"conversation_ref": "c", "messages": [], "rehydrate_mode": "replace"}
RESULT = {"request_id": "r", "success": True, "data": {"output": "o"}}
BUNDLE = {"bundle_id": "b", "status": "success", "step_results": []}


def _decoded(kind: str, payload: Any, **envelope: Any) -> Any:
    return decode(json.dumps({"id": "m1", "type": kind, "payload": payload} | envelope), limit=LIMIT).payload


def _problem(message: str | bytes, limit: int = LIMIT) -> ProtocolProblem:
    with pytest.raises(ProtocolProblem) as problem:
        decode(message, limit=limit)
    return problem.value


NO_MESSAGE: list[tuple[str | bytes, str]] = [
    ("", "Malformed JSON"),
    ("{", "Malformed JSON"),
    ("{} x", "Malformed JSON"),
    ("nan", "Malformed JSON"),
    ('{"id":"\\ud800"}', "Malformed JSON"),
    (b'{"id":"\xff"}', "Malformed JSON"),
    ("[" * 100_000, "Malformed JSON"),
    ('{"a":' * 100_000 + "1" + "}" * 100_000, "Malformed JSON"),
    ("[]", "Invalid message format: root must be an object, got list"),
    ('"x"', "Invalid message format: root must be an object, got str"),
    ("1", "Invalid message format: root must be an object, got int"),
    ("1.5", "Invalid message format: root must be an object, got float"),
    ("true", "Invalid message format: root must be an object, got bool"),
    ("null", "Invalid message format: root must be an object, got NoneType"),
]


@pytest.mark.parametrize(("text", "message"), NO_MESSAGE, ids=range(len(NO_MESSAGE)))
def test_a_frame_that_is_no_message(text: str | bytes, message: str) -> None:
    problem = _problem(text)
    assert (problem.message, problem.message_id) == (message, None)


def test_size_is_bytes_of_utf8() -> None:
    text = '{"id":"m","type":"query","payload":{"text":"\u00e9","conversation_ref":"c"}}'
    size = len(text.encode())
    assert size == len(text) + 1
    assert _problem(text, size - 1).message == f"Message too large: {size} bytes (max: {size - 1} bytes)"
    assert _problem(text.encode(), size - 1).message == f"Message too large: {size} bytes (max: {size - 1} bytes)"
    assert decode(text, limit=size).id == "m"


ENVELOPES: list[tuple[dict[str, Any], str, str | None]] = [
    ({"id": "m"}, "type: field required", "m"),
    ({"id": "m", "type": None}, "type: must be a string", "m"),
    ({"id": "m", "type": "dance"}, "type: unknown message type 'dance'", "m"),
    ({"id": "m", "type": "x" * 99}, f"type: unknown message type '{'x' * 64}'", "m"),
    ({"type": "list-models"}, "list-models.id: field required", None),
    ({"id": 7, "type": "list-models"}, "list-models.id: must be a string", None),
    ({"id": " ", "type": "list-models"}, "list-models.id: must have at least 1 characters", None),
    ({"id": "a" * 129, "type": "list-models"}, "list-models.id: must have at most 128 characters", None),
    ({"id": "a.b", "type": "list-models"}, "list-models.id: must match [A-Za-z0-9_-]+", None),
    ({"id": " m ", "type": "list-models", "x": 1}, "list-models.x: unknown field", "m"),
    ({"id": "m", "type": "list-models", "payload": None}, "list-models.payload: must be an object", "m"),
    ({"id": "m", "type": "list-models", "payload": {"x": 1}}, "list-models.payload.x: unknown field", "m"),
    ({"id": "m", "type": "list-models", "turn_ref": 1}, "list-models.turn_ref: must be a string", "m"),
    (
        {"id": "m", "type": "query", "x": 1},
        "query.x: unknown field; query.payload.text: field required; query.payload.conversation_ref: field required",
        "m",
    ),
]


@pytest.mark.parametrize(("frame", "faults", "message_id"), ENVELOPES, ids=range(len(ENVELOPES)))
def test_an_envelope_that_is_none(frame: dict[str, Any], faults: str, message_id: str | None) -> None:
    problem = _problem(json.dumps(frame))
    assert (problem.message, problem.message_id) == (f"Invalid message format: {faults}", message_id)


def test_an_envelope_with_all_that_it_may_have() -> None:
    frame = {
        "id": " turn_1-A ",
        "type": "wakeword-detected",
        "user_id": "somebody-else",
        "session_id": "s",
        "conversation_ref": "c",
        "turn_ref": None,
        "timestamp": "2025-01-20T10:00:00Z",
    }
    message = decode(json.dumps(frame), limit=LIMIT)
    assert message == asked.ClientMessage(
        id="turn_1-A", payload=asked.WakewordDetected(), session_id="s", conversation_ref="c"
    )


def _row(content: Any = "x", **fields: Any) -> dict[str, Any]:
    return REHYDRATE | {"messages": [{"role": "user", "content": "ok"}, {"role": "tool", "content": content} | fields]}


PAYLOADS: list[tuple[str, Any, str]] = [
    ("query", QUERY | {"text": 1}, "text: must be a string"),
    ("query", QUERY | {"text": " \n"}, "text: must not be blank"),
    ("query", QUERY | {"conversation_ref": " "}, "conversation_ref: must not be blank"),
    ("query", QUERY | {"conversation_ref": None}, "conversation_ref: must be a string"),
    ("query", QUERY | {"content": []}, "content: must be a string"),
    ("query", QUERY | {"screenshot_refs": ["a", 1]}, "screenshot_refs.1: must be a string"),
    ("query", QUERY | {"system_state_internal": "x"}, "system_state_internal: must be an object"),
    ("query", QUERY | {"query_context": []}, "query_context: must be an object"),
    (
        "query",
        QUERY | {"repo_instruction_messages": [{"role": "system", "content": "x"}]},
        "repo_instruction_messages.0.role: must be 'user'",
    ),
    (
        "query",
        QUERY | {"repo_instruction_messages": [{"role": "user", "content": ""}]},
        "repo_instruction_messages.0.content: must have at least 1 characters",
    ),
    ("query", QUERY | {"client_prompt_layers": [{}]}, "client_prompt_layers.0.id: field required; "),
    ("query", QUERY | {"agent_definition": {"mcps": []}}, "agent_definition.mcps: unknown field"),
    ("query", QUERY | {"colour": "red"}, "colour: unknown field"),
    ("stop-query", {"conversation_ref": " "}, "conversation_ref: must not be blank"),
    ("stop-query", {"turn_ref": ""}, "turn_ref: must not be blank"),
    ("rehydrate-conversation", {}, "conversation_ref: field required; "),
    ("rehydrate-conversation", REHYDRATE | {"rehydrate_mode": "append"}, "rehydrate_mode: must be 'replace'"),
    ("rehydrate-conversation", REHYDRATE | {"agent_definition": {}}, "agent_definition: unknown field"),
    ("rehydrate-conversation", REHYDRATE | {"model_history": []}, "model_history: must be an object"),
    ("rehydrate-conversation", _row(None), "messages.1.content: must be a string"),
    ("rehydrate-conversation", _row(role="system"), "messages.1.role: must be 'user' or 'assistant' or 'tool'"),
    ("rehydrate-conversation", _row(message_type="model_history"), "messages.1.message_type: must be 'user_query' or "),
    ("rehydrate-conversation", _row(colour="red"), "messages.1.colour: unknown field"),
    ("load-settings", {"client_version": ""}, "client_version: must have at least 1 characters"),
    ("load-settings", {"client_version": "a" * 129}, "client_version: must have at most 128 characters"),
    ("update-settings", {"speech_mode_enabled": 1}, "speech_mode_enabled: must be true or false"),
    ("update-settings", {"model_mode": True}, "model_mode: must be a string"),
    ("update-settings", {"colour": "red"}, "colour: unknown field"),
    ("update-settings", {"provider_api_keys": {"a b": {}}}, "provider_api_keys.a b: must match "),
    ("update-settings", {"provider_api_keys": {"x": "k"}}, "provider_api_keys.x: must be an object"),
    ("update-settings", {"provider_api_keys": {"x": {"key": "k"}}}, "provider_api_keys.x.key: unknown field"),
    ("tool-result", RESULT | {"request_id": " "}, "request_id: must not be blank"),
    ("tool-result", RESULT | {"success": "yes"}, "success: must be true or false"),
    ("tool-result", RESULT | {"data": None}, "data: field required"),
    ("tool-result", RESULT | {"data": {}}, "data.output: field required"),
    ("tool-result", RESULT | {"data": []}, "data: must be an object"),
    (
        "tool-result",
        RESULT | {"data": {"output": 1, "system_state": {"active_window": "w"}}},
        "data.system_state.mouse_position: field required",
    ),
    (
        "tool-result",
        RESULT | {"data": {"output": 1, "system_state": {"active_window": "w", "mouse_position": "m", "x": 1}}},
        "data.system_state.x: unknown field",
    ),
    ("tool-result", RESULT | {"output": "o"}, "output: unknown field"),
    ("tool-bundle-result", BUNDLE | {"bundle_id": ""}, "bundle_id: must not be blank"),
    ("tool-bundle-result", BUNDLE | {"status": "ok"}, "status: must be 'success' or 'partial_failure' or 'failure'"),
    ("tool-bundle-result", BUNDLE | {"step_results": [{"tool": "t"}]}, "step_results.0.status: field required"),
    ("tool-bundle-result", BUNDLE | {"x": 1}, "x: unknown field"),
    ("wakeword-detected", {"x": 1}, "x: unknown field"),
    ("compact-history", {"force": None}, "force: must be true or false"),
    ("compact-history", {"conversation_ref": " "}, "conversation_ref: must not be blank"),
]


@pytest.mark.parametrize(("kind", "payload", "fault"), PAYLOADS, ids=range(len(PAYLOADS)))
def test_a_payload_that_is_none(kind: str, payload: Any, fault: str) -> None:
    problem = _problem(json.dumps({"id": "m", "type": kind, "payload": payload}))
    assert problem.message.startswith(f"Invalid message format: {kind}.payload.{fault}")
    assert problem.message_id == "m"
    if not fault.endswith((" ", "or ")):
        assert problem.message.count("; ") == 0


LAYER = {"id": "a", "type": "skill", "priority": 1, "content": "x"}
TOLERATED: list[tuple[str, dict[str, Any]]] = [
    ("query", QUERY | {"capture_meta": {"frame_id": "f"}}),
    ("query", QUERY | {"repo_instruction_messages": [{"role": "user", "content": "x"}]}),
    ("query", QUERY | {"client_prompt_layers": [LAYER]}),
    ("query", QUERY | {"agent_definition": {"version": 1}}),
    ("query", QUERY | {"revision_id": "rev_1"}),
    ("query", QUERY | {"turn_ref": "turn_1"}),
    ("query", QUERY | {"screenshot": "aGk="}),
    ("query", QUERY | {"query_context": {"episodic_memory": "x"}, "workspace_path": " "}),
    ("stop-query", {}),
    ("stop-query", {"conversation_ref": None, "turn_ref": None}),
    ("rehydrate-conversation", REHYDRATE | {"model_history": {"rows": []}}),
    ("rehydrate-conversation", REHYDRATE | {"model_history": None}),
    *(
        ("rehydrate-conversation", _row(**{name: value}))
        for name, value in {
            "tool_call_id": "t",
            "tool_calls": [{"id": "t"}],
            "transparency": {"x": 1},
            "structured_payload": {"x": 1},
            "structured_content": [1],
            "compaction_facts": {"x": 1},
            "screenshot": "aGk=",
        }.items()
    ),
    ("update-settings", {"tools": {"mode": "client_only", "client_manifest": {"tools": []}}}),
    ("update-settings", {"agent_definition": {"version": 1}}),
    ("update-settings", {"provider_api_keys": {"my-own_provider": {"enabled": False}}}),
    ("tool-bundle-result", BUNDLE | {"display_attachments": [{"x": 1}]}),
    ("compact-history", {}),
    ("compact-history", {"force": False, "conversation_ref": "c"}),
]


@pytest.mark.parametrize(("kind", "payload"), TOLERATED, ids=range(len(TOLERATED)))
def test_what_the_seed_lacks_and_clients_send(kind: str, payload: dict[str, Any]) -> None:
    assert isinstance(_decoded(kind, payload), asked.PAYLOADS[kind])


@pytest.mark.parametrize(
    ("payload", "output"),
    [
        ({"success": True, "data": {"output": None}}, None),
        ({"success": True, "data": {"output": {"stdout": "x"}}}, {"stdout": "x"}),
        ({"success": False, "data": {"output": "why"}}, "why"),
        ({"success": False, "data": {"reason": "x"}}, UNSET),
        ({"success": False, "error": "broken"}, None),
    ],
)
def test_a_result_with_and_without_output(payload: dict[str, Any], output: Any) -> None:
    result = _decoded("tool-result", payload | {"request_id": "r"})
    assert (result.data.output if result.data else None) == output


def test_free_fields_of_tool_data_and_of_steps_are_kept() -> None:
    result = _decoded("tool-result", RESULT | {"data": {"output": 1, "pid": 7, "extra": "x"}})
    assert result.data.extra == {"pid": 7, "extra": "x"}
    step = {"tool": "t", "status": "ok", "output": {"exit_code": 0}, "debug_trace": "d"}
    bundle = _decoded("tool-bundle-result", BUNDLE | {"step_results": [step]})
    assert bundle.step_results == (
        asked.StepResult(tool="t", status="ok", output={"exit_code": 0}, extra={"debug_trace": "d"}),
    )


def test_a_key_is_shown_nowhere() -> None:
    payload = {"provider_api_keys": {"openai": {"enabled": True, "api_key": "sk-secret"}}}
    settings = _decoded("update-settings", payload)
    assert settings.provider_api_keys["openai"].api_key == "sk-secret"
    assert "secret" not in repr(settings)
    payload["provider_api_keys"]["openai"]["enabled"] = "sk-secret"
    problem = _problem(json.dumps({"id": "m", "type": "update-settings", "payload": payload}))
    assert "provider_api_keys.openai.enabled" in problem.message
    assert "secret" not in problem.message


def test_however_much_is_wrong_little_is_told() -> None:
    fields = {f"{index}{'x' * 1000}": 1 for index in range(1000)}
    problem = _problem(json.dumps({"id": "m", "type": "query", "payload": QUERY | fields}))
    assert problem.message.count("unknown field") == 16
    refs = {"screenshot_refs": [1] * 90_000}
    problem = _problem(json.dumps({"id": "m", "type": "query", "payload": QUERY | refs}))
    assert problem.message.count("must be a string") == 16


@pytest.mark.parametrize("value", ["[]", "{}", '{"a":[]}', "1", "null"])
def test_a_message_of_too_many_values_is_not_taken_apart(value: str) -> None:
    many = ",".join([value] * 2000)
    frame = f'{{"id": "m", "type": "tool-result", "payload": {{"request_id": "r", "data": [{many}]}}}}'
    with pytest.raises(ProtocolProblem, match=r"^Message too large: more than 1000 values$"):
        decode(frame, limit=LIMIT, values=1000)
    with pytest.raises(HandshakeRefused, match="more than 1000 values"):
        decode_handshake(frame, limit=LIMIT, values=1000)


def test_text_counts_as_one_value_however_much_of_it_looks_like_more() -> None:
    text = json.dumps("[{," * 100_000)
    frame = f'{{"id": "m", "type": "query", "payload": {{"text": {text}, "conversation_ref": "c"}}}}'
    assert decode(frame, limit=LIMIT, values=100).id == "m"


@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        ("query", {}),
        ("query", {"agent_definition": {"tools": {"disabled_tools": [[], {}]}}}),
        ("tool-result", {"data": 1}),
    ],
)
def test_what_is_wrong_behind_all_that_is_told_is_wrong_still(kind: str, payload: dict[str, Any]) -> None:
    frame = {"id": "m", "type": kind, "payload": payload} | {f"x{index}": 1 for index in range(16)}
    problem = _problem(json.dumps(frame))
    assert problem.message.count(f"{kind}.x") == 16
    assert problem.message_id == "m"


HANDSHAKES: list[tuple[str | bytes, str]] = [
    (b'{"type":"handshake","user_id":"u"}', "the first frame is binary"),
    ("{", "Malformed JSON"),
    ("[]", "Invalid message format: root must be an object, got list"),
    ('{"user_id":"u"}', "type: field required"),
    ('{"type":"query","user_id":"u"}', "type: must be 'handshake'"),
    ('{"type":"handshake"}', "user_id: field required"),
    ('{"type":"handshake","user_id":null}', "user_id: must be a string"),
    ('{"type":"handshake","user_id":" "}', "user_id: must have at least 1 characters"),
    (json.dumps({"type": "handshake", "user_id": "a" * 129}), "user_id: must have at most 128 characters"),
    ('{"type":"handshake","user_id":"a/b"}', "user_id: must match [A-Za-z0-9_.@:-]+"),
    ('{"type":"handshake","user_id":"u","agent_definition":[]}', "agent_definition: must be an object"),
    *(
        (json.dumps({"type": "handshake", "user_id": "u", name: None}), f"{name}: unknown field")
        for name in (
            "operating_system",
            "available_tools",
            "available_coordinate_methods",
            "requested_agent_policy",
            "client_tool_manifest",
        )
    ),
]


@pytest.mark.parametrize(("text", "why"), HANDSHAKES, ids=range(len(HANDSHAKES)))
def test_a_handshake_that_lets_nobody_in(text: str | bytes, why: str) -> None:
    with pytest.raises(HandshakeRefused) as refused:
        decode_handshake(text, limit=LIMIT)
    assert str(refused.value) == why


def test_a_handshake_has_the_limit_of_a_message() -> None:
    with pytest.raises(HandshakeRefused, match="34 bytes, of 33 that are allowed"):
        decode_handshake('{"type":"handshake","user_id":"u"}', limit=33)
    assert decode_handshake('{"type":"handshake","user_id":"u"}', limit=34) == asked.Handshake(
        type="handshake", user_id="u"
    )


def test_what_the_python_sdk_adds_is_let_through_when_tolerated_and_nothing_else() -> None:
    frame: dict[str, Any] = {"type": "handshake", "user_id": "u", "operating_system": "Linux"}
    frame["agent_definition"] = {"version": 1, "mcps": [{"name": "m"}]}
    with pytest.raises(HandshakeRefused, match=r"^agent_definition.mcps: unknown field; operating_system: unknown"):
        decode_handshake(json.dumps(frame), limit=LIMIT)
    handshake = decode_handshake(json.dumps(frame), limit=LIMIT, tolerate=("python_handshake",))
    assert handshake.user_id == "u"
    with pytest.raises(HandshakeRefused, match=r"^available_tools: unknown field$"):
        decode_handshake(json.dumps(frame | {"available_tools": []}), limit=LIMIT, tolerate=("python_handshake",))


@recordings.recorded
@pytest.mark.parametrize("name", recordings.names())
def test_what_the_real_clients_say_is_right(name: str) -> None:
    tolerate = ("python_handshake",) if name == "py" else ()
    frames = recordings.frames(name, "c2s")
    assert frames
    for frame in frames:
        if frame["type"] == "handshake":
            decode_handshake(json.dumps(frame), limit=LIMIT, tolerate=tolerate)
        else:
            message = decode(json.dumps(frame), limit=LIMIT)
            assert isinstance(message.payload, asked.PAYLOADS[frame["type"]])
            assert message.id == frame["id"]


def _text_of_problem(text: str) -> str | None:
    """None for a message that is right."""
    try:
        message = decode(text, limit=LIMIT)
    except ProtocolProblem as problem:
        return problem.message
    assert type(message.payload) is asked.PAYLOADS[json.loads(text)["type"]]
    return None


@given(anything.json)
def test_any_json_is_a_message_or_a_problem(value: Any) -> None:
    problem = _text_of_problem(json.dumps(value))
    assert problem is None or problem.startswith("Invalid message format: ")


@given(st.sampled_from(sorted(asked.PAYLOADS)), anything.json)
def test_any_json_as_a_payload_is_right_or_told_where_it_is_wrong(kind: str, payload: Any) -> None:
    problem = _text_of_problem(json.dumps({"id": "m", "type": kind, "payload": payload}))
    assert problem is None or problem.startswith(f"Invalid message format: {kind}.payload")


@given(st.text() | st.binary())
def test_any_frame_is_a_problem_at_most(frame: str | bytes) -> None:
    with pytest.raises(ProtocolProblem):
        decode(frame, limit=LIMIT)


@given(anything.json)
def test_any_json_as_an_agent_definition_lets_in_or_not(definition: Any) -> None:
    text = json.dumps({"type": "handshake", "user_id": "u", "agent_definition": definition})
    refused = None
    try:
        decode_handshake(text, limit=LIMIT)
    except HandshakeRefused as why:
        refused = str(why)
    assert refused is None or refused.startswith("agent_definition")
