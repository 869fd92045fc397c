"""The turns of the suite, as data: what the model says, what the person does meanwhile, how it has to end.

A turn's prompt names its script, so the model server gives the same answers whatever else is asked at the same time.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from dragoman.hub.events import Answer as Said
from dragoman.hub.tool_offers import ToolOffer
from tests.agents.native.model_server.script import (
    Answer,
    Broken,
    Failure,
    Gate,
    Part,
    Say,
    Search,
    Think,
    Usage,
    Use,
    pieces_of,
    use,
)
from tests.agents.native.model_server.script import Turn as Answered

LINK = "client-1"
"""The link whose client offers tools."""

# What the person does


class Reaches(msgspec.Struct, frozen=True):
    """Wait until the model's stream is at this gate."""

    gate: str


class Opens(msgspec.Struct, frozen=True):
    """Let the stream go on."""

    gate: str


class Rests(msgspec.Struct, frozen=True):
    """Wait until every call that was made has its result."""


class Asked(msgspec.Struct, frozen=True):
    """Wait until a decision of this kind is open."""

    kind: str


class Answers(msgspec.Struct, frozen=True):
    """Answer a decision of this kind, once it is open."""

    kind: str
    answer: Said


class Calling(msgspec.Struct, frozen=True):
    """Wait until a call of this tool has begun."""

    tool: str


class Exists(msgspec.Struct, frozen=True):
    """Wait until a tool made this file."""

    file: str


class Makes(msgspec.Struct, frozen=True):
    """Make an empty file, for which a tool waits."""

    file: str


class Cancels(msgspec.Struct, frozen=True):
    """Cancel the turn."""


class Steers(msgspec.Struct, frozen=True):
    """Say something for the turn that runs."""

    text: str


class Declares(msgspec.Struct, frozen=True):
    """Offer a client's tools."""

    tools: tuple[ToolOffer, ...]


class EndsCall(msgspec.Struct, frozen=True):
    """Give the result of a call that a client runs."""

    tool: str
    output: Any = None
    status: Any = "ok"


class EndsBundle(msgspec.Struct, frozen=True):
    """Give the results of a bundle, in the order of its steps; those that are missing were not run."""

    outputs: tuple[Any, ...]


class Leaves(msgspec.Struct, frozen=True):
    """The client goes away while its tool is called."""

    tool: str


class Retries(msgspec.Struct, frozen=True):
    """Wait until it is told that a model call is to be tried again."""


Deed = (
    Reaches
    | Opens
    | Rests
    | Asked
    | Answers
    | Calling
    | Exists
    | Makes
    | Cancels
    | Steers
    | Declares
    | EndsCall
    | EndsBundle
    | Leaves
    | Retries
)


class Turn(msgspec.Struct, frozen=True):
    """One turn. ``others`` are the scripts of sub-agents and of what is said meanwhile, by name."""

    name: str
    script: tuple[Answered, ...]
    deeds: tuple[Deed, ...] = ()
    others: dict[str, tuple[Answered, ...]] = {}
    outcome: str = "completed"
    settings: dict[str, Any] = {}
    files: dict[str, str] = {}
    calls: tuple[tuple[str, str], ...] = ()
    """How its own calls end, by tool, as they began: a client's begin together, after the answer."""
    streaming: bool = False
    """Whether the model still speaks when the turn is cancelled."""
    stops_with_calls: bool = False
    """Whether the model says that it just stopped, though it made calls."""
    malformed: bool = False
    """Whether the model's arguments are no JSON object."""
    refused: bool = False
    """Whether the provider's filter left nothing of the answer."""

    @property
    def unfinished(self) -> bool:
        """Whether the model's last answer does not come to its end."""
        return self.outcome == "failed" or self.streaming

    @property
    def prompt(self) -> str:
        """What the person says."""
        return f"Please do {self.name}. {directive(self.name)}"


def directive(name: str) -> str:
    """What has the model server give this script."""
    return f"[[script:{name}]]"


SPENT = Usage()


def say(text: str, *, usage: Usage | None = SPENT) -> Answer:
    """An answer of text in several pieces."""
    return Answer((Say(pieces_of(text)),), usage=usage)


def calls(*parts: Part) -> Answer:
    """An answer that calls tools."""
    return Answer(parts)


def bare(tool: str, text: str, **more: Any) -> Use:
    """A call whose arguments are this text."""
    return Use(tool, pieces_of(text) if text else (), **more)


YES = Said(accept=True, option=1)
NO = Said(accept=False, text="Not today.")
DONE = say("Done.")

NOTEBOOK = json.dumps(
    {
        "cells": [{"cell_type": "markdown", "metadata": {}, "source": ["old"]}],
        "metadata": {},
        "nbformat": 4,
        "nbformat_minor": 4,
    }
)

POINT = ToolOffer(
    name="point",
    description="Point at something.",
    parameters={"type": "object", "properties": {"x": {"type": "integer"}}},
)
CLICK = ToolOffer(name="click", description="Click.", parameters={"type": "object", "properties": {}})


def spawn(kind: str, script: str, **more: Any) -> Use:
    """A sub-agent that follows a script."""
    return use("spawnAgent", {"task": f"Look into it. {directive(script)}", "agentType": kind}, **more)


GLOB = use("glob", {"pattern": "*.none"})
"""A call that changes nothing and finds nothing."""

ALL = {"mode": "all"}
ASK = {"mode": "ask"}

ANSWERS: tuple[Turn, ...] = (
    # What is said
    Turn("plain-text", (say("Hello there, this is a plain answer."),)),
    Turn("thoughts-and-text", (Answer((Think(pieces_of("I wonder what to say.")), Say(pieces_of("This.")))),)),
    Turn("two-texts", (Answer((Say(pieces_of("First.")), Say(pieces_of("Second.")))),)),
    Turn("text-around-thoughts", (Answer((Say(("Before. ",)), Think(("Hm.",)), Say(("After.",)))),)),
    Turn("empty-answer", (Answer(()),)),
    Turn("empty-text", (Answer((Say(()),)),)),
    Turn("text-of-blanks", (Answer((Say((" ", "\n")),)),)),
    Turn("unicode", (say("Grüße, 世界 \N{GRINNING FACE} e\N{COMBINING ACUTE ACCENT}."),)),
    Turn("usage-in-detail", (say("Counted.", usage=Usage(input=900, output=80, reasoning=30, cached=600)),)),
    Turn("usage-untold", (say("Not counted.", usage=None),)),
    Turn("cut-at-its-length", (Answer((Say(("As far as it ",)),), finish="length"),)),
    Turn("filtered", (Answer((Say(("I must ",)),), finish="content_filter"),)),
    Turn("raw-parts", (say("Raw."),), settings={"raw_parts": True}),
    Turn("provider-search", (Answer((Search("dragoman", ("https://one.test/", "https://two.test/"), "Found it."),)),)),
    # Every tool
    Turn(
        "write-read-edit",
        (
            calls(
                Say(("I write. ",)), use("write", {"filePath": "a.txt", "content": "one\ntwo\nthree\n"}, id="call_w1")
            ),
            calls(use("read", {"filePath": "a.txt", "offset": 2}, id="call_r1")),
            calls(use("edit", {"filePath": "a.txt", "oldString": "two", "newString": "2"}, id="call_e1")),
            calls(use("read", {"filePath": "a.txt"})),
            DONE,
        ),
        settings={**ALL, "raw_parts": False},
        calls=(("write", "ok"), ("read", "ok"), ("edit", "ok"), ("read", "ok")),
    ),
    Turn(
        "look-around-in-parallel",
        (
            calls(
                Think(("Three looks at once.",)),
                use("glob", {"pattern": "**/*.py"}, id="call_g1"),
                use("grep", {"pattern": "needle"}, id="call_g2"),
                use("bash", {"command": "printf hello; printf oops >&2; exit 3"}, id="call_b1"),
                use("read", {"filePath": "pack/b.py"}, id="call_g3"),
            ),
            DONE,
        ),
        files={"pack/b.py": "needle = 1\n", "pack/c.txt": "no\n"},
        calls=(("glob", "ok"), ("grep", "ok"), ("bash", "ok"), ("read", "ok")),
    ),
    Turn(
        "todos-memory-skill-notebook",
        (
            calls(
                use("todoWrite", {"todos": [{"content": "Try", "status": "in_progress", "activeForm": "Trying"}]}),
                use("memory", {"action": "write", "key": "people/sam", "content": "Sam likes tea."}),
            ),
            calls(
                use("memory", {"action": "search", "query": "TEA"}),
                use("skill", {"skillName": "tea"}),
                use("notebookEdit", {"notebookPath": "n.ipynb", "cellIndex": 0, "newSource": "new"}),
            ),
            calls(use("skill", {"skillName": "coffee"}), use("memory", {"action": "read"})),
            DONE,
        ),
        files={"n.ipynb": NOTEBOOK},
        calls=(
            *(("todoWrite", "ok"), ("memory", "ok"), ("memory", "ok"), ("skill", "ok"), ("notebookEdit", "ok")),
            *(("skill", "ok"), ("memory", "ok")),
        ),
    ),
    Turn(
        "web-fetch-of-this-machine",
        (calls(use("webFetch", {"url": "http://127.0.0.1:1/secret"})), DONE),
        calls=(("webFetch", "error"),),
    ),
    Turn(
        "web-search-without-a-key", (calls(use("webSearch", {"query": "tea"})), DONE), calls=(("webSearch", "error"),)
    ),
    Turn(
        "subagent-explores",
        (calls(spawn("explore", "explorer")), DONE),
        others={
            "explorer": (
                calls(use("glob", {"pattern": "*.txt"}), use("write", {"filePath": "no.txt", "content": "x"})),
                say("There is a.txt."),
            )
        },
        calls=(("spawnAgent", "ok"),),
    ),
    Turn(
        "subagents-of-two-kinds-at-once",
        (calls(spawn("research", "researcher"), spawn("general", "generalist")), DONE),
        others={
            "researcher": (calls(use("webFetch", {"url": "http://10.0.0.1/"})), say("It is not to be reached.")),
            "generalist": (
                calls(use("write", {"filePath": "sub.txt", "content": "sub"}), use("read", {"filePath": "a.txt"})),
                say("Written."),
            ),
        },
        calls=(("spawnAgent", "ok"), ("spawnAgent", "ok")),
    ),
    Turn(
        "subagent-fails",
        (calls(spawn("explore", "failing")), DONE),
        others={"failing": (Failure("unauthorized"),)},
        calls=(("spawnAgent", "error"),),
    ),
    # People
    Turn(
        "permission-given",
        (calls(use("bash", {"command": "touch made"})), DONE),
        deeds=(Answers("permission", YES),),
        settings=ASK,
        calls=(("bash", "ok"),),
    ),
    Turn(
        "permission-refused-with-words",
        (calls(use("bash", {"command": "rm -rf made"})), say("Then not.")),
        deeds=(Answers("permission", NO),),
        calls=(("bash", "denied"),),
    ),
    Turn(
        "edit-refused",
        (calls(use("write", {"filePath": "b.txt", "content": "x"})), say("Then not.")),
        deeds=(Answers("permission", Said(accept=False)),),
        calls=(("write", "denied"),),
    ),
    Turn(
        "question-and-permission-at-once",
        (calls(use("ask", {"question": "Which?", "options": ["a", "b"]}), use("bash", {"command": "touch c"})), DONE),
        deeds=(Asked("permission"), Answers("question", Said(option=2)), Answers("permission", YES)),
        calls=(("ask", "ok"), ("bash", "ok")),
    ),
    Turn(
        "plan-refused-then-accepted",
        (
            calls(use("write", {"filePath": "d.txt", "content": "x"}), use("presentPlan", {"plan": "# Do it"})),
            calls(use("presentPlan", {"plan": "# Do it better"})),
            calls(use("write", {"filePath": "d.txt", "content": "x"})),
            DONE,
        ),
        deeds=(
            Answers("plan", Said(accept=False, text="Better.")),
            Answers("plan", Said(accept=True, option=2)),
        ),
        settings={"mode": "plan"},
        calls=(("write", "denied"), ("presentPlan", "ok"), ("presentPlan", "ok"), ("write", "ok")),
    ),
)
"""In their order: later ones see what the earlier ones left in folder, settings and conversation."""

FAULTS: tuple[Turn, ...] = (
    # Clients
    Turn(
        "client-tool",
        (Answer((Gate("declared"), use("point", {"x": 3}))), DONE),
        deeds=(Reaches("declared"), Declares((POINT, CLICK)), Opens("declared")),
        calls=(("point", "error"),),
    ),
    Turn(
        "client-tool-that-was-offered",
        (calls(use("point", {"x": 3})), DONE),
        deeds=(EndsCall("point", {"seen": "a cat"}),),
        calls=(("point", "ok"),),
    ),
    Turn(
        "client-bundle-among-others",
        (calls(use("point", {"x": 1}), use("glob", {"pattern": "*.none"}), use("click"), use("point", {"x": 2})), DONE),
        deeds=(EndsBundle(("first", "second")),),
        calls=(("glob", "ok"), ("point", "ok"), ("click", "ok"), ("point", "interrupted")),
    ),
    Turn(
        "client-says-no",
        (calls(use("click")), DONE),
        deeds=(EndsCall("click", "no", "denied"),),
        calls=(("click", "denied"),),
    ),
    Turn(
        "client-leaves",
        (calls(use("click")), DONE),
        deeds=(Leaves("click"),),
        calls=(("click", "error"),),
    ),
    # What the model does wrong
    Turn(
        "no-arguments-and-blanks",
        (calls(bare("glob", ""), bare("glob", '{ "pattern" : "*.none" }')), DONE),
        settings=ALL,
        calls=(("glob", "error"), ("glob", "ok")),
    ),
    Turn(
        "wrong-types-and-missing-fields",
        (calls(use("read", {"filePath": 7}), use("write", {"content": "x"}), use("edit", {})), DONE),
        calls=(("read", "error"), ("write", "error"), ("edit", "error")),
    ),
    Turn(
        "arguments-that-are-no-json",
        (calls(bare("glob", '{"pattern": oops'), bare("read", '{"filePath": "a.txt", "offset": NaN}')), DONE),
        calls=(("glob", "error"), ("read", "error")),
        malformed=True,
    ),
    Turn(
        "arguments-that-are-no-object",
        (calls(bare("glob", '["*.none"]'), bare("glob", '"*.none"'), bare("glob", "7")), DONE),
        calls=(("glob", "error"), ("glob", "error"), ("glob", "error")),
        malformed=True,
    ),
    Turn(
        "unknown-tool",
        (calls(use("teleport", {"to": "Mars"}), use("glob", {"pattern": "*.none"})), DONE),
        calls=(("teleport", "error"), ("glob", "ok")),
    ),
    Turn(
        "outside-the-folder",
        (calls(use("read", {"filePath": "/etc/passwd"}), use("write", {"filePath": "../x", "content": ""})), DONE),
        calls=(("read", "error"), ("write", "error")),
    ),
    Turn(
        "ids-given-twice",
        (
            calls(use("glob", {"pattern": "*.none"}, id="call_twice")),
            calls(use("glob", {"pattern": "*.none"}, id="call_twice")),
            DONE,
        ),
        calls=(("glob", "ok"), ("glob", "ok")),
    ),
    Turn(
        "calls-and-a-full-stop",
        (Answer((GLOB, Say(("And so.",))), finish="stop"), DONE),
        stops_with_calls=True,
        calls=(("glob", "ok"),),
    ),
    # What the provider does wrong
    Turn("key-refused", (Failure("unauthorized", "No such key."),), outcome="failed"),
    Turn("not-allowed", (Failure("forbidden", "Not here."),), outcome="failed"),
    Turn("bad-request", (Failure("invalid", "Not like that."),), outcome="failed"),
    Turn("rate-limited-for-long", (Failure("rate_limited", retry_after=3600.0),), outcome="failed"),
    Turn("rate-limited-for-good", (Failure("rate_limited"),), outcome="failed"),
    Turn("server-error", (Failure("server"),), outcome="failed"),
    Turn("overloaded", (Failure("overloaded"),), outcome="failed"),
    Turn("cut-before-anything", (Answer((Say(pieces_of("Never said.")),), cut_after=0),), outcome="failed"),
    Turn("cut-in-text", (Answer((Say(pieces_of("Said in part, not in full.")),), cut_after=2),), outcome="failed"),
    Turn(
        "cut-in-arguments",
        (Answer((Say(("I call. ",)), use("bash", {"command": "touch never"})), cut_after=3),),
        outcome="failed",
    ),
    Turn(
        "cut-after-a-call",
        (Answer((GLOB, Say(("And then ", Gate("cut"), "nothing"))), cut_after=4),),
        deeds=(Reaches("cut"), Rests(), Opens("cut")),
        outcome="failed",
        calls=(("glob", "ok"),),
    ),
    Turn("failed-status", (Answer((Say(("So far. ",)),), broken=Broken("It broke.")),), outcome="failed"),
    Turn("failed-status-at-once", (Answer((), broken=Broken("It broke.")),), outcome="failed"),
    Turn(
        "failed-status-after-a-call",
        (Answer((GLOB, Gate("failed")), broken=Broken("It broke.")),),
        deeds=(Reaches("failed"), Rests(), Opens("failed")),
        outcome="failed",
        calls=(("glob", "ok"),),
    ),
    Turn(
        "too-long",
        (Failure("too_long", "This prompt is too long: 999 tokens > 99 maximum context length"),),
        outcome="failed",
    ),
    Turn(
        "too-long-within-an-answer",
        (Answer((), broken=Broken("This prompt is too long: 999 tokens > 99 maximum context length")),),
        outcome="failed",
    ),
    Turn("filtered-at-once", (Answer((), finish="content_filter"),), refused=True),
    Turn("all-is-well-again", (say("It all went on."),)),
)
"""A session of their own, in their order."""


# Points within a turn

WAITING = "touch begun-{0}; while [ ! -e go-{0} ]; do sleep 0.02; done; printf gone"


class Point(msgspec.Struct, frozen=True):
    """A place in a turn where the person does something: ``before`` leads there, ``after`` lets the turn go on."""

    name: str
    script: tuple[Answered, ...]
    before: tuple[Deed, ...]
    after: tuple[Deed, ...] = ()
    others: dict[str, tuple[Answered, ...]] = {}
    mode: str = "all"
    streaming: bool = False
    """Whether the model still speaks there."""


def _at_gate(name: str, *script: Answered, rests: bool = False) -> Point:
    return Point(name, script, (Reaches(name), *([Rests()] if rests else [])), (Opens(name),), streaming=True)


def _command(name: str) -> Use:
    return use("bash", {"command": WAITING.format(name)})


POINTS: tuple[Point, ...] = (
    _at_gate("before-the-first-byte", Answer((Say(("Late.",)),), before=Gate("before-the-first-byte"))),
    _at_gate("before-the-first-part", Answer((Gate("before-the-first-part"), Say(("Text.",))))),
    _at_gate("at-the-start-of-text", Answer((Say((Gate("at-the-start-of-text"), "Text.")),))),
    _at_gate("inside-text", Answer((Say(("Half a ", Gate("inside-text"), "sentence.")),))),
    _at_gate("at-the-end-of-text", Answer((Say(("A sentence.", Gate("at-the-end-of-text"))),))),
    _at_gate("before-the-end", Answer((Say(("All of it.",)), Gate("before-the-end")))),
    _at_gate("inside-thoughts", Answer((Think(("Half a ", Gate("inside-thoughts"), "thought.")), Say(("Text.",))))),
    _at_gate(
        "between-thoughts-and-text",
        Answer((Think(("A thought.",)), Gate("between-thoughts-and-text"), Say(("Text.",)))),
    ),
    _at_gate("between-text-and-call", Answer((Say(("I look. ",)), Gate("between-text-and-call"), GLOB)), DONE),
    _at_gate(
        "at-the-start-of-arguments",
        calls(Use("glob", (Gate("at-the-start-of-arguments"), '{"pattern":"*.none"}'))),
        DONE,
    ),
    _at_gate("inside-arguments", calls(Use("glob", ('{"pat', Gate("inside-arguments"), 'tern":"*.none"}'))), DONE),
    _at_gate(
        "at-the-end-of-arguments", calls(Use("glob", ('{"pattern":"*.none"}', Gate("at-the-end-of-arguments")))), DONE
    ),
    _at_gate("between-two-calls", Answer((GLOB, Gate("between-two-calls"), GLOB)), DONE, rests=True),
    _at_gate("after-a-call", Answer((GLOB, Gate("after-a-call"))), DONE, rests=True),
    Point(
        "while-a-tool-runs-and-the-model-speaks",
        (Answer((_command("both"), Say(("And ", Gate("while-both"), "more.")))), DONE),
        (Reaches("while-both"),),
        (Opens("while-both"), Makes("go-both")),
        streaming=True,
    ),
    Point(
        "while-a-tool-runs",
        (calls(_command("one")), DONE),
        (Exists("begun-one"),),
        (Makes("go-one"),),
    ),
    Point(
        "while-two-tools-run",
        (calls(_command("two-a"), _command("two-b")), DONE),
        (Exists("begun-two-a"), Exists("begun-two-b")),
        (Makes("go-two-b"), Makes("go-two-a")),
    ),
    Point(
        "during-a-permission",
        (calls(use("bash", {"command": "touch permitted"})), DONE),
        (Asked("permission"),),
        (Answers("permission", YES),),
        mode="ask",
    ),
    Point(
        "during-a-question",
        (calls(use("ask", {"question": "Well?"})), DONE),
        (Asked("question"),),
        (Answers("question", Said(text="Well enough.")),),
    ),
    Point(
        "during-a-plan",
        (calls(use("presentPlan", {"plan": "# Plan"})), DONE),
        (Asked("plan"),),
        (Answers("plan", Said(accept=False)),),
        mode="plan",
    ),
    Point(
        "while-a-client-works",
        (calls(use("click")), DONE),
        (Calling("click"),),
        (EndsCall("click", "clicked"),),
    ),
    Point(
        "while-a-subagent-thinks",
        (calls(spawn("explore", "thinking")), DONE),
        (Reaches("thinking"),),
        (Opens("thinking"),),
        others={"thinking": (Answer((Say(("I am ", Gate("thinking"), "here.")),)),)},
    ),
    Point(
        "while-a-subagent-s-tool-waits",
        (calls(spawn("general", "asking")), DONE),
        (Asked("permission"),),
        (Answers("permission", YES),),
        others={"asking": (calls(use("write", {"filePath": "by-sub.txt", "content": "x"})), say("Written."))},
        mode="ask",
    ),
    _at_gate(
        "between-steps",
        calls(GLOB),
        Answer((Say(("Done.",)),), before=Gate("between-steps")),
    ),
    _at_gate(
        "inside-the-second-step", calls(GLOB), Answer((Say(("Nearly ", Gate("inside-the-second-step"), "done.")),))
    ),
)
"""Where the person may break in."""

RETRYING = Point(
    "while-a-retry-is-waited-for",
    (Failure("rate_limited", retry_after=30.0),),
    (Retries(),),
)
"""Only for a cancel: it is not worth waiting for."""


def cancelled(point: Point) -> tuple[Turn, Turn]:
    """A turn that is cancelled at this point, and one after it."""
    name = f"cancel-{point.name}"
    return (
        Turn(
            name,
            point.script,
            (*point.before, Cancels()),
            point.others,
            "cancelled",
            {"mode": point.mode},
            streaming=point.streaming,
        ),
        Turn(f"{name}-after", (say("It goes on."),)),
    )


def steered(point: Point) -> Turn:
    """A turn to which the person says something at this point."""
    name = f"steer-{point.name}"
    return Turn(
        name,
        point.script,
        (*point.before, Steers(wish(name)), *point.after),
        {**point.others, f"{name}-wish": (say("As you wish."),)},
        "completed",
        {"mode": point.mode},
    )


def wish(name: str) -> str:
    """What is said meanwhile in a turn of this name."""
    return f"One more thing: {name}. {directive(f'{name}-wish')}"


def steered_then_cancelled(point: Point) -> Turn:
    """A turn that is cancelled right after the person has said something for it."""
    name = f"leave-{point.name}"
    return Turn(
        name,
        point.script,
        (*point.before, Steers(wish(name)), Cancels()),
        {**point.others, f"{name}-wish": (say("As you wish."),)},
        "cancelled",
        {"mode": point.mode},
        streaming=point.streaming,
    )
