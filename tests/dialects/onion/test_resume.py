"""Sockets that are cut at any place come back to what they may expect (seed: Resume; bars W5).

A third socket, which stays, is the measure; ``resume_checker`` judges by the seed alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from .conftest import MakeServer
from .resume_checker import REPLIES, Frame, Return, conversation, judge, spoken
from .rig import ALICE, BOB, Key, Onion, Talk, calls, events, of, script

QUESTION = {"question": "Which database?", "options": ["PostgreSQL", "MySQL"]}
READ = calls(("read", {"filePath": "notes.txt"}))[0]
ASK = calls(("ask", QUESTION))[0]
TURN = script(
    f"think let me see\nsay I will read it\n{READ}",
    f"deltas 15\npause 15\ndeltas 15\n{ASK}",
    f"pause 10\nsay one two three four five\npause 10\ndeltas 10\n{READ}",
    "pause 5\ndeltas 40\npause 10\nsay the end",
)
"""A turn with everything in it that a client is told of, and with pauses in which a cut may fall."""

CUTS = ("close", "reset", "mid-frame")


@dataclass
class Visitor:
    """A socket of one caller that goes and comes back while a turn runs. ``had`` is what it heard of the turn."""

    served: Onion
    session_id: str
    key: Key | None
    dice: random.Random
    had: list[Frame] = field(default_factory=list)
    returns: list[Return] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)
    talk: Talk = field(default_factory=Talk)

    async def arrive(self) -> None:
        """Be there before the turn."""
        await self.talk.open(self.served.url)
        await self.talk.connect(self.session_id, key=self.key)

    async def leave(self) -> None:
        """Be gone for good."""
        await self.talk.wire.close()

    async def live(self, drops: int) -> None:
        """Drop and return so often, or until the turn is over; then hear the end of it."""
        for _ in range(drops):
            await self._go()
            self._keep()
            await asyncio.sleep(self.dice.choice((0, 0.005, 0.03, 0.12)))
            if not await self._return():
                return
        await self.talk.until(lambda: of(self.talk.frames, "OUTPUT"), "OUTPUT")

    async def _go(self) -> None:
        kind = self.dice.choice(CUTS)
        self.kinds.append(kind)
        if kind == "mid-frame":
            self.talk.wire.reset_after(self.dice.randrange(1, 6000))
            await self.talk.wire.gone()
            return
        wanted = len(self.talk.frames) + self.dice.randrange(40)
        try:
            async with asyncio.timeout(self.dice.choice((0.0, 0.01, 0.06))):
                await self.talk.until(lambda: len(self.talk.frames) >= wanted, "frames")
        except TimeoutError:
            pass  # the place in time was before the place in the stream
        await (self.talk.wire.close() if kind == "close" else self.talk.wire.reset())

    def _keep(self) -> None:
        """What was heard up to now, each event once."""
        heard = events(self.talk.frames)
        if self.returns:
            last = self.returns[-1]
            heard = heard if last.last is None else [*last.before, *_new(last.before, heard)]
        self.had = heard

    async def _return(self) -> bool:
        """Come back; whether the turn still ran."""
        last = self.had[-1]["id"] if self.had and self.dice.random() < 0.6 else None
        self.talk = Talk()
        await self.talk.open(self.served.url)
        named = {} if last is None else {"last_msg_id": last}
        connected = await self.talk.connect(self.session_id, key=self.key, **named)
        self.returns.append(Return(last, self.talk.frames, list(self.had)))
        if connected["status"] == "running":
            return True
        for _ in range(2):
            await self.talk.status()  # whatever was on its way has come then
        return False


def _new(had: Sequence[Frame], heard: list[Frame]) -> list[Frame]:
    """Without what is told again from the first of two events with one id on."""
    known = {(frame["id"], frame["type"]) for frame in had}
    return [frame for frame in heard if (frame["id"], frame["type"]) not in known]


async def round_of(served: Onion, number: int, key: Key | None) -> tuple[Counter[str], Counter[str]]:
    """One turn with two visitors; how they fared, and how their connections were cut."""
    dice = random.Random(number)
    async with served.client(key=key) as witness, contextlib.AsyncExitStack() as leaving:
        visitors = [Visitor(served, witness.session_id, key, random.Random(number * 10 + each)) for each in (1, 2)]
        for visitor in visitors:
            await visitor.arrive()
            leaving.push_async_callback(visitor.leave)
        begin = len(witness.frames)
        witness.input(TURN)
        await witness.next("user_input")
        living = [asyncio.create_task(visitor.live(dice.randrange(1, 4))) for visitor in visitors]
        asked = await witness.next("ask_user")
        await asyncio.sleep(dice.choice((0, 0.02, 0.1)))
        witness.say("ASK_USER_RESPONSE", request_id=asked["id"], answer="PostgreSQL")
        output = await witness.next("OUTPUT")
        turn = [frame for frame in witness.frames[begin:] if frame["type"] not in REPLIES]
        await asyncio.gather(*living)
        outcomes: Counter[str] = Counter()
        for visitor in visitors:
            for returned in _finished(visitor):
                outcomes[judge(returned, turn)] += 1
        log = await served.whole_log(witness.session_id)
        assert spoken(output["session"]) == conversation(log)
        texts = [item["content"] for item in output["chat_items"] if item["type"] in ("user", "agent")]
        assert texts == [text for role, text in conversation(log) if role in ("user", "assistant")]
        return outcomes, sum((Counter(visitor.kinds) for visitor in visitors), Counter())


def _finished(visitor: Visitor) -> list[Return]:
    """Each return as one that heard its turn to the end: what its later connections heard belongs to it."""
    whole: list[Return] = []
    for place, returned in enumerate(visitor.returns):
        if place + 1 == len(visitor.returns):
            whole.append(returned)
        elif visitor.returns[place + 1].last is None and returned.after[0]["status"] == "running":
            _check_beginning(returned)
    return whole


def _check_beginning(returned: Return) -> None:
    """A connection that was cut in its turn: what it heard begins as it should, and nothing came twice."""
    heard = events(returned.after)
    names = [(frame["id"], frame["type"], frame.get("status")) for frame in heard]
    assert len(set(names)) == len(names), returned
    if returned.last is None and heard:
        assert heard[0]["type"] == "user_input"


@pytest.mark.slow
@pytest.mark.parametrize("key", [ALICE, None], ids=["signed", "anonymous"])
async def test_drops_at_random_points_with_two_sockets_each_are_all_classified(served: Onion, key: Key | None) -> None:
    await drops(served, key, 70)


@pytest.mark.slow
async def test_drops_where_nothing_is_kept_in_memory_are_classified_as_well(make_server: MakeServer) -> None:
    """What was said is made again from the log then."""
    config = "[dialects.onion]\nview_bytes = 1\nshared_frames = 1\nkept_views = 1\n"
    await drops(await make_server(config=config), ALICE, 30)


async def drops(served: Onion, key: Key | None, rounds: int) -> None:
    """So many turns with two visitors each; all their drops must be of the three kinds, and of each some."""
    (served.work / "notes.txt").write_text("some notes\n")
    gate = asyncio.Semaphore(3)
    found: Counter[str] = Counter()
    cut: Counter[str] = Counter()

    async def one(number: int) -> None:
        async with gate:
            outcomes, kinds = await round_of(served, number, key)
        found.update(outcomes)
        cut.update(kinds)

    await asyncio.gather(*(one(number) for number in range(rounds)))
    assert sum(cut.values()) >= 2.9 * rounds, cut
    assert set(cut) == set(CUTS)
    assert min(found[way] for way in ("continued", "again", "ended")) >= 5, found


async def test_two_sockets_come_back_to_one_turn(served: Onion) -> None:
    """The quick twin of the above: each way once."""
    (served.work / "notes.txt").write_text("some notes\n")
    async with served.client(key=ALICE) as witness, served.client(witness.session_id, key=ALICE) as one:
        begin = len(witness.frames)
        witness.input(TURN)
        asked = await one.next("ask_user")
        had = events(one.frames)
        del had[had.index(asked) + 1 :]  # a client that has handled no more, whatever came along with it
        await one.wire.reset()
        async with (
            served.client(witness.session_id, key=ALICE, last_msg_id=asked["id"]) as continued,
            served.client(witness.session_id, key=ALICE) as again,
        ):
            assert [talk.frames[0]["status"] for talk in (continued, again)] == ["running", "running"]
            again.say("ASK_USER_RESPONSE", request_id=asked["id"], answer="MySQL")
            for talk in (witness, continued, again):
                await talk.next("OUTPUT")
            turn = witness.frames[begin:]
            assert judge(Return(asked["id"], continued.frames, had), turn) == "continued"
            assert judge(Return(None, again.frames), turn) == "again"
        async with served.client(witness.session_id, key=ALICE, last_msg_id=asked["id"]) as ended:
            await ended.status()
            assert judge(Return(asked["id"], ended.frames, had), turn) == "ended"


async def test_an_unknown_or_empty_last_msg_id_replays_the_turn(served: Onion) -> None:
    (served.work / "notes.txt").write_text("some notes\n")
    async with served.client(key=BOB) as witness:
        await witness.turn(script("say the turn before"))
        before = events(witness.frames)[-1]["id"]
        begin = len(witness.frames)
        witness.input(TURN)
        asked = await witness.next("ask_user")
        for last in (None, "ev-999999", "nonsense", before, ""):
            async with served.client(witness.session_id, key=BOB, last_msg_id=last) as talk:
                await talk.next("ask_user")
                heard = [(frame["id"], frame["type"], frame["ts"]) for frame in events(talk.frames)]
                turn = events(witness.frames[begin:])
                assert heard == [(frame["id"], frame["type"], frame["ts"]) for frame in turn], last
        witness.say("ASK_USER_RESPONSE", request_id=asked["id"], answer="MySQL")
        await witness.next("OUTPUT")


async def test_a_second_connect_on_a_socket_replaces_its_forwarder(served: Onion) -> None:
    """Spec §15 row 34: the original told every event twice."""
    async with served.client(key=ALICE) as talk:
        talk.input(script("wait"))
        last = await talk.next("llm_call")
        await talk.connect(talk.session_id, key=ALICE, last_msg_id=last["id"])
        await talk.connect(talk.session_id, key=ALICE, last_msg_id=last["id"])
        talk.say("INTERRUPT")
        output = await talk.next("OUTPUT")
        await talk.status()
        assert len(of(talk.frames, "OUTPUT")) == 1
        assert output["result"] == "What would you like me to do?"
        names = [json.dumps(frame) for frame in events(talk.frames)]
        assert len(names) == len(set(names))


async def test_a_socket_whose_end_the_server_has_not_noticed_is_told_what_another_one_had(served: Onion) -> None:
    """It has heard of the model's call and of nothing since; its twin has proved to know the result, and left."""
    async with served.client(key=ALICE) as dead, served.client(dead.session_id, key=ALICE) as twin:
        dead.input(script(f"pause 50\nsay one two three\n{READ}", "wait"))
        call = await dead.next("llm_call")
        dead.wire.pause()
        result = await twin.next("llm_result")
        await twin.status()
        await twin.wire.close()
        async with served.client(dead.session_id, key=ALICE, last_msg_id=call["id"]) as back:
            again = await back.next("llm_result")
            assert again["id"] == result["id"] == call["id"]
            assert "".join(frame["content"] for frame in of(back.frames, "assistant_delta")) == "one two three"
            back.say("INTERRUPT")
            await back.next("OUTPUT")


async def test_connects_in_one_breath_are_each_told_the_turn_from_where_they_say(served: Onion) -> None:
    """Whatever was on its way of the one before, behind the last CONNECTED comes what that one asked for."""
    (served.work / "notes.txt").write_text("some notes\n")
    async with served.client(key=ALICE) as witness, served.client(witness.session_id, key=ALICE) as talk:
        begin = len(witness.frames)
        witness.input(TURN)
        asked = await talk.next("ask_user")
        for last in (None, asked["id"], "nonsense", None):
            named = {"session_id": talk.session_id, "last_msg_id": last}
            talk.say("CONNECT", **named, **ALICE.signed())
        await talk.until(lambda: len(of(talk.frames, "CONNECTED")) == 5, "five CONNECTED")
        witness.say("ASK_USER_RESPONSE", request_id=asked["id"], answer="MySQL")
        await talk.next("OUTPUT")
        await witness.next("OUTPUT")
        newest = max(place for place, frame in enumerate(talk.frames) if frame["type"] == "CONNECTED")
        assert judge(Return(None, talk.frames[newest:]), witness.frames[begin:]) == "again"
