"""Conversations that leave memory while nobody shows them: whoever comes back sees the same, and no clock is lost."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Any

from .conftest import MakeServer
from .rig import ALICE, BOB, LIMIT, Onion, Talk, calls, events, of, script

TIGHT = "\n[dialects.onion]\nkept_views = 1\nview_bytes = 1\n"
"""Nothing is kept that can be made again."""

READ = calls(("read", {"filePath": "notes.txt"}))[0]


async def at_once(served: Onion, names: list[str], leaving: contextlib.AsyncExitStack) -> list[Talk]:
    """Sockets that CONNECT to these sessions in the same moment."""
    talks = [await leaving.enter_async_context(served.talk()) for _ in names]
    await asyncio.gather(*(talk.connect(name, key=ALICE) for talk, name in zip(talks, names, strict=True)))
    return talks


async def test_more_come_back_at_once_than_are_kept_in_memory(make_server: MakeServer) -> None:
    served = await make_server(config=TIGHT)
    names = [f"session {number}" for number in range(40)]
    async with contextlib.AsyncExitStack() as leaving:
        talks = await at_once(served, names, leaving)
        await asyncio.gather(*(talk.turn(script(f"say {name}")) for talk, name in zip(talks, names, strict=True)))
    served.kill()
    await served.start()
    async with contextlib.AsyncExitStack() as leaving:
        talks = await at_once(served, names, leaving)
        for talk, name in zip(talks, names, strict=True):
            assert talk.frames[0]["session"]["result"] == name
        frames = await asyncio.gather(*(talk.turn(script("say again")) for talk in talks))
        assert [each[-1]["result"] for each in frames] == ["again"] * len(names)
    async with served.client(names[0], key=ALICE) as talk:
        assert await talk.status() == "connected"


async def test_a_turn_whose_session_nobody_has_shown_for_long_still_counts_as_stuck(make_server: MakeServer) -> None:
    served = await make_server(config=TIGHT + "stuck_seconds = 2.5\n")
    async with served.client("stuck", key=ALICE) as talk:
        talk.input(script("wait"))
        await talk.next("llm_call")
    (row,) = await served.hub_sessions()
    for number in range(4):
        async with served.client(f"other {number}", key=BOB):
            pass
    async with asyncio.timeout(LIMIT):
        while (await served.asked("GET", f"/sessions/{row['session']}"))["status"] != "idle":
            await asyncio.sleep(0.05)
    async with served.client("stuck", key=ALICE) as talk:
        frames = await talk.turn(script("say goes on"))
        assert frames[-1]["result"] == "goes on"


async def test_a_turn_of_which_nothing_is_kept_is_told_with_the_same_ids(make_server: MakeServer) -> None:
    served = await make_server(config=TIGHT)
    (served.work / "notes.txt").write_text("some notes\n")
    turn = script(f"think so\nsay I will read\n{READ}", f"deltas 20\n{READ}", "say before\npause 60000")
    async with served.client("a", key=ALICE) as witness:
        witness.input(turn)
        await witness.until(lambda: len(of(witness.frames, "llm_call")) == 3, "the third step")
        await witness.next("assistant_delta")
        await witness.status()
        heard = told(witness.frames)
    for number in range(3):
        async with served.client(f"other {number}", key=ALICE):
            pass
    for last in [None, *(frame["id"] for frame in heard[:-1:3])]:
        async with served.client("a", key=ALICE, last_msg_id=last) as talk:
            await talk.until(lambda talk=talk: heard[-1] in talk.frames, "the newest event")  # type: ignore[misc]
            behind = [place + 1 for place, frame in enumerate(heard) if frame["id"] == last] or [0]
            assert told(talk.frames) in [heard[start:] for start in behind]


def told(frames: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [json.loads(json.dumps(frame)) for frame in events(frames)]
