"""Facts as the lines that a person reads."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.cli.chat_text import PROMPT, plain
from dragoman.cli.chat_view import View

Fact = dict[str, Any]


def delta(text: str, *, kind: str = "text", part: str = "p") -> Fact:
    return {"type": "part.delta", "turn": "t", "part": part, "kind": kind, "text": text}


def begun(*, kind: str = "text", part: str = "p") -> Fact:
    return {"type": "part.started", "turn": "t", "part": part, "kind": kind}


def over(*, kind: str = "text", part: str = "p") -> Fact:
    return {"type": "part.ended", "turn": "t", "part": part, "kind": kind}


def message(text: str, role: str = "assistant") -> Fact:
    return {"type": "message.added", "message": "m", "role": role, "text": text, "turn": "t"}


def called(**given: Any) -> Fact:
    return {"type": "tool.called", "call": "c", "tool": "bash", "input": given}


def ended(status: str = "ok", **more: Any) -> Fact:
    return {"type": "tool.ended", "call": "c", "tool": "bash", "status": status, "duration_ms": 1200, **more}


def done(outcome: str = "completed", **more: Any) -> Fact:
    return {"type": "turn.ended", "turn": "t", "outcome": outcome, "duration_ms": 2345, **more}


def usage(message: str, given: int, made: int, cost: float | None = None, **more: Any) -> Fact:
    counts = {"input_tokens": given, "output_tokens": made, "cost_usd": cost, "model": "gpt"}
    return {"type": "usage.reported", "message": message, **counts, **more}


def shown(*facts: Fact, columns: int | None = None) -> list[str]:
    view = View(lambda: columns)
    return [plain(line) for fact in facts for line in view.take(fact)] + [plain(line) for line in view.tail()]


STARTED: Fact = {"type": "turn.started", "turn": "t", "prompt": "p"}


@pytest.mark.parametrize(
    ("facts", "lines"),
    [
        pytest.param([begun(), delta("two "), delta("words"), over(), message("two words")], ["two words"], id="text"),
        pytest.param([begun(), delta("one\ntwo")], ["one", "two"], id="the row that grows is the tail"),
        pytest.param(
            [
                {"type": "checkpoint.taken", "checkpoint": "cp-0000", "trigger": "initial"},
                {"type": "checkpoint.taken", "checkpoint": "cp-0001", "trigger": "manual"},
                {"type": "checkpoint.taken", "checkpoint": "cp-0002", "trigger": "auto", "problem": "disk\nfull"},
            ],
            ["· the folder is saved as cp-0001", "· the folder could not be saved: disk full"],
            id="checkpoints",
        ),
        pytest.param([message("never\nstreamed")], ["never", "streamed"], id="a message without deltas"),
        pytest.param(
            [delta("the end"), over(), message("all to the end")], ["all to the end"], id="came in the middle"
        ),
        pytest.param(
            [begun(kind="reasoning"), delta("hm", kind="reasoning"), begun(part="q"), delta("so", part="q")],
            ["hm", "so"],
            id="another part",
        ),
        pytest.param([begun(), delta("a\x1b[2"), delta("Jb\x07")], ["ab"], id="a model does not drive a terminal"),
        pytest.param([begun(kind="tool_input"), delta("{", kind="tool_input")], [], id="a tool's input is not text"),
        pytest.param([called(command="npm test"), ended()], ["● bash npm test … ok 1.2 s"], id="tool"),
        pytest.param([called(command="npm test")], ["● bash npm test …"], id="a tool that runs is the tail"),
        pytest.param(
            [called(command="false"), ended(output={"exitCode": 3})],
            ["● bash false … ok, exit code 3 1.2 s"],
            id="a command that failed",
        ),
        pytest.param(
            [called(filePath="a\nb"), ended("error", problem={"code": "x", "message": "no\nsuch"})],
            ["● bash a b … error: no such 1.2 s"],
            id="a tool that failed",
        ),
        pytest.param([called(odd=[1, 2]), ended("denied")], ['● bash {"odd": [1, 2]} … denied 1.2 s'], id="denied"),
        pytest.param(
            [called(command="x"), ended("denied", problem={"code": "x", "message": "No. They said: use y"})],
            ["● bash x … denied: No 1.2 s"],
            id="denied, with why",
        ),
        pytest.param([ended()], ["● bash … ok 1.2 s"], id="a tool that was called before we came"),
        pytest.param(
            [begun(), delta("I will run"), called(command="x"), ended()],
            ["I will run", "● bash x … ok 1.2 s"],
            id="a tool ends the row before it",
        ),
        pytest.param(
            [
                STARTED,
                usage("a", 1000, 50, 0.01),
                usage("a", 1200, 56, 0.0123),
                usage("b", 300, 4, 0.001, cached_tokens=100),
                done(),
            ],
            ["  2.3 s · 1,500 in (100 cached) · 60 out · $0.0133 · gpt"],
            id="usage: the last report of a message counts",
        ),
        pytest.param([usage("a", 1, 2, 0.5, estimated=True), done()], ["  2.3 s · 1 in · 2 out · about $0.5000 · gpt"]),
        pytest.param([usage("a", 0, 0), done()], ["  2.3 s · gpt"], id="nothing was counted"),
        pytest.param([done()], ["  2.3 s"], id="no usage known"),
        pytest.param(
            [done("failed", problem={"code": "x", "message": "no\x1b[2J key"})],
            ["✗ the turn failed: no key", "  2.3 s"],
            id="failed",
        ),
        pytest.param(
            [begun(), delta("half a"), done("cancelled")], ["half a", "✗ cancelled", "  2.3 s"], id="cancelled"
        ),
        pytest.param(
            [
                {
                    "type": "todos.changed",
                    "todos": [
                        {"content": "Read", "status": "completed", "active_form": "Reading"},
                        {"content": "Write", "status": "in_progress", "active_form": "Writing"},
                        {"content": "Test", "status": "pending", "active_form": "Testing"},
                    ],
                }
            ],
            ["  ☑ Read", "  ▸ Writing", "  ☐ Test"],
            id="todos",
        ),
        pytest.param([{"type": "log.written", "line": "[MCP] connected"}], ["· [MCP] connected"], id="log"),
        pytest.param([{"type": "log.written", "line": "tool> bash {}"}], [], id="a log line that a tool's line says"),
        pytest.param([{"type": "log.written", "line": "x", "level": "debug"}], [], id="debug"),
        pytest.param(
            [{"type": "settings.changed", "changes": {"model": "gpt", "mode": None}}],
            ["· model gpt, mode as the server has it"],
            id="settings",
        ),
        pytest.param(
            [{"type": "context.compacted", "phase": "done", "tokens_before": 9000, "tokens_after": 100}],
            ["· the conversation was summed up: 9,000 tokens became 100"],
            id="compacted",
        ),
        pytest.param([{"type": "something.new", "field": 1}], [], id="a fact that is not known"),
    ],
)
def test_facts_become_lines(facts: list[Fact], lines: list[str]) -> None:
    assert shown(*facts) == lines


HEAD = "● {} … {} 1.2 s"


@pytest.mark.parametrize(
    ("tool", "status", "more", "lines"),
    [
        pytest.param("bash", "ok", {"output": {"stdout": "a\n\tb\n", "stderr": ""}}, ["  a", "      b"], id="printed"),
        pytest.param("bash", "ok", {"output": {"stdout": "a\n", "stderr": "b\n"}}, ["  a", "  b"], id="both"),
        pytest.param("bash", "ok", {"output": {"stdout": "\n", "stderr": "", "exitCode": 0}}, [], id="nothing"),
        pytest.param("read", "ok", {"output": "1\ta\n2\tb\n3\tc"}, ["  1    a", "  2    b", "  3    c"], id="three"),
        pytest.param("grep", "ok", {"output": "a\nb\nc\nd\n"}, ["  a", "  b", "  c", "  … 1 more line"], id="four"),
        pytest.param("glob", "ok", {"output": "a\n" * 40}, ["  a", "  a", "  a", "  … 37 more lines"], id="many"),
        pytest.param("webFetch", "ok", {"output": "x" * 101}, ["  " + "x" * 99 + "…"], id="long"),
        pytest.param("theirs", "ok", {"output": "\n\na\x1b[2Jb\x07\n\nc"}, ["  ab", "  ", "  c"], id="no terminal"),
        pytest.param("theirs", "ok", {"output": {"answer": 42}}, [], id="no text"),
        pytest.param("theirs", "ok", {"output": ["a"]}, [], id="a list"),
        pytest.param("todoWrite", "ok", {"output": "Todo list updated:"}, [], id="tasks"),
        pytest.param("ask", "ok", {"output": "red"}, [], id="a question"),
        pytest.param("edit", "ok", {"output": "Edit applied."}, [], id="an edit"),
        pytest.param("Write", "ok", {"output": "Wrote it."}, [], id="another agent's edit"),
        pytest.param("presentPlan", "ok", {"output": "The plan is accepted."}, [], id="a plan"),
        pytest.param("bash", "interrupted", {"output": "a"}, [], id="interrupted"),
    ],
)
def test_the_first_lines_of_what_a_tool_gave_are_shown(
    tool: str, status: str, more: dict[str, Any], lines: list[str]
) -> None:
    assert shown(ended(status, **{**more, "tool": tool})) == [HEAD.format(tool, status), *lines]


@pytest.mark.parametrize(
    ("message", "output", "lines"),
    [
        pytest.param("no such file", "no such file", ["● edit … error: no such file 1.2 s"], id="said already"),
        pytest.param("no such file", None, ["● edit … error: no such file 1.2 s"], id="no output"),
        pytest.param("one\ntwo", None, ["● edit … error: one two 1.2 s"], id="said already, in one line"),
        pytest.param(
            "one\n" + "x" * 100,
            None,
            ["● edit … error: one " + "x" * 95 + "… 1.2 s", "  one", "  " + "x" * 100],
            id="more than fits",
        ),
        pytest.param("timed out", {"stdout": "a"}, ["● edit … error: timed out 1.2 s", "  a"], id="printed before"),
    ],
)
def test_of_an_error_is_shown_what_its_line_does_not_say(message: str, output: Any, lines: list[str]) -> None:
    assert shown(ended("error", tool="edit", output=output, problem={"code": "x", "message": message})) == lines


def test_what_a_refused_command_gave_is_not_shown() -> None:
    problem = {"code": "denied", "message": "User rejected this command. They said: no"}
    output = {"stdout": "", "stderr": problem["message"], "exitCode": 1}
    assert shown(ended("denied", output=output, problem=problem)) == [
        "● bash … denied: User rejected this command 1.2 s"
    ]


def test_what_a_tool_gave_is_dim() -> None:
    assert View().take(ended(output="a"))[1:] == [[("dim", "  a")]]


def test_a_narrow_terminal_gets_rows_that_fit() -> None:
    facts = [begun(), delta("some words of a mo"), delta("del\n"), called(command="make all of it"), ended()]
    assert shown(*facts, columns=12) == ["some words", "of a model", "● bash make", "all of it …", "ok 1.2 s"]


def test_a_prompt_of_another_client_is_shown_and_ones_own_is_not() -> None:
    prompt = {"type": "prompt.submitted", "prompt": "p", "text": "hi", "by": "local", "via": "coop"}
    view = View(mine=lambda key: key == "mine")
    assert view.take({**prompt, "client_message_id": "mine"}) == []
    assert [plain(line) for line in view.take({**prompt, "client_message_id": "other"})] == [
        PROMPT + "hi",
        "  (by local via coop)",
    ]


def test_reasoning_is_dim() -> None:
    view = View()
    view.take(begun(kind="reasoning"))
    assert view.take(delta("hm\n", kind="reasoning")) == [[("dim", "hm")]]
