"""How a conversation is spelled for OpenAI's two APIs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.agents.native.providers.chat_request import chat_messages
from dragoman.agents.native.providers.conversation import (
    AssistantMessage,
    Call,
    Image,
    Message,
    Reasoning,
    Text,
    ToolMessage,
    UserMessage,
)
from dragoman.agents.native.providers.responses_request import response_items

PNG = Image("image/png", b"\x89PNG")
PNG_URL = "data:image/png;base64,iVBORw=="


def chat(*messages: Message, system: str = "") -> list[dict[str, Any]]:
    return chat_messages(system, messages, "me")


def items(*messages: Message) -> list[dict[str, Any]]:
    return response_items(messages, "me")


def test_pictures_go_as_data_urls() -> None:
    message = UserMessage("what is this?", (PNG,))
    assert chat(message)[0]["content"] == [
        {"type": "text", "text": "what is this?"},
        {"type": "image_url", "image_url": {"url": PNG_URL}},
    ]
    assert items(message)[0]["content"] == [
        {"type": "input_text", "text": "what is this?"},
        {"type": "input_image", "image_url": PNG_URL},
    ]


ANSWER = AssistantMessage((Text("I look."), Call("c1", "read", {"path": "ä"}), Call("c2", "now")), "other")
RESULTS = (ToolMessage("c1", "read", "a\nb"), ToolMessage("c2", "now", "no clock", failed=True))


def test_calls_and_results_are_spelled_for_chat() -> None:
    assert chat(UserMessage("go"), ANSWER, *RESULTS, system="s") == [
        {"role": "system", "content": "s"},
        {"role": "user", "content": "go"},
        {
            "role": "assistant",
            "content": "I look.",
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "read", "arguments": '{"path":"ä"}'}},
                {"id": "c2", "type": "function", "function": {"name": "now", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "a\nb"},
        {"role": "tool", "tool_call_id": "c2", "content": "Error: no clock"},
    ]


def test_calls_and_results_are_spelled_for_responses() -> None:
    assert items(UserMessage("go"), ANSWER, *RESULTS) == [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": "I look."},
        {"type": "function_call", "call_id": "c1", "name": "read", "arguments": '{"path":"ä"}'},
        {"type": "function_call", "call_id": "c2", "name": "now", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "a\nb"},
        {"type": "function_call_output", "call_id": "c2", "output": "Error: no clock"},
    ]


def test_pictures_in_results_come_after_the_last_result_in_chat() -> None:
    shown = (ToolMessage("c1", "read", "a picture", images=(PNG,)), ToolMessage("c2", "now", "noon"))
    for after in ((), (UserMessage("next"),)):
        roles = [message["role"] for message in chat(UserMessage("go"), ANSWER, *shown, *after)]
        assert roles == ["user", "assistant", "tool", "tool", "user", *("user" for _ in after)]
    assert chat(ANSWER, *shown)[-1]["content"] == [
        {"type": "text", "text": "From read:"},
        {"type": "image_url", "image_url": {"url": PNG_URL}},
    ]


def test_pictures_in_results_are_part_of_them_in_responses() -> None:
    assert items(ToolMessage("c1", "read", "a picture", images=(PNG,)))[0]["output"] == [
        {"type": "input_text", "text": "a picture"},
        {"type": "input_image", "image_url": PNG_URL},
    ]


@pytest.mark.parametrize("given", ['{"a', "text", 7, [1], True])
def test_input_that_was_no_object_goes_back_as_one(given: Any) -> None:
    message = AssistantMessage((Call("c", "read", given),))
    for spelled in (chat(message)[0]["tool_calls"][0]["function"]["arguments"], items(message)[0]["arguments"]):
        assert json.loads(spelled) == {"input": given}


def test_ids_longer_than_the_api_takes_are_shortened_alike_for_call_and_result() -> None:
    long = "call_" + "x" * 60
    messages = (AssistantMessage((Call(long, "read"), Call(long + "y", "read"))), ToolMessage(long, "read", "a"))
    said, result = chat(*messages)
    ids = [call["id"] for call in said["tool_calls"]]
    assert ids[0] == result["tool_call_id"]
    assert len(set(ids)) == 2
    assert all(len(one) <= 40 for one in ids)
    assert [item["call_id"] for item in items(*messages)] == [*ids, ids[0]]


def test_an_answer_with_nothing_in_it_is_left_out() -> None:
    for parts in ((), (Text(""),), (Reasoning("hm", {"item": "rs", "encrypted_content": "e", "field": "reasoning"}),)):
        assert chat(AssistantMessage(parts, "me")) == []
        assert items(AssistantMessage(parts, "me")) == []


THOUGHT = Reasoning("hm", {"field": "reasoning_content", "details": [{"type": "reasoning.text", "signature": "s"}]})


def test_thoughts_go_back_in_chat_only_to_who_had_them_and_since_the_last_question() -> None:
    own = AssistantMessage((THOUGHT, Call("c", "now")), "me")
    result = ToolMessage("c", "now", "noon")
    assert chat(UserMessage("go"), own, result)[1]["reasoning_content"] == "hm"
    assert chat(UserMessage("go"), own, result)[1]["reasoning_details"] == [
        {"type": "reasoning.text", "signature": "s"}
    ]
    for messages in (
        (UserMessage("go"), own, result, UserMessage("next")),
        (UserMessage("go"), AssistantMessage(own.parts, "other"), result),
        (UserMessage("go"), AssistantMessage(own.parts), result),
    ):
        assert set(chat(*messages)[1]) == {"role", "content", "tool_calls"}


def test_thoughts_go_back_in_responses_as_one_item_in_encrypted_form() -> None:
    parts = (
        Reasoning("first", {"item": "rs_1"}),
        Reasoning("second", {"item": "rs_1", "encrypted_content": "e1"}),
        Reasoning("", {"item": "rs_2", "encrypted_content": "e2"}),
        Text("x"),
    )
    assert items(AssistantMessage(parts, "me")) == [
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [{"type": "summary_text", "text": "first"}, {"type": "summary_text", "text": "second"}],
            "encrypted_content": "e1",
        },
        {"type": "reasoning", "id": "rs_2", "summary": [], "encrypted_content": "e2"},
        {"role": "assistant", "content": "x"},
    ]
    assert items(AssistantMessage(parts, "other")) == [{"role": "assistant", "content": "x"}]


def test_thoughts_that_the_provider_cannot_know_again_are_left_out() -> None:
    parts = (Reasoning("a"), Reasoning("b", {"item": "rs"}), Reasoning("c", "odd"), Text("x"))
    assert items(AssistantMessage(parts, "me")) == [{"role": "assistant", "content": "x"}]


def test_a_thought_that_led_to_nothing_is_left_out() -> None:
    parts = (Text("x"), Reasoning("a", {"item": "rs", "encrypted_content": "e"}))
    assert items(AssistantMessage(parts, "me")) == [{"role": "assistant", "content": "x"}]


def test_thoughts_of_open_models_go_back_as_they_were() -> None:
    parts = (Reasoning("hm", {"item": "rs", "plain": True}), Call("c", "now"))
    assert items(AssistantMessage(parts, "me"))[0] == {
        "type": "reasoning",
        "id": "rs",
        "summary": [],
        "content": [{"type": "reasoning_text", "text": "hm"}],
    }


def test_the_phase_of_a_text_goes_back_to_who_gave_it() -> None:
    part = Text("x", {"phase": "commentary"})
    assert items(AssistantMessage((part,), "me")) == [{"role": "assistant", "content": "x", "phase": "commentary"}]
    assert items(AssistantMessage((part,), "other")) == [{"role": "assistant", "content": "x"}]
