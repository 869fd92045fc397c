"""Whatever a client sends is a message or one kind of error (invariant 8), soon, and can be stored and sent."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.dialects.coworker import client_messages as say
from dragoman.dialects.coworker.client_messages import TYPES, ClientMessage
from dragoman.dialects.coworker.javascript import printed, whole
from dragoman.hub.events import Json

from .samples import SESSION, VALID, decoded, outcome, problem, text

# What no text is, and what is very large or deep


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (r"\ud800", "\ufffd"),
        (r"\udfff\ud83d", "\ufffd\ufffd"),
        (r"\ud83d\ude00\ude00", "\U0001f600\ufffd"),
        (r"\ud83d\ud83d\ude00", "\ufffd\U0001f600"),
        (r"\\ud800\udc00", "\\ud800\ufffd"),
        ("\ud800", "\ufffd"),
        (r"\u0000", "\x00"),
    ],
    ids=ascii,
)
def test_halves_of_characters_become_replacement_characters(written: str, read: str) -> None:
    message = f'{{"type":"user_message","sessionId":"{SESSION}","text":"{written}","{written}":1}}'
    assert decoded(message) == say.UserMessage(text=read)


def test_bytes_that_are_no_utf8_become_replacement_characters() -> None:
    message = text("user_message", text="TEXT").encode().replace(b"TEXT", b"a\xff\xc3b")
    assert decoded(message) == say.UserMessage(text="a\ufffd\ufffdb")


HALF_MEGABYTE = 512 * 1024


@pytest.mark.parametrize(
    "inner",
    [
        "[" * 10_000 + "]" * 10_000,
        '{"a":' * 10_000 + "1" + "}" * 10_000,
        "[" + "[]," * HALF_MEGABYTE + "[]]",
        "9" * HALF_MEGABYTE,
        '"' + r"\ud800" * HALF_MEGABYTE + '"',
        '"' + r"\n\ud800" * HALF_MEGABYTE + '"',
        '"' + "\\\\" * HALF_MEGABYTE + r'\udc00"',
        '"' + "\\" * HALF_MEGABYTE,
        '"' + "x" * 100_000_000 + '"',
    ],
    ids=["deep-lists", "deep-objects", "lists", "digits", "halves", "halves-apart", "backslashes", "no-end", "long"],
)
def test_what_is_huge_or_deep_is_a_message_or_a_problem(inner: str) -> None:
    for kind, field in (
        ("ping", "more"),
        ("user_message", "text"),
        ("set_model", "provider"),
        ("harness_context_set", "context"),
        ("harness_slo_evaluate", "checks"),
    ):
        message = json.dumps({"type": kind, "sessionId": SESSION, "model": "m"})[:-1] + f',"{field}":{inner}}}'
        found = outcome(message)
        assert isinstance(found, ClientMessage) or len(found[0]) < 5000


@pytest.mark.parametrize("kind", ["type", "session", "provider"])
def test_an_error_repeats_only_so_much_of_what_was_sent(kind: str) -> None:
    long = "x" * 10_000
    message = {
        "type": json.dumps({"type": long}),
        "session": json.dumps({"type": "ping", "sessionId": long}),
        "provider": text("set_model", model="m", provider=long),
    }[kind]
    assert problem(message)[0].endswith(": " + "x" * 4000 + "...[truncated 6000 chars]")


# Anything at all

scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
anything = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20)
names = sorted({name for values, _ in VALID.values() for name in (*values, "sessionId", "provider", "code", "version")})
near_misses = st.builds(
    lambda kind, session, values, more: {"type": kind, "sessionId": session, **VALID[kind][0], **values, **more},
    st.sampled_from(TYPES),
    st.just(SESSION) | anything,
    st.dictionaries(st.sampled_from(names), anything, max_size=2),
    st.dictionaries(st.text(), anything, max_size=2),
)
messages = st.one_of(
    st.text(),
    st.text(alphabet=st.characters(categories=("Cs", "Lu", "Po"))),
    st.binary(),
    anything.map(json.dumps),
    near_misses.map(json.dumps),
    near_misses.map(lambda message: json.dumps(message, ensure_ascii=False)),
    near_misses.map(lambda message: json.dumps(message)[:-1]),
    near_misses.map(lambda message: json.dumps(message).encode("utf-16")),
)


@given(messages)
@settings(max_examples=500, deadline=None)
def test_anything_is_a_message_or_a_problem_that_can_be_stored_and_sent(message: str | bytes) -> None:
    found = outcome(message)
    # What is behind keeps it as JSON and as text of a database: both need whole characters.
    if isinstance(found, ClientMessage):
        assert msgspec.json.decode(msgspec.json.encode(found), type=type(found)) == found
    else:
        assert msgspec.json.decode(msgspec.json.encode(found[0])) == found[0]


@given(anything)
@settings(max_examples=300, deadline=None)
def test_whatever_is_json_is_told_from_what_is_not(value: Json) -> None:
    written = json.dumps(value)
    if "NaN" in written or "Infinity" in written:
        return
    found = outcome(written)
    code = "" if isinstance(found, ClientMessage) else found[1]
    assert code != "invalid_json"
    assert (code == "invalid_payload") == (not isinstance(value, dict))


@given(st.lists(st.sampled_from([r"\ud800", r"\udc00", r"\uD83D", r"\uDe00", r"\\", r"\n", "ud800", "x", r"\u0041"])))
@settings(max_examples=300, deadline=None)
def test_mending_changes_nothing_but_halves(pieces: list[str]) -> None:
    written = '"' + "".join(pieces) + '"'
    expected = "".join("\ufffd" if "\ud800" <= letter <= "\udfff" else letter for letter in json.loads(written))
    assert json.loads(whole(written)) == expected


@given(st.floats(allow_nan=False, allow_infinity=False))
@settings(max_examples=300, deadline=None)
def test_numbers_are_printed_so_that_they_read_the_same(value: float) -> None:
    shown = printed(json.dumps(value).encode())
    assert float(shown) == value
    assert shown == "0" or not shown.endswith(".0")
