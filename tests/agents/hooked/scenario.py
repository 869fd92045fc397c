"""What one session of an agent posts from its start to its end, and what must be seen of it, in whatever order the
posts came and whichever was lost."""

from __future__ import annotations

import random
import uuid
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from dragoman.hub.ports import HookPost
from tests.agents.hooked.kit import Frame, Kit, kinds
from tests.agents.hooked.manual_time import BEGIN
from tests.agents.hooked.posts import Life, Payload, post

STEP = 0.2
"""Seconds between two posts."""

LAG = 4
"""Posts that a post may be late at most, and one more."""

FARTHEST = 3
"""Places that a shuffle moves a post by, at most."""


@dataclass(frozen=True)
class Fired:
    """One hook, and what it says. ``call`` is the tool call it tells of, whose ``tool`` it is."""

    payload: Payload
    says: str
    call: str | None = None
    tool: str | None = None


@dataclass(frozen=True)
class Scenario:
    life: Life
    fired: tuple[Fired, ...]
    prompts: tuple[str, ...]
    responses: tuple[str, ...]
    tools: dict[str, str] = field(default_factory=dict)
    """By their calls, where these have names."""

    def posts(self, *, timed: bool) -> list[HookPost]:
        """As they come by HTTP with no word of when they ran, or (``timed``) from the socket with it."""
        if not timed:
            return [post(one.payload, "http", agent=self.life.agent) for one in self.fired]
        return [
            post(one.payload, "socket", agent=self.life.agent, at=when(place)) for place, one in enumerate(self.fired)
        ]


def when(place: int) -> int:
    """When the hook at this place runs, if posting begins as its test does."""
    return BEGIN + round(place * STEP * 1000)


def claude(name: str) -> Scenario:
    """Twenty posts: two calls side by side of which one fails, one that a sub-agent does, two turns."""
    life = Life("claude", session_named(name))
    first, second = life.in_turn(f"{name}-p1"), life.in_turn(f"{name}-p2")
    bash, grep, task, inner, edit = (f"toolu_{name}_{tool}" for tool in ("bash", "grep", "task", "inner", "edit"))
    helper = f"a{name}"
    aside: dict[str, Any] = {"agent_id": helper, "agent_type": "general-purpose"}
    fired = (
        Fired(life.start(), "session_start"),
        Fired(first.prompt("the first"), "user_prompt_submit"),
        Fired(first.before("Bash", bash), "pre_tool_use", bash, "Bash"),
        Fired(first.before("Grep", grep, {"pattern": "x"}), "pre_tool_use", grep, "Grep"),
        Fired(first.after("Grep", grep, {"pattern": "x"}, "a.py"), "post_tool_use", grep, "Grep"),
        Fired(first.failed("Bash", bash), "post_tool_use", bash, "Bash"),
        Fired(first.before("Task", task, {"prompt": "help"}), "pre_tool_use", task, "Task"),
        Fired(first.subagent_start(helper), "notification"),
        Fired(first.before("Bash", inner, {"command": "ls"}, **aside), "pre_tool_use", inner, "Bash"),
        Fired(first.after("Bash", inner, {"command": "ls"}, **aside), "post_tool_use", inner, "Bash"),
        Fired(first.subagent_stop(helper), "subagent_stop"),
        Fired(first.after("Task", task, {"prompt": "help"}, {"status": "completed"}), "post_tool_use", task, "Task"),
        Fired(first.stop("The first is done."), "stop"),
        Fired(first.notify(), "notification"),
        Fired(second.prompt("the second"), "user_prompt_submit"),
        Fired(second.before("Edit", edit, {"file_path": "/a"}), "pre_tool_use", edit, "Edit"),
        Fired(second.after("Edit", edit, {"file_path": "/a"}, duration_ms=15), "post_tool_use", edit, "Edit"),
        Fired(second.compact(), "notification"),
        Fired(second.stop("The second is done."), "stop"),
        Fired(second.end(), "session_end"),
    )
    tools = {one.call: one.tool for one in fired if one.call is not None and one.tool is not None}
    responses = ("The first is done.", "The second is done.")
    return Scenario(life, fired, ("the first", "the second"), responses, tools)


def codex(name: str) -> Scenario:
    """The same of Codex, which has no notifications; it names its calls too."""
    life = Life("codex", session_named(name))
    first, second = life.in_turn(f"{name}-t1"), life.in_turn(f"{name}-t2")
    calls = [f"call_{name}_{number}" for number in range(5)]
    fired = [Fired(life.start(), "session_start"), Fired(first.prompt("the first"), "user_prompt_submit")]
    fired += [Fired(first.before("Bash", call), "pre_tool_use", call, "Bash") for call in calls[:2]]
    fired += [Fired(first.after("Bash", call), "post_tool_use", call, "Bash") for call in calls[:2]]
    for call in calls[2:4]:
        fired.append(Fired(first.before("apply_patch", call), "pre_tool_use", call, "apply_patch"))
        fired.append(Fired(first.after("apply_patch", call), "post_tool_use", call, "apply_patch"))
    fired += [Fired(first.stop("The first is done."), "stop"), Fired(second.prompt("the second"), "user_prompt_submit")]
    fired += [Fired(second.before("Bash", calls[4]), "pre_tool_use", calls[4], "Bash")]
    fired += [Fired(second.after("Bash", calls[4]), "post_tool_use", calls[4], "Bash")]
    fired += [Fired(second.stop("The second is done."), "stop"), Fired(second.end(), "session_end")]
    tools = {one.call: one.tool for one in fired if one.call is not None and one.tool is not None}
    responses = ("The first is done.", "The second is done.")
    return Scenario(life, tuple(fired), ("the first", "the second"), responses, tools)


def gemini(name: str) -> Scenario:
    """Calls without names, two of them the same and side by side; each payload says when its hook ran."""
    life = Life("gemini", session_named(name))
    same = {"command": "echo same"}
    fired = [
        Fired(life.start(), "session_start"),
        Fired(life.prompt("the first"), "user_prompt_submit"),
        Fired(life.before("run_shell_command", None, same), "pre_tool_use", "same", "run_shell_command"),
        Fired(life.before("run_shell_command", None, same), "pre_tool_use", "same", "run_shell_command"),
        Fired(life.after("run_shell_command", None, same), "post_tool_use", "same", "run_shell_command"),
        Fired(life.after("run_shell_command", None, same), "post_tool_use", "same", "run_shell_command"),
        Fired(life.before("write_file", None, {"file_path": "a"}), "pre_tool_use", "write", "write_file"),
        Fired(life.after("write_file", None, {"file_path": "a"}), "post_tool_use", "write", "write_file"),
        Fired(life.before("read_file", None, {"file_path": "b"}), "pre_tool_use", "read", "read_file"),
        Fired(life.after("read_file", None, {"file_path": "b"}), "post_tool_use", "read", "read_file"),
        Fired(life.stop(), "stop"),
        Fired(life.prompt("the second"), "user_prompt_submit"),
        Fired(life.before("run_shell_command", None, same), "pre_tool_use", "again", "run_shell_command"),
        Fired(life.after("run_shell_command", None, same), "post_tool_use", "again", "run_shell_command"),
        Fired(life.stop(), "stop"),
        Fired(life.end("exit"), "session_end"),
    ]
    for place, one in enumerate(fired):
        stamp = datetime.fromtimestamp(when(place) / 1000, UTC).isoformat(timespec="milliseconds")
        one.payload["timestamp"] = stamp.replace("+00:00", "Z")
    return Scenario(life, tuple(fired), ("the first", "the second"), ())


def session_named(name: str) -> str:
    """A session id as agents make them, the same for the same name."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, name))


def shuffled(posts: Sequence[HookPost], seed: random.Random) -> list[HookPost]:
    """The posts in another order, each at most ``FARTHEST`` places from its own."""
    left = list(range(len(posts)))
    order: list[int] = []
    for place in range(len(posts)):
        due = left[0] == place - FARTHEST
        order.append(left[0] if due else seed.choice([one for one in left if one <= place + FARTHEST]))
        left.remove(order[-1])
    assert all(abs(place - one) <= FARTHEST for place, one in enumerate(order))
    return [posts[one] for one in order]


async def play(kit: Kit, tracks: Sequence[tuple[Sequence[HookPost], bool]]) -> None:
    """Post them all, side by side: one of each, then the next of each. With each comes whether it goes the fast way."""
    await kit.jump(LAG * STEP)
    for place in range(max(len(posts) for posts, _ in tracks)):
        for posts, fast in tracks:
            if place < len(posts):
                await (kit.take_fast if fast else kit.take)(posts[place])
        await kit.clock.jump(STEP)
    await kit.settle()


def problems(scenario: Scenario, events: Sequence[Frame], lost: int | None = None, *, ended: bool = True) -> list[str]:
    """What is wrong with the events that are told of a scenario of which one post was lost.

    Each call begins once and ends once, in that order, and of all else there is one event for each post.
    """
    found = _wrong_counts(scenario, kinds(events), lost, ended=ended) + _wrong_calls(scenario, events, lost)
    told = [event.get("prompt") for event in events if event["type"] == "user_prompt_submit"]
    wanted = [one.payload["prompt"] for one in _left(scenario, lost) if one.says == "user_prompt_submit"]
    if told != wanted:
        found.append(f"prompts {told}, not {wanted}")
    if scenario.responses:
        said = sorted(str(event.get("response")) for event in events if event["type"] == "stop")
        meant = sorted(one.payload["last_assistant_message"] for one in _left(scenario, lost) if one.says == "stop")
        if said != meant:
            found.append(f"responses {said}, not {meant}")
    if len({event["id"] for event in events}) != len(events):
        found.append("an id comes twice")
    return found


def _left(scenario: Scenario, lost: int | None) -> list[Fired]:
    return [one for place, one in enumerate(scenario.fired) if place != lost]


def _wrong_counts(scenario: Scenario, told: Counter[str], lost: int | None, *, ended: bool) -> list[str]:
    missed = scenario.fired[lost] if lost is not None else None
    least = Counter(one.says for one in _left(scenario, lost))
    most = Counter(least)
    if missed is not None and missed.says == "pre_tool_use":
        least["pre_tool_use"] += 1  # its end tells of it
        most["pre_tool_use"] += 1
    if missed is not None and missed.says == "post_tool_use":
        most["post_tool_use"] += 1  # that it is over is known from what came after it
    if missed is not None and missed.payload["hook_event_name"] == "SubagentStart":
        most["notification"] += 1  # the same, by its stop
    if missed is not None and missed.says == "subagent_stop":
        most["subagent_stop"] += 1
    if missed is not None and missed.says == "session_end" and ended:
        most["session_end"] += 1  # it was found to be gone
    return [
        f"{told[kind]} {kind}, not {least[kind]} to {most[kind]}"
        for kind in {*most, *told}
        if not least[kind] <= told[kind] <= most[kind]
    ]


def _wrong_calls(scenario: Scenario, events: Sequence[Frame], lost: int | None) -> list[str]:
    found: list[str] = []
    begun: dict[str, Frame] = {}
    over: dict[str, Frame] = {}
    for event in events:
        if event["type"] == "pre_tool_use":
            if event["toolUseId"] in begun:
                found.append(f"{event['toolUseId']} begins twice")
            begun[event["toolUseId"]] = event
        if event["type"] == "post_tool_use":
            call = event["toolUseId"]
            if call in over or call not in begun:
                found.append(f"{call} ends {'twice' if call in over else 'before it begins'}")
            elif begun[call]["tool"] != event["tool"] or begun[call]["toolInput"] != event["toolInput"]:
                found.append(f"{call} begins as {begun[call]} and ends as {event}")
            over[call] = event
            if event.get("duration", 0) < 0:
                found.append(f"{call} took {event['duration']} ms")
    if scenario.tools and {call: event["tool"] for call, event in begun.items()} != scenario.tools:
        found.append(f"the calls {sorted(begun)}, not {sorted(scenario.tools)}")
    missed = scenario.fired[lost] if lost is not None else None
    for one in _left(scenario, lost):
        if one.says == "post_tool_use" and one.call in over:
            good = one.payload["hook_event_name"] != "PostToolUseFailure"
            if over[one.call]["success"] is not good:
                found.append(f"{one.call} is told as {'failed' if good else 'good'}")
        if one.call in begun and begun[one.call].get("agent_id") != one.payload.get("agent_id"):
            found.append(f"{one.call} is not told as what {one.payload.get('agent_id')} did")
    if missed is not None and missed.says == "post_tool_use" and over.get(missed.call or "", {}).get("success"):
        found.append(f"nobody knows that {missed.call} went well")
    return found
