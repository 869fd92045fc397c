"""The scripted model by itself: what a directive gives on each wire, tool rounds, and what the journal tells."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from .driven import ModelServer
from .model_script import FINISHED, GREETING, Call, Fail, Item, Say, act, asked

TOOLS = {"anthropic": "Bash", "responses": "exec_command", "chat": "bash", "gemini": "run_shell_command"}


@pytest.fixture(scope="module")
def model() -> Iterator[ModelServer]:
    server = ModelServer()
    yield server
    server.close()


def request(api: str, text: str, *, tools: bool = True) -> tuple[str, dict[str, Any]]:
    """The path and body of a streaming request with one message of the user."""
    name = TOOLS[api]
    message = {"role": "user", "content": text}
    if api == "anthropic":
        return "/v1/messages", {"model": "m", "stream": True, "messages": [message], "tools": [{"name": name}] * tools}
    if api == "responses":
        return "/v1/responses", {"model": "m", "stream": True, "input": [message], "tools": [{"name": name}] * tools}
    if api == "chat":
        offered = [{"type": "function", "function": {"name": name}}] * tools
        return "/v1/chat/completions", {"model": "m", "stream": True, "messages": [message], "tools": offered}
    contents = [{"role": "user", "parts": [{"text": text}]}]
    declared = [{"functionDeclarations": [{"name": name}]}] * tools
    return "/v1beta/models/m:streamGenerateContent", {"contents": contents, "tools": declared}


def post(model: ModelServer, path: str, body: dict[str, Any]) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", model.port, timeout=10)
    try:
        connection.request("POST", path, json.dumps(body))
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


@pytest.mark.parametrize("api", TOOLS)
def test_each_wire_says_calls_and_fails(model: ModelServer, api: str) -> None:
    begun = len(model.journal())
    assert "Brief" in post(model, *request(api, "[[say:Brief]]"))[1]
    called = post(model, *request(api, "[[bash:touch made]]"))[1]
    assert TOOLS[api] in called
    assert "touch made" in called.replace('"}{"', "")
    assert post(model, *request(api, "[[error:418]]"))[0] == 418
    assert "Scripted " in post(model, *request(api, "[[bash:no tool here]]", tools=False))[1]
    entries = model.journal()[begun:]
    assert [entry["user_text"] for entry in entries] == [
        "[[say:Brief]]",
        "[[bash:touch made]]",
        "[[error:418]]",
        "[[bash:no tool here]]",
    ]
    assert [entry["api"] for entry in entries] == [api] * 4
    assert [entry["tools_count"] for entry in entries] == [1, 1, 1, 0]
    assert all(entry["end"] >= entry["begin"] >= entry["at"] for entry in entries)


@pytest.mark.parametrize("api", TOOLS)
def test_each_wire_calls_several_tools_at_once(model: ModelServer, api: str) -> None:
    called = post(model, *request(api, "[[par:touch one|touch two]]"))[1].replace('"}{"', "")
    assert called.index("touch one") < called.index("touch two")
    assert model.journal()[-1]["did"] == f"call {TOOLS[api]}, {TOOLS[api]}"


def test_an_answer_that_is_given_up_is_noted(model: ModelServer) -> None:
    path, body = request("anthropic", "[[slow]]")
    connection = http.client.HTTPConnection("127.0.0.1", model.port, timeout=10)
    connection.request("POST", path, json.dumps(body))
    answer = connection.getresponse()
    assert answer.read(20)
    assert model.journal()[-1]["end"] is None
    answer.close()
    connection.close()
    deadline = time.monotonic() + 10
    while not (entry := model.journal()[-1])["cancelled"]:
        assert time.monotonic() < deadline
    assert entry["end"] is not None


def test_a_round_of_tools_ends_and_new_text_begins_another() -> None:
    said, result, spoke = Item("text", "[[multi:one|two]]"), Item("result", "ok"), Item("model")
    tools = ["Bash"]
    assert act(asked([said], tools)) == Call("Bash", {"command": "one", "description": "Run a command"})
    assert act(asked([said, spoke, result], tools)) == Call("Bash", {"command": "two", "description": "Run a command"})
    assert act(asked([said, spoke, result, spoke, result], tools)) == Say(FINISHED)
    # After an interruption the result and the new text come in one message.
    assert act(asked([said, spoke, result, Item("text", "[[error:500]]")], tools)) == Fail(500)


def test_what_the_agent_adds_is_not_the_users_text() -> None:
    items = [Item("text", "hello"), Item("text", "<system-reminder>\n[[error:500]]\n</system-reminder>")]
    assert act(asked(items, ["Bash"])) == Say(GREETING)
    assert asked(items, ["Bash"]).user_text == "hello"
