"""Codex' rollouts: sessions that are known by them alone, told in the words of its hooks."""

from __future__ import annotations

import json
import os
import time
from datetime import date, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.agents.common.ledger import Ledger
from dragoman.agents.common.observation import Observation
from dragoman.agents.common.tail import LogTail
from dragoman.agents.hooked.followed import Followed
from dragoman.agents.hooked.rollouts import RolloutReader, Rollouts
from dragoman.agents.hooked.search import LogSearch
from dragoman.agents.hooked.settings import HookedSettings
from dragoman.hub.events import HookAnswered, Json, MessageAdded, ToolCalled, ToolEnded, UsageReported
from dragoman.hub.limits import HubLimits
from tests.agents.common.recorded import DATA
from tests.hub.rig import until

from .watching import CODEX, Heard, append, lines_of, now_recorded, recorded, stamp, texts, watching

ROLLOUTS = sorted(path.stem.removeprefix("log-") for path in (DATA / "codex").glob("log-*.jsonl"))


def rollout(home: Path, name: str = "new", day: date | None = None) -> Path:
    day = day or date.today()  # noqa: DTZ011  as Codex names its folders
    return home / ".codex" / "sessions" / f"{day:%Y/%m/%d}" / f"rollout-2026-11-29T01-09-37-{name}.jsonl"


def record(kind: str, type_: str = "event_msg", **payload: Any) -> bytes:
    return json.dumps({"timestamp": stamp(), "type": type_, "payload": {"type": kind} | payload}).encode() + b"\n"


def meta(session: str = "s1", **more: Any) -> bytes:
    about = {"id": session, "cwd": "/tmp/project", "originator": "codex-tui", "source": "cli"} | more
    return json.dumps({"timestamp": stamp(), "type": "session_meta", "payload": about}).encode() + b"\n"


def read(log: bytes, session: str) -> list[Observation]:
    reader = RolloutReader(session)
    seen = [reader.read(json.loads(line)) for line in lines_of(log)]
    return [one for one in seen if one is not None]


# What they say


@pytest.mark.parametrize("name", ROLLOUTS)
def test_a_recorded_session_is_told_like_its_hooks_would(name: str) -> None:
    """Every call has its name, its input and one end; every turn has its stop, or was broken off."""
    log = recorded("codex", name)
    session = json.loads(lines_of(log)[0])["payload"]["id"]
    ledger = Ledger()
    seen = read(log, session)
    facts = [fact for one in seen for fact in ledger.admit(one.facts)]
    calls = {fact.call: fact for fact in facts if isinstance(fact, ToolCalled)}
    ends = [fact for fact in facts if isinstance(fact, ToolEnded)]
    assert sorted(fact.call for fact in ends) == sorted(calls)
    assert all((fact.tool, fact.input) == (calls[fact.call].tool, calls[fact.call].input) for fact in ends)
    assert {call.tool for call in calls.values()} <= {"Bash", "Edit", "Write", "update_plan", "request_user_input"}
    begun = sum(json.loads(line)["payload"].get("type") == "task_started" for line in lines_of(log))
    ends_of_turns = [one for one in seen if one.sighting is not None and one.sighting.state in ("idle", "error")]
    assert len(ends_of_turns) == begun
    assert not any(isinstance(fact, HookAnswered) and fact.hook == "stop" for fact in facts)
    started = [fact.agent_session for fact in facts if isinstance(fact, HookAnswered) and fact.hook == "start"]
    assert started == [session]
    assert any(isinstance(fact, UsageReported) for fact in facts) or name == "error"


def test_the_last_words_of_a_turn_are_told_once() -> None:
    said = record("message", "response_item", role="assistant", content=[{"type": "output_text", "text": "All done."}])
    over = record("task_complete", last_agent_message="All done.")
    for log in (meta() + said + over, meta() + over):
        seen = read(log, "s1")
        assert texts(fact for one in seen for fact in one.facts) == ["All done."]
        assert seen[-1].sighting is not None
        assert seen[-1].sighting.state == "idle"


def test_the_same_last_words_of_two_turns_are_two() -> None:
    over = record("task_complete", last_agent_message="Done.")
    ledger = Ledger()
    log = meta() + record("user_message", message="one") + over + record("user_message", message="two") + over
    facts = [fact for one in read(log, "s1") for fact in ledger.admit(one.facts)]
    assert texts(facts) == ["one", "Done.", "two", "Done."]


PATCH = "*** Begin Patch\n*** Add File: a.txt\n+a\n*** Update File: b.py\n@@\n-x\n+y\n*** End Patch"


@pytest.mark.parametrize(
    ("tool", "given", "name", "told"),
    [
        ("exec_command", {"cmd": "ls", "workdir": "/x"}, "Bash", {"command": "ls", "workdir": "/x"}),
        ("shell", {"command": ["bash", "-lc", "ls | wc"]}, "Bash", {"command": "ls | wc"}),
        ("shell", {"command": ["ls", "-l"]}, "Bash", {"command": "ls -l"}),
        ("shell_command", {"command": "ls"}, "Bash", {"command": "ls"}),
        ("exec_command", None, "Bash", {"command": ""}),
        ("apply_patch", PATCH, "Edit", {"patch": PATCH, "file_path": "a.txt", "files": ["a.txt", "b.py"]}),
        ("apply_patch", {"input": PATCH[:46]}, "Write", {"patch": PATCH[:46], "file_path": "a.txt"}),
        ("apply_patch", None, "Edit", {"patch": ""}),
        ("web_search", {"type": "search", "query": "x"}, "WebSearch", {"query": "x"}),
        ("read_file", {"file_path": "a"}, "Read", {"file_path": "a"}),
        ("view_image", {"path": "a.png"}, "view_image", {"path": "a.png"}),
    ],
)
def test_tools_are_named_as_its_hooks_name_them(tool: str, given: Json, name: str, told: Json) -> None:
    patch = tool == "apply_patch"
    about = {"input": given} if patch else {"arguments": json.dumps(given)}
    kind = "custom_tool_call" if patch else "function_call"
    [seen] = read(record(kind, "response_item", call_id="c1", name=tool, **about), "s1")
    assert seen.facts[0].tool == name  # type: ignore[union-attr]
    assert seen.facts[0].input == told  # type: ignore[union-attr]


def test_a_local_shells_action_is_a_command() -> None:
    action = {"type": "exec", "command": ["/bin/zsh", "-lc", "make"]}
    [seen] = read(record("local_shell_call", "response_item", call_id="c1", action=action), "s1")
    assert seen.facts[0].input == {"command": "make", "type": "exec"}  # type: ignore[union-attr]


def test_a_commands_own_end_is_believed_before_what_the_model_was_told() -> None:
    called = record("function_call", "response_item", call_id="c1", name="shell", arguments='{"command":["false"]}')
    ended = record("exec_command_end", call_id="c1", exit_code=1, aggregated_output="boom")
    output = record("function_call_output", "response_item", call_id="c1", output="boom")
    ledger = Ledger()
    facts = [fact for one in read(called + ended + output, "s1") for fact in ledger.admit(one.facts)]
    assert [(fact.tool, fact.status, fact.output) for fact in facts if isinstance(fact, ToolEnded)] == [
        ("Bash", "error", "boom")
    ]


def test_an_end_whose_begin_was_not_read_is_the_ledgers_business() -> None:
    [seen] = read(record("function_call_output", "response_item", call_id="c1", output="x"), "s1")
    assert seen.facts[0].tool == ""  # type: ignore[union-attr]


# Which there are


async def test_a_new_session_is_told_from_its_beginning(tmp_path: Path) -> None:
    """Its id is in its first record; its name has the time in it too."""
    heard = Heard()
    async with watching(heard, tmp_path):
        append(rollout(tmp_path), now_recorded("codex", "text"))
        await until(lambda: heard.states.count("log:idle") == 3)
    assert heard.known == {CODEX}
    assert {(told.agent, told.cwd, told.create) for told in heard.told} == {("codex", "/tmp/project", True)}
    assert isinstance(heard.facts[0], HookAnswered)
    assert texts(heard.facts) == [
        "[[say:The quick answer.]]",
        "The quick answer.",
        "[[slow]]",
        "[[say:After the interruption.]]",
        "After the interruption.",
    ]
    assert [told.seen.sighting.cause for told in heard.told if told.seen.interrupted and told.seen.sighting] == [
        "log:idle"
    ]


async def test_its_folder_may_lie_elsewhere(tmp_path: Path) -> None:
    heard, there = Heard(), tmp_path / "there"
    async with watching(heard, tmp_path, environ={"CODEX_HOME": str(there)}):
        append(there / "sessions/2020/01/02/rollout-x.jsonl", meta("here"))
        append(rollout(tmp_path), meta("not-here"))
        await until(lambda: heard.told)
    assert heard.known == {"here"}


@pytest.mark.parametrize(
    "more", [{"source": {"subagent": "review"}}, {"originator": "dragoman"}], ids=["a sub-agent's", "our own"]
)
async def test_what_is_no_session_of_a_persons_makes_none(tmp_path: Path, more: dict[str, Any]) -> None:
    heard = Heard()
    async with watching(heard, tmp_path):
        append(rollout(tmp_path, "aside"), meta("aside", **more), record("user_message", message="x"))
        append(rollout(tmp_path), meta("s1"))
        await until(lambda: heard.told)
        append(rollout(tmp_path, "aside"), record("user_message", message="y"))
        append(rollout(tmp_path), record("user_message", message="z"))
        await until(lambda: "z" in texts(heard.facts))
    assert heard.known == {"s1"}


async def test_a_fork_does_not_tell_again_what_it_was_forked_from(tmp_path: Path) -> None:
    """Its copy is written as if it happened now."""
    heard = Heard()
    async with watching(heard, tmp_path) as watchers:
        append(rollout(tmp_path), meta("s2", forked_from_id="s1"), meta("s1"), record("user_message", message="old"))
        await until(lambda: len(watchers._logs) == 1)
        append(rollout(tmp_path), record("user_message", message="new"))
        await until(lambda: heard.told)
    assert heard.known == {"s2"}
    assert texts(heard.facts) == ["new"]


async def test_a_fork_that_only_refers_to_the_other_is_told_whole(tmp_path: Path) -> None:
    heard = Heard()
    async with watching(heard, tmp_path):
        refers = {"forked_from_id": "s1", "history_base": {"thread_id": "s1"}}
        append(rollout(tmp_path), meta("s2", **refers), record("user_message", message="new"))
        await until(lambda: texts(heard.facts) == ["new"])


async def test_a_session_of_long_ago_that_goes_on_is_told_from_there(tmp_path: Path) -> None:
    """Its file lies where it began; nothing in its folder says that it grew."""
    heard, old = Heard(), time.time() - 86400 * 40
    for number in range(300):
        path = rollout(tmp_path, f"{number}", date(2026, 1, 1) + timedelta(days=number // 10))
        append(path, meta(f"s{number}"), record("user_message", message="before"))
        os.utime(path, (old, old))
    settings = HookedSettings(look=0.01, discover=0.02, search_files=20)
    async with watching(heard, tmp_path, settings):
        append(rollout(tmp_path, "77", date(2026, 1, 8)), record("user_message", message="after"))
        await until(lambda: heard.told)
    assert heard.known == {"s77"}
    assert texts(heard.facts) == ["after"]


async def test_a_session_that_runs_already_is_known_with_its_state(tmp_path: Path) -> None:
    heard = Heard()
    append(rollout(tmp_path, "a"), meta("a"), record("task_started"), record("user_message", message="before"))
    append(rollout(tmp_path, "b"), meta("b"), record("task_started"), record("task_complete", last_agent_message="x"))
    async with watching(heard, tmp_path):
        await until(lambda: len(heard.told) == 2)
        states = {told.session: told.seen.sighting and told.seen.sighting.cause for told in heard.told}
        assert states == {"a": "log:working", "b": None}
        assert heard.facts == []


async def test_the_age_of_a_session_that_runs_already_is_a_setting(tmp_path: Path) -> None:
    heard, before = Heard(), time.time() - 3600
    append(rollout(tmp_path, "a"), meta("a"))
    os.utime(rollout(tmp_path, "a"), (before, before))
    async with watching(heard, tmp_path, HookedSettings(look=0.01, discover=0.02, watch_hours=2.0)):
        await until(lambda: heard.known == {"a"})


def test_a_day_passes(tmp_path: Path) -> None:
    """Today's folder is looked into, whichever day it is, and yesterday's: sessions go on over midnight."""
    days = [date(2026, 12, 31)]
    source = Rollouts(tmp_path, {}, HubLimits(), today=lambda: days[0])
    search = LogSearch([source], HookedSettings(search_files=0), time.time() - 10)
    append(rollout(tmp_path, "old", date(2026, 12, 30)), meta("old"))
    append(rollout(tmp_path, "a", days[0]), meta("a"))
    search.first()
    days[0] += timedelta(days=1)
    append(rollout(tmp_path, "b", days[0]), meta("b"))
    append(rollout(tmp_path, "a", date(2026, 12, 31)), record("task_started"))
    append(rollout(tmp_path, "old", date(2026, 12, 30)), record("task_started"))
    found = search.again()
    assert sorted((one.path.name[-7:], one.held is None) for one in found) == [("a.jsonl", False), ("b.jsonl", True)]


def test_a_log_is_found_until_it_is_taken(tmp_path: Path) -> None:
    """It may not say yet whose it is."""
    search = LogSearch([Rollouts(tmp_path, {}, HubLimits())], HookedSettings(), time.time())
    assert search.first() == []
    append(rollout(tmp_path), b'{"half')
    [found] = search.again()
    assert found.source.head(found.path) is None
    assert search.again() == [found]
    search.taken(found)
    assert search.again() == []
    append(rollout(tmp_path), b'":1}\n')
    assert [one.held for one in search.again()] == [6]


async def test_a_first_record_that_is_written_in_pieces_is_waited_for(tmp_path: Path) -> None:
    heard, first = Heard(), meta("s1", base_instructions={"text": "\u00e9" * 30_000})
    async with watching(heard, tmp_path) as watchers:
        for start, end in pairwise((0, 7, 5000, len(first) - 1, len(first))):
            append(rollout(tmp_path), first[start:end])
            seen = watchers._looked_at
            await until(lambda seen=seen: watchers._looked_at > seen)  # type: ignore[misc]
            assert not heard.told or end == len(first)
        await until(lambda: heard.known == {"s1"})
    assert isinstance(heard.facts[0], HookAnswered)


# However they are written


@settings(deadline=None, max_examples=30)
@given(st.sampled_from(ROLLOUTS), st.data())
def test_every_way_of_writing_tells_the_same(
    tmp_path_factory: pytest.TempPathFactory, name: str, data: st.DataObject
) -> None:
    home, log = tmp_path_factory.mktemp("home"), recorded("codex", name)
    session = json.loads(lines_of(log)[0])["payload"]["id"]
    path, told = rollout(home), []
    append(path)
    cuts = data.draw(st.lists(st.integers(1, len(log) - 1), max_size=30))
    followed = Followed(Rollouts(home, {}, HubLimits()), session, LogTail(path, own=True))
    for first, end in pairwise(sorted({0, len(log), *cuts})):
        append(path, log[first:end])
        followed.look()
        while followed.waiting:
            told.append(followed.waiting[0][1])
            followed.gave()
    expected = read(log, session)
    assert told == [one for one in expected if one.facts or one.sighting or one.interrupted or one.compacted]
    assert any(isinstance(fact, MessageAdded) for one in told for fact in one.facts) or name == "error"
