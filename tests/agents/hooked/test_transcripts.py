"""Claude Code's transcripts: what is read of them, from where on, and that no way of writing changes it."""

from __future__ import annotations

import json
import os
import time
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.agents.common.observation import Observation
from dragoman.agents.common.tail import LogTail
from dragoman.agents.hooked.followed import Followed
from dragoman.agents.hooked.settings import HookedSettings
from dragoman.agents.hooked.transcripts import Transcripts
from dragoman.hub.events import MessageAdded, ToolCalled, ToolEnded
from dragoman.hub.limits import HubLimits
from tests.agents.common.recorded import READERS
from tests.hub.rig import until

from .watching import (
    CLAUDE,
    INTERRUPTED,
    PERMITTED,
    QUICK,
    Heard,
    answered,
    append,
    lines_of,
    now_recorded,
    recorded,
    said,
    texts,
    transcript,
    watching,
)

LONG_AGO = "2026-01-01T00:00:00.000Z"
NAMED_ONLY = HookedSettings(look=0.01, discover=0.02, watch=())


def source(home: Path) -> Transcripts:
    return Transcripts(home, {}, HubLimits())


# Sessions that are known by a hook


async def test_a_session_is_read_from_where_its_log_ended_when_a_hook_named_it(tmp_path: Path) -> None:
    path, heard = transcript(tmp_path), Heard(CLAUDE)
    append(path, said("before", timestamp=LONG_AGO))
    async with watching(heard, tmp_path, NAMED_ONLY) as watchers:
        watchers.named("claude", CLAUDE, str(path), "socket")
        await until(lambda: len(watchers._logs) == 1)
        append(path, said("after"), answered("done"))
        await until(lambda: "log:idle" in heard.states)
    assert texts(heard.facts) == ["after", "done"]
    assert [(told.agent, told.session) for told in heard.told] == [("claude", CLAUDE)] * 2
    assert heard.told[0].cwd == "/tmp/project"


async def test_a_log_that_is_named_before_it_is_there_is_read_whole(tmp_path: Path) -> None:
    """The hook of a session's start runs before anything is written."""
    path, heard = transcript(tmp_path), Heard(CLAUDE)
    async with watching(heard, tmp_path, NAMED_ONLY) as watchers:
        watchers.named("claude", CLAUDE, str(path), "socket")
        await until(lambda: len(watchers._logs) == 1)
        log = now_recorded("claude", "text")
        append(path, log)
        await until(lambda: texts(heard.facts)[-1:] == ["After the interruption."])
    expected = [READERS["claude"](json.loads(line)) for line in lines_of(log)]
    assert heard.facts == [fact for seen in expected for fact in seen.facts]
    assert sum(told.seen.interrupted for told in heard.told) == 1


async def test_esc_is_seen_at_once_with_the_settings_as_they_are(tmp_path: Path) -> None:
    """No hook tells of it, and five seconds are the limit."""
    path, heard = transcript(tmp_path), Heard(CLAUDE)
    append(path, said("[[slow]]"))
    async with watching(heard, tmp_path, HookedSettings(watch=())) as watchers:
        watchers.named("claude", CLAUDE, str(path), "socket")
        await until(lambda: len(watchers._logs) == 1)
        began = time.monotonic()
        append(path, said(INTERRUPTED))
        await until(lambda: any(told.seen.interrupted for told in heard.told))
        assert time.monotonic() - began < 1.5
    assert heard.states[-1] == "log:idle"


async def test_the_end_of_a_turn_is_seen_without_its_hook(tmp_path: Path) -> None:
    path, heard = transcript(tmp_path), Heard(CLAUDE)
    async with watching(heard, tmp_path, NAMED_ONLY) as watchers:
        watchers.named("claude", CLAUDE, str(path), "socket")
        append(path, said("go"), answered("I will", stop=None), answered("Done.", stop="end_turn"))
        await until(lambda: heard.states[-1:] == ["log:idle"])
    assert not any(told.seen.interrupted for told in heard.told)
    assert heard.told[-1].seen.facts[0] == heard.of(MessageAdded)[-1]


async def test_a_session_that_is_gone_is_not_followed(tmp_path: Path) -> None:
    path, heard = transcript(tmp_path), Heard()
    async with watching(heard, tmp_path, NAMED_ONLY) as watchers:
        watchers.named("claude", CLAUDE, str(path), "socket")
        await until(lambda: len(watchers._logs) == 1)
        append(path, said("hello"))
        await until(lambda: len(watchers._logs) == 0)


async def test_a_log_may_go_and_come_again(tmp_path: Path) -> None:
    path, heard = transcript(tmp_path), Heard(CLAUDE)
    async with watching(heard, tmp_path, NAMED_ONLY) as watchers:
        watchers.named("claude", CLAUDE, str(path), "socket")
        append(path, said("one"))
        await until(lambda: texts(heard.facts) == ["one"])
        path.unlink()
        append(path, said("two"))
        await until(lambda: texts(heard.facts) == ["one", "two"])
        path.write_bytes(b"")
        append(path, said("three"))
        await until(lambda: texts(heard.facts) == ["one", "two", "three"])


async def test_a_log_that_is_written_anew_with_what_it_held_brings_nothing_twice(tmp_path: Path) -> None:
    path, heard = transcript(tmp_path), Heard(CLAUDE)
    async with watching(heard, tmp_path, NAMED_ONLY) as watchers:
        watchers.named("claude", CLAUDE, str(path), "socket")
        last = said("two", pad="x" * 300)
        append(path, said("one"), last)
        await until(lambda: texts(heard.facts) == ["one", "two"])
        draft = path.with_suffix(".new")
        draft.write_bytes(last + said("three"))
        draft.replace(path)
        await until(lambda: texts(heard.facts)[2:] == ["three"])


def test_what_is_broken_off_with_two_records_is_broken_off_once(tmp_path: Path) -> None:
    """A call that is refused is one, and the words about it another."""
    reader = source(tmp_path).reader(PERMITTED)
    seen = [reader.read(json.loads(line)) for line in lines_of(recorded("claude", "permission"))]
    assert sum(one.interrupted for one in seen if one is not None) == 1
    again = [reader.read(json.loads(said(text, PERMITTED))) for text in ("more", INTERRUPTED, INTERRUPTED)]
    assert [one.interrupted for one in again if one is not None] == [False, True, False]


# Sessions that no hook tells of


async def test_a_session_is_known_by_its_log_alone(tmp_path: Path) -> None:
    path, heard = transcript(tmp_path, PERMITTED), Heard()
    async with watching(heard, tmp_path):
        append(path, now_recorded("claude", "permission"))
        await until(lambda: len(heard.of(ToolEnded)) == 3)
    assert heard.known == {PERMITTED}
    assert {(told.agent, told.session, told.cwd) for told in heard.told} == {("claude", PERMITTED, "/tmp/project")}
    assert [(fact.tool, fact.status) for fact in heard.of(ToolEnded)] == [
        ("Bash", "ok"),
        ("Bash", "denied"),
        ("Write", "ok"),
    ]
    assert [fact.input for fact in heard.of(ToolEnded)] == [fact.input for fact in heard.of(ToolCalled)]


@pytest.mark.parametrize("folder", ["CLAUDE_CONFIG_DIR", "XDG_CONFIG_HOME", ".config"])
async def test_its_folder_may_lie_elsewhere(tmp_path: Path, folder: str) -> None:
    """Where its own settings say."""
    home, elsewhere, heard = tmp_path / "home", tmp_path / "there", Heard()
    base = {"CLAUDE_CONFIG_DIR": elsewhere, "XDG_CONFIG_HOME": elsewhere / "claude"}.get(
        folder, home / ".config/claude"
    )
    environ = {folder: str(elsewhere)} if folder.isupper() else {}
    async with watching(heard, home, environ=environ):
        append(base / "projects" / "p" / f"{CLAUDE}.jsonl", said("hello"))
        await until(lambda: texts(heard.facts) == ["hello"])


@pytest.mark.parametrize(
    "name",
    [
        f"agent-{CLAUDE}.jsonl",
        "agent-a1b2.jsonl",
        f"{CLAUDE}.json",
        f"{CLAUDE}.jsonl.bak",
        f"{CLAUDE}/subagents/agent-1.jsonl",
    ],
)
async def test_what_is_no_transcript_of_a_persons_session_makes_none(tmp_path: Path, name: str) -> None:
    heard, folder = Heard(), transcript(tmp_path).parent
    async with watching(heard, tmp_path):
        append(folder / name, said("aside", isSidechain=True))
        append(transcript(tmp_path, PERMITTED), said("hello", PERMITTED))
        await until(lambda: heard.told)
    assert heard.known == {PERMITTED}


@pytest.mark.parametrize("old", [False, True], ids=["just now", "long ago"])
@pytest.mark.parametrize("how", ["found", "named"])
async def test_a_branch_of_a_conversation_does_not_tell_it_again(tmp_path: Path, how: str, old: bool) -> None:
    """The new transcript begins with a copy, which only its age and its ids tell from what is said now."""
    heard, stamped = Heard(CLAUDE, PERMITTED), {"timestamp": LONG_AGO} if old else {}
    one, two = said("one", **stamped), answered("two", **stamped)
    copies = [
        line.replace(b'"sessionId": "' + CLAUDE.encode(), b'"sessionId": "' + PERMITTED.encode()) for line in (one, two)
    ]
    branch, settings = transcript(tmp_path, PERMITTED), QUICK if how == "found" else NAMED_ONLY
    if old:
        append(transcript(tmp_path), one, two)
        os.utime(transcript(tmp_path), (0, 0))
    async with watching(heard, tmp_path, settings) as watchers:
        if not old:
            watchers.named("claude", CLAUDE, str(transcript(tmp_path)), "socket")
            await until(lambda: len(watchers._logs) == 1)
            append(transcript(tmp_path), one, two)
            await until(lambda: texts(heard.facts) == ["one", "two"])
        if how == "named":
            watchers.named("claude", PERMITTED, str(branch), "socket")
            await until(lambda: str(branch) in {str(followed.path) for followed in watchers._logs})
        append(branch, *copies, answered("another's"), said("new", PERMITTED))
        await until(lambda: "new" in texts(heard.facts))
        append(branch, said("newer", PERMITTED))
        await until(lambda: "newer" in texts(heard.facts))
    assert texts(heard.facts)[0 if old else 2 :] == ["new", "newer"]


async def test_logs_of_before_the_server_are_of_no_session(tmp_path: Path) -> None:
    """Unless they were written to a short while ago: what they hold is told by no one, only what they say of now."""
    working, waiting, over = (transcript(tmp_path, f"{number}9fb6968{CLAUDE[8:]}") for number in "123")
    for path in (working, waiting, over):
        append(path, said("before", path.stem))
    append(waiting, answered("done", waiting.stem))
    old = time.time() - 3600
    os.utime(over, (old, old))
    heard = Heard()
    async with watching(heard, tmp_path):
        await until(lambda: len(heard.told) == 2)
        states = {told.session: told.seen.sighting and told.seen.sighting.cause for told in heard.told}
        assert states == {working.stem: "log:working", waiting.stem: None}
        assert all(told.create and told.cwd == "/tmp/project" for told in heard.told)
        append(over, said("after", over.stem))
        append(working, answered("after all", working.stem))
        await until(lambda: len(heard.told) == 4)
    assert sorted(texts(heard.facts)) == ["after", "after all"]


async def test_a_log_that_is_found_and_named_is_read_once(tmp_path: Path) -> None:
    path, heard = transcript(tmp_path), Heard()
    async with watching(heard, tmp_path) as watchers:
        append(path, said("one"))
        await until(lambda: len(watchers._logs) == 1)
        watchers.named("claude", CLAUDE, f"{path.parent}/../{path.parent.name}/{path.name}", "socket")
        append(path, said("two"))
        await until(lambda: "two" in texts(heard.facts))
    assert texts(heard.facts) == ["one", "two"]


# However it is written


TRANSCRIPT = recorded("claude", "text")


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(1, len(TRANSCRIPT) - 1), max_size=40), st.data())
def test_every_way_of_writing_tells_the_same(
    tmp_path_factory: pytest.TempPathFactory, cuts: list[int], data: st.DataObject
) -> None:
    """Also where the server starts anew at any of them, with the place that was kept."""
    home = tmp_path_factory.mktemp("home")
    path, told = transcript(home), []
    path.parent.mkdir(parents=True)
    places = sorted({0, len(TRANSCRIPT), *cuts})
    followed = Followed(source(home), CLAUDE, LogTail(path, own=True))
    for first, end in pairwise(places):
        append(path, TRANSCRIPT[first:end])
        followed.look()
        some = data.draw(st.integers(0, len(followed.waiting))) if followed.waiting else 0
        told += _given(followed, some)
        if data.draw(st.booleans()):
            kept = followed.kept
            tail = LogTail(path, own=True, place=kept.place)
            followed = Followed(source(home), CLAUDE, tail, skip=kept.skip)
    while followed.waiting or followed.tail.stirred():
        if not (rest := _given(followed, len(followed.waiting))):
            followed.look()
            if not followed.waiting:
                break
        told += rest
    assert told == TOLD


def _given(followed: Followed, count: int) -> list[Observation]:
    given = []
    for _ in range(count):
        given.append(followed.waiting[0][1])
        followed.gave()
    return given


TOLD = [
    seen
    for line in lines_of(TRANSCRIPT)
    if (seen := READERS["claude"](json.loads(line))).facts or seen.sighting or seen.interrupted
]
