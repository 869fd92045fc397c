"""How much a hook may bring: bytes and values, whatever its texts hold."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.hub.errors import LimitReached
from dragoman.hub.hook_payload import check_hook_payload
from dragoman.hub.limits import HubLimits

FEW = HubLimits(hook_values=20)


def fits(value: Any, limits: HubLimits = FEW) -> bool:
    try:
        check_hook_payload(json.dumps(value).encode(), limits)
    except LimitReached:
        return False
    return True


@pytest.mark.parametrize(
    "value",
    [
        {"content": 'if (x) { y[1], "z\\" }\n' * 1000},
        {"content": "\\" * 999 + '"' + ",{[" * 1000},
        {'",{[' * 1000: 1},
        [1] * 20,
        [{}] * 9,
        {str(number): "a,b" for number in range(20)},
    ],
)
def test_texts_do_not_count_by_what_they_hold(value: Any) -> None:
    assert fits(value)


@pytest.mark.parametrize(
    "value",
    [[1] * 30, [{}] * 30, [[]] * 30, ["", "a\\"] * 30, {str(number): '"' for number in range(30)}, [["x"]] * 30],
)
def test_values_count(value: Any) -> None:
    assert not fits(value)


def counted(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + sum(map(counted, value.values()))
    return 1 + sum(map(counted, value)) if isinstance(value, list) else 1


values = st.recursive(
    st.integers() | st.text(alphabet='a",{}[]:\\ü\n'),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(alphabet='a",{\\'), inner),
    max_leaves=60,
)


@given(values)
def test_no_more_than_twice_as_many_get_through_and_half_as_many_always_do(value: Any) -> None:
    most = FEW.hook_values
    if counted(value) > 2 * most:
        assert not fits(value)
    if counted(value) <= most // 2:
        assert fits(value)


def test_bytes_count() -> None:
    limits = HubLimits(hook_bytes=100)
    assert fits("x" * 98, limits)
    assert not fits("x" * 99, limits)


def test_what_a_tool_has_read_fits_usually() -> None:
    assert fits({"tool_response": {"content": 'call("{a}", [1, 2])\n' * 150_000}}, HubLimits())
    assert not fits({"tool_response": [{}] * 1_000_000}, HubLimits())
