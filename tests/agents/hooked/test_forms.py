"""What happened once is one event, however many scripts post it, in whatever form and order (spec §8); what happened
twice is two."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dragoman.agents.common.logs import read_claude_line
from dragoman.hub.ports import HookChannel, HookPost
from tests.agents.hooked.kit import Kit, kinds, kit
from tests.agents.hooked.manual_time import timed
from tests.agents.hooked.posts import Life, Payload, generated, half_normalised, normalised, post
from tests.agents.hooked.scenario import STEP, Scenario, claude, play, problems, when

Form = Callable[[Payload, int], Payload]

FORMS: dict[str, Form] = {
    "raw": lambda payload, place: payload,
    "generated": lambda payload, place: generated(payload, "claude", when(place)),
    "half": lambda payload, place: half_normalised(payload, "claude", when(place), f"{payload['session_id']}-{place}"),
    "normalised": lambda payload, place: normalised(payload, "claude", when(place)),
    "named": lambda payload, place: normalised(payload, "claude", when(place), f"n-{payload['session_id']}-{place}"),
}

PAIRS: dict[str, tuple[tuple[HookChannel, str], ...]] = {
    "generated script": (("http", "generated"), ("file", "generated")),
    "repository script": (("http", "half"), ("file", "half")),
    "http hook and repository script": (("http", "raw"), ("file", "half")),
    "http hook and generated script": (("http", "raw"), ("file", "generated")),
    "our hook and generated script": (("socket", "raw"), ("http", "generated"), ("file", "generated")),
    "our hook and repository script": (("socket", "raw"), ("http", "half"), ("file", "half")),
    "http hook and somebody's events": (("http", "raw"), ("file", "normalised")),
    "our hook and somebody's named events": (("socket", "raw"), ("http", "named")),
}


def told_alike(scenario: Scenario, forms: Sequence[str]) -> Scenario:
    """Without what a normalised event cannot tell as the hook does: of sub-agents, and what has no type of its own."""
    if not {"normalised", "named"} & set(forms):
        return scenario
    kept = [
        one
        for one in scenario.fired
        if "agent_id" not in one.payload and one.payload["hook_event_name"] not in ("PreCompact", "SubagentStop")
    ]
    tools = {one.call: one.tool for one in kept if one.call is not None and one.tool is not None}
    return replace(scenario, fired=tuple(kept), tools=tools)


def merged(tracks: Sequence[list[HookPost]], seed: random.Random) -> list[HookPost]:
    """One order of them all, in which the posts of each channel keep theirs."""
    left = [list(track) for track in tracks]
    order: list[HookPost] = []
    while any(left):
        order.append(seed.choice([track for track in left if track]).pop(0))
    return order


@pytest.mark.parametrize("pair", PAIRS)
@timed
async def test_one_event_for_each_however_the_channels_run(pair: str, tmp_path: Path) -> None:
    """The channels overtake each other by any length, up to one that comes when the other one has said all."""
    channels = PAIRS[pair]
    async with kit(tmp_path, gone_idle=10_000, gone_working=10_000, silence=10_000) as k:
        scenarios, tracks = [], []
        for number in range(40):
            scenario = told_alike(claude(f"{pair}-{number}"), [form for _, form in channels])
            each = [
                [
                    post(FORMS[form](one.payload, place), channel, agent="claude" if form == "raw" else None)
                    for place, one in enumerate(scenario.fired)
                ]
                for channel, form in channels
            ]
            if number == 0:
                order = [one for track in each for one in track]
            elif number == 1:
                order = [one for track in reversed(each) for one in track]
            else:
                order = merged(each, random.Random(number))
            scenarios.append(scenario)
            tracks.append((order, number % 2 == 0))
        await play(k, tracks)
        await k.advance(k.settings.settles + 1)
        wrongs = []
        for number, scenario in enumerate(scenarios):
            found = problems(scenario, await k.events(scenario.life.session))
            if (status := k.status(scenario.life.session)) != "offline":
                found.append(f"is {status}")
            wrongs += [f"{number}: {'; '.join(found)}"] if found else []
        assert not wrongs, "\n".join(wrongs[:5])


# Twice is two

LIFE = Life("claude", "5e551070-0000-4000-8000-000000000001")


def nameless(life: Life, given: Any = None) -> list[Payload]:
    """Two calls that are the same, one after the other, of an agent that names no calls."""
    given = {"command": "make"} if given is None else given
    pair = [life.before("Bash", None, given), life.after("Bash", None, given)]
    return [life.prompt(), *pair, *pair]


def durations(events: Sequence[dict[str, Any]]) -> list[Any]:
    return [event.get("duration") for event in events if event["type"] == "post_tool_use"]


@pytest.mark.parametrize("channels", [("http",), ("file",), ("socket",), ("http", "file"), ("socket", "http", "file")])
@timed
async def test_two_equal_calls_stay_two(channels: tuple[HookChannel, ...], tmp_path: Path) -> None:
    async with kit(tmp_path) as k:
        for payload in nameless(LIFE):
            for channel in channels:
                await k.take(payload, channel)
            await k.jump(1)
        told = await k.events(LIFE.session)
        assert [event["type"] for event in told][1:] == ["pre_tool_use", "post_tool_use"] * 2
        assert len({event["toolUseId"] for event in told if "toolUseId" in event}) == 2
        assert durations(told) == [1000, 1000]


@pytest.mark.parametrize("channels", [("http",), ("socket", "http")])
@timed
async def test_two_equal_calls_side_by_side_pair_first_in_first_out(
    channels: tuple[HookChannel, ...], tmp_path: Path
) -> None:
    life = Life("gemini", LIFE.session)
    given = {"command": "make"}
    begin, end = life.before("run_shell_command", None, given), life.after("run_shell_command", None, given)
    async with kit(tmp_path) as k:
        for payload, pause in ((begin, 1), (begin, 2), (end, 4), (end, 8)):
            for channel in channels:
                await k.take(payload, channel, agent="gemini")
            await k.jump(pause)
        told = await k.events(life.session, "gemini")
        begun = [event["toolUseId"] for event in told if event["type"] == "pre_tool_use"]
        over = [event["toolUseId"] for event in told if event["type"] == "post_tool_use"]
        assert len(set(begun)) == 2
        assert begun == over
        assert durations(told) == [3000, 6000]


@pytest.mark.parametrize("channels", [("http",), ("http", "file"), ("socket", "file")])
@timed
async def test_equal_prompts_notes_and_stops_stay_two(channels: tuple[HookChannel, ...], tmp_path: Path) -> None:
    async with kit(tmp_path) as k:
        for turn in ("one", "two"):
            life = LIFE.in_turn(turn)
            for payload in (life.prompt("yes"), life.notify(None, "hear"), life.notify(None, "hear"), life.stop("ok")):
                for channel in channels:
                    await k.take(payload, channel)
                await k.jump(0.5)
        found = kinds(await k.events(LIFE.session))
        assert found == {"user_prompt_submit": 2, "notification": 4, "stop": 2}


@timed
async def test_calls_with_names_are_two_by_these_alone(tmp_path: Path) -> None:
    async with kit(tmp_path) as k:
        for name in ("a", "b"):
            for _ in range(2):  # and each comes twice
                await k.take(LIFE.before("Bash", name, {"command": "make"}))
        for name in ("b", "a"):
            for _ in range(2):
                await k.take(LIFE.after("Bash", name, {"command": "make"}))
        told = [(event["type"], event["toolUseId"]) for event in await k.events(LIFE.session)]
        assert told == [
            ("pre_tool_use", "a"),
            ("pre_tool_use", "b"),
            ("post_tool_use", "b"),
            ("post_tool_use", "a"),
        ]


@pytest.mark.parametrize("kind", ["stop", "notification", "user_prompt_submit", "pre_tool_use"])
@timed
async def test_a_posters_own_id_comes_once(kind: str, tmp_path: Path) -> None:
    """The same id is the same event, from wherever and in whatever words it comes (spec §4)."""
    payload = {
        "stop": LIFE.stop(),
        "notification": LIFE.notify(),
        "user_prompt_submit": LIFE.prompt(),
        "pre_tool_use": LIFE.before("Bash", "c"),
    }[kind]
    async with kit(tmp_path) as k:
        event = normalised(payload, "claude", k.clock.now(), "evt-1")
        await k.take(LIFE.start())
        await k.take(event)
        await k.take(event)
        await k.take(event, "file")
        await k.jump(60)
        await k.take(event)
        told = [one for one in await k.events(LIFE.session) if one["type"] == kind]
        assert [one["id"] for one in told] == ["evt-1"]
        assert told[0]["timestamp"] == event["timestamp"]
        assert told[0]["sessionId"] == k.row(LIFE.session).session
        assert told[0]["agentSessionId"] == LIFE.session


# Hooks of one agent that tell of the same


def notified(life: Life, said: str) -> Payload:
    """What Codex gives the program that ``notify`` names, at the end of each turn (spec §9.2)."""
    return {
        "type": "agent-turn-complete",
        "thread-id": life.session,
        "turn-id": life.turn,
        "cwd": life.cwd,
        "input-messages": ["make it so"],
        "last-assistant-message": said,
    }


@pytest.mark.parametrize("order", ["stop first", "notify first", "notify alone"])
@timed
async def test_codex_tells_of_a_turns_end_by_hook_and_by_notify(order: str, tmp_path: Path) -> None:
    async with kit(tmp_path) as k:
        for turn in ("t1", "t2"):
            life = Life("codex", LIFE.session, turn=turn)
            way: HookChannel = "http" if order == "notify alone" else "socket"
            await k.take(life.prompt(f"do {turn}"), way, agent="codex")
            ways = [(life.stop("Done."), "socket"), (notified(life, "Done."), "http")]
            for payload, channel in {"stop first": ways, "notify first": ways[::-1], "notify alone": ways[1:]}[order]:
                await k.take(payload, channel, agent="codex")
            await k.advance(4)
            assert k.status(LIFE.session, "codex") == "waiting (prompt)"
        told = await k.events(LIFE.session, "codex")
        assert kinds(told) == {"user_prompt_submit": 2, "stop": 2}
        assert [event["response"] for event in told if event["type"] == "stop"] == ["Done.", "Done."]


@timed
async def test_a_batch_tells_again_of_ends_that_were_told(tmp_path: Path) -> None:
    """And of those that were not: a call that a rule refused has no hook of its own."""
    async with kit(tmp_path) as k:
        await k.take_all([LIFE.prompt(), LIFE.before("Bash", "a"), LIFE.before("Bash", "b"), LIFE.after("Bash", "a")])
        await k.take(LIFE.batch(("Bash", "a"), ("Bash", "b")))
        told = [(event["type"], event["toolUseId"]) for event in await k.events(LIFE.session) if "toolUseId" in event]
        assert told == [
            ("pre_tool_use", "a"),
            ("pre_tool_use", "b"),
            ("post_tool_use", "a"),
            ("post_tool_use", "b"),
        ]


@timed
async def test_a_begin_that_nobody_told_has_an_id_of_its_own(tmp_path: Path) -> None:
    """The poster's id is the end's; and when the begin comes after all, it is no news."""
    async with kit(tmp_path) as k:
        await k.take(half_normalised(LIFE.after("Bash", "a"), "claude", k.clock.now(), "evt-end"))
        await k.take(half_normalised(LIFE.before("Bash", "a"), "claude", k.clock.now(), "evt-begin"))
        told = await k.events(LIFE.session)
        assert [event["type"] for event in told] == ["pre_tool_use", "post_tool_use"]
        assert told[1]["id"] == "evt-end"
        assert told[0]["id"] != "evt-end"


# The agent's own log beside its hooks


def line(kind: str, content: Any, **more: Any) -> Any:
    """What a line of the transcript says."""
    message = {"role": kind, "content": content} | (
        {"id": "msg_1", "stop_reason": "tool_use"} if kind == "assistant" else {}
    )
    record = {"type": kind, "sessionId": LIFE.session, "cwd": LIFE.cwd, "message": message, "uuid": "u1"}
    return read_claude_line({**record, "timestamp": "2027-01-15T08:00:05.000Z", **more})


async def seen(k: Kit, kind: str, content: Any, **more: Any) -> bool:
    return await k.intake.observed("claude", LIFE.session, line(kind, content, **more))


@pytest.mark.parametrize("first", ["hooks", "log"])
@timed
async def test_hooks_and_log_tell_of_one_thing(first: str, tmp_path: Path) -> None:
    use = [{"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "make"}}]
    result = [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "made", "is_error": False}]
    async with kit(tmp_path) as k:
        await k.take(LIFE.start())
        steps = [
            (LIFE.prompt("make it"), ("user", "make it")),
            (LIFE.before("Bash", "toolu_1", {"command": "make"}), ("assistant", use)),
            (LIFE.after("Bash", "toolu_1", {"command": "make"}), ("user", result)),
        ]
        for payload, told in steps:
            if first == "log":
                assert await seen(k, *told)
            await k.take(payload)
            if first == "hooks":
                assert await seen(k, *told)
        assert kinds(await k.events(LIFE.session)) == {
            "session_start": 1,
            "user_prompt_submit": 1,
            "pre_tool_use": 1,
            "post_tool_use": 1,
        }


@timed
async def test_the_log_of_an_unknown_session_makes_none_unless_it_is_to(tmp_path: Path) -> None:
    async with kit(tmp_path) as k:
        assert await seen(k, "user", "hello") is False
        assert not k.rows()
        assert await k.intake.observed("claude", LIFE.session, line("user", "hello"), cwd=LIFE.cwd, create=True)
        await k.settle()
        shown = k.card(LIFE.session)
        assert (shown["type"], shown["cwd"], shown["agentSessionId"]) == ("external", LIFE.cwd, LIFE.session)
        assert kinds(await k.events(LIFE.session)) == {"user_prompt_submit": 1}
        # whatever hooks tell of the same goes there too
        await k.take(LIFE.prompt("hello"))
        assert len(k.rows()) == 1
        assert kinds(await k.events(LIFE.session)) == {"user_prompt_submit": 1}


def test_a_step_is_shorter_than_any_limit() -> None:
    """So that a shuffle is not also a test of time-outs."""
    assert STEP * len(claude("x").fired) < 120
