"""JSON values made fit to be shown (seed: ``rawPart`` is sanitized, truncated, cycle-protected)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.dialects.coworker.sanitise import DEEPEST, LONGEST_TEXT, MOST_ITEMS, sanitise

ASTRAL = "\U0001f600"
"""One character, two units of UTF-16."""


def nested(levels: int, inner: Any = "x") -> Any:
    for level in reversed(range(levels)):
        inner = [inner] if level % 2 else {"in": inner}
    return inner


def units(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


FIT: dict[str, Any] = {
    "null": None,
    "bool": True,
    "number": 1.5,
    "largest": 2**64 - 1,
    "text": "a" * LONGEST_TEXT,
    "pairs": ASTRAL * (LONGEST_TEXT // 2),
    "list": list(range(MOST_ITEMS)),
    "object": {str(key): key for key in range(MOST_ITEMS)},
    "levels": nested(DEEPEST),
}


@pytest.mark.parametrize("value", FIT.values(), ids=FIT.keys())
def test_what_needs_nothing_is_given_back_itself(value: Any) -> None:
    assert sanitise(value) is value


CUT: dict[str, tuple[Any, Any]] = {
    "text": ("a" * 4001, "a" * 4000 + "...[truncated 1 chars]"),
    "pairs": (ASTRAL * 2001, ASTRAL * 2000 + "...[truncated 2 chars]"),
    "list": (list(range(130)), [*range(128), "[truncated 2 items]"]),
    "object": (
        {str(key): key for key in range(131)},
        {**{str(key): key for key in range(128)}, "__truncatedKeys": 3},
    ),
    "level": (nested(9, "x"), nested(8, "[max_depth]")),
    "not a number": (float("nan"), "NaN"),
    "infinite": ([float("inf"), -float("inf")], ["Infinity", "-Infinity"]),
    "too large a number": ({"a": 2**64}, {"a": "18446744073709551616"}),
    "endless number": (10**5000, "Infinity"),
    "tuple": ((1, "b" * 4001), [1, "b" * 4000 + "...[truncated 1 chars]"]),
}


@pytest.mark.parametrize(("value", "expected"), CUT.values(), ids=CUT.keys())
def test_what_passes_a_limit_is_cut_and_says_so(value: Any, expected: Any) -> None:
    assert sanitise(value) == expected


def test_a_pair_is_never_cut_in_two() -> None:
    kept = sanitise("a" * 3999 + ASTRAL + "b")
    assert kept == "a" * 3999 + "...[truncated 3 chars]"


def test_texts_lie_as_deep_as_they_like_and_only_what_holds_something_is_too_deep() -> None:
    assert sanitise(nested(8, "deep")) == nested(8, "deep")
    assert sanitise(nested(8, [])) == nested(8, "[max_depth]")


def test_the_levels_above_a_value_count() -> None:
    value = nested(DEEPEST)
    assert sanitise(value, 1) != value
    assert sanitise(nested(DEEPEST - 1), 1) == nested(DEEPEST - 1)


def test_what_is_cut_is_a_copy() -> None:
    value = {"short": "a", "long": "a" * 5000}
    assert sanitise(value) != value
    assert value == {"short": "a", "long": "a" * 5000}


def test_what_contains_itself_ends() -> None:
    loop: dict[str, Any] = {"name": "loop"}
    loop["self"] = loop
    row: list[Any] = [1]
    row.append(row)
    assert sanitise(loop) == {"name": "loop", "self": "[circular]"}
    assert sanitise(row) == [1, "[circular]"]


def test_the_same_object_twice_is_shown_twice() -> None:
    twice = {"x": "a" * 4001}
    assert sanitise([twice, twice])[0] == sanitise([twice, twice])[1] == {"x": "a" * 4000 + "...[truncated 1 chars]"}


@pytest.mark.parametrize("levels", [100, 100_000])
def test_nothing_nests_too_deep_to_be_cut(levels: int) -> None:
    value = nested(levels)
    assert sanitise(value) == nested(8, "[max_depth]")
    while isinstance(value, list | dict):  # the interpreter could not take it apart at once
        value = value[0] if isinstance(value, list) else value["in"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=5), inner, max_size=5),
    max_leaves=40,
)


@given(JSON)
def test_whatever_comes_out_can_be_written_and_needs_nothing_more(value: Any) -> None:
    kept = sanitise(value)
    msgspec.json.encode(kept)
    assert sanitise(kept) is kept


@given(st.text(alphabet=st.sampled_from(["a", "é", ASTRAL]), min_size=1, max_size=9), st.integers(1900, 4100))
def test_texts_are_counted_as_javascript_counts_them(piece: str, times: int) -> None:
    text = piece * (times // len(piece) + 1)
    kept = sanitise(text)
    if units(text) <= LONGEST_TEXT:
        assert kept is text
        return
    shown, _, rest = kept.rpartition("...[truncated ")
    assert text.startswith(shown)
    assert LONGEST_TEXT - 1 <= units(shown) <= LONGEST_TEXT
    assert rest == f"{units(text) - units(shown)} chars]"
