"""All that is watched: what may be read at all, what a restart repeats, what fails alone, and what it costs."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from dragoman.agents.hooked.settings import HookedSettings
from dragoman.agents.hooked.watchers import Watchers
from dragoman.hub.errors import InvalidRequest, LimitReached, StorageUnavailable
from dragoman.hub.events import MessageAdded
from dragoman.hub.ports import HookChannel
from tests.hub.rig import until

from .watching import CLAUDE, CODEX, PERMITTED, QUICK, Heard, answered, append, said, stamp, texts, transcript, watching

LONG_AGO = "2026-01-01T00:00:00.000Z"
NAMED_ONLY = HookedSettings(look=0.01, discover=0.02, watch=())


async def looked(watchers: Watchers) -> None:
    """All logs were looked at since."""
    for _ in range(2):
        before = watchers._looked_at
        await until(lambda before=before: watchers._looked_at > before)  # type: ignore[misc]


# What may be read


def _elsewhere(home: Path) -> Path:
    return home / f"{CLAUDE}.jsonl"


def _link(home: Path) -> Path:
    transcript(home).parent.mkdir(parents=True)
    transcript(home).symlink_to(_elsewhere(home))
    return transcript(home)


def _above(home: Path) -> Path:
    transcript(home).parent.mkdir(parents=True)
    return transcript(home).parent / ".." / ".." / ".." / f"{CLAUDE}.jsonl"


def _look_alike(home: Path) -> Path:
    return home / ".claude" / "projects-evil" / f"{CLAUDE}.jsonl"


def _other_name(home: Path) -> Path:
    return transcript(home).with_name("settings.jsonl")


HOSTILE: list[Callable[[Path], Path]] = [_elsewhere, _link, _above, _look_alike, _other_name]


@pytest.mark.parametrize("channel", ["http", "file"])
@pytest.mark.parametrize("path_in", HOSTILE)
async def test_a_post_that_anybody_can_make_has_no_file_read_but_an_agents_own_log(
    tmp_path: Path, channel: HookChannel, path_in: Callable[[Path], Path]
) -> None:
    path, heard = path_in(tmp_path), Heard(CLAUDE)
    append(Path(os.path.realpath(path)), said("before", timestamp=LONG_AGO))
    async with watching(heard, tmp_path, NAMED_ONLY) as watchers:
        watchers.named("claude", CLAUDE, str(path), channel)
        await looked(watchers)
        append(Path(os.path.realpath(path)), said("secret"))
        await looked(watchers)
        assert len(watchers._logs) == 0
    assert heard.told == []


@pytest.mark.parametrize("channel", ["http", "file", "socket"])
async def test_an_agents_own_log_may_be_named_by_anybody(tmp_path: Path, channel: HookChannel) -> None:
    heard = Heard(CLAUDE)
    async with watching(heard, tmp_path, NAMED_ONLY) as watchers:
        watchers.named("claude", CLAUDE, str(transcript(tmp_path)), channel)
        append(transcript(tmp_path), said("hello"))
        await until(lambda: texts(heard.facts) == ["hello"])


@pytest.mark.parametrize("there", [False, True], ids=["later", "already"])
async def test_one_sessions_log_is_not_told_as_anothers(tmp_path: Path, there: bool) -> None:
    heard = Heard(CLAUDE, PERMITTED)
    path = transcript(tmp_path)
    if there:
        append(path, said("before", timestamp=LONG_AGO))
    async with watching(heard, tmp_path, NAMED_ONLY) as watchers:
        watchers.named("claude", PERMITTED, str(path), "http")
        await looked(watchers)
        append(path, said("after"))
        await until(lambda: len(watchers._logs) == 0)
        watchers.named("claude", CLAUDE, str(path), "http")
        await until(lambda: len(watchers._logs) == 1)
        append(path, said("then"))
        await until(lambda: "then" in texts(heard.facts))
    assert {told.session for told in heard.told} == {CLAUDE}


async def test_the_users_own_hooks_may_name_a_log_that_lies_elsewhere(tmp_path: Path) -> None:
    heard = Heard(CLAUDE)
    async with watching(heard, tmp_path, NAMED_ONLY) as watchers:
        watchers.named("claude", CLAUDE, str(tmp_path / "mine.jsonl"), "socket")
        append(tmp_path / "mine.jsonl", said("hello"))
        await until(lambda: texts(heard.facts) == ["hello"])


@pytest.mark.parametrize("path", ["", "relative.jsonl", "/a\0b", "/" + "x" * 5000, "/dev/zero", "/"])
async def test_what_is_no_file_is_named_in_vain(tmp_path: Path, path: str) -> None:
    heard = Heard(CLAUDE)
    async with watching(heard, tmp_path, NAMED_ONLY) as watchers:
        watchers.named("claude", CLAUDE, path, "socket")
        watchers.named("nobody", CLAUDE, str(tmp_path / "x.jsonl"), "socket")
        await looked(watchers)
        append(transcript(tmp_path), said("hello"))
        watchers.named("claude", CLAUDE, str(transcript(tmp_path)), "socket")
        append(transcript(tmp_path), said("again"))
        await until(lambda: "again" in texts(heard.facts))


@pytest.mark.parametrize(("agent", "folder"), [("gemini", ".gemini/tmp/p/chats"), ("qwen", ".qwen/projects/p/chats")])
async def test_other_agents_logs_are_followed_where_their_hooks_name_them(
    tmp_path: Path, agent: str, folder: str
) -> None:
    heard, path = Heard("g1"), tmp_path / folder / "session-1.jsonl"
    first = {"sessionId": "g1", "kind": "main", "timestamp": stamp()}
    answer = {"type": "gemini", "id": "m1", "content": "Hello.", "sessionId": "g1", "timestamp": stamp()}
    if agent == "qwen":
        answer = {"type": "assistant", "uuid": "m1", "sessionId": "g1", "message": {"parts": [{"text": "Hello."}]}}
    async with watching(heard, tmp_path) as watchers:
        append(path, json.dumps(first).encode() + b"\n")
        await looked(watchers)
        assert heard.told == []
        watchers.named(agent, "g1", str(path), "http")
        await until(lambda: len(watchers._logs) == 1)
        append(path, json.dumps(answer).encode() + b"\n")
        await until(lambda: texts(heard.facts) == ["Hello."])


# Restarts


async def test_a_server_that_starts_again_goes_on_where_it_was(tmp_path: Path) -> None:
    path, kept, heard = transcript(tmp_path), tmp_path / "kept.json", Heard(CLAUDE)
    async with watching(heard, tmp_path, NAMED_ONLY, kept=kept) as watchers:
        watchers.named("claude", CLAUDE, str(path), "socket")
        append(path, said("one"), said("two")[:20])
        await until(lambda: texts(heard.facts) == ["one"])
    assert kept.stat().st_mode & 0o777 == 0o600
    append(path, said("two")[20:], answered("meanwhile"))
    async with watching(heard, tmp_path, NAMED_ONLY, kept=kept) as watchers:
        await until(lambda: "meanwhile" in texts(heard.facts))
        watchers.named("claude", CLAUDE, str(path), "socket")
        append(path, said("three"))
        await until(lambda: "three" in texts(heard.facts))
    assert texts(heard.facts) == ["one", "two", "meanwhile", "three"]
    assert heard.told[-1].cwd == "/tmp/project"


async def test_a_lost_server_loses_nothing_and_repeats_little(tmp_path: Path) -> None:
    """Nothing was closed: what was kept is at most a second old."""
    path, kept, heard = transcript(tmp_path), tmp_path / "kept.json", Heard(CLAUDE)
    async with watching(heard, tmp_path, NAMED_ONLY, kept=kept) as watchers:
        watchers.named("claude", CLAUDE, str(path), "socket")
        append(path, said("one"))
        await until(lambda: kept.exists() and b'"offset":0' not in kept.read_bytes() and heard.told)
        lost = kept.read_bytes()
        append(path, said("two"))
        await until(lambda: "two" in texts(heard.facts))
    kept.write_bytes(lost)
    again = Heard(CLAUDE)
    async with watching(again, tmp_path, NAMED_ONLY, kept=kept):
        await until(lambda: texts(again.facts) == ["two"])


async def test_a_server_that_stops_in_the_midst_of_a_log_repeats_no_record(tmp_path: Path) -> None:
    """What storage refused is told by the next server, and no more."""
    path, kept = transcript(tmp_path), tmp_path / "kept.json"

    class Full(Heard):
        def _refuse(self) -> None:
            if len(self.told) == 3:
                raise StorageUnavailable("the disk is full")

    heard: Heard = Full(CLAUDE)
    async with watching(heard, tmp_path, NAMED_ONLY, kept=kept) as watchers:
        watchers.named("claude", CLAUDE, str(path), "socket")
        append(path, *(said(str(number)) for number in range(10)))
        await until(lambda: len(heard.told) == 3)
    again = Heard(CLAUDE)
    async with watching(again, tmp_path, NAMED_ONLY, kept=kept):
        await until(lambda: len(again.told) == 7)
    assert texts(heard.facts) + texts(again.facts) == [str(number) for number in range(10)]


@pytest.mark.parametrize("damage", [b"", b"{", b"[1]", b'[{"path":1}]', b"\xff"])
async def test_places_that_cannot_be_read_are_none(tmp_path: Path, damage: bytes) -> None:
    path, kept, heard = transcript(tmp_path), tmp_path / "kept.json", Heard(CLAUDE)
    kept.write_bytes(damage)
    append(path, said("before", timestamp=LONG_AGO))
    async with watching(heard, tmp_path, NAMED_ONLY, kept=kept) as watchers:
        watchers.named("claude", CLAUDE, str(path), "socket")
        await until(lambda: len(watchers._logs) == 1)
        append(path, said("after"))
        await until(lambda: texts(heard.facts) == ["after"])


@pytest.mark.parametrize("what", ["much", "another", "gone"])
async def test_a_log_that_is_not_what_it_was_is_gone_on_with_at_its_end(tmp_path: Path, what: str) -> None:
    path, kept, heard = transcript(tmp_path), tmp_path / "kept.json", Heard(CLAUDE)
    async with watching(heard, tmp_path, NAMED_ONLY, kept=kept) as watchers:
        watchers.named("claude", CLAUDE, str(path), "socket")
        append(path, said("one"))
        await until(lambda: heard.told)
    if what == "much":
        append(path, *(said("meanwhile") for _ in range(100)))
    elif what == "another":
        path.write_bytes(said("quite another") * 10)
    else:
        path.unlink()
    settings = HookedSettings(look=0.01, discover=0.02, watch=(), log_behind=1000)
    async with watching(heard, tmp_path, settings, kept=kept) as watchers:
        await looked(watchers)
        watchers.named("claude", CLAUDE, str(path), "socket")
        await until(lambda: len(watchers._logs) == 1)
        append(path, said("after"))
        await until(lambda: "after" in texts(heard.facts))
    assert texts(heard.facts) == ["one", "after"]


# What fails


async def test_what_storage_refuses_is_told_later_and_in_order(tmp_path: Path) -> None:
    heard = Heard()
    heard.refuses = [StorageUnavailable("the disk is full")] * 3
    async with watching(heard, tmp_path):
        append(transcript(tmp_path), said("one"), said("two"))
        await until(lambda: texts(heard.facts) == ["one", "two"])


@pytest.mark.parametrize("problem", [LimitReached("too many"), InvalidRequest("too deep"), ZeroDivisionError()])
async def test_what_is_refused_costs_only_itself(tmp_path: Path, problem: Exception) -> None:
    heard = Heard()
    heard.refuses = [problem]
    async with watching(heard, tmp_path):
        append(transcript(tmp_path), said("one"), said("two"))
        await until(lambda: texts(heard.facts) == ["two"])


async def test_a_log_that_cannot_be_read_costs_no_other(tmp_path: Path) -> None:
    heard = Heard(CLAUDE, PERMITTED)
    folder = transcript(tmp_path).parent
    async with watching(heard, tmp_path, NAMED_ONLY) as watchers:
        (folder / "a.jsonl").mkdir(parents=True)
        os.mkfifo(folder / "b.jsonl")
        for name in ("a", "b", "c"):
            watchers.named("claude", PERMITTED, str(folder / f"{name}.jsonl"), "socket")
        watchers.named("claude", CLAUDE, str(transcript(tmp_path)), "socket")
        append(transcript(tmp_path), b"\xff\n[]\n", said("one"))
        await until(lambda: texts(heard.facts) == ["one"])


async def test_no_more_logs_are_followed_than_there_is_room_for(tmp_path: Path) -> None:
    """The quietest is left; one that is written to again is found again."""
    heard, settings = Heard(), HookedSettings(look=0.01, discover=0.02, logs=3)
    names = [f"{number}9fb6968{CLAUDE[8:]}" for number in range(6)]
    async with watching(heard, tmp_path, settings) as watchers:
        for count, name in enumerate(names, 1):
            append(transcript(tmp_path, name), said("first", name))
            await until(lambda count=count: len(heard.known) == count)  # type: ignore[misc]
        assert len(watchers._logs) == 3
        append(transcript(tmp_path, names[0]), said("second", names[0]))
        await until(lambda: texts(heard.facts).count("second") == 1)
    assert texts(heard.facts).count("first") == 6


async def test_what_nobody_knows_yet_waits_and_holds_up_no_other(tmp_path: Path) -> None:
    """An agent of ours learns its own name late."""
    heard, ours, theirs = Heard(), transcript(tmp_path), transcript(tmp_path, PERMITTED)
    heard.own = {CLAUDE: None, PERMITTED: None}
    async with watching(heard, tmp_path) as watchers:
        append(ours, said("ours"))
        append(theirs, said("theirs", PERMITTED))
        await until(lambda: len(watchers._logs) == 2)
        append(transcript(tmp_path, CODEX), said("another's", CODEX))
        await until(lambda: texts(heard.facts) == ["another's"])
        heard.own = {CLAUDE: True, PERMITTED: False}
        await until(lambda: "theirs" in texts(heard.facts))
        append(ours, said("more"))
        append(theirs, said("more", PERMITTED))
        await until(lambda: "more" in texts(heard.facts))
        await until(lambda: len(watchers._logs) == 2)
    assert heard.known == {PERMITTED, CODEX}


# What it costs


async def test_all_are_looked_at_when_somebody_waits(tmp_path: Path) -> None:
    """Also those that nobody has written to for long."""
    heard, settings = Heard(CLAUDE), HookedSettings(look=60.0, discover=60.0, watch=())
    async with watching(heard, tmp_path, settings) as watchers:
        watchers.named("claude", CLAUDE, str(transcript(tmp_path)), "socket")
        await until(lambda: len(watchers._logs) == 1)
        for followed in watchers._logs:
            followed.stirred_at = float("-inf")
        append(transcript(tmp_path), said("one"))
        watchers.hurry()
        await until(lambda: texts(heard.facts) == ["one"])


async def test_a_large_log_does_not_hold_up_the_others(tmp_path: Path) -> None:
    heard = Heard(CLAUDE, PERMITTED)
    async with watching(heard, tmp_path, NAMED_ONLY) as watchers:
        for session in (CLAUDE, PERMITTED):
            watchers.named("claude", session, str(transcript(tmp_path, session)), "socket")
        await until(lambda: len(watchers._logs) == 2)
        append(transcript(tmp_path), said("x" * 500) * 10_000)
        append(transcript(tmp_path, PERMITTED), said("small", PERMITTED))
        await until(lambda: "small" in texts(heard.facts))
        assert len(heard.of(MessageAdded)) < 10_000
        await until(lambda: len(heard.of(MessageAdded)) == 10_001, seconds=60)


@pytest.mark.slow
async def test_idle_sessions_cost_next_to_nothing(tmp_path: Path) -> None:
    """With the settings as they are, fifty sessions whose logs nobody writes to, among five hundred that are over."""
    heard, old = Heard(), time.time() - 600
    for number in range(550):
        name = f"{number:08x}{CLAUDE[8:]}"
        append(transcript(tmp_path, name), said("first", name))
        changed = old if number < 50 else old - 86400
        os.utime(transcript(tmp_path, name), (changed, changed))
    settings = HookedSettings(events_file=str(tmp_path / "events.jsonl"))
    async with watching(heard, tmp_path, settings) as watchers:
        await until(lambda: len(heard.told) == 50)
        for followed in watchers._logs:
            followed.stirred_at = float("-inf")  # as after a minute
        await _looked_without_hurry(watchers)
        began, spent = time.monotonic(), time.process_time()
        await _looked_without_hurry(watchers)
        share = (time.process_time() - spent) / (time.monotonic() - began)
    assert share < 0.01


async def _looked_without_hurry(watchers: Watchers) -> None:
    """Asking often would cost more than what is measured."""
    before = watchers._looked_at
    while watchers._looked_at == before:
        await asyncio.sleep(0.2)


async def test_nothing_is_watched_where_nothing_is_to_be(tmp_path: Path) -> None:
    heard = Heard()
    append(tmp_path / ".codex/sessions/2026/11/29/rollout-x.jsonl", b"{}\n")
    async with watching(heard, tmp_path, NAMED_ONLY) as watchers:
        append(transcript(tmp_path), said("one"))
        append(transcript(tmp_path, CODEX), said("one", CODEX))
        await looked(watchers)
    assert heard.told == []


async def test_it_can_be_closed_at_any_time(tmp_path: Path) -> None:
    watchers = Watchers(Heard(), QUICK, home=tmp_path, environ={})
    await watchers.close()
    watchers = Watchers(Heard(), QUICK, home=tmp_path, environ={})
    await watchers.open()
    watchers.named("claude", CLAUDE, str(transcript(tmp_path)), "socket")
    await watchers.close()
    watchers.named("claude", CLAUDE, str(transcript(tmp_path)), "socket")
