"""The start script: which entry counts, and what a shell makes of it."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest

from dragoman.agents.terminal.hooks.start_script import begin, compose, source_of
from dragoman.hub.errors import InvalidRequest
from dragoman.hub.events import HookAnswered
from dragoman.hub.hook_config import StartConfig, check_hook_settings, start_config


def config(**fields: Any) -> StartConfig:
    return start_config({"start_config": fields})


def run(script: str) -> str:
    return subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True).stdout


def test_text_reaches_the_agent_as_it_is() -> None:
    text = 'it\'s "$HOME" `x`\n\\n ü %s'
    assert run(compose(config(text=text), "startup")) == text


def test_shell_lines_follow_the_text() -> None:
    script = compose(config(text="one\n", shell=["echo two", "", "  ", "echo three"]), "startup")
    assert run(script) == "one\ntwo\nthree\n"
    assert not script.endswith("\n")


@pytest.mark.parametrize(
    ("source", "says"),
    [("startup", "all\n"), ("resume", "again\n"), ("clear", "")],
)
def test_an_entry_for_the_source_wins_entirely(source: str, says: str) -> None:
    given = config(text="all\n", event={"resume": {"shell": ["echo again"]}, "clear": {}})
    script = compose(given, source)
    assert (run(script), bool(script)) == (says, bool(says))


@pytest.mark.parametrize(
    ("payload", "source"),
    [
        ({"source": "resume", "session_type": "x"}, "resume"),
        ({"session_type": "init"}, "init"),
        ({"source": 1}, "unknown"),
        ({}, "unknown"),
    ],
)
def test_the_source(payload: Any, source: str) -> None:
    assert source_of(payload) == source


def test_the_fact_says_whether_something_was_injected() -> None:
    started = begin(config(text="x"), {"source": "startup", "session_id": "abc"})
    assert started.fact == HookAnswered(hook="start", source="startup", agent_session="abc", injected=True)
    assert begin(StartConfig(), {}).fact == HookAnswered(hook="start", source="unknown")


@pytest.mark.parametrize("value", [{"text": 1}, {"shell": "ls"}, {"shell": [1]}, {"event": {"clear": []}}, 1])
def test_a_start_config_that_cannot_be_one_is_refused(value: Any) -> None:
    with pytest.raises(InvalidRequest, match="start_config"):
        check_hook_settings({"start_config": value})
