"""Posts that overtake each other, and posts that never come, end in the right state and in the right events."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from dragoman.agents.common.logs import read_claude_line
from tests.agents.hooked.kit import Kit, kit
from tests.agents.hooked.manual_time import timed
from tests.agents.hooked.scenario import STEP, Scenario, claude, codex, gemini, play, problems, shuffled, when

PARTS = 10
"""In which the shuffles run, so that they may run side by side."""

EACH = 500
"""Shuffles of a part."""

AT_ONCE = 250
"""Sessions in one hub."""

POSTS = len(claude("x").fired)

LAST_STOP, END = 18, 19
"""Their places among the posts."""

MAKERS = {"claude": claude, "codex": codex, "gemini": gemini}


def test_the_scenario_is_one_of_twenty_posts() -> None:
    assert POSTS == 20
    scenario = claude("x")
    assert [scenario.fired[place].says for place in (LAST_STOP, END)] == ["stop", "session_end"]


async def wrong(kit: Kit, scenario: Scenario, lost: int | None = None) -> list[str]:
    """What is wrong with a session whose posts have all come."""
    life = scenario.life
    found = problems(scenario, await kit.events(life.session, life.agent), lost)
    if (status := kit.status(life.session, life.agent)) != "offline":
        found.append(f"is {status}")
    session = await kit.session(life.session, life.agent)
    if session.state.calls or session.state.decisions:
        found.append(f"leaves open {session.state.calls} {session.state.decisions}")
    return found


def report(wrongs: dict[str, list[str]]) -> str:
    return "\n".join(f"{name}: {'; '.join(found)}" for name, found in list(wrongs.items())[:10])


async def play_shuffles(folder: Path, agent: str, names: list[str], lost: int | None = None) -> dict[str, list[str]]:
    """Shuffled lives side by side; what is wrong with each, by its name."""
    wrongs: dict[str, list[str]] = {}
    async with kit(folder, sessions=AT_ONCE) as k:
        scenarios = {name: MAKERS[agent](name) for name in names}
        tracks = []
        for number, (name, scenario) in enumerate(scenarios.items()):
            posts = scenario.posts(timed=number % 2 == 0)
            if lost is not None:
                del posts[lost]
            plain = lost is not None and number < 4
            order = posts if plain else shuffled(posts, random.Random(name))
            tracks.append((order, number % 4 < 2))
        await play(k, tracks)
        if lost == END:
            await k.jump(k.settings.gone_idle + 60, 40)
        await k.jump(k.settings.settles + 2, 4)
        assert len(k.rows()) == len(names)
        for name, scenario in scenarios.items():
            if found := await wrong(k, scenario, lost):
                wrongs[name] = found
    return wrongs


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_moved_by_three_places_they_end_right(part: int, tmp_path: Path) -> None:
    @timed
    async def run() -> None:
        for begin in range(0, EACH, AT_ONCE):
            names = [f"{part}-{begin + number}" for number in range(AT_ONCE)]
            wrongs = await play_shuffles(tmp_path / str(begin), "claude", names)
            assert not wrongs, f"{len(wrongs)} of {len(names)} end wrong\n{report(wrongs)}"

    run()


@pytest.mark.parametrize("agent", ["claude", "codex", "gemini"])
@timed
async def test_a_hundred_of_each_agent(agent: str, tmp_path: Path) -> None:
    names = [f"{agent}-{number}" for number in range(100)]
    wrongs = await play_shuffles(tmp_path, agent, names)
    assert not wrongs, f"{len(wrongs)} of {len(names)} end wrong\n{report(wrongs)}"


@pytest.mark.parametrize("agent", ["claude", "codex", "gemini"])
@timed
async def test_in_order_nothing_is_added_or_lost(agent: str, tmp_path: Path) -> None:
    """One event for each post, of the right type, in the same order."""
    async with kit(tmp_path) as k:
        scenarios = [MAKERS[agent](name) for name in ("http", "socket")]
        await play(k, [(scenario.posts(timed=place > 0), False) for place, scenario in enumerate(scenarios)])
        for scenario in scenarios:
            told = await k.events(scenario.life.session, agent)
            assert [event["type"] for event in told] == [one.says for one in scenario.fired]
            assert not await wrong(k, scenario)


@pytest.mark.parametrize("timed_posts", [True, False], ids=["socket", "http"])
@timed
async def test_calls_last_as_long_as_they_do(timed_posts: bool, tmp_path: Path) -> None:
    """As the agent says; else by when its hooks ran, or by when their posts came."""
    async with kit(tmp_path) as k:
        scenario = claude("x")
        await play(k, [(scenario.posts(timed=timed_posts), False)])
        told = await k.events(scenario.life.session)
        lasted = {event["tool"]: event["duration"] for event in told if event["type"] == "post_tool_use"}
        step = round(STEP * 1000)
        inner, bash = [event["duration"] for event in told if event.get("tool") == "Bash" and "duration" in event][::-1]
        assert (bash, lasted["Grep"], lasted["Task"], inner, lasted["Edit"]) == (3 * step, step, 5 * step, step, 15)
        if timed_posts:
            assert [event["timestamp"] for event in told] == [when(place) for place in range(POSTS)]


@pytest.mark.parametrize("lost", range(POSTS), ids=lambda lost: claude("x").fired[lost].payload["hook_event_name"])
@timed
async def test_one_that_never_comes(lost: int, tmp_path: Path) -> None:
    """In order, and in fifty shuffles of what is left."""
    names = [f"{lost}-{number}" for number in range(54)]
    wrongs = await play_shuffles(tmp_path, "claude", names, lost)
    assert not wrongs, f"{len(wrongs)} of {len(names)} end wrong\n{report(wrongs)}"


SO_FAR: tuple[tuple[str, frozenset[str]], ...] = (
    ("idle", frozenset()),
    ("working", frozenset()),
    ("working", frozenset({"Bash"})),
    ("working", frozenset({"Bash", "Grep"})),
    ("working", frozenset({"Bash"})),
    ("working", frozenset()),
    *[("working", frozenset({"Task"}))] * 5,
    ("working", frozenset()),
    *[("waiting", frozenset())] * 2,
    ("working", frozenset()),
    ("working", frozenset({"Edit"})),
    *[("working", frozenset())] * 2,
    ("waiting", frozenset()),
    ("offline", frozenset()),
)
"""What the agent of the scenario is once so many posts and one have come: its status, and one of its tools."""


@pytest.mark.parametrize("timed_posts", [True, False], ids=["socket", "http"])
@pytest.mark.parametrize("last", range(POSTS), ids=lambda last: f"{last}-{claude('x').fired[last].says}")
@timed
async def test_so_far_it_is_what_it_is(last: int, timed_posts: bool, tmp_path: Path) -> None:
    """Wherever the posts stop for a while, a moment later the state is that of what has happened."""
    status, tools = SO_FAR[last]
    async with kit(tmp_path) as k:
        scenarios = [claude(f"{last}-{number}") for number in range(40)]
        tracks = []
        for number, scenario in enumerate(scenarios):
            posts = scenario.posts(timed=timed_posts)[: last + 1]
            tracks.append((shuffled(posts, random.Random(number)) if number else posts, False))
        await play(k, tracks)
        await k.advance(k.settings.settles + 1)
        wrongs: dict[str, list[str]] = {}
        for number, scenario in enumerate(scenarios):
            shown = k.card(scenario.life.session)
            # a prompt that comes after its own call may hide it for a moment
            known = tools | {None} if number or not tools else tools
            if shown["status"] != status or shown.get("currentTool") not in known:
                order = [one.payload["hook_event_name"] for one in tracks[number][0]][-6:]
                wrongs[str(number)] = [k.status(scenario.life.session), " ".join(order)]
        assert not wrongs, f"{len(wrongs)} of {len(scenarios)} are not {status}\n{report(wrongs)}"


async def without_its_last_stop(k: Kit) -> list[Scenario]:
    """Shuffled lives that go on, whose last stop never came."""
    scenarios = [claude(f"unstopped-{number}") for number in range(40)]
    tracks = []
    for number, scenario in enumerate(scenarios):
        posts = scenario.posts(timed=number % 2 == 0)[:LAST_STOP]
        tracks.append((shuffled(posts, random.Random(number)), False))
    await play(k, tracks)
    await k.advance(k.settings.settles + 1)
    assert {k.card(scenario.life.session)["status"] for scenario in scenarios} == {"working"}
    return scenarios


@timed
async def test_a_last_stop_that_is_lost_is_found_in_the_log(tmp_path: Path) -> None:
    async with kit(tmp_path) as k:
        for scenario in await without_its_last_stop(k):
            words = [{"type": "text", "text": scenario.responses[1]}]
            message = {"id": "msg_2", "role": "assistant", "content": words, "stop_reason": "end_turn"}
            record = {"type": "assistant", "sessionId": scenario.life.session, "uuid": "u2", "message": message}
            assert await k.intake.observed("claude", scenario.life.session, read_claude_line(record))
            await k.advance(5)
            assert k.status(scenario.life.session) == "waiting (prompt)"
            stops = [one["response"] for one in await k.events(scenario.life.session) if one["type"] == "stop"]
            assert stops == list(scenario.responses)


@timed
async def test_a_last_stop_that_is_lost_is_found_out_by_time(tmp_path: Path) -> None:
    """Idle after ``silence``, where it is known to live; else gone after ``gone_working``."""
    async with kit(tmp_path, gone_working=100_000) as k:
        scenarios = await without_its_last_stop(k)
        await k.advance(k.settings.silence)
        assert {k.status(scenario.life.session) for scenario in scenarios} <= {"idle", "waiting (prompt)"}
    async with kit(tmp_path / "gone") as k:
        scenarios = await without_its_last_stop(k)
        await k.advance(k.settings.gone_working)
        assert {k.status(scenario.life.session) for scenario in scenarios} <= {"idle", "offline"}
        await k.jump(k.settings.gone_idle, 10)
        assert {k.status(scenario.life.session) for scenario in scenarios} == {"offline"}
