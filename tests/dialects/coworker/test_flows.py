"""The seed's flows of a link and its turns, over real sockets, in its order of frames; and what it says beside them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from uuid import UUID

import pytest
from websockets.asyncio.client import ClientConnection

from dragoman.client.errors import Refused
from tests.faults.process import eventually

from .rig import BEGIN, END, Coworker, Frame, calls, kinds, of, raw_link, script, without_stream

TODOS = [
    {"content": "Fix auth bug", "status": "in_progress", "activeForm": "Fixing auth bug"},
    {"content": "Run tests", "status": "pending", "activeForm": "Running tests"},
]


def parts(frames: Iterable[Frame]) -> list[str]:
    """The types of the chunks, those of one part's deltas as one."""
    told: list[str] = []
    for chunk in of(frames, "model_stream_chunk"):
        if not (chunk["partType"].endswith("_delta") and told[-1:] == [chunk["partType"]]):
            told.append(chunk["partType"])
    return told


# Handshake


async def test_a_new_link_is_told_what_the_page_says_and_nothing_is_asked_of_it(served: Coworker) -> None:
    async with served.client() as link:
        frames = await link.connected()
        assert kinds(frames)[:4] == [
            "server_hello",
            "session_settings",
            "observability_status",
            "provider_auth_methods",
        ]
        assert sorted(kinds(frames)[4:]) == ["provider_catalog", "provider_status"]
        hello = frames[0]
        assert list(hello) == ["type", "sessionId", "protocolVersion", "capabilities", "config"]
        assert str(UUID(hello["sessionId"])) == hello["sessionId"]
        assert (hello["protocolVersion"], hello["capabilities"]) == ("3.0", {"modelStreamChunk": "v1"})
        assert list(hello["config"]) == ["provider", "model", "workingDirectory", "outputDirectory"]
        assert hello["config"]["workingDirectory"] == str(served.work)
        assert (hello["config"]["provider"], hello["config"]["model"]) == ("scripted", "scripted")
        assert frames[1]["enableMcp"] is True
        assert frames[2]["enabled"] is False
        assert frames[2]["observability"]["mode"] == "local_docker"


async def test_each_link_has_a_session_of_its_own_and_a_greeting_is_not_answered(served: Coworker) -> None:
    async with served.client() as one, served.client(name="my-ui") as other:
        assert one.client.session != other.client.session
        await other.connected()
        await other.client.ping()
        assert kinds(other.frames[other.mark :]) == ["pong"]


async def hear(socket: ClientConnection, kind: str) -> Frame:
    async with asyncio.timeout(10):
        while (frame := json.loads(await socket.recv()))["type"] != kind:
            pass
    return dict(frame)


@pytest.mark.parametrize("binary", [False, True], ids=["text", "binary"])
async def test_keepalive(served: Coworker, binary: bool) -> None:
    async with raw_link(served.url) as socket:
        session = (await hear(socket, "server_hello"))["sessionId"]
        ping = json.dumps({"type": "ping", "sessionId": session})
        await socket.send(ping.encode() if binary else ping)
        assert await hear(socket, "pong") == {"type": "pong", "sessionId": session}
        await socket.send('{"type":"ping","sessionId":"another"}')
        error = await hear(socket, "error")
        assert error == {
            "type": "error",
            "sessionId": session,
            "message": "Unknown sessionId: another",
            "code": "unknown_session",
            "source": "protocol",
        }


# Turns


async def test_normal_conversation(served: Coworker) -> None:
    async with served.client() as link:
        await link.connected()
        steps = script(*calls(("todoWrite", {"todos": TODOS})), "think they say hello\nsay Hi! How can I help?")
        echo = await link.client.say(steps, message_id="abc-123")
        frames = await link.settled()
        assert without_stream(frames) == [*BEGIN, "todos", "reasoning", "assistant_message", *END]
        assert frames[0] == echo
        assert echo == {
            "type": "user_message",
            "sessionId": link.client.session,
            "text": steps,
            "clientMessageId": "abc-123",
        }
        assert of(frames, "todos")[0]["todos"] == TODOS
        (thought,) = of(frames, "reasoning")
        assert (thought["kind"], thought["text"]) == ("reasoning", "they say hello")
        assert [frame["text"] for frame in of(frames, "assistant_message")] == ["Hi! How can I help?"]


async def test_the_stream_of_a_turn_is_whole_and_comes_before_what_sums_it_up(served: Coworker) -> None:
    async with served.client() as link:
        frames = await link.turn(script("say first", "think well\nsay Hello there\nusage 10 5"))
        chunks = of(frames, "model_stream_chunk")
        assert [chunk["index"] for chunk in chunks] == list(range(len(chunks)))
        assert len({chunk["turnId"] for chunk in chunks}) == 1
        assert {(chunk["provider"], chunk["model"]) for chunk in chunks} == {("scripted", "scripted")}
        assert parts(frames) == [
            *("start", "start_step", "text_start", "text_delta", "text_end", "finish_step"),
            "finish",
        ], "the first answer calls no tool, so it is the last"
        places = kinds(frames)
        assert places.index("session_busy true") < places.index("model_stream_chunk start")
        assert places.index("model_stream_chunk finish") < places.index("assistant_message")
        text = "".join(chunk["part"]["text"] for chunk in chunks if chunk["partType"] == "text_delta")
        assert text == of(frames, "assistant_message")[0]["text"] == "first"


async def test_only_the_last_step_is_summed_up(served: Coworker) -> None:
    async with served.client() as link:
        look = f"think hm\nsay I look\n{calls(('glob', {'pattern': '*'}))[0]}"
        frames = await link.turn(script(look, "think good\nsay Nothing there"))
        assert [frame["text"] for frame in of(frames, "assistant_message")] == ["Nothing there"]
        assert [frame["text"] for frame in of(frames, "reasoning")] == ["good"]
        first, last = [chunk for chunk in of(frames, "model_stream_chunk") if chunk["partType"] == "finish_step"]
        assert (first["part"]["finishReason"], last["part"]["finishReason"]) == ("tool-calls", "stop")
        lines = [frame["line"] for frame in of(frames, "log")]
        assert lines[0] == 'tool> glob {"pattern":"*"}'
        assert lines[1].startswith('tool< glob {"count":')


async def test_text_of_blanks_is_no_message(served: Coworker) -> None:
    async with served.client() as link:
        await link.connected()
        frames = await link.turn(script("think  \nsay  "))
        assert without_stream(frames) == [*BEGIN, *END]


async def test_command_approval(served: Coworker) -> None:
    (served.work / "old-builds").mkdir()
    async with served.client() as link:
        await link.connected()
        await link.client.say(
            script(*calls(("bash", {"command": "rm -rf old-builds"})), "say Done, deleted temp files.")
        )
        begin = link.mark
        asked = await link.next("approval")
        assert list(asked) == ["type", "sessionId", "requestId", "command", "dangerous", "reasonCode"]
        assert (asked["command"], asked["dangerous"]) == ("rm -rf old-builds", True)
        assert asked["reasonCode"] == "matches_dangerous_pattern"
        await link.client.ping()
        assert link.client.busy, "the agent waits"
        assert (served.work / "old-builds").is_dir()
        link.client.approve(asked["requestId"], approved=True)
        await link.settled()
        told = without_stream(link.frames[begin : link.mark])
        assert told == [*BEGIN, "approval", "pong", "assistant_message", *END]
        assert not (served.work / "old-builds").exists()


async def test_a_denied_command_does_not_run(served: Coworker) -> None:
    async with served.client() as link:
        await link.connected()
        await link.client.say(script(*calls(("bash", {"command": "touch denied.txt"})), "say As you wish."))
        asked = await link.next("approval")
        assert (asked["dangerous"], asked["reasonCode"]) == (False, "requires_manual_review")
        link.client.approve(asked["requestId"], approved=False)
        frames = await link.settled()
        assert [frame["text"] for frame in of(frames, "assistant_message")] == ["As you wish."]
        assert not (served.work / "denied.txt").exists()


async def test_harmless_commands_and_edits_are_not_asked_about(served: Coworker) -> None:
    async with served.client() as link:
        await link.connected()
        made = calls(("bash", {"command": "echo hello"}), ("write", {"filePath": "unasked.txt", "content": "x"}))
        frames = await link.turn(script(*made, "say Done."))
        assert without_stream(frames) == [*BEGIN, "assistant_message", *END]
        assert (served.work / "unasked.txt").read_text() == "x"


async def test_ask_flow(served: Coworker) -> None:
    async with served.client() as link:
        await link.connected()
        question = {"question": "Which database?", "options": ["PostgreSQL", "MySQL"]}
        await link.client.say(script(*calls(("ask", question), ("ask", {"question": "Name?"})), "say Thanks."))
        asked = await link.next("ask")
        assert list(asked) == ["type", "sessionId", "requestId", "question", "options"]
        assert (asked["question"], asked["options"]) == (question["question"], question["options"])
        link.client.answer(asked["requestId"], "PostgreSQL")
        free = await link.next("ask")
        assert list(free) == ["type", "sessionId", "requestId", "question"]
        assert free["requestId"] != asked["requestId"]
        link.client.answer(free["requestId"], "Zoë")
        await link.settled()
        results = [
            chunk["part"] for chunk in of(link.frames, "model_stream_chunk") if chunk["partType"] == "tool_result"
        ]
        assert ["PostgreSQL" in json.dumps(results[0]), "Zo" in json.dumps(results[1])] == [True, True]


async def test_an_ask_and_an_approval_may_be_open_at_once_and_end_in_any_order(served: Coworker) -> None:
    async with served.client() as link:
        await link.connected()
        both = "\n".join(calls(("ask", {"question": "Q?"}), ("bash", {"command": "touch both.txt"})))
        await link.client.say(script(both, "say Both."))
        begin = link.mark
        asked, approval = await link.next("ask"), None
        link.mark = begin
        approval = await link.next("approval")
        link.client.answer(approval["requestId"], "an ask's answer is none for it")
        link.client.approve(asked["requestId"], approved=True)
        lines = [
            (await link.next("log", line=_unknown(*wrong)))["line"]
            for wrong in (("ask", approval), ("approval", asked))
        ]
        assert len(lines) == 2
        link.client.approve(approval["requestId"], approved=True)
        link.client.answer(asked["requestId"], "42")
        frames = await link.settled()
        assert [frame["text"] for frame in of(frames, "assistant_message")] == ["Both."]
        link.client.answer(asked["requestId"], "again")
        assert await link.next("log", line=_unknown("ask", asked))
        assert not of(link.frames, "error")


def _unknown(kind: str, prompt: Frame) -> str:
    return f"[warn] {kind}_response for unknown requestId: {prompt['requestId']}"


async def test_cancel_in_flight_turn(served: Coworker) -> None:
    async with served.client() as link:
        await link.connected()
        await link.client.say(script("think about all of it\nsay I begin\nwait"))
        begin = link.mark
        await link.next("model_stream_chunk", partType="text_end")
        assert link.client.busy
        link.client.cancel()
        await link.settled()
        frames = link.frames[begin : link.mark]
        assert without_stream(frames) == [*BEGIN, *END]
        assert parts(frames)[-1] == "abort"
        after = await link.turn(script("say still here"))
        assert [frame["text"] for frame in of(after, "assistant_message")] == ["still here"]


async def test_cancel_ends_open_prompts_and_running_commands_at_once(served: Coworker) -> None:
    async with served.client() as link:
        await link.connected()
        for step, waits in (
            (calls(("ask", {"question": "Q?"})), "ask"),
            (calls(("bash", {"command": "touch never.txt"})), "approval"),
        ):
            await link.client.say(script(*step, "say no"))
            prompt = await link.next(waits)
            link.client.cancel()
            assert without_stream(await link.settled()) == END
            link.client.approve(prompt["requestId"], approved=True)
            assert await link.next("log", line=_unknown("approval", prompt))
        assert not (served.work / "never.txt").exists()
        command = "touch begun.txt && sleep 30 && touch never.txt"
        await link.client.say(script(*calls(("bash", {"command": command})), "say no"))
        link.client.approve((await link.next("approval"))["requestId"], approved=True)
        await eventually((served.work / "begun.txt").exists, "the command runs")
        loop = asyncio.get_running_loop()
        begun = loop.time()
        link.client.cancel()
        await link.settled()
        assert loop.time() - begun < 5.0
        assert not of(link.frames, "error")
        assert not served.children()


async def test_cancel_reset_and_answers_without_a_turn(served: Coworker) -> None:
    async with served.client() as link:
        await link.connected()
        link.client.cancel()
        await link.client.ping()
        assert kinds(link.frames[link.mark :]) == ["pong"], "silence"
        await link.client.reset()
        assert kinds(link.frames[link.mark + 1 :]) == ["todos", "reset_done"]
        assert link.frames[link.mark + 1]["todos"] == []


async def test_one_message_at_a_time(served: Coworker) -> None:
    async with served.client() as link:
        await link.connected()
        results = await asyncio.gather(
            link.client.say(script("wait"), message_id="one"),
            link.client.say("two", message_id="two"),
            return_exceptions=True,
        )
        refused = results[1]
        assert isinstance(refused, Refused)
        error = {"type": "error", "sessionId": link.client.session, "message": "Agent is busy"}
        assert refused.detail == {**error, "code": "busy", "source": "session"}
        told = without_stream(link.frames[link.mark :])
        assert told[:3] == [*BEGIN, "error"]
        for change in (
            link.client.reset(),
            link.client.set_model("m"),
            link.client.checkpoint(),
            link.client.run("review"),
        ):
            with pytest.raises(Refused, match="Agent is busy"):
                await change
        assert await link.client.tools(), "questions are answered all the same"
        link.client.cancel()
        await link.client.idle(within=10)


async def test_a_failed_turn_says_why_and_the_next_one_works(served: Coworker) -> None:
    async with served.client() as link:
        frames = await link.turn(script("say so far\nfail unauthorized no such key"))
        assert without_stream(frames)[-3:] == ["error", *END]
        (error,) = of(frames, "error")
        assert "no such key" in error["message"]
        (chunk,) = [chunk for chunk in of(frames, "model_stream_chunk") if chunk["partType"] == "error"]
        assert "no such key" in json.dumps(chunk["part"])
        assert "stack" not in json.dumps(chunk)
        assert without_stream(await link.turn(script("say fine"))) == [*BEGIN, "assistant_message", *END]


async def test_on_a_plain_link_the_same_message_id_is_another_turn(served: Coworker) -> None:
    async with served.client() as link:
        for _ in range(2):
            await link.connected()
            await link.client.say(script("say once more"), message_id="same")
            assert without_stream(await link.settled()) == [*BEGIN, "assistant_message", *END]


async def test_disconnecting_ends_the_session_and_what_runs_in_it(served: Coworker) -> None:
    async with served.client() as link:
        await link.client.say(script(*calls(("ask", {"question": "Q?"})), "say no"))
        await link.next("ask")
        session = link.client.session
    await served.closed(session)
    log = await served.whole_log(session)
    facts = {event["fact"]["type"]: event["fact"] for event in log}
    assert log[-1]["fact"]["type"] == "session.closed"
    assert facts["turn.ended"]["outcome"] == "interrupted"
    assert facts["decision.resolved"]["outcome"] == "cancelled"
