"""The events file: what scripts append is taken as it was posted, once, however it is written."""

from __future__ import annotations

import asyncio
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.agents.hooked.events_file import EventsFile
from dragoman.agents.hooked.settings import HookedSettings
from dragoman.hub.errors import LimitReached, StorageUnavailable
from dragoman.hub.limits import HubLimits
from tests.hub.rig import until

from .watching import Heard, append, watching

RAW = {
    "session_id": "s1",
    "transcript_path": "/home/user/t.jsonl",
    "cwd": "/home/user/proj",
    "hook_event_name": "PreToolUse",
    "tool_name": "Bash",
    "tool_input": {"command": "ls"},
    "tool_use_id": "x1",
    "hook_type": "",
    "agent": "claude",
    "received_at": 1795817573662,
}
"""What the generated script appends: the payload as it came, and what the script knows beside it."""

HALF_NORMALISED = {
    "session_id": "s1",
    "cwd": "/home/user/proj",
    "hook_event_name": "PreToolUse",
    "tool_name": "Bash",
    "tool_input": {"command": "ls"},
    "tool_use_id": "x1",
    "id": "7f3a4148-718b-43ac-84f1-42db9c8149a6",
    "timestamp": 1795817354541,
    "type": "pre_tool_use",
    "sessionId": "s1",
    "agent": "claude",
    "terminal": {"tmuxPane": None, "tmuxSocket": None, "tty": "not a tty"},
}
"""What the script in the repository appends."""

NORMALISED = {"type": "stop", "id": "e1", "timestamp": 1, "sessionId": "s1", "agent": "codex", "response": "déjà vu 🙂"}


def line(payload: dict[str, Any]) -> bytes:
    return json.dumps(payload, ensure_ascii=False).encode() + b"\n"


def settings_for(path: Path) -> HookedSettings:
    return HookedSettings(look=0.01, events_file=str(path), watch=())


async def test_what_is_appended_from_now_on_is_taken(tmp_path: Path) -> None:
    path, heard = tmp_path / "events.jsonl", Heard()
    append(path, line(NORMALISED) * 3, line(RAW)[:30])
    async with watching(heard, tmp_path, settings_for(path)):
        append(path, line(RAW)[30:], line(HALF_NORMALISED), line(NORMALISED))
        await until(lambda: len(heard.posts) == 3)
    assert heard.posted == [RAW, HALF_NORMALISED, NORMALISED]
    assert {(post.channel, post.agent, post.session, post.secret) for post in heard.posts} == {
        ("file", None, None, None)
    }


async def test_a_file_that_is_made_later_is_taken_whole(tmp_path: Path) -> None:
    path, heard = tmp_path / "later" / "events.jsonl", Heard()
    async with watching(heard, tmp_path, settings_for(path)):
        append(path, line(RAW))
        await until(lambda: heard.posted == [RAW])


@pytest.mark.parametrize("how", ["cut", "replaced", "gone"])
async def test_a_file_that_begins_anew_is_taken_from_its_beginning(tmp_path: Path, how: str) -> None:
    path, heard = tmp_path / "events.jsonl", Heard()
    append(path, line(NORMALISED) * 5)
    async with watching(heard, tmp_path, settings_for(path)):
        append(path, line(RAW))
        await until(lambda: heard.posted == [RAW])
        if how == "cut":
            path.write_bytes(line(HALF_NORMALISED))
        elif how == "replaced":
            append(tmp_path / "other", line(HALF_NORMALISED))
            (tmp_path / "other").replace(path)
        else:
            path.unlink()
            append(path, line(HALF_NORMALISED))
        await until(lambda: heard.posted == [RAW, HALF_NORMALISED])
        append(path, line(NORMALISED))
        await until(lambda: heard.posted[2:] == [NORMALISED])


async def test_a_file_from_which_old_lines_are_taken_brings_nothing_twice(tmp_path: Path) -> None:
    """``tail -n 2 f >f.new; mv f.new f`` keeps it short."""
    path, heard = tmp_path / "events.jsonl", Heard()
    async with watching(heard, tmp_path, settings_for(path)):
        append(path, line(NORMALISED) * 5, line(RAW), line(HALF_NORMALISED))
        await until(lambda: len(heard.posts) == 7)
        append(tmp_path / "new", line(RAW), line(HALF_NORMALISED), line(NORMALISED))
        (tmp_path / "new").replace(path)
        await until(lambda: len(heard.posts) == 8)
        append(path, line(RAW))
        await until(lambda: len(heard.posts) == 9)
    assert heard.posted[7:] == [NORMALISED, RAW]


async def test_a_line_that_is_none_costs_only_itself(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path, heard = tmp_path / "events.jsonl", Heard()
    limits = HubLimits(hook_bytes=2000, hook_values=100)
    async with watching(heard, tmp_path, settings_for(path), limits=limits):
        append(
            path, b"not JSON\n[1]\n\nnull\n\xff\xfe\n", line({"a": "secret" * 1000}), line({"a": [0] * 200}), line(RAW)
        )
        await until(lambda: heard.posted == [RAW])
    told = [record.getMessage() for record in caplog.records]
    assert "a line of events.jsonl is left out" in told[0]
    assert not any("secret" in text for text in told)


async def test_what_storage_refuses_is_taken_later_and_in_order(tmp_path: Path) -> None:
    path, heard = tmp_path / "events.jsonl", Heard()
    heard.refuses = [StorageUnavailable("the disk is full")] * 2
    async with watching(heard, tmp_path, settings_for(path)):
        append(path, line(RAW), line(NORMALISED))
        await until(lambda: len(heard.posts) == 2)
    assert heard.posted == [RAW, NORMALISED]


async def test_what_is_over_a_limit_is_left_out(tmp_path: Path) -> None:
    path, heard = tmp_path / "events.jsonl", Heard()
    heard.refuses = [LimitReached("too many sessions")]
    async with watching(heard, tmp_path, settings_for(path)):
        append(path, line(RAW), line(NORMALISED))
        await until(lambda: heard.posted == [NORMALISED])


async def test_many_lines_at_once_are_all_taken_in_order(tmp_path: Path) -> None:
    path, heard = tmp_path / "events.jsonl", Heard()
    async with watching(heard, tmp_path, settings_for(path)):
        append(path, *(line({"n": number, "pad": "x" * 300}) for number in range(5000)))
        await until(lambda: len(heard.posts) == 5000)
    assert [payload["n"] for payload in heard.posted] == list(range(5000))


LINES = [RAW, HALF_NORMALISED, NORMALISED, {"text": "\u00e9\u20ac\U0001f642" * 5}, {}]


@settings(deadline=None, max_examples=50)
@given(st.lists(st.sampled_from(LINES), max_size=12), st.lists(st.integers(1, 400), max_size=40))
def test_every_way_of_writing_gives_the_same(
    tmp_path_factory: pytest.TempPathFactory, payloads: list[dict[str, Any]], sizes: list[int]
) -> None:
    path, heard = tmp_path_factory.mktemp("events") / "events.jsonl", Heard()
    events = EventsFile(path, heard, HubLimits(), say=pytest.fail)
    events.open()
    data = b"".join(line(payload) for payload in payloads)
    places = sorted({0, len(data), *(min(sum(sizes[:count]), len(data)) for count in range(len(sizes)))})
    for first, end in pairwise(places):
        append(path, data[first:end])
        events.look()
        asyncio.run(events.give())
    assert heard.posted == payloads
