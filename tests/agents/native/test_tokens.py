"""Counting tokens, and telling from lengths that there cannot be too many."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as some

from dragoman.agents.native.providers.conversation import (
    AssistantMessage,
    Call,
    Image,
    Message,
    ModelRequest,
    Text,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from dragoman.agents.native.tokens import (
    count_messages,
    count_request,
    most_in_messages,
    most_in_text,
    most_in_tools,
)

MESSAGES: some.SearchStrategy[Message] = some.one_of(
    some.builds(UserMessage, some.text(), some.sampled_from([(), (Image("image/png", b"png"),)])),
    some.builds(
        lambda text, tool: AssistantMessage((Text(text), Call("1", tool, {"a": text}))), some.text(), some.text()
    ),
    some.builds(ToolMessage, some.just("1"), some.text(), some.text()),
)


@settings(deadline=None)  # the first count loads the encoding
@given(some.lists(MESSAGES, max_size=5), some.text(), some.text())
def test_what_lengths_allow_is_never_less_than_what_is_counted(
    messages: list[Message], system: str, description: str
) -> None:
    request = ModelRequest(
        model="m",
        system=system,
        messages=tuple(messages),
        tools=(ToolSpec("tool", description, {"type": "object"}),),
    )
    assert most_in_messages(messages) >= count_messages(messages)
    most = most_in_text(system) + most_in_tools(request.tools) + most_in_messages(messages)
    assert most >= count_request(request)
