"""What the model is told of inputs, and what is made of what it sends."""

import contextlib
import json
from typing import Annotated, ClassVar, Literal

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Meta

from dragoman.agents.native.tools.ask import Ask
from dragoman.agents.native.tools.edit import Edit
from dragoman.agents.native.tools.glob import Glob
from dragoman.agents.native.tools.grep import Grep
from dragoman.agents.native.tools.memory import Memory
from dragoman.agents.native.tools.notebook import NotebookEdit
from dragoman.agents.native.tools.read import Read, ReadInput
from dragoman.agents.native.tools.schema import InvalidInput, decode, input_schema, tool_spec
from dragoman.agents.native.tools.skill import Skill
from dragoman.agents.native.tools.todos import TodoWrite
from dragoman.agents.native.tools.tool import Tool, ToolInput
from dragoman.agents.native.tools.write import Write

TOOLS: list[Tool] = [
    *(Ask(), Edit(), Glob(), Grep(), Memory(), NotebookEdit(), Read(), Skill(), TodoWrite(), Write()),
]


class Inner(msgspec.Struct, rename="camel"):
    """For us, not for the model."""

    some_size: Annotated[int, Meta(ge=1, description="How large")]


class EverythingInput(ToolInput, frozen=True):
    """For us, not for the model."""

    one: Annotated[Inner, Meta(description="One")]
    maybe: Annotated[Inner | None, Meta(description="Perhaps")] = None
    several: tuple[Inner, ...] = ()
    kind: Literal["a", "b"] = "a"
    ratio: float = 0.5
    text_or_number: str | int = ""


class Everything:
    name: ClassVar[str] = "everything"
    description: ClassVar[str] = "All."
    input: ClassVar[type[ToolInput]] = EverythingInput


def test_a_schema_has_everything_in_place() -> None:
    inner = {
        "type": "object",
        "properties": {"someSize": {"description": "How large", "type": "integer", "minimum": 1}},
        "required": ["someSize"],
        "additionalProperties": False,
    }
    assert input_schema(EverythingInput) == {
        "type": "object",
        "properties": {
            "one": {**inner, "description": "One"},
            "maybe": {**inner, "description": "Perhaps"},
            "several": {"type": "array", "items": inner, "default": []},
            "kind": {"type": "string", "enum": ["a", "b"], "default": "a"},
            "ratio": {"type": "number", "default": 0.5},
            "textOrNumber": {"anyOf": [{"type": "string"}, {"type": "integer"}], "default": ""},
        },
        "required": ["one"],
        "additionalProperties": False,
    }


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_every_tool_is_described_to_the_last_field(tool: Tool) -> None:
    spec = tool_spec(tool)
    assert (spec.name, spec.description) == (tool.name, tool.description)
    assert json.dumps(spec.schema) == json.dumps(tool_spec(tool).schema)
    text = json.dumps(spec.schema)
    assert "$ref" not in text
    assert "null" not in text
    assert all(each.get("description") for each in spec.schema["properties"].values())


@pytest.mark.parametrize(
    ("tool", "required", "optional"),
    [
        (Read(), ["filePath"], ["offset", "limit"]),
        (Write(), ["filePath", "content"], []),
        (Edit(), ["filePath", "oldString", "newString"], ["replaceAll"]),
        (Glob(), ["pattern"], ["cwd"]),
        (Grep(), ["pattern"], ["path", "fileGlob", "contextLines", "caseSensitive"]),
        (Ask(), ["question"], ["options"]),
        (TodoWrite(), ["todos"], []),
        (Skill(), ["skillName"], []),
        (NotebookEdit(), ["notebookPath", "cellIndex"], ["newSource", "cellType", "editMode"]),
        (Memory(), ["action"], ["key", "content", "query"]),
    ],
    ids=lambda value: value.name if hasattr(value, "name") else "",
)
def test_the_fields_are_the_protocols(tool: Tool, required: list[str], optional: list[str]) -> None:
    schema = tool_spec(tool).schema
    assert schema["required"] == required
    assert list(schema["properties"]) == required + optional


@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        (Read(), "", "it is not valid JSON"),
        (Read(), '{"filePath": "a"', "it is not valid JSON"),
        (Read(), '{"filePath": "a", "offset": NaN}', "it is not valid JSON"),
        (Read(), '{"filePath": "\\ud800"}', "it is not valid JSON"),
        (Read(), "[" * 100_000, "it is not valid JSON"),
        (Read(), "[]", "expected a JSON object with its fields"),
        (Read(), "null", "expected a JSON object with its fields"),
        (Read(), '"a.txt"', "expected a JSON object with its fields"),
        (Read(), "{}", "filePath is required (given: nothing)"),
        (Read(), '{"path": 3}', "filePath is required (given: path)"),
        (Read(), '{"filePath": 3}', "filePath: expected string, got integer"),
        (Read(), '{"filePath": null}', "filePath: expected string, got null"),
        (Read(), '{"filePath": "a", "offset": 0}', "offset: expected integer >= 1"),
        (Read(), '{"filePath": "a", "limit": 20001}', "limit: expected integer <= 20000"),
        (Read(), '{"filePath": "a", "offset": 1.5}', "offset: expected integer, got number"),
        (Read(), '{"filePath": "a", "offset": "1"}', "offset: expected integer, got string"),
        (Edit(), '{"filePath": "a", "oldString": "", "newString": ""}', "oldString: expected string of length >= 1"),
        (Write(), json.dumps({"filePath": "a", "content": "x" * 2_000_001}), "content: expected string of length <= 2"),
        (Grep(), '{"pattern": "a", "contextLines": 51}', "contextLines: expected integer <= 50"),
        (Grep(), '{"pattern": "a", "caseSensitive": "no"}', "caseSensitive: expected boolean, got string"),
        (Memory(), '{"action": "forget"}', "action: expected one of read, search, write"),
        (NotebookEdit(), '{"notebookPath": "a", "cellIndex": -1}', "cellIndex: expected integer >= 0"),
        (TodoWrite(), '{"todos": "none"}', "todos: expected array, got string"),
        (TodoWrite(), '{"todos": [{"content": "a", "activeForm": "b"}]}', "todos[0].status is required"),
        (
            TodoWrite(),
            '{"todos": [{"content": "a", "activeForm": "b", "status": "done"}]}',
            "todos[...].status: expected one of completed, in_progress, pending",
        ),
        (
            TodoWrite(),
            '{"todos": [{"content": "", "activeForm": "b", "status": "pending"}]}',
            "todos[0].content: expected string of length >= 1",
        ),
    ],
)
def test_a_wrong_input_is_refused_by_the_name_of_its_field(tool: Tool, arguments: str, said: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        decode(tool, arguments)
    text = str(refused.value).replace("[0]", "[...]")
    assert text.startswith(f"Invalid input for {tool.name}: {said}".replace("[0]", "[...]"))
    assert len(text) < 300


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ('{"filePath": "a"}', ReadInput(file_path="a", offset=1, limit=2000)),
        ('{"filePath": "a", "offset": null, "limit": null}', ReadInput(file_path="a")),
        ('{"filePath": "a", "offset": 7.0}', ReadInput(file_path="a", offset=7)),
        ('{"filePath": "a", "why": "because"}', ReadInput(file_path="a")),
        ('{"filePath": "a", "filePath": "b"}', ReadInput(file_path="b")),
    ],
)
def test_what_models_write_for_a_valid_input_is_taken(arguments: str, expected: ReadInput) -> None:
    assert decode(Read(), arguments) == expected


def fields(tool: Tool) -> st.SearchStrategy[dict[str, object]]:
    names = [field.encode_name for field in msgspec.structs.fields(tool.input)]
    leaf = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
    anything = leaf | st.lists(leaf | st.dictionaries(st.sampled_from(["content", "status"]), leaf), max_size=3)
    return st.dictionaries(st.sampled_from([*names, "other"]), anything)


@settings(deadline=None)
@given(st.data())
def test_any_json_is_decoded_or_refused(data: st.DataObject) -> None:
    tool = data.draw(st.sampled_from(TOOLS))
    arguments = json.dumps(data.draw(fields(tool)))
    with contextlib.suppress(InvalidInput):
        assert isinstance(decode(tool, arguments), tool.input)


@settings(deadline=None)
@given(st.text())
def test_any_text_is_decoded_or_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        decode(Read(), text)
