"""Values as JavaScript prints them: by its own rules, and by the word of a real one where there is one."""

from __future__ import annotations

import json
import math
import shutil
import subprocess

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dragoman.dialects.coworker.javascript import cut, length, number_text, stringify
from dragoman.hub.events import Json

VALUES: dict[str, tuple[Json, str]] = {
    "compact, in order": ({"b": [1, None, True], "a": {"c": False}}, '{"b":[1,null,true],"a":{"c":false}}'),
    "letters": ("é漢😀", '"é漢😀"'),
    "what has to be escaped": ('"\\/\b\f\n\r\t\0\x1f\x7f', '"\\"\\\\/\\b\\f\\n\\r\\t\\u0000\\u001f\x7f"'),
    "line ends of JavaScript": ("\u2028\u2029", '"\u2028\u2029"'),
    "half a letter": ("a\ud83d", '"a\\ud83d"'),
    "in a key": ({"é\n": 1}, '{"é\\n":1}'),
    "nothing in it": ([[], {}, ""], '[[],{},""]'),
    "whole": ([7.0, -7.0, 0.0, -0.0, 100.0], "[7,-7,0,0,100]"),
    "fractions": ([0.1, -0.25, 1.5e-3, 123.456], "[0.1,-0.25,0.0015,123.456]"),
    "the smallest without a power": ([0.000001, 0.0000001, 1.5e-7], "[0.000001,1e-7,1.5e-7]"),
    "the largest without a power": (
        [1e20, 123456789012345680000.0, 1e21, 1.5e300],
        "[100000000000000000000,123456789012345680000,1e+21,1.5e+300]",
    ),
    "large integers": (
        [2**53, 2**53 + 1, 2**64, 10**21, 10**400],
        "[9007199254740992,9007199254740992,18446744073709552000,1e+21,null]",
    ),
    "no numbers": ([math.nan, math.inf, -math.inf], "[null,null,null]"),
}


@pytest.mark.parametrize(("value", "text"), VALUES.values(), ids=VALUES.keys())
def test_a_value(value: Json, text: str) -> None:
    assert stringify(value) == text


def test_what_is_no_number_has_a_name() -> None:
    assert [number_text(value) for value in (math.nan, math.inf, -math.inf)] == ["NaN", "Infinity", "-Infinity"]


letters = st.text(st.characters(codec="utf-8"))
jsons = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**80), 2**80) | st.floats() | letters,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.from_regex(r"[a-z\n\"é]{1,5}"), inner, max_size=4),
    max_leaves=12,
)


@given(jsons)
def test_what_is_printed_is_json_of_the_same_value(value: Json) -> None:
    assert json.loads(stringify(value), parse_int=float) == as_numbers(value)


def as_numbers(value: Json) -> Json:
    """As JavaScript has it: every number is a float, and null where it is none."""
    if isinstance(value, dict):
        return {key: as_numbers(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [as_numbers(inner) for inner in value]
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    return float(value) if math.isfinite(value) else None


@pytest.mark.skipif(shutil.which("node") is None, reason="there is no JavaScript here")
@settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**70), 2**70) | letters, min_size=200)
)
def test_a_real_javascript_prints_the_same(values: list[Json]) -> None:
    script = "process.stdout.write(JSON.stringify(JSON.parse(require('fs').readFileSync(0, 'utf8'))))"
    done = subprocess.run(["node", "-e", script], input=json.dumps(values).encode(), capture_output=True, check=True)
    assert stringify(values) == done.stdout.decode()


@given(letters, st.integers(0, 20))
def test_a_text_is_cut_between_letters_and_its_rest_is_counted(text: str, most: int) -> None:
    assert length(text) == len(text) + sum(letter > "\uffff" for letter in text)
    short = cut(text, most)
    if length(text) <= most:
        assert short == text
        return
    kept, _, rest = short.rpartition("...[truncated ")
    assert text.startswith(kept)
    assert most - 1 <= length(kept) <= most
    assert int(rest.removesuffix(" chars]")) == length(text) - length(kept)
