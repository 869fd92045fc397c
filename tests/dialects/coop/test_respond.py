"""``respond``: what each prompt takes, and to which prompt an answer is (invariant 4)."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from websockets.client import ClientProtocol
from websockets.frames import Opcode
from websockets.uri import parse_uri

from dragoman.dialects.coop.settings import CoopSettings
from dragoman.hub.errors import InputRefused
from dragoman.hub.events import Answer, DecisionResolved, DecisionRevised, Option, StateChanged
from dragoman.hub.permissions import LOCAL

from .driven import QUESTIONS, Frame, Play, eventually
from .harness import NO_DRIVER, NOT_READY

YES: Frame = {"event": "respond", "accept": True}


def result(delivered: bool, kind: str | None, reason: str | None = None) -> Frame:
    return {"event": "respond:result", "delivered": delivered, "prompt_type": kind, "reason": reason}


def respond(**fields: Any) -> Frame:
    return {"event": "respond", **fields}


def resolved(play: Play) -> list[tuple[str, Answer | None]]:
    return [(fact.decision, answer) for fact, answer in play.factory.told]


# What each prompt takes


@pytest.mark.parametrize(
    ("kind", "said", "means"),
    [
        ("permission", {"accept": True}, Answer(accept=True)),
        ("permission", {"accept": False}, Answer(accept=False)),
        ("permission", {}, Answer(accept=False)),
        ("permission", {"accept": True, "option": 3}, Answer(option=3)),
        ("plan", {"accept": True}, Answer(accept=True)),
        ("plan", {}, Answer(accept=False)),
        ("plan", {"option": 3, "text": "smaller steps"}, Answer(option=3, text="smaller steps")),
        ("plan", {"text": "smaller steps"}, Answer(accept=False, text="smaller steps")),
        ("setup", {}, Answer(option=1)),
        ("setup", {"accept": True}, Answer(option=1)),
        ("setup", {"option": 1, "accept": False}, Answer(option=1)),
        ("question", {"answers": [{"text": "ten"}]}, Answer(text="ten")),
        ("question", {"text": "ten"}, Answer(text="ten")),
    ],
)
async def test_what_an_answer_means(play: Play, kind: str, said: dict[str, Any], means: Answer) -> None:
    decision = play.asks(kind)
    await play.durable()
    async with play.link("raw") as link:
        assert await link.answers(respond(**said)) == [result(True, kind)]
    assert resolved(play) == [(decision, means)]
    assert play.factory.asked_for == [decision]


@pytest.mark.parametrize(
    ("kind", "said", "reason"),
    [
        ("permission", {"option": 4}, "option 4 is not one of 3"),
        ("permission", {"option": 0}, "option 0 is not one of 3"),
        ("setup", {"accept": False}, "a setup prompt is answered with an option"),
        ("question", {}, "a question needs a text, an option, choices or answers"),
        ("question", {"accept": True}, "a question needs a text, an option, choices or answers"),
        ("question", {"answers": [{}]}, "answer 1 has neither an option nor a text"),
        ("question", {"answers": [{"text": "a"}, {"text": "b"}]}, "2 answers to 0 questions"),
    ],
)
async def test_what_cannot_be_meant_leaves_the_dialog_open(
    play: Play, kind: str, said: dict[str, Any], reason: str
) -> None:
    decision = play.asks(kind)
    await play.durable()
    async with play.link() as link:
        assert await link.answers(respond(**said)) == [result(False, kind, reason)]
        assert list(play.session.shown.decisions) == [decision]
        answer = respond(text="ten") if kind == "question" else respond(option=1)
        assert await link.answers(answer) == [result(True, kind)]


async def test_outside_a_prompt_nothing_is_answered(play: Play) -> None:
    play.moves("idle")
    await play.durable()
    async with play.link() as link:
        assert await link.answers(YES) == [result(False, None, "no prompt active")]
    reply = await play.post("agent/respond", {"accept": True})
    assert (reply.status, reply.json["delivered"], reply.json["reason"]) == (200, False, "no prompt active")


async def test_over_http(play: Play) -> None:
    decision = play.asks("plan", options=("a", "b", "c", "d"))
    await play.durable()
    reply = await play.post("agent/respond", {"option": 4, "text": "no"})
    assert reply.json == {"delivered": True, "prompt_type": "plan", "reason": None}
    assert resolved(play) == [(decision, Answer(option=4, text="no"))]
    assert (await play.post("agent/respond", {"accept": True})).json["reason"] == "no prompt active"


async def test_an_answer_that_did_not_reach_the_dialog_was_not_delivered(play: Play) -> None:
    play.asks()
    await play.durable()
    play.factory.says = "the dialog went away"
    async with play.link("raw") as link:
        assert await link.answers(YES) == [result(False, "permission", "the dialog went away")]


async def test_a_person_who_types_keeps_the_answer_out(play: Play) -> None:
    play.asks()
    await play.durable()

    def refuses(*_: Any) -> Any:
        raise InputRefused("someone types at the terminal")

    play.session.ensure_agent().answering = refuses  # type: ignore[method-assign]
    async with play.link() as link:
        assert await link.answers(YES) == [result(False, "permission", "someone types at the terminal")]
        assert play.session.shown.decisions


async def test_readiness_comes_before_the_driver(play: Play) -> None:
    play.factory.driven = False
    async with play.link() as link:
        assert await link.answers(YES) == [NOT_READY]
        play.moves("idle")
        await link.expect("transition")
        assert await link.answers(YES) == [NO_DRIVER]
    assert (await play.post("agent/respond", {})).error[:2] == (404, "NO_DRIVER")


# Questions one by one (mapping rule 9)


async def test_fewer_answers_than_questions_go_on_with_the_dialog(play: Play) -> None:
    async with play.link() as link:
        decision = play.asks("question", questions=QUESTIONS)
        assert (await link.receive())["prompt"]["question_current"] == 0
        await link.send(respond(answers=[{"option": 2}]))
        frames = [await link.receive(), await link.receive()]
        moved = next(frame for frame in frames if frame["event"] == "transition")
        assert result(True, "question") in frames
        assert (moved["prev"], moved["next"], moved["cause"], moved["prompt"]["question_current"]) == (
            *("prompt", "prompt", ""),
            1,
        )
        assert [fact.answered for fact in play.factory.progress] == [(Answer(option=2),)]
        assert await link.ask(respond(answers=[{"text": "5432"}]), "respond:result") == result(True, "question")
    assert resolved(play) == [(decision, Answer(answers=(Answer(option=2), Answer(text="5432"))))]


async def test_all_answers_at_once(play: Play) -> None:
    decision = play.asks("question", questions=QUESTIONS)
    await play.durable()
    reply = await play.post("agent/respond", {"answers": [{"option": 1}, {"text": "1"}]})
    assert reply.json["delivered"] is True
    assert resolved(play) == [(decision, Answer(answers=(Answer(option=1), Answer(text="1"))))]


async def test_of_two_links_that_answer_one_question_one_counts(play: Play) -> None:
    async with play.link() as one, play.link() as two:
        play.asks("question", questions=QUESTIONS)
        await one.receive()
        await two.receive()
        await asyncio.gather(
            one.send(respond(answers=[{"option": 1}])),
            two.send(respond(answers=[{"option": 2}])),
        )
        results = [await link.expect("respond:result") for link in (one, two)]
    assert sorted(frame["delivered"] for frame in results) == [False, True]
    (late,) = [frame for frame in results if not frame["delivered"]]
    assert late["reason"] == "question 1 is answered already"
    events = await play.session.read(0)
    assert sum(isinstance(event.fact, DecisionRevised) for event in events) == 1


# Which prompt (invariant 4)


class Deaf:
    """A client that answers a ping only when the test says so, as one whose answers are slow on their way."""

    def __init__(self, play: Play, mode: str = "state") -> None:
        self.play, self.mode = play, mode
        self.pings: list[bytes] = []
        self.frames: list[Frame] = []

    async def __aenter__(self) -> Deaf:
        uri = f"ws://127.0.0.1:{self.play.port}/ws?mode={self.mode}"
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.play.port)
        self.protocol = ClientProtocol(parse_uri(uri))
        self.protocol.send_request(self.protocol.connect())
        self.flush()
        while not self.protocol.events_received():
            self.protocol.receive_data(await self.reader.read(1 << 16))
        self.reading = asyncio.create_task(self.read())
        return self

    async def __aexit__(self, *_: object) -> None:
        self.reading.cancel()
        self.writer.close()

    def flush(self) -> None:
        for data in self.protocol.data_to_send():
            self.writer.write(data)

    async def read(self) -> None:
        while data := await self.reader.read(1 << 16):
            self.protocol.receive_data(data)
            self.protocol.data_to_send()  # the pongs that the library would send: dropped
            for frame in self.protocol.events_received():
                if frame.opcode is Opcode.PING:
                    self.pings.append(bytes(frame.data))
                elif frame.opcode is Opcode.TEXT:
                    self.frames.append(json.loads(frame.data))

    def send(self, message: Frame) -> None:
        self.protocol.send_text(json.dumps(message).encode())
        self.flush()

    def pong(self) -> None:
        self.protocol.send_pong(self.pings.pop(0))
        self.flush()

    async def until(self, count: int) -> Frame:
        await eventually(lambda: len(self.frames) >= count, f"{count} frames: {self.frames}")
        return self.frames[count - 1]

    async def ask(self, message: Frame, event: str) -> Frame:
        """Send, and wait for the next frame of that name."""
        seen = len(self.frames)
        self.send(message)
        await eventually(lambda: [f for f in self.frames[seen:] if f["event"] == event], event)
        return next(frame for frame in self.frames[seen:] if frame["event"] == event)

    async def passed(self) -> None:
        """Everything that was to be pushed by now has been."""
        await self.ask({"event": "ping"}, "pong")


async def elsewhere(play: Play, decision: str, said: Answer) -> None:
    """Somebody else answers."""
    await play.session.answer(LOCAL, decision, said, via="hub")


async def test_an_answer_to_a_prompt_that_somebody_else_answered_is_not_to_the_next(play: Play) -> None:
    async with play.link() as link:
        first = play.asks()
        await link.receive()
        await elsewhere(play, first, Answer(accept=False))
        assert await link.answers(YES) == [result(False, "permission", "the prompt is already answered")]
        second = play.asks()
        assert (await link.receive())["prompt"] is not None
        assert await link.answers(YES) == [result(True, "permission")]
    assert resolved(play) == [(first, Answer(accept=False)), (second, Answer(accept=True))]


async def test_the_next_prompt_waits_until_the_client_has_seen_the_end_of_the_one_before(play: Play) -> None:
    async with Deaf(play) as client:
        first = play.asks("plan")
        await client.until(1)
        await elsewhere(play, first, Answer(accept=False))
        play.moves("working")
        second = play.asks()
        assert (await client.until(2))["next"] == "working"
        await client.passed()
        assert [frame["event"] for frame in client.frames] == ["transition", "transition", "pong"]
        # Sent before the news of the end arrived: to the old one.
        late = await client.ask(YES, "respond:result")
        assert late == result(False, "plan", "the prompt is already answered")
        client.pong()
        assert (await client.until(5))["prompt"]["type"] == "permission"
        assert await client.ask(YES, "respond:result") == result(True, "permission")
    assert resolved(play) == [(first, Answer(accept=False)), (second, Answer(accept=True))]


async def test_a_prompt_that_follows_at_once_is_the_news_itself(play: Play) -> None:
    async with Deaf(play) as client:
        first = play.asks("plan")
        await client.until(1)
        await elsewhere(play, first, Answer(accept=False))
        play.asks()
        assert (await client.until(2))["prompt"]["type"] == "permission"
        late = await client.ask(YES, "respond:result")
        assert late == result(False, "plan", "the prompt is already answered")
        client.pong()
        assert await client.ask(YES, "respond:result") == result(True, "permission")


async def test_a_second_answer_on_its_way_is_not_to_the_next_prompt(play: Play) -> None:
    """Pressed twice: both were sent before the first one's result could be read."""
    async with Deaf(play) as client:
        first = play.asks()
        await client.until(1)
        play.factory.free.clear()
        client.send(YES)
        client.send(YES)
        await eventually(lambda: play.factory.asked_for, "the first is on its way")
        play.moves("working")
        second = play.asks()
        play.factory.free.set()
        await eventually(lambda: len([f for f in client.frames if f["event"] == "respond:result"]) == 2, "both results")
        results = [frame for frame in client.frames if frame["event"] == "respond:result"]
        assert results == [result(True, "permission"), result(False, "permission", "the prompt is already answered")]
        assert list(play.session.state.decisions) == [second]
        client.pong()
        await eventually(lambda: client.frames[-1]["event"] == "transition", "the next prompt is shown")
        assert await client.ask(YES, "respond:result") == result(True, "permission")
    assert [decision for decision, _ in resolved(play)] == [first, second]


async def test_a_client_that_answers_no_ping_sees_all_and_answers_nothing_new(play: Play) -> None:
    play.dialect.settings = CoopSettings(proof=0.05)
    async with Deaf(play) as client:
        first = play.asks("plan")
        await client.until(1)
        await elsewhere(play, first, Answer(accept=False))
        play.moves("working")
        play.asks()
        assert (await client.until(3))["prompt"]["type"] == "permission"
        late = await client.ask(YES, "respond:result")
        assert late == result(False, "plan", "the prompt is already answered")
        client.protocol.send_pong(b"something else")
        client.flush()
        assert not (await client.ask(YES, "respond:result"))["delivered"]


async def test_more_of_the_same_prompt_needs_no_proof(play: Play) -> None:
    async with Deaf(play) as client:
        decision = play.asks(options=(), ready=False)
        play.revises(decision, options=(Option("Yes"), Option("No")), ready=True)
        await client.until(2)
        assert client.pings == []
        assert await client.ask(YES, "respond:result") == result(True, "permission")


async def test_asking_for_the_state_shows_the_prompt_too(play: Play) -> None:
    async with play.link() as link:
        play.moves("working")
        await link.receive()
        first = play.asks()
        assert (await link.receive())["next"] == "prompt"
        await elsewhere(play, first, Answer(accept=False))
        second = play.asks("plan")
        await play.durable()
        reply = await link.ask({"event": "state:get"}, "transition")
        assert reply["prompt"]["type"] == "plan"
        assert await link.ask(YES, "respond:result") == result(True, "plan")
    assert [decision for decision, _ in resolved(play)] == [first, second]


async def test_a_link_answers_what_was_asked_when_it_came(play: Play) -> None:
    first = play.asks()
    await play.durable()
    async with play.link() as link:
        assert await link.answers(YES) == [result(True, "permission")]
    second = play.asks("plan")
    await play.durable()
    async with Deaf(play) as client:
        await elsewhere(play, second, Answer(accept=False))
        play.asks()
        await client.until(1)
        assert await client.ask(YES, "respond:result") == result(False, "plan", "the prompt is already answered")
    assert [decision for decision, _ in resolved(play)] == [first, second]


@pytest.mark.parametrize("mode", ["raw", "screen"])
async def test_a_link_that_is_shown_no_states_answers_what_is_current(play: Play, mode: str) -> None:
    async with play.link(mode) as link:
        for kind in ("plan", "permission"):
            play.asks(kind)
            await play.durable()
            assert await link.answers(YES) == [result(True, kind)]


async def test_a_dialog_that_the_state_does_not_name_is_not_answered(play: Play) -> None:
    play.asks()
    play.moves("working")
    await play.durable()
    assert (await play.post("agent/respond", {"accept": True})).json["reason"] == "no prompt active"


async def test_one_outcome_however_many_answer(play: Play) -> None:
    async with play.link() as one, play.link("raw") as two:
        play.asks()
        await one.receive()
        replies = asyncio.gather(*(play.post("agent/respond", {"accept": True}) for _ in range(4)))
        results = [await one.ask(YES, "respond:result"), await two.ask(YES, "respond:result")]
        results += [reply.json for reply in await replies]
    assert sum(each["delivered"] for each in results) == 1
    events = await play.session.read(0)
    assert sum(isinstance(event.fact, DecisionResolved) for event in events) == 1
    assert isinstance(events[-1].fact, DecisionResolved | StateChanged)
