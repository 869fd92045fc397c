"""Beyond the page, for those who ask for it: a session that outlives its link, is joined, and is told exactly once."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from websockets.exceptions import InvalidStatus

from tests.client.chopper import Chopper

from .conftest import MakeServer
from .rig import Coworker, Frame, Heard, Relay, calls, kinds, raw_link, read_until, script, without_stream

FEATURES = ("resume", "void")

LINK = {
    *("server_hello", "session_settings", "observability_status", "provider_auth_methods", "provider_catalog"),
    *("provider_status", "features", "pong"),
}
"""What a link is told of itself, and not of the session's log."""

QUESTION = {"question": "Which database?", "options": ["PostgreSQL", "MySQL"]}
ROUND = script(
    *calls(("ask", QUESTION), ("bash", {"command": "touch made.txt"})),
    "think nearly there\nsay All is done",
)
"""A turn with an ask, an approval, and all kinds of chunks."""


def events(frames: list[Frame]) -> list[Frame]:
    """What is told of the session's log, deltas of one part joined: the server may join them for a slow link."""
    told: list[Frame] = []
    for frame in frames:
        if frame["type"] in LINK or _answers(frame):
            continue
        if _goes_on(told[-1:], frame):
            part = {**frame["part"], **{key: told[-1]["part"][key] + frame["part"][key] for key in _grown(frame)}}
            told[-1] = {**frame, "part": part, "rawPart": None}
        else:
            told.append({**frame, "rawPart": None} if frame["type"] == "model_stream_chunk" else frame)
    return told


def _answers(frame: Frame) -> bool:
    """A reply to one link: whoever answers a prompt again after a cut is told that it was answered."""
    return bool(frame["type"] == "log" and frame["line"].startswith("[warn] "))


def _goes_on(before: list[Frame], frame: Frame) -> bool:
    if frame["type"] != "model_stream_chunk" or not frame["partType"].endswith("_delta") or not before:
        return False
    return all(before[0].get(key) == frame[key] for key in ("turnId", "partType")) and (
        before[0]["part"]["id"] == frame["part"]["id"]
    )


def _grown(frame: Frame) -> list[str]:
    return [key for key in ("text", "delta") if key in frame["part"]]


async def respond(link: Heard) -> None:
    """Answer whatever is asked, as long as the test goes on."""
    answered: set[str] = set()

    def asked() -> list[Frame]:
        prompts = [frame for frame in link.frames if frame["type"] in ("ask", "approval")]
        return [frame for frame in prompts if frame["requestId"] not in answered]

    while True:
        for frame in await link.until(asked, "a prompt", 3600):
            answered.add(frame["requestId"])
            if frame["type"] == "ask":
                link.client.answer(frame["requestId"], "PostgreSQL")
            else:
                link.client.approve(frame["requestId"], approved=True)


@contextlib.asynccontextmanager
async def responding(link: Heard) -> AsyncIterator[None]:
    task = asyncio.create_task(respond(link))
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def told_by(served: Coworker, cuts: list[int]) -> tuple[list[Frame], list[Frame], int]:
    """The events of a turn as a link heard them that was cut, and as one did that was not; how many cuts there were."""
    async with (
        Relay(served.url, cuts) as relay,
        served.client(url=relay.url, features=FEATURES) as link,
        served.client(session=link.client.session, features=FEATURES) as twin,
        responding(link),
    ):
        await twin.connected()
        await link.client.say(ROUND)
        await twin.next("session_busy", busy=False)
        last = twin.frames[twin.mark - 1]["cursor"]
        await link.until(lambda: [frame for frame in link.frames if frame.get("cursor") == last], "the last event")
        await link.client.ping()
        return events(link.frames), events(twin.frames), relay.connections - 1


@pytest.mark.slow
async def test_a_cut_after_any_frame_of_a_turn_loses_nothing_and_repeats_nothing(served: Coworker) -> None:
    heard, twin, _ = await told_by(served, [])
    assert heard == twin
    count = len(twin) + len(LINK)
    gate = asyncio.Semaphore(6)

    async def one(cut: int) -> None:
        async with gate:
            heard, twin, cuts = await told_by(served, [cut])
        assert heard == twin, cut
        assert cuts <= 1

    await asyncio.gather(*(one(cut) for cut in range(1, count + 5)))


@pytest.mark.slow
@pytest.mark.parametrize("every", [7, 9, 13])
async def test_many_cuts_of_one_turn_lose_nothing_and_repeat_nothing(served: Coworker, every: int) -> None:
    heard, twin, cuts = await told_by(served, [every] * 8)
    assert heard == twin
    assert cuts > 1


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_cuts_at_any_byte_lose_nothing_repeat_nothing_and_make_one_turn_of_a_prompt(
    served: Coworker, seed: int
) -> None:
    """Also in the handshake, within a message, and before anything new came."""
    async with (
        Chopper(served.ready["port"], seed=seed, most=12_000) as chopper,
        served.client(url=chopper.url.replace("http", "ws").replace("/hub", "/ws"), features=FEATURES) as link,
        served.client(session=link.client.session, features=FEATURES) as twin,
        responding(link),
    ):
        await twin.connected()
        chopper.cuts_left = 30
        chopper.cut()
        said = 0
        while chopper.cuts < 30:
            await link.client.say(script(*calls(("ask", QUESTION)), f"deltas 40\nsay number {said}"))
            await twin.next("session_busy", busy=False)
            said += 1
        last = twin.frames[twin.mark - 1]["cursor"]
        await link.until(lambda: events(link.frames)[-1].get("cursor") == last, "the last event")
        assert events(link.frames) == events(twin.frames)
        assert [frame["text"] for frame in twin.frames if frame["type"] == "user_message"].count(
            script(*calls(("ask", QUESTION)), "deltas 40\nsay number 0")
        ) == 1
        assert link.client.connections > 5


async def test_the_log_is_told_again_from_any_cursor(served: Coworker) -> None:
    async with served.client(features=FEATURES) as link, responding(link):
        await link.client.say(ROUND)
        await link.next("session_busy", busy=False)
        await link.client.ping()
        whole = events(link.frames)
        cursors = [frame["cursor"] for frame in whole if "cursor" in frame]
        assert cursors == sorted(set(cursors))
        for after in cursors[::4]:
            async with served.client(session=link.client.session, features=FEATURES, after=after) as late:
                await (late.next("session_busy", busy=False) if after < cursors[-1] else late.connected())
                await late.client.ping()
                told = events(late.frames)
                if kinds(told)[:1] == ["session_busy true"] and "cursor" not in told[0]:
                    told.pop(0)  # what was true at that cursor
                place = next(place for place, frame in enumerate(whole) if frame.get("cursor") == after)
                assert told == whole[place + 1 :]


async def test_prompts_that_are_open_are_told_to_a_new_link_and_answered_from_there(served: Coworker) -> None:
    both = "\n".join(calls(("ask", QUESTION), ("bash", {"command": "touch there.txt"})))
    async with served.client(features=FEATURES) as link:
        await link.client.say(script(both, "say Both"))
        asked = await link.next("ask")
        link.mark = 0
        approval = await link.next("approval")
        cursor, session = link.frames[-1].get("cursor", link.client.cursor), link.client.session
    async with served.client(session=session, features=FEATURES, after=cursor) as late:
        assert await late.next("session_busy", busy=True)
        replayed = {frame["requestId"]: frame for frame in (await late.next("ask"), await late.next("approval"))}
        for prompt in (asked, approval):
            assert replayed[prompt["requestId"]] == {key: value for key, value in prompt.items() if key != "cursor"}
        late.client.answer(asked["requestId"], "MySQL")
        late.client.approve(approval["requestId"], approved=True)
        await late.next("assistant_message", text="Both")
        await late.next("session_busy", busy=False)
        voids = {frame["requestId"]: frame["outcome"] for frame in late.frames if frame["type"] == "prompt_void"}
        assert voids == {asked["requestId"]: "answered", approval["requestId"]: "answered"}


async def test_a_session_that_nobody_comes_back_to_is_ended(make_server: MakeServer) -> None:
    served = await make_server(config="\n[dialects.coworker]\nresume_seconds = 0.5\n")
    async with served.client(features=("resume",)) as link:
        await link.client.say(script("wait"))
        session = link.client.session
    await served.closed(session)
    log = await served.whole_log(session)
    at = {event["fact"]["type"]: event["at"] for event in log}
    assert at["session.closed"] - at["turn.started"] >= 500, "it goes on meanwhile"
    assert [event["fact"]["outcome"] for event in log if event["fact"]["type"] == "turn.ended"] == ["interrupted"]


async def test_who_is_refused_does_not_keep_a_session_alive(make_server: MakeServer) -> None:
    served = await make_server(config="\n[dialects.coworker]\nresume_seconds = 1.0\n")
    async with raw_link(f"{served.url}?features=resume") as link:
        session = json.loads(await link.recv())["sessionId"]
    with pytest.raises(InvalidStatus) as refused:
        async with raw_link(f"{served.url}?session={session}&after=1000000"):
            pass
    assert refused.value.response.status_code == 400
    await served.closed(session)


async def test_a_session_is_kept_for_whoever_comes_back_in_time(make_server: MakeServer) -> None:
    served = await make_server(config="\n[dialects.coworker]\nresume_seconds = 2.0\n")
    async with Relay(served.url, [12, 8]) as relay, served.client(url=relay.url, features=("resume",)) as link:
        session = link.client.session
        for number in range(3):
            await link.turn(script(f"say hello {number}"))
        assert (link.client.connections, link.client.session) == (3, session)
        said = [frame["text"] for frame in link.frames if frame["type"] == "assistant_message"]
        assert said == ["hello 0", "hello 1", "hello 2"]
    await served.closed(session)


@pytest.mark.parametrize("features", [(), ("resume",)], ids=["plain", "resume"])
async def test_a_session_whose_maker_left_lives_as_long_as_somebody_views_it(
    make_server: MakeServer, features: tuple[str, ...]
) -> None:
    served = await make_server(config="\n[dialects.coworker]\nresume_seconds = 0.2\n")
    async with contextlib.AsyncExitStack() as stack:
        async with served.client(features=features) as maker:
            session = maker.client.session
            guest = await stack.enter_async_context(served.client(session=session))
        async with served.client(session=session):
            await guest.connected()
        frames = await guest.turn(script("say still here"))
        assert "assistant_message" in kinds(frames)
        assert (await served.asked("GET", f"/sessions/{session}"))["status"] == "idle"
    await served.closed(session)


async def test_a_session_is_told_on_after_the_server_was_lost(make_server: MakeServer) -> None:
    """Invariant 6: what ran is over, and said to be; the client that comes back has its session, and goes on."""
    served = await make_server()
    async with Relay(served.url) as relay, served.client(url=relay.url, features=FEATURES) as link:
        await link.client.say(script(*calls(("ask", QUESTION)), "say no"))
        asked = await link.next("ask")
        session = link.client.session
        served.kill()
        await served.start()
        relay.target = served.url
        await link.next("prompt_void", requestId=asked["requestId"], outcome="cancelled")
        await link.next("session_busy", busy=False)
        frames = await link.turn(script("say here again"))
        assert [frame["text"] for frame in frames if frame["type"] == "assistant_message"] == ["here again"]
        assert link.client.session == session
        cursors = [frame["cursor"] for frame in link.frames[1:] if "cursor" in frame and frame["type"] not in LINK]
        assert cursors == sorted(set(cursors))


async def test_sessions_that_a_lost_server_left_open_end_with_nobody_there(make_server: MakeServer) -> None:
    """Their links ended with the server. Who resumes has its time to come back; what no link made stays."""
    served = await make_server(config="\n[dialects.coworker]\nresume_seconds = 1.0\n")
    kept = (await served.asked("POST", "/sessions", {"kind": "native", "cwd": str(served.work)}))["session"]
    async with raw_link(served.url) as plain, raw_link(f"{served.url}?features=resume") as resuming:
        left = [json.loads(await link.recv())["sessionId"] for link in (plain, resuming)]
        served.kill()
    await served.start()
    async with served.client(session=left[1], features=("resume",)) as link:
        await served.closed(left[0])
        assert "assistant_message" in kinds(await link.turn(script("say in time")))
    await served.closed(left[1])
    assert (await served.asked("GET", f"/sessions/{kept}"))["status"] == "idle"


async def test_a_link_that_joins_sees_all_and_leaves_without_harm(served: Coworker) -> None:
    async with served.client() as owner:
        async with served.client(session=owner.client.session) as guest:
            await guest.connected()
            assert guest.client.config == owner.client.config
            await owner.client.say(script("say for both"))
            await guest.next("assistant_message", text="for both")
            await owner.next("session_busy", busy=False)
            await guest.client.say(script("wait"))
            await owner.next("session_busy", busy=True)
        await owner.client.ping()
        assert owner.client.busy, "who left did not end it"
        owner.client.cancel()
        await owner.next("session_busy", busy=False)
        assert not [frame for frame in owner.frames if "cursor" in frame], "a plain link is told no cursor"


@pytest.mark.parametrize("kind", ["native", "scripted"])
async def test_a_session_of_any_kind_can_be_joined(served: Coworker, kind: str) -> None:
    made = {"kind": kind, "cwd": str(served.work)}
    session = (await served.asked("POST", "/sessions", made))["session"]
    async with served.client(session=session, features=FEATURES) as link:
        assert link.client.session == session
        await link.connected()
        await link.client.say(script("say hello") if kind == "native" else "say hello")
        await link.next("assistant_message", text="hello")
        await link.next("session_busy", busy=False)
    row = await served.asked("GET", f"/sessions/{session}")
    assert row["status"] == "idle", "it was not made by the link, so it stays"


@pytest.mark.parametrize("join", [False, True], ids=["resume", "joined"])
async def test_a_prompt_that_is_sent_twice_is_one_turn_until_the_conversation_is_reset(
    served: Coworker, join: bool
) -> None:
    async with contextlib.AsyncExitStack() as stack:
        session: dict[str, Any] = {"features": "resume"}
        if join:
            owner = await stack.enter_async_context(served.client())
            session = {"session": owner.client.session}
        query = "&".join(f"{key}={value}" for key, value in session.items())
        socket = await stack.enter_async_context(raw_link(f"{served.url}?{query}"))
        frames: list[Frame] = []
        hello = await read_until(socket, frames, "provider_status")
        say = {
            "type": "user_message",
            "sessionId": hello["sessionId"],
            "text": script("say hi"),
            "clientMessageId": "m",
        }
        await socket.send(json.dumps(say))
        await read_until(socket, frames, "session_busy", busy=False)
        del frames[:]
        await socket.send(json.dumps(say))
        echo = await read_until(socket, frames, "user_message")
        assert {key: value for key, value in echo.items() if key != "cursor"} == say
        await socket.send(json.dumps({"type": "reset", "sessionId": hello["sessionId"]}))
        await read_until(socket, frames, "reset_done")
        assert kinds(frames) == ["user_message", "todos", "reset_done"]
        del frames[:]
        await socket.send(json.dumps(say))
        await read_until(socket, frames, "session_busy", busy=False)
        assert "assistant_message" in without_stream(frames), "it is a new turn"
