"""Inputs of our tools with their defaults, as the tools themselves have them and as recorded from the original."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from dragoman.agents.native.tools.ask import AskInput
from dragoman.agents.native.tools.bash import BashInput
from dragoman.agents.native.tools.edit import EditInput
from dragoman.agents.native.tools.glob import GlobInput
from dragoman.agents.native.tools.grep import GrepInput
from dragoman.agents.native.tools.memory import MemoryInput
from dragoman.agents.native.tools.notebook import NotebookEditInput
from dragoman.agents.native.tools.present_plan import PresentPlanInput
from dragoman.agents.native.tools.read import ReadInput
from dragoman.agents.native.tools.skill import SkillInput
from dragoman.agents.native.tools.spawn_agent import SpawnAgentInput
from dragoman.agents.native.tools.todos import TodoWriteInput
from dragoman.agents.native.tools.tool import ToolInput
from dragoman.agents.native.tools.web_fetch import WebFetchInput
from dragoman.agents.native.tools.web_search import WebSearchInput
from dragoman.agents.native.tools.write import WriteInput
from dragoman.dialects.coworker.tool_lines import given_input, with_defaults
from dragoman.dialects.coworker.tool_summaries import ABSENT, GIVEN, GOT, INPUTS, REQUIRED
from dragoman.hub.events import Json, ToolCalled

from .recordings import names, received, recorded


def call(tool: str, given: Json, **more: Any) -> ToolCalled:
    return ToolCalled(call="c", tool=tool, input=given, turn="t", **more)


STRUCTS: dict[str, type[ToolInput]] = {
    "bash": BashInput,
    "read": ReadInput,
    "write": WriteInput,
    "edit": EditInput,
    "glob": GlobInput,
    "grep": GrepInput,
    "ask": AskInput,
    "todoWrite": TodoWriteInput,
    "spawnAgent": SpawnAgentInput,
    "notebookEdit": NotebookEditInput,
    "skill": SkillInput,
    "memory": MemoryInput,
    "webFetch": WebFetchInput,
    "webSearch": WebSearchInput,
    "presentPlan": PresentPlanInput,
}

UNLIKE = {
    # What the server's settings say unless the model does: two minutes, as the description of the tool says.
    ("bash", "timeout"): 120_000,
    # The first line is where reading starts anyhow; the original says so only where it was given.
    ("read", "offset"): ABSENT,
    # None are offered.
    ("ask", "options"): ABSENT,
}


def test_every_tool_and_every_field_of_it_is_known() -> None:
    assert INPUTS.keys() == GIVEN.keys() == GOT.keys() == STRUCTS.keys()
    for tool, struct in STRUCTS.items():
        fields = {field.encode_name: default(tool, field) for field in msgspec.structs.fields(struct)}
        assert list(INPUTS[tool].items()) == list(fields.items())


def default(tool: str, field: msgspec.structs.FieldInfo) -> object:
    if field.required:
        return REQUIRED
    return UNLIKE.get((tool, field.encode_name), ABSENT if field.default is None else field.default)


DEFAULTS: dict[str, tuple[str, Json, Json]] = {
    "bash": ("bash", {"command": "x"}, {"command": "x", "timeout": 120_000}),
    "what is given stays": ("bash", {"command": "x", "timeout": 5}, {"command": "x", "timeout": 5}),
    "null is left out": ("read", {"filePath": "x", "offset": None}, {"filePath": "x", "limit": 2000}),
    "null is the default": ("webFetch", {"url": "x", "maxLength": None}, {"url": "x", "maxLength": 50_000}),
    "a whole number": ("read", {"filePath": "x", "offset": 2.0}, {"filePath": "x", "offset": 2, "limit": 2000}),
    "what the tool does not have goes": ("glob", {"pattern": "x", "more": 1}, {"pattern": "x"}),
    "no input of that tool": ("read", {"path": 3}, {"path": 3}),
    "no object": ("read", "text", "text"),
    "nothing": ("read", None, None),
    "no tool of ours": ("mcp__a__b", {"x": 1.5}, {"x": 1.5}),
}


@pytest.mark.parametrize(("tool", "given", "shown"), DEFAULTS.values(), ids=DEFAULTS.keys())
def test_with_defaults(tool: str, given: Json, shown: Json) -> None:
    assert json.dumps(with_defaults(tool, given)) == json.dumps(shown)
    assert given_input(call(tool, given)) == shown
    for other in (
        call(tool, given, executor="agent"),
        call(tool, given, dynamic=True),
        call(tool, given, invalid=True),
    ):
        assert given_input(other) == given


@recorded
@pytest.mark.parametrize("name", names())
def test_the_inputs_of_a_recording(name: str) -> None:
    """What the model wrote, as the provider's own events have it, becomes what the chunks say was called."""
    written: dict[str, str] = {}
    for frame in received(name, "model_stream_chunk"):
        part = frame["part"]
        if frame["partType"] == "raw" and part["raw"].get("type") == "response.output_item.done":
            item = part["raw"]["item"]
            if item["type"] == "function_call":
                written[item["call_id"]] = item["arguments"]
        if frame["partType"] == "tool_call":
            given = written.get(part["toolCallId"], json.dumps(part["input"]))
            begun = call(part["toolName"], json.loads(given), invalid="invalid" in part)
            assert json.dumps(given_input(begun)) == json.dumps(part["input"])
