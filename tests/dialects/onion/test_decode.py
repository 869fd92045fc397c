"""Frames of a client: each is its message, or the ERROR that the protocol has for it (seed: Client -> Server)."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.dialects.onion import client_messages as asked


def _decoded(**fields: Any) -> asked.ClientMessage:
    return asked.decode(json.dumps(fields))


NOT_JSON = [
    ("{type: 'INPUT'}", "Invalid JSON: Expecting property name enclosed in double quotes at line 1 col 2 (pos 1)"),
    ("not json", "Invalid JSON: Expecting value at line 1 col 1 (pos 0)"),
    ("", "Invalid JSON: Expecting value at line 1 col 1 (pos 0)"),
    ('{"type":\n "x"', "Invalid JSON: Expecting ',' delimiter at line 2 col 5 (pos 13)"),
    ('{"type":"INPUT"} x', "Invalid JSON: Extra data at line 1 col 18 (pos 17)"),
]


@pytest.mark.parametrize(("text", "message"), NOT_JSON, ids=range(len(NOT_JSON)))
def test_what_is_no_json_is_told_where_it_goes_wrong(text: str, message: str) -> None:
    with pytest.raises(asked.ProtocolProblem) as problem:
        asked.decode(text)
    assert str(problem.value) == message
    assert problem.value.received == text


def test_a_long_message_is_told_where_it_goes_wrong_too() -> None:
    long = '{"type":"INPUT",\n"prompt":"' + "\u00e9" * 100_000
    for text, why in (
        (long + '",}', "Trailing comma in object at line 2 col 100013 (pos 100029)"),
        (long + '\x01"}', "Invalid character at line 2 col 100011 (pos 100027)"),
        (long, "It ends too early at line 2 col 100011 (pos 100027)"),
    ):
        with pytest.raises(asked.ProtocolProblem) as problem:
            asked.decode(text)
        assert str(problem.value) == f"Invalid JSON: {why}"


@pytest.mark.parametrize("end", ["", "]", ",", "]x"])
def test_a_long_list_that_is_no_message_costs_nothing(end: str) -> None:
    text = "[" + "[]," * 1_000_000 + "[]" + end
    tracemalloc.start()
    try:
        with pytest.raises(asked.ProtocolProblem, match=r"Invalid JSON|must be a JSON object"):
            asked.decode(text)
        assert tracemalloc.get_traced_memory()[1] < 4 * len(text)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("field", ["prompt", "session", "x"])
def test_half_a_surrogate_pair_is_told_of(field: str) -> None:
    with pytest.raises(asked.ProtocolProblem, match="surrogate"):
        asked.decode(f'{{"type":"INPUT","{field}":"\\ud800"}}')


def test_what_was_no_json_is_repeated_up_to_a_limit() -> None:
    with pytest.raises(asked.ProtocolProblem) as problem:
        asked.decode("x" * 1000)
    assert problem.value.received == "x" * 200 + "...(truncated)"


@pytest.mark.parametrize("text", ["[1,2]", "null", "5", '"str"', "true"])
def test_json_that_is_no_object_is_refused(text: str) -> None:
    with pytest.raises(asked.ProtocolProblem, match="must be a JSON object"):
        asked.decode(text)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "9" * 5000 + "x", '{"type":NaN}'])
def test_json_that_parsers_choke_on_is_refused(text: str) -> None:
    with pytest.raises(asked.ProtocolProblem):
        asked.decode(text)


@pytest.mark.parametrize("kind", [5, None, [], {}, True])
def test_a_type_that_is_no_text_is_refused(kind: object) -> None:
    with pytest.raises(asked.ProtocolProblem, match="message type required"):
        asked.decode(json.dumps({"type": kind}))


def test_a_message_without_a_type_is_refused() -> None:
    with pytest.raises(asked.ProtocolProblem, match="message type required"):
        asked.decode("{}")


@pytest.mark.parametrize("kind", ["EXEC", "SEAL", "SEALED", "connect", "", "INIT", "ATTACH", "PING", "x" * 9999])
def test_an_unknown_type_is_named(kind: str) -> None:
    with pytest.raises(asked.ProtocolProblem) as problem:
        _decoded(type=kind)
    assert str(problem.value) == f"unknown message type: {kind[:256]!r}"


def test_binary_frames_are_refused() -> None:
    with pytest.raises(asked.ProtocolProblem, match="binary"):
        asked.decode(b"\x00\x01binary")


def test_connect() -> None:
    message = _decoded(
        type="CONNECT",
        session_id="s",
        last_msg_id="ev-1",
        session={"messages": []},
        payload={"timestamp": 1.0},
        signature="ab",
        **{"from": "0x1"},
    )
    assert isinstance(message, asked.Connect)
    assert (message.session_id, message.last_msg_id) == ("s", "ev-1")
    assert bytes(message.session) == b'{"messages": []}'
    assert bytes(message.signed.payload) == b'{"timestamp": 1.0}'
    assert (bytes(message.signed.sender), bytes(message.signed.signature)) == (b'"0x1"', b'"ab"')


@pytest.mark.parametrize("absent", [{}, {"session_id": None}, {"session_id": ""}])
def test_a_session_may_be_left_out(absent: dict[str, Any]) -> None:
    message = _decoded(type="CONNECT", **absent)
    assert isinstance(message, asked.Connect)
    assert message.session_id is None


@pytest.mark.parametrize("given_", [5, ["s"], {"id": 1}, "x" * 257])
def test_a_session_id_that_is_none_is_refused(given_: object) -> None:
    with pytest.raises(asked.ProtocolProblem, match="session_id"):
        _decoded(type="CONNECT", session_id=given_)


@pytest.mark.parametrize("given_", [5, None, ["ev-1"]])
def test_a_last_id_that_is_none_counts_as_unknown(given_: object) -> None:
    message = _decoded(type="CONNECT", last_msg_id=given_)
    assert isinstance(message, asked.Connect)
    assert message.last_msg_id is None


APPROVALS = [
    ({"approved": True}, (True, "once", None, "reject_hard")),
    ({"approved": True, "scope": "session"}, (True, "session", None, "reject_hard")),
    ({"approved": True, "scope": "forever"}, (True, "once", None, "reject_hard")),
    ({"approved": True, "scope": None}, (True, "once", None, "reject_hard")),
    ({"approved": False, "feedback": "use yarn"}, (False, "once", "use yarn", "reject_hard")),
    ({"approved": False, "mode": "reject_soft"}, (False, "once", None, "reject_soft")),
    ({"approved": False, "mode": "reject_explain"}, (False, "once", None, "reject_explain")),
    ({"approved": False, "mode": "whatever"}, (False, "once", None, "reject_hard")),
]


@pytest.mark.parametrize(("fields", "meant"), APPROVALS, ids=range(len(APPROVALS)))
def test_approvals(fields: dict[str, Any], meant: tuple[object, ...]) -> None:
    message = _decoded(type="APPROVAL_RESPONSE", **fields)
    assert isinstance(message, asked.ApprovalResponse)
    assert (message.approved, message.scope, message.feedback, message.mode) == meant


@pytest.mark.parametrize("approved", [None, 1, "true", []])
def test_an_approval_is_yes_or_no(approved: object) -> None:
    with pytest.raises(asked.ProtocolProblem, match="approved must be"):
        _decoded(type="APPROVAL_RESPONSE", approved=approved)


@pytest.mark.parametrize(("answer", "meant"), [("Python 3", "Python 3"), ("", ""), (["a", "b"], ("a", "b")), ([], ())])
def test_answers(answer: object, meant: object) -> None:
    message = _decoded(type="ASK_USER_RESPONSE", answer=answer, request_id="ev-7")
    assert isinstance(message, asked.AskUserResponse)
    assert (message.answer, message.request_id) == (meant, "ev-7")


@pytest.mark.parametrize("answer", [None, 5, {"a": 1}, [1], ["a", None]])
def test_an_answer_is_text_or_texts(answer: object) -> None:
    with pytest.raises(asked.ProtocolProblem, match="answer must be"):
        _decoded(type="ASK_USER_RESPONSE", answer=answer)


@pytest.mark.parametrize(
    ("session", "meant"),
    [({"session_id": "s"}, "s"), ({}, None), (None, None), ("s", None), ([], None), ({"session_id": None}, None)],
)
def test_status_is_asked_by_the_session_object(session: object, meant: str | None) -> None:
    message = _decoded(type="SESSION_STATUS", session=session, session_id="top")
    assert message == asked.StatusQuery(session_id=meant)


def test_the_last_of_two_fields_of_one_name_counts() -> None:
    message = asked.decode('{"type":"mode_change","mode":"ulw","mode":"safe"}')
    assert message == asked.ModeChange(mode="safe")


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=12,
)
_types = st.sampled_from([
    "CONNECT", "INPUT", "PONG", "ASK_USER_RESPONSE", "APPROVAL_RESPONSE", "PLAN_REVIEW_RESPONSE", "ULW_RESPONSE",
    "mode_change", "INTERRUPT", "prompt_update", "SESSION_STATUS", "ONBOARD_SUBMIT", "ADMIN_PROMOTE", "EXEC",
])  # fmt: skip
_names = st.sampled_from([
    "session_id", "last_msg_id", "session", "payload", "from", "signature", "prompt", "images", "files", "input_id",
    "request_id", "answer", "approved", "scope", "feedback", "mode", "message",
])  # fmt: skip


@settings(deadline=None)
@given(_types, st.dictionaries(_names, _json, max_size=8))
def test_any_object_is_a_message_or_a_protocol_problem(kind: str, fields: dict[str, Any]) -> None:
    assert _came_to(json.dumps({"type": kind, **fields}))


@settings(deadline=None)
@given(st.text(max_size=200) | st.binary(max_size=200))
def test_any_frame_is_a_message_or_a_protocol_problem(frame: str | bytes) -> None:
    assert _came_to(frame)


def _came_to(frame: str | bytes) -> str:
    """The name of the message, or the text of the problem; whatever else is raised fails the test."""
    try:
        return type(asked.decode(frame)).__name__
    except asked.ProtocolProblem as problem:
        return str(problem)
