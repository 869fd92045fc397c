"""Named signals."""

from __future__ import annotations

import signal

import pytest

from dragoman.agents.terminal.signals import SIGNALS, parse_signal
from dragoman.hub.errors import InvalidRequest


@pytest.mark.parametrize(
    "name", ["HUP", "INT", "QUIT", "KILL", "USR1", "USR2", "TERM", "CONT", "STOP", "TSTP", "WINCH"]
)
def test_a_signal_by_every_spelling(name: str) -> None:
    number = getattr(signal, f"SIG{name}").value
    for spelled in (name, name.lower(), f"SIG{name}", f"sig{name.lower()}", f"Sig{name.title()}", str(number)):
        assert parse_signal(spelled) == number


def test_the_table_is_coops() -> None:
    assert dict(SIGNALS) == {
        "HUP": 1,
        "INT": 2,
        "QUIT": 3,
        "KILL": 9,
        "USR1": 10,
        "USR2": 12,
        "TERM": 15,
        "CONT": 18,
        "STOP": 19,
        "TSTP": 20,
        "WINCH": 28,
    }


@pytest.mark.parametrize(
    "name",
    [
        "",
        "SIG",
        "BOGUS",
        "SIGSIGINT",
        "0",
        "-2",
        "+2",
        "2.0",
        "64",
        "99999999999999999999",
        "INT ",
        "\u00b2",
        "\uff29NT",
    ],
)
def test_an_unknown_signal_is_named_as_it_was_given(name: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        parse_signal(name)
    assert str(refused.value) == f"unknown signal: {name}"
