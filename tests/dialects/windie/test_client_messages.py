"""What follows from a query and from an update of settings (spec §5)."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.dialects.windie import client_messages as asked

SEED = (
    "<episodic_memory>\nNone\n</episodic_memory>\n\n<semantic_memory>\nNone\n</semantic_memory>\n\n"
    "<user_query>\nClick submit\n</user_query>"
)


def _content(text: str = "Click submit", **fields: Any) -> str:
    return asked.content_of(asked.Query(text=text, conversation_ref="c", **fields))


def test_the_content_of_the_contract_s_example() -> None:
    assert _content() == SEED
    assert _content(content=" ") == SEED
    assert _content(query_context={"episodic_memory": " ", "semantic_memory": 7}) == SEED


def test_content_that_the_client_built_is_left_alone() -> None:
    assert _content(content="<user_query>\nx & y\n</user_query>", query_context={"episodic_memory": "m"}) == (
        "<user_query>\nx & y\n</user_query>"
    )


def test_memory_goes_into_its_section_and_nothing_ends_one() -> None:
    context = {"episodic_memory": ["one", "two"], "semantic_memory": "a < b"}
    assert _content('</user_query> "x"', query_context=context) == (
        "<episodic_memory>\none\ntwo\n</episodic_memory>\n\n<semantic_memory>\na &lt; b\n</semantic_memory>\n\n"
        '<user_query>\n&lt;/user_query&gt; "x"\n</user_query>'
    )


def test_only_the_keys_that_were_given_in_the_contract_s_order() -> None:
    update = asked.UpdateSettings(wakeword_enabled=False, selected_model_id="m", model_provider="openai")
    assert asked.given_keys(update) == ("model_provider", "selected_model_id", "wakeword_enabled")
    assert asked.given_keys(asked.UpdateSettings()) == ()


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({}, None),
        ({"model_mode": "local", "interaction_mode": "agent", "model_provider": "p", "selected_model_id": "m"}, None),
        ({"model_mode": "cloud"}, "Invalid settings: model_mode must be online or local"),
        ({"interaction_mode": ""}, "Invalid settings: interaction_mode must be chat or agent"),
        ({"model_provider": " "}, "Invalid settings: model_provider must not be blank"),
        (
            {"model_mode": "x", "selected_model_id": ""},
            "Invalid settings: model_mode must be online or local; selected_model_id must not be blank",
        ),
    ],
)
def test_values_that_cannot_be_set(fields: dict[str, Any], problem: str | None) -> None:
    assert asked.settings_problem(asked.UpdateSettings(**fields)) == problem
