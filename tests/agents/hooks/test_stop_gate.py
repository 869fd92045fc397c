"""The stop gate: the order of verdicts, the signal that is used once, and a reason that can be run as it stands."""

from __future__ import annotations

import json
import re
import shlex
from typing import Any

import pytest

from dragoman.agents.terminal.hooks.stop_gate import Stop, block_reason, decide
from dragoman.hub.errors import InvalidRequest, LimitReached
from dragoman.hub.events import HookAnswered
from dragoman.hub.hook_config import StopConfig, check_hook_settings, stop_config
from dragoman.hub.standing import StopSignal

SIGNAL = StopConfig(mode="signal")


def ask(config: StopConfig = SIGNAL, **more: Any) -> Stop:
    given: dict[str, Any] = {
        "stop_hook_active": False,
        "error_category": None,
        "error_detail": None,
        "pending": None,
        "last_message": "Done.",
        "send_command": "dragoman send",
    }
    return decide(config, **{**given, **more})


EVERYTHING: dict[str, Any] = {
    "stop_hook_active": True,
    "error_category": "unauthorized",
    "error_detail": "401",
    "pending": StopSignal({"ok": True}),
}


@pytest.mark.parametrize(
    ("config", "without", "kind"),
    [
        (StopConfig(), (), "allowed"),
        (SIGNAL, (), "safety_valve"),
        (SIGNAL, ("stop_hook_active",), "error"),
        (SIGNAL, ("stop_hook_active", "error_category"), "signaled"),
        (SIGNAL, tuple(EVERYTHING), "blocked"),
        (StopConfig(mode="auto"), tuple(EVERYTHING), "blocked"),
        (StopConfig(mode="gate"), tuple(EVERYTHING), "blocked"),
    ],
)
def test_the_first_verdict_that_holds(config: StopConfig, without: tuple[str, ...], kind: str) -> None:
    stop = ask(config, **{name: value for name, value in EVERYTHING.items() if name not in without})
    assert (stop.verdict.type, stop.fact.verdict, stop.verdict.last_message) == (kind, kind, "Done.")
    assert (stop.verdict.reason is not None) == (kind == "blocked")
    assert (stop.fact.signal is not None) == (kind == "signaled")
    assert stop.fact.error_detail == ("401" if kind == "error" else None)


@pytest.mark.parametrize("category", ["rate_limited", "no_internet", "server_error", "other", None])
def test_an_error_that_may_pass_blocks(category: str | None) -> None:
    assert ask(error_category=category, error_detail="x").fact == HookAnswered(hook="stop", verdict="blocked")


@pytest.mark.parametrize("body", [{"status": "done"}, [], "x", 0, None])
def test_a_signal_may_be_any_json(body: Any) -> None:
    stop = ask(pending=StopSignal(body))
    assert (stop.fact.verdict, stop.fact.signal) == ("signaled", body)


# The reason


def commands(reason: str) -> list[Any]:
    """The bodies of the commands in backticks, as a shell would pass them on."""
    bodies = []
    for command in re.findall(r"`([^`]*)`", reason):
        name, sub, body = shlex.split(command)
        assert (name, sub) == ("dragoman", "send")
        bodies.append(json.loads(body))
    return bodies


def reason(**config: Any) -> str:
    return block_reason(stop_config({"stop_config": {"mode": "signal", **config}}), "dragoman send")


def test_without_a_config_there_are_three_ways() -> None:
    said = reason()
    assert [line[:2] for line in said.split("\n")] == ["1.", "2.", "3."]
    assert [body["status"] for body in commands(said)] == ["done", "continue"]


def test_the_prompt_comes_first() -> None:
    assert reason(prompt="Run the tests.").split("\n")[0] == "Run the tests."
    assert len(reason(prompt="Run the tests.").split("\n")) == 4


def test_one_choice_becomes_a_command_for_each_value() -> None:
    fields = {
        "outcome": {"enum": ["done", "stuck"], "descriptions": {"done": "All is well"}},
        "note": {"description": "why"},
        "a": {},
    }
    said = reason(prompt="P", schema={"fields": fields})
    lines = said.split("\n")
    assert [lines[0], lines[2], lines[4]] == ["P", "1. All is well", "2. stuck"]
    assert commands(said) == [
        {"a": "<a>", "note": "<note>", "outcome": "done"},
        {"a": "<a>", "note": "<note>", "outcome": "stuck"},
    ]
    assert all(line.startswith("    `") for line in (lines[3], lines[5]))


def test_several_choices_become_one_example() -> None:
    said = reason(schema={"fields": {"b": {"enum": ["x", "y"]}, "a": {"enum": ["1"]}, "c": {"required": True}}})
    assert commands(said) == [{"a": "1", "b": "x", "c": "<c>"}]
    assert '{"a":"1","b":"x","c":"<c>"}' in said


def test_a_prompt_that_shows_json_is_left_to_say_which() -> None:
    assert reason(prompt='Send {"done": true}.').split("\n")[1].endswith("`dragoman send '<json>'`")
    assert len(reason(prompt="Send }.").split("\n")) == 4


def test_a_gate_says_only_what_it_was_given() -> None:
    assert reason(mode="gate", prompt="Wait for review.") == "Wait for review."
    assert "`" not in reason(mode="gate")


def test_a_quote_in_a_value_does_not_end_the_shells() -> None:
    assert commands(reason(schema={"fields": {"a": {"enum": ["it's", "b"]}}})) == [{"a": "it's"}, {"a": "b"}]


def test_a_reason_ends_without_a_line_end() -> None:
    assert not any(reason(**config).endswith("\n") for config in ({}, {"prompt": "x"}, {"mode": "gate"}))


# The setting


@pytest.mark.parametrize(
    "value",
    [
        {"mode": "never"},
        {"prompt": 1},
        {"schema": {}},
        {"schema": {"fields": {"a": {"enum": "x"}}}},
        {"schema": {"fields": ["a"]}},
        [],
        "signal",
    ],
)
def test_a_stop_config_that_cannot_be_one_is_refused(value: Any) -> None:
    with pytest.raises(InvalidRequest, match="stop_config"):
        check_hook_settings({"stop_config": value})


def test_a_config_is_bounded_and_may_be_taken_back() -> None:
    with pytest.raises(LimitReached, match="stop_config"):
        check_hook_settings({"stop_config": {"prompt": "x" * 70_000}})
    check_hook_settings({"stop_config": None, "start_config": {"later": 1}})
    assert stop_config({}) == StopConfig()
