"""What the scripted model says: chosen by a directive in the newest text of the user. Pure; knows no wire format."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, replace
from typing import Any, Literal

SHELL_TOOLS = ("Bash", "exec_command", "shell_command", "shell", "run_shell_command", "bash")
WRITE_TOOLS = ("Write", "write_file", "write")
ASK_TOOLS = ("AskUserQuestion", "request_user_input", "ask_user", "ask_user_question", "question")
AGENT_TOOLS = ("Agent", "Task", "multi_agent_v1.spawn_agent")
PLAN_TOOLS = ("ExitPlanMode", "exit_plan_mode")

FINISHED = "The tool finished. All done."
GREETING = "Hello from the scripted model."
PLAN = "# Plan\n\n1. Write hello.txt\n2. Check it\n"
SLOW_WORDS, SLOW_PAUSE = 200, 0.25
QUICK_PAUSE = 0.02

_DIRECTIVE = re.compile(r"\[\[(\w+)(?::(.*?))?\]\]", re.DOTALL)
_INJECTED = re.compile(
    r"<(system-reminder|environment_context|user_instructions|turn_aborted|session_context)>.*?</\1>", re.DOTALL
)
_PLAN_FILE = re.compile(r"/[^\s\"\\`]+/plans/[\w.-]+\.md")

_PLAN_FOLDER = re.compile(r"/[^\s\"\\`]+/plans(?=[/`\s\"\\])")

_QUESTIONS: tuple[tuple[str, str, tuple[tuple[str, str], ...]], ...] = (
    ("Database", "Which database should we use?", (("PostgreSQL", "Relational"), ("SQLite", "Embedded"))),
    ("Cache", "Which cache?", (("Redis", "Networked"), ("None", "No cache"))),
)
_ONE_QUESTION = (("Mode", "Proceed how?", (("Fast", "Quick"), ("Safe", "Careful"))),)


@dataclass(frozen=True)
class Item:
    """One thing in a conversation: what the user wrote, what a tool gave back, or that the model spoke."""

    kind: Literal["text", "result", "model"]
    text: str = ""


@dataclass(frozen=True)
class Asked:
    """A request for a completion, whatever the wire. ``results`` came after the newest text of the user."""

    user_text: str
    results: tuple[str, ...]
    tools: tuple[str, ...]
    schema: str = ""
    """The JSON schema that the answer must fit, as text; "" if none is asked for."""
    whole: str = ""
    """The body as text, for what can only be found there."""


@dataclass(frozen=True)
class Say:
    """Plain text, a word at a time."""

    text: str
    pause: float = QUICK_PAUSE


@dataclass(frozen=True)
class Call:
    """One tool call. ``raw`` is the input of a tool that takes text instead of JSON; ``also`` are called with it."""

    tool: str
    arguments: dict[str, Any] = field(default_factory=dict)
    raw: str | None = None
    also: tuple[Call, ...] = ()

    @property
    def all(self) -> tuple[Call, ...]:
        return (self, *self.also)


@dataclass(frozen=True)
class Fail:
    """An error of the API."""

    status: int


Act = Say | Call | Fail


def asked(items: list[Item], tools: list[str], *, schema: str = "", whole: str = "") -> Asked:
    """Reduce a conversation to its newest text and what tools gave back since."""
    text, results = "", []
    for item in reversed(items):
        if item.kind == "result":
            results.append(item.text)
        elif item.kind == "text" and (said := _INJECTED.sub("", item.text).strip("\n")):
            text = said
            break
    return Asked(text, tuple(reversed(results)), tuple(tools), schema, whole)


def act(request: Asked) -> Act:
    """What the model does now."""
    if request.schema or not request.tools:
        return Say(_side_answer(request.schema), 0)
    found = _DIRECTIVE.search(request.user_text)
    if found is None:
        return Say(FINISHED if request.results else GREETING)
    rounds = _rounds(found[1], found[2] or "", request)
    done = len(request.results)
    return rounds[done] if done < len(rounds) else Say(FINISHED)


def _rounds(verb: str, argument: str, request: Asked) -> list[Act]:
    """The acts of one turn; after each but the last a tool result must come."""
    tools = request.tools
    if verb == "say":
        return [Say(argument)]
    if verb == "slow":
        words = (f"word{n}" + ("\n\n" if n % 10 == 9 else " ") for n in range(SLOW_WORDS))
        return [Say("".join(words), SLOW_PAUSE)]
    if verb == "error":
        return [Fail(int(argument))]
    if verb == "bash":
        return [_shell(tools, argument)]
    if verb == "esc":
        return [_shell(tools, argument, escalated=True)]
    if verb == "multi":
        return [_shell(tools, command) for command in argument.split("|")]
    if verb == "par":
        return [_together([_shell(tools, command) for command in argument.split("|")])]
    if verb == "agent":
        return [_delegate(tools, argument)]
    if verb == "write":
        return [_write(tools, argument, "hello\n")]
    if verb == "patch":
        return [_patch(tools, f"*** Begin Patch\n*** Add File: {argument}\n+hello\n*** End Patch\n")]
    if verb in {"ask1", "ask2"}:
        return [_ask(tools, _ONE_QUESTION if verb == "ask1" else _QUESTIONS)]
    if verb == "plan":
        return _plan(request)
    return [Say(f"unknown directive {verb}")]


def _side_answer(schema: str) -> str:
    """Answers to titles, topics and routers: small, and valid JSON where a schema is given."""
    if "next_speaker" in schema:
        return json.dumps({"reasoning": "done", "next_speaker": "user"})
    if "complexity_score" in schema:
        return json.dumps({"complexity_reasoning": "simple", "complexity_score": 10})
    if "model_choice" in schema:
        return json.dumps({"reasoning": "simple", "model_choice": "flash"})
    if "title" in schema:
        return json.dumps({"title": "Scripted session"})
    return "{}" if schema else "Scripted session"


def _pick(tools: tuple[str, ...], names: tuple[str, ...]) -> str | None:
    return next((name for name in names if name in tools), None)


def _shell(tools: tuple[str, ...], command: str, *, escalated: bool = False) -> Act:
    name = _pick(tools, SHELL_TOOLS)
    if name is None:
        return Say(f"no shell among {', '.join(tools)}")
    if name == "exec_command":
        arguments: dict[str, Any] = {"cmd": command}
    elif name == "shell":
        arguments = {"command": ["bash", "-lc", command]}
    else:
        arguments = {"command": command, "description": "Run a command"}
    if name == "run_shell_command":
        arguments["is_background"] = False
    if escalated:
        arguments |= {"sandbox_permissions": "require_escalated", "justification": "It needs to write a file."}
    return Call(name, arguments)


def _together(acts: list[Act]) -> Act:
    """Calls of one message; the first thing that is no call instead, if there is one."""
    calls = [it for it in acts if isinstance(it, Call)]
    if len(calls) < len(acts):
        return next(it for it in acts if not isinstance(it, Call))
    return replace(calls[0], also=tuple(calls[1:]))


def _delegate(tools: tuple[str, ...], task: str) -> Act:
    """A sub-agent that is told to say, or with a colon to do, something."""
    name = _pick(tools, AGENT_TOOLS)
    if name is None:
        return Say(f"no tool to delegate with among {', '.join(tools)}")
    told = f"[[{task}]]" if ":" in task else task
    if name.endswith("spawn_agent"):
        return Call(name, {"message": told})
    return Call(name, {"description": "A small task", "prompt": told, "subagent_type": "general-purpose"})


def _write(tools: tuple[str, ...], path: str, content: str) -> Act:
    name = _pick(tools, WRITE_TOOLS)
    if name is None:
        return Say(f"no tool to write with among {', '.join(tools)}")
    return Call(name, {"filePath" if name == "write" else "file_path": path, "content": content})


def _patch(tools: tuple[str, ...], patch: str) -> Act:
    if "apply_patch" in tools:
        return Call("apply_patch", raw=patch)
    # Codex gives that tool only to models it knows by name, but takes the same patch from a shell command.
    return _shell(tools, f"apply_patch <<'EOF'\n{patch}EOF")


def _ask(tools: tuple[str, ...], questions: tuple[tuple[str, str, tuple[tuple[str, str], ...]], ...]) -> Act:
    name = _pick(tools, ASK_TOOLS)
    if name is None:
        return Say(f"no tool to ask with among {', '.join(tools)}")
    asking = []
    for header, question, options in questions:
        entry: dict[str, Any] = {
            "header": header,
            "question": question,
            "options": [{"label": label, "description": description} for label, description in options],
        }
        if name == "request_user_input":
            entry["id"] = header.lower()
        elif name == "ask_user":
            entry |= {"type": "choice", "multiSelect": False}
        else:
            entry["multiSelect"] = False
        asking.append(entry)
    return Call(name, {"questions": asking})


def _plan(request: Asked) -> list[Act]:
    if "request_user_input" in request.tools or "exec_command" in request.tools:
        return [Say(f"<proposed_plan>\n{PLAN}</proposed_plan>")]
    files = _PLAN_FILE.findall(request.whole)
    if "Write" in request.tools:  # its plan is the file; the call carries none
        writing = [_write(request.tools, files[-1], PLAN)] if files else []
        return [*writing, Call("ExitPlanMode", {"plan": PLAN})]
    name = _pick(request.tools, PLAN_TOOLS)
    if name is None:
        return [Say(f"no tool for plans among {', '.join(request.tools)}")]
    folders = _PLAN_FOLDER.findall(request.whole)
    if not folders:
        return [Call(name, {"plan": PLAN})]
    # Gemini reads the plan from a file in its own folder for plans.
    return [_write(request.tools, f"{folders[-1]}/scripted.md", PLAN), Call(name, {"plan_filename": "scripted.md"})]
