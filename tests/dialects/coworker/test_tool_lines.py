"""Lines about tools: as recorded from the original, and what it had no cause to say."""

from __future__ import annotations

import json
import time
from collections import Counter
from typing import Any

import pytest

from dragoman.dialects.coworker.tool_lines import called, ended
from dragoman.dialects.coworker.tool_summaries import GIVEN
from dragoman.hub.events import Json, Problem, ToolCalled, ToolEnded
from dragoman.hub.events.base import Origin
from dragoman.hub.standing import OpenCall

from .recordings import names, received, recorded


def call(tool: str, given: Json = None, **more: Any) -> ToolCalled:
    return ToolCalled(call="c", tool=tool, input=given, turn="t", **more)


def end(tool: str, output: Json = None, status: Any = "ok", **more: Any) -> ToolEnded:
    return ToolEnded(call="c", tool=tool, status=status, output=output, turn="t", **more)


# What the original says, and we too

TODOS = [
    {"content": "Ask", "status": "in_progress", "activeForm": "Asking"},
    {"content": "Run", "status": "pending", "activeForm": "Running"},
]
NOTE = "/project/.agent/memory/people/sam.md"

OWN: dict[str, tuple[str, Json, Json, str, str]] = {
    "bash": (
        *("bash", {"command": "echo hi"}, {"stdout": "hi\n", "stderr": "", "exitCode": 0}),
        *('bash {"command":"echo hi","timeout":120000}', 'bash {"stdout":"hi\\n","stderr":"","exitCode":0}'),
    ),
    "bash with a time": (
        *("bash", {"timeout": 5000.0, "command": "x"}, {"stdout": "", "stderr": "é\u2028", "exitCode": 124}),
        *('bash {"command":"x","timeout":5000}', 'bash {"stdout":"","stderr":"é\u2028","exitCode":124}'),
    ),
    "read": (
        *("read", {"filePath": "notes/n.txt"}, "1\tone\n2\ttwo\n3\t"),
        *('read {"filePath":"notes/n.txt","limit":2000}', 'read {"chars":14}'),
    ),
    "read a part": (
        *("read", {"limit": 5, "filePath": "a", "offset": 3}, "3\t😀"),
        *('read {"filePath":"a","offset":3,"limit":5}', 'read {"chars":4}'),
    ),
    "write": (
        *("write", {"filePath": "notes/n.txt", "content": "one\ntwo\n"}, "Wrote 8 chars to /project/notes/n.txt"),
        *('write {"filePath":"notes/n.txt","chars":8}', 'write {"ok":true}'),
    ),
    "edit": (
        *("edit", {"filePath": "n", "oldString": "two", "newString": "three"}, "Edit applied."),
        *('edit {"filePath":"n","replaceAll":false}', 'edit {"ok":true}'),
    ),
    "glob": (
        *("glob", {"pattern": "**/*.txt"}, "notes/n.txt\nmade.txt\na.txt"),
        *('glob {"pattern":"**/*.txt"}', 'glob {"count":3}'),
    ),
    "glob elsewhere finds nothing": (
        *("glob", {"pattern": "*", "cwd": "src"}, "No files found."),
        *('glob {"pattern":"*","cwd":"src"}', 'glob {"count":0}'),
    ),
    "glob finds more than is shown": (
        *("glob", {"pattern": "*"}, "a\nb\n... truncated to the newest 2 of 7 matches"),
        *('glob {"pattern":"*"}', 'glob {"count":7}'),
    ),
    "glob is stopped": (
        *("glob", {"pattern": "*"}, "a\nb\n... incomplete: the search was stopped after 20 s; narrow it"),
        *('glob {"pattern":"*"}', 'glob {"count":2}'),
    ),
    "glob is stopped with more than is shown": (
        *("glob", {"pattern": "*"}, "a\n... truncated to the newest 1 of 9 matches\n... incomplete: the search was"),
        *('glob {"pattern":"*"}', 'glob {"count":9}'),
    ),
    "grep": (
        *("grep", {"pattern": "x"}, "a.txt:1:x"),
        *('grep {"pattern":"x","caseSensitive":true}', 'grep {"chars":9}'),
    ),
    "grep with everything": (
        *(
            "grep",
            {"caseSensitive": False, "contextLines": 2, "fileGlob": "*.py", "path": "src", "pattern": "x"},
            "No matches found.",
        ),
        'grep {"pattern":"x","path":"src","fileGlob":"*.py","contextLines":2,"caseSensitive":false}',
        'grep {"chars":17}',
    ),
    "ask freely": (
        *("ask", {"question": "What is your name?"}, "Sam"),
        *('ask {"question":"What is your name?"}', 'ask {"answer":"Sam"}'),
    ),
    "ask with options": (
        *("ask", {"question": "Which?", "options": ["PostgreSQL", "MySQL"]}, "MySQL"),
        *('ask {"question":"Which?","options":["PostgreSQL","MySQL"]}', 'ask {"answer":"MySQL"}'),
    ),
    "todoWrite": (
        *("todoWrite", {"todos": TODOS}, "Todo list updated:\n[in_progress] Ask\n[pending] Run"),
        *('todoWrite {"count":2}', 'todoWrite {"count":2}'),
    ),
    "spawnAgent": (
        *("spawnAgent", {"task": "say hello"}, "Hello from the fake model."),
        *('spawnAgent {"agentType":"general"}', 'spawnAgent {"chars":26}'),
    ),
    "notebookEdit": (
        *("notebookEdit", {"notebookPath": "a.ipynb", "cellIndex": 0, "newSource": "x"}, "Notebook updated: replace"),
        *('notebookEdit {"notebookPath":"a.ipynb","cellIndex":0,"editMode":"replace"}', 'notebookEdit {"ok":true}'),
    ),
    "webFetch": (
        *("webFetch", {"url": "https://example.com"}, "text"),
        *('webFetch {"url":"https://example.com","maxLength":50000}', 'webFetch {"chars":4}'),
    ),
    "webSearch": (
        *("webSearch", {"query": "q"}, "1. a"),
        *('webSearch {"query":"q","maxResults":10}', 'webSearch {"chars":4}'),
    ),
    "presentPlan": (
        *("presentPlan", {"plan": "# Do it"}, "The plan was accepted."),
        *('presentPlan {"chars":7}', 'presentPlan {"answer":"The plan was accepted."}'),
    ),
}


@pytest.mark.parametrize(("tool", "given", "output", "begins", "ends"), OWN.values(), ids=OWN.keys())
def test_a_call_and_its_result(tool: str, given: Json, output: Json, begins: str, ends: str) -> None:
    begun = call(tool, given)
    assert called(begun, None) == f"tool> {begins}"
    assert ended(end(tool, output), begun, None) == f"tool< {ends}"
    assert ended(end(tool, output), OpenCall("c", tool, 1, 0, "t", given), None) == f"tool< {ends}"
    assert called(begun, "explore") == f"[sub:explore] tool> {begins}"
    assert ended(end(tool, output), begun, "explore") == f"[sub:explore] tool< {ends}"


MEMORY: dict[str, tuple[Json, str, dict[str, Json], str, str]] = {
    "write": (
        *({"action": "write", "key": "people/sam", "content": "Sam"}, "Memory written: people/sam", {"path": NOTE}),
        '{"action":"write","key":"people/sam","hasContent":true}',
        f'{{"action":"write","path":"{NOTE}"}}',
    ),
    "read": (
        *({"action": "read", "key": "people/sam"}, "Sam likes tea", {"path": NOTE}),
        '{"action":"read","key":"people/sam","hasContent":false}',
        f'{{"action":"read","path":"{NOTE}"}}',
    ),
    "read what is not there": (
        *({"action": "read", "key": "x"}, 'Memory key "x" not found.', {}),
        *('{"action":"read","key":"x","hasContent":false}', '{"action":"read","found":false}'),
    ),
    "read what every session is given": (
        *({"action": "read"}, "Hello", {}),
        *('{"action":"read","hasContent":false}', '{"action":"read","chars":5}'),
    ),
    "search": (
        *({"action": "search", "query": "tea"}, "sam:1:tea", {}),
        *('{"action":"search","hasContent":false,"query":"tea"}', '{"action":"search","chars":9}'),
    ),
}


@pytest.mark.parametrize(("given", "output", "detail", "begins", "ends"), MEMORY.values(), ids=MEMORY.keys())
def test_memory(given: Json, output: str, detail: dict[str, Json], begins: str, ends: str) -> None:
    begun = call("memory", given)
    assert called(begun, None) == f"tool> memory {begins}"
    assert ended(end("memory", output, detail=detail), begun, None) == f"tool< memory {ends}"


@recorded
@pytest.mark.parametrize("name", names())
def test_the_lines_of_a_recording(name: str) -> None:
    """All that it says of tools, from the calls and results in its chunks."""
    frames = received(name, "log", "model_stream_chunk")
    lines = Counter(frame["line"] for frame in frames if frame["type"] == "log" and frame["line"].startswith("tool"))
    lines -= Counter(UNLIKE_OURS.get(name))
    assert lines == told(frames) - Counter(UNLIKE_OURS.get(name))


ELIDED = "<listing elided>"
UNLIKE_OURS = {
    # Its turn had been cancelled: the original lets the command go on, and tells of its end.
    "cancel_during_bash": ['tool< bash {"stdout":"","stderr":"","exitCode":0}'],
    # Whoever recorded it left a listing out, with the end of the line.
    "turn_outside_scope": [
        f'tool< bash {{"stdout":"{ELIDED}',
        f'tool< bash {{"stdout":"{ELIDED}","stderr":"","exitCode":0}}',
    ],
}


def told(frames: list[dict[str, Any]]) -> Counter[str]:
    calls: dict[str, ToolCalled] = {}
    lines: list[str | None] = []
    for frame in frames:
        part = frame.get("part", {})
        match frame.get("partType"):
            case "tool_call":
                mcp = part["toolName"].startswith("mcp__")
                begun = call(part["toolName"], part["input"], invalid="invalid" in part, dynamic=mcp)
                calls[part["toolCallId"]] = begun
                lines.append(called(begun, None))
            case "tool_result" | "tool_error":
                begun = calls[part["toolCallId"]]
                status = "ok" if frame["partType"] == "tool_result" else "error"
                detail = {"path": NOTE} if begun.tool == "memory" else {}
                lines.append(ended(end(begun.tool, part.get("output"), status, detail=detail), begun, None))
    return Counter(line for line in lines if line)


# Where nothing is said

SILENT = {
    "skills": call("skill", {"skillName": "pdf"}),
    "calls of no tool": call("nosuchtool", {"a": 1}, dynamic=True, invalid=True),
    "calls that are not what a tool takes": call("read", {"path": 3}, invalid=True),
    "a server's tools": call("mcp__demo__add", {"a": 2}, dynamic=True),
    "the provider's tools": call("webSearch", {"query": "x"}, executor="provider"),
}


@pytest.mark.parametrize("silent", SILENT.values(), ids=SILENT.keys())
def test_nothing_is_said_of(silent: ToolCalled) -> None:
    assert called(silent, None) is None
    for status in ("ok", "error", "denied", "interrupted"):
        assert ended(end(silent.tool, "x", status), silent, None) is None


def test_nothing_is_said_of_a_result_of_a_call_that_could_not_be_made_and_is_not_at_hand() -> None:
    for code in ("invalid_input", "no_such_tool"):
        failed = end("nosuchtool", status="error", problem=Problem(code, "no"))
        assert ended(failed, None, None) is None
    assert ended(end("skill", "text"), None, None) is None
    assert ended(end("", "text", origin=Origin("log")), None, None) is None


@pytest.mark.parametrize("tool", sorted(GIVEN))
@pytest.mark.parametrize("status", ["error", "interrupted"])
def test_the_end_of_one_of_ours_that_failed_is_told_by_its_error_alone(tool: str, status: str) -> None:
    failed = end(tool, status=status, problem=Problem("tool_failed", "no such file"))
    assert ended(failed, call(tool), None) is None


def test_a_refused_command_is_told_as_the_model_is() -> None:
    refused = {"stdout": "", "stderr": "User rejected this command.", "exitCode": 1}
    line = ended(end("bash", refused, "denied"), call("bash", {"command": "rm -rf ./old"}), None)
    assert line == 'tool< bash {"stdout":"","stderr":"User rejected this command.","exitCode":1}'


def test_any_other_refusal_is_told() -> None:
    assert ended(end("write", "User rejected this.", "denied"), call("write"), None) == 'tool< write {"ok":false}'


# Others' tools

FOREIGN: dict[str, tuple[str, Json, str]] = {
    "an object": ("Bash", {"command": "ls", "description": "List"}, 'Bash {"command":"ls","description":"List"}'),
    "a name of ours": ("bash", {"command": "ls", "description": "x"}, 'bash {"command":"ls","description":"x"}'),
    "a text": ("apply_patch", "*** Begin", 'apply_patch {"input":"*** Begin"}'),
    "nothing": ("Stop", None, "Stop {}"),
    "a list": ("exec", [1.0, "ä", None, True], 'exec {"input":[1,"ä",null,true]}'),
    "a name of several lines": ("a\nb", {}, "a b {}"),
    "numbers": (
        "n",
        {"a": 1e21, "b": 0.1, "c": 2**60, "d": 10**400},
        'n {"a":1e+21,"b":0.1,"c":1152921504606847000,"d":null}',
    ),
}


@pytest.mark.parametrize("executor", ["agent", "client"])
@pytest.mark.parametrize(("tool", "given", "line"), FOREIGN.values(), ids=FOREIGN.keys())
def test_a_tool_that_is_not_ours(tool: str, given: Json, line: str, executor: Any) -> None:
    begun = call(tool, given, executor=executor)
    assert called(begun, None) == f"tool> {line}"
    name = line.partition(" {")[0]
    assert ended(end(tool, {"stdout": "x"}), begun, "Explore") == f'[sub:Explore] tool< {name} {{"ok":true}}'
    assert ended(end(tool, "é😀"), begun, None) == f'tool< {name} {{"ok":true,"chars":3}}'
    command = end(tool, {"stdout": "x", "stderr": "", "exitCode": 2})
    assert ended(command, begun, None) == f'tool< {name} {{"ok":true,"exitCode":2}}'
    failed = end(tool, status="error", problem=Problem("tool_failed", "exit 1"))
    assert ended(failed, begun, None) == f'tool< {name} {{"ok":false,"error":"exit 1"}}'


def test_what_somebody_else_reports_is_not_ours_whatever_its_name() -> None:
    seen = Origin("log")
    assert called(call("read", {"filePath": "x", "lines": 3}, origin=seen), None) == (
        'tool> read {"filePath":"x","lines":3}'
    )
    open_ = OpenCall("c", "read", 1, 0, None, {"filePath": "x"})
    assert ended(end("", "text", origin=seen), open_, None) == 'tool< read {"ok":true,"chars":4}'
    assert ended(end("read", "text", origin=seen), None, None) == 'tool< read {"ok":true,"chars":4}'


# Bounds

HUGE = "é" * 2_000_000
DEEP: Json = "x"
for _ in range(120):
    DEEP = {"a": [DEEP]}


@pytest.mark.parametrize("executor", ["server", "agent"])
@pytest.mark.parametrize(
    "given",
    [
        {"command": HUGE},
        {"command": HUGE, "filePath": HUGE, "pattern": HUGE, "question": HUGE, "options": [HUGE] * 50},
        {"command": DEEP},
        {"command": [[HUGE] * 100] * 100},
        {str(number): {HUGE: HUGE} for number in range(1000)},
        HUGE,
        [HUGE] * 1000,
    ],
    ids=["text", "texts", "deep", "wide", "keys", "bare text", "bare list"],
)
def test_a_line_has_an_end_and_is_json(given: Json, executor: Any) -> None:
    most = 50_000 if executor == "server" else 3_000
    for tool in GIVEN:
        begun = call(tool, given, executor=executor)
        started = time.process_time()
        lines = [called(begun, None), ended(end(tool, {"stdout": HUGE, "stderr": HUGE, "exitCode": 1}), begun, None)]
        assert time.process_time() - started < 0.5
        for line in filter(None, lines):
            assert len(line) < most
            json.loads(line.split(" ", 2)[2])


def test_what_is_left_out_is_said() -> None:
    line = called(call("bash", {"command": "x" * 50_000}), None)
    assert line is not None
    assert json.loads(line.removeprefix("tool> bash "))["command"] == "x" * 40_993 + "...[truncated 9007 chars]"
    line = called(call("Bash", {"command": "x" * 501, "more": list(range(20))}, executor="agent"), None)
    assert line is not None
    told = json.loads(line.removeprefix("tool> Bash "))
    assert told == {
        "command": "x" * 500 + "...[truncated 1 chars]",
        "more": [*range(16), "[truncated 4 items]"],
    }


def test_all_that_a_command_may_say_is_told() -> None:
    """As in the original: 30,000 characters of output, 10,000 of complaints."""
    output = {"stdout": "o" * 30_000, "stderr": "e" * 10_000, "exitCode": 0}
    line = ended(end("bash", output), call("bash", {"command": "x"}), None)
    assert line is not None
    assert json.loads(line.removeprefix("tool< bash ")) == output
