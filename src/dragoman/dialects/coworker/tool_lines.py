"""``log`` lines about tools: ``tool> NAME {…}`` when one is called, ``tool< NAME {…}`` when it has given something.

Our own tools are told of as the original tells of its; those that other agents and clients run by their name, and the
beginning of what they were given. A line holds so many characters and no more, whatever the tool said.
"""

from __future__ import annotations

from dragoman.hub.events import Json, ToolCalled, ToolEnded
from dragoman.hub.standing import OpenCall

from .javascript import length, stringify
from .room import Room
from .tool_summaries import GIVEN, GOT, Fields, with_defaults

__all__ = ["called", "ended", "given_input", "with_defaults"]

OWN_CHARS = 41_000
"""Characters in a line of a tool of ours: room for 30,000 of output and 10,000 of complaints, as the original has."""

FOREIGN_CHARS = 2_000
"""Characters of values in a line of a tool that is not ours."""

TOOL_NAME = 200
"""Characters of a tool's name: other agents' may come from anywhere."""

_UNCALLABLE = frozenset({"invalid_input", "no_such_tool"})
"""Problems of calls that no tool was run for."""


def called(fact: ToolCalled, subagent: str | None) -> str | None:
    """The line for a call; ``subagent`` is the kind of the sub-agent that makes it. None where nothing is said."""
    if fact.invalid or _silent(fact):
        return None
    told = _own(GIVEN[fact.tool](_fields(given_input(fact)))) if _is_ours(fact) else _foreign(fact.input)
    return _line(">", fact.tool, told, subagent)


def ended(fact: ToolEnded, call: ToolCalled | OpenCall | None, subagent: str | None) -> str | None:
    """The line for a result; None where nothing is said: for a tool of ours that failed, its error says it all."""
    tool, known = (call or fact).tool, call if isinstance(call, ToolCalled) else fact
    if not tool or _silent(known) or _was_uncallable(fact, call):
        return None
    if not _is_ours(known):
        return _line("<", tool, _foreign_result(fact), subagent)
    if fact.status in ("error", "interrupted"):
        return None
    if fact.status == "denied" and not isinstance(fact.output, dict):
        return _line("<", tool, {"ok": False}, subagent)
    given = _fields(with_defaults(tool, (call or fact).input))
    return _line("<", tool, _own(GOT[tool](given, fact)), subagent)


def given_input(fact: ToolCalled) -> Json:
    """What the tool was given: with its defaults where it is ours and the call can be run, else just as it came."""
    return with_defaults(fact.tool, fact.input) if _is_ours(fact) and not fact.invalid else fact.input


def _is_ours(fact: ToolCalled | ToolEnded) -> bool:
    """Whether we run it. Of a result alone only its name tells, and that nobody else reported it."""
    if isinstance(fact, ToolCalled) and (fact.executor != "server" or fact.dynamic):
        return False
    return fact.tool in GIVEN and fact.origin is None


def _silent(fact: ToolCalled | ToolEnded) -> bool:
    """Whether the original says nothing of such calls: a provider's own tools, MCP tools, and ``skill``."""
    if isinstance(fact, ToolCalled) and (fact.executor != "server" or fact.dynamic):
        return fact.executor in ("provider", "server")
    return fact.tool == "skill" and fact.origin is None


def _was_uncallable(fact: ToolEnded, call: ToolCalled | OpenCall | None) -> bool:
    if isinstance(call, ToolCalled):
        return call.invalid
    return fact.problem is not None and fact.problem.code in _UNCALLABLE


def _fields(given: Json) -> Fields:
    return given if isinstance(given, dict) else {}


def _own(told: Fields) -> Json:
    return Room(OWN_CHARS, each=OWN_CHARS, items=50).shown(told)  # a question may have fifty options


def _foreign(given: Json) -> Json:
    told = {} if given is None else given if isinstance(given, dict) else {"input": given}
    return _foreign_room().shown(told)


def _foreign_room() -> Room:
    return Room(FOREIGN_CHARS, each=500, items=16)


def _foreign_result(fact: ToolEnded) -> Json:
    """What is said of it has to be enough where no chunk tells of it: outside turns."""
    told: Fields = {"ok": fact.status == "ok"}
    if isinstance(fact.output, str):
        told["chars"] = length(fact.output)
    elif isinstance(fact.output, dict) and isinstance(fact.output.get("exitCode"), int):
        told["exitCode"] = fact.output["exitCode"]
    if fact.problem is not None:
        told["error"] = fact.problem.message
    return _foreign_room().shown(told)


def _line(arrow: str, tool: str, told: Json, subagent: str | None) -> str:
    name = " ".join(tool[:TOOL_NAME].split())
    return f"{f'[sub:{subagent}] ' if subagent else ''}tool{arrow} {name} {stringify(told)}"
