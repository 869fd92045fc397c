"""The bytes that are signed: three forms of the same value, and nothing else."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.services.identity import canonical_forms
from dragoman.services.identity.canonical import MOST_VALUES

FORMS = {
    "what clients sign": ('{"timestamp": 1, "to": "0xa"}', ['{"timestamp":1,"to":"0xa"}']),
    "keys are sorted": ('{"b": 1, "a": 2}', ['{"a":2,"b":1}']),
    "also inside, but for the old form": (
        '{"b": {"y": [{"d": 1, "c": 2}], "x": 0}, "a": 1}',
        ['{"a":1,"b":{"x":0,"y":[{"c":2,"d":1}]}}', '{"a":1,"b":{"y":[{"d":1,"c":2}],"x":0}}'],
    ),
    "escaped and not": ('{"a": "\u00e9\u4e2d"}', ['{"a":"\\u00e9\\u4e2d"}', '{"a":"\u00e9\u4e2d"}']),
    "beyond the first plane": ('{"a": "\U0001f600"}', ['{"a":"\\ud83d\\ude00"}', '{"a":"\U0001f600"}']),
    "however the frame escaped it": ('{"a": "\\u00E9\\/"}', ['{"a":"\\u00e9/"}', '{"a":"\u00e9/"}']),
    "half of a pair is always escaped": ('{"a": "\\ud83d"}', ['{"a":"\\ud83d"}']),
    "control characters are escaped": ('{"a": "\\u0001\\n\\u001F"}', ['{"a":"\\u0001\\n\\u001f"}']),
    "one of them by Python only": ('{"a": "\\u007f"}', ['{"a":"\\u007f"}', '{"a":"\x7f"}']),
    "floats stay floats": ('{"a": 1.0, "b": [2.50]}', ['{"a":1.0,"b":[2.5]}', '{"a":1.0,"b":[2.50]}']),
    "small as Python and as JavaScript say it": ('{"a": 1e-7}', ['{"a":1e-07}', '{"a":1e-7}']),
    "large numbers stay whole": ('{"a": 123456789012345678901234567890}', ['{"a":123456789012345678901234567890}']),
    "minus nothing": ('{"a": -0}', ['{"a":0}', '{"a":-0}']),
    "too large for a float": ('{"a": 1e400}', ['{"a":Infinity}', '{"a":1e400}']),
    "the words": ('{"c": null, "a": true, "b": false}', ['{"a":true,"b":false,"c":null}']),
    "nothing": ("{}", ["{}"]),
    "as JavaScript orders what looks like an index": (
        '{"b": 1, "10": 2, "9": 3, "01": 4}',
        ['{"01":4,"10":2,"9":3,"b":1}', '{"9":3,"10":2,"01":4,"b":1}'],
    ),
    "as JavaScript sorts beyond the first plane": (
        '{"\ue000": 1, "\U0001f600": 2}',
        [
            '{"\\ue000":1,"\\ud83d\\ude00":2}',
            '{"\ue000":1,"\U0001f600":2}',
            '{"\U0001f600":2,"\ue000":1}',
        ],
    ),
}


@pytest.mark.parametrize(("payload", "forms"), FORMS.values(), ids=FORMS.keys())
def test_forms(payload: str, forms: list[str]) -> None:
    assert list(canonical_forms(payload.encode())) == [form.encode() for form in forms]


NONE = {
    "no JSON": b"{",
    "nothing": b"",
    "a list": b"[]",
    "a text": b'"x"',
    "a number": b"1",
    "null": b"null",
    "not UTF-8": b'{"a": "\xff"}',
    "UTF-16": '{"a": 1}'.encode("utf-16"),
    "not a number": b'{"a": NaN}',
    "without end": b'{"a": Infinity}',
    "a key twice": b'{"a": 1, "a": 1}',
    "a key twice inside": b'{"a": {"b": 1, "b": 2}}',
    "too deep": b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "more behind it": b"{} {}",
    "too many values": json.dumps({str(number): number for number in range(MOST_VALUES + 1)}).encode(),
    "too many values inside": json.dumps({"a": [[None] * 10] * (MOST_VALUES // 10)}).encode(),
}


@pytest.mark.parametrize("payload", NONE.values(), ids=NONE.keys())
def test_none(payload: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  whatever it says: nobody is shown it
        list(canonical_forms(payload))


def test_as_many_values_as_may_be() -> None:
    payload = {"a": [{"b": number} for number in range(MOST_VALUES // 2 - 1)], "c": 1}
    assert list(canonical_forms(json.dumps(payload).encode())) == [json.dumps(payload, separators=(",", ":")).encode()]


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.text(), values, max_size=5))
def test_each_form_is_the_same_value_and_the_original_forms_are_among_them(payload: dict[str, object]) -> None:
    forms = list(canonical_forms(json.dumps(payload).encode()))
    assert all(json.loads(form.decode()) == payload for form in forms)
    top = {key: payload[key] for key in sorted(payload)}
    for said in (
        json.dumps(payload, sort_keys=True, separators=(",", ":")),
        json.dumps(payload, sort_keys=True, separators=(",", ":"), ensure_ascii=False),
        json.dumps(top, separators=(",", ":"), ensure_ascii=False),
    ):
        assert said.encode("utf-8", "backslashreplace") in forms
