"""What clients in use said, said again to our server by a model that does what their server did."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.agents.native.model_server.heard import Heard
from tests.agents.native.model_server.script import Answer, Broken, Say
from tests.dialects.windie.judges.scenarios import NAMES, Conversation, Ids, Step, conversations, there
from tests.dialects.windie.judges.sequence import Frame

from .rig import SAVE_NOTE, House, Link, MakeHouse

pytestmark = pytest.mark.skipif(not there(), reason="the recordings are not here")

WORDS = {"usetool": "tool", "usebundle": "two", "fail": "broken", "bareerror": "broken"}
"""What the recording's server went by, and the script that does the same."""

ANSWERED = {
    "list-models": "models-listed",
    "update-settings": "settings-updated",
    "load-settings": "settings-loaded",
    "wakeword-detected": "wakeword-greeting",
    "stop-query": "stop-query-ack",
}


def by_words(heard: Heard) -> str:
    """The script for a recorded query."""
    newest = heard.newest_text.rpartition("<user_query>")[2]  # after a turn that failed, texts are joined
    return next((script for word, script in WORDS.items() if word in newest), "hello")


def cases(*, refused: bool) -> list[Any]:
    if not there():
        return [pytest.param("", None, marks=pytest.mark.skip(reason="the recordings are not here"))]
    found = [(name, each) for name in NAMES for each in conversations(name) if each.refused is refused]
    return [pytest.param(name, each, id=f"{name}-{each.name}") for name, each in found]


async def house_for(make_house: MakeHouse, name: str, auth: str) -> House:
    house = await make_house(windie={"tolerate": ["python_handshake"]} if name == "py" else {}, installs={"auth": auth})
    house.model.named["broken"] = (Answer((Say(("Hello ",)),), broken=Broken("boom")),)
    house.model.pick = by_words
    return house


class Replay:
    """One conversation, played on a link. ``patient``: each message waits for what the one before came to."""

    def __init__(self, link: Link, ids: Ids, *, patient: bool) -> None:
        self.link, self.ids, self.patient = link, ids, patient
        link.runs = False

    async def play(self, steps: tuple[Step, ...]) -> None:
        for step in steps:
            await self.step(step)

    async def step(self, step: Step) -> None:
        frame = self.ids.ours(step.said)
        kind, ident = frame["type"], frame["id"]
        if kind == "query":
            self.link.client.asked(frame)
        elif kind == "stop-query":
            self.link.client.stopping(frame)
        await self.link.say(frame)
        await self.learn(step, ident)
        if self.patient:
            await self.settled(kind, ident)

    async def learn(self, step: Step, ident: str) -> None:
        for recorded in step.heard:
            if recorded["type"] in ("tool-call", "tool-bundle"):
                self.ids.learn(recorded, await self.link.first(recorded["type"], ident))

    async def settled(self, kind: str, ident: str) -> None:
        turns = self.link.client.turns
        if kind == "query" and not {"tool-call", "tool-bundle"} & set(self.link.kinds(ident)):
            await self.link.over(ident)
        elif kind in ("tool-result", "tool-bundle-result"):
            await asyncio.gather(*(self.link.over(turn) for turn in list(turns)))
        elif kind in ANSWERED:
            await self.link.until(
                lambda: [
                    frame
                    for frame in self.link.heard
                    if frame.get("id") == ident and frame["type"] in (ANSWERED[kind], "error")
                ],
                f"the answer to {kind}",
            )


def handshake(name: str, conversation: Conversation, fresh: str) -> Frame:
    """As it was recorded, by a user of its own: settings outlive the link. The Python client had its tool registered
    elsewhere; here it must say it."""
    shake: Frame = dict(conversation.steps[0].said)
    shake["user_id"] += f"-{fresh}"
    if name == "py":
        tools = {"client_manifest": {"version": 1, "tools": [SAVE_NOTE]}}
        shake["agent_definition"] = {**shake["agent_definition"], "tools": tools}
    return shake


async def replay(
    house: House,
    name: str,
    conversation: Conversation,
    *,
    patient: bool,
    token: str | None = None,
    fresh: str = "x",
) -> Link:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    async with house.socketed(additional_headers=headers) as socket:
        shake = handshake(name, conversation, fresh)
        link = Link(socket, shake["user_id"], house)
        await link.say(shake)
        async with link.reading():
            assert link.closed is None, link.closed
            await Replay(link, Ids(fresh), patient=patient).play(conversation.steps[1:])
            for turn in list(link.client.turns):
                await link.over(turn)
            await house.at_rest()
            await link.barrier()
            await link.until(lambda: shortened(link), "the end of what shortens the conversation")
    return link


def shortened(link: Link) -> bool:
    """Whether each shortening that began has ended."""
    ends = {event["turn_ref"] for kind in ("completed", "failed") for event in link.of(f"context-compaction-{kind}")}
    return {event["turn_ref"] for event in link.of("context-compaction-started")} <= ends


KEYS = "Invalid settings: provider_api_keys"
"""Keys of providers are the server's: an install may not set them, though clients in use offer to."""


def stray(link: Link) -> list[tuple[Frame, str]]:
    """Events that the client threw away; shortenings, which have turns of their own, and refusals are none of these."""
    return [
        (frame, why)
        for frame, why in link.client.dropped
        if "sequence" in frame and not frame["type"].startswith("context-compaction")
    ]


@pytest.mark.parametrize("auth", ["off", "on", "nobody"])
@pytest.mark.parametrize(("name", "conversation"), cases(refused=False))
async def test_a_recorded_conversation_comes_to_what_it_should(
    make_house: MakeHouse, name: str, conversation: Conversation, auth: str
) -> None:
    """``nobody`` shows no token though it did when it was recorded, to a server that wants none."""
    if auth != "nobody" and not conversation.authorised:
        pytest.skip("this client showed no token")
    house = await house_for(make_house, name, "on" if auth == "on" else "off")
    token = (await house.register()).token if auth != "nobody" else None
    link = await replay(house, name, conversation, patient=True, token=token)
    turns = list(link.client.turns.values())
    for query, turn in zip(conversation.queries, turns, strict=True):
        assert turn.outcome == query.wanted, (query.text, turn.problem)
        if query.wanted == "completed":
            assert query.final is not None
            words = [turn.answer.startswith(query.final.split()[0]), turn.answer.endswith(query.final.split()[-1])]
            assert words == [True, True], turn.answer
        kinds = tuple(kind for kind in link.kinds(turn.ref) if kind in ("tool-call", "tool-bundle"))
        assert kinds == query.tools
    assert stray(link) == []
    refusals = [frame["payload"]["message"] for frame in link.of("error") if "sequence" not in frame]
    assert [message.startswith(KEYS) for message in refusals] == ([] if auth == "nobody" else [True])
    link.judge()


@pytest.mark.parametrize(("name", "conversation"), cases(refused=False))
async def test_a_recorded_conversation_all_at_once(
    make_house: MakeHouse, name: str, conversation: Conversation
) -> None:
    """Nothing waits for an answer but results of tools; then much is refused or stopped, and every rule holds."""
    house = await house_for(make_house, name, "off")
    link = await replay(house, name, conversation, patient=False)
    for query, turn in zip(conversation.queries, link.client.turns.values(), strict=True):
        assert turn.outcome in (query.wanted, "stopped"), (query.text, turn.problem)
    link.judge()


@pytest.mark.parametrize(("name", "conversation"), cases(refused=False))
async def test_a_recorded_conversation_twice_to_one_server(
    make_house: MakeHouse, name: str, conversation: Conversation
) -> None:
    house = await house_for(make_house, name, "off")
    links = [await replay(house, name, conversation, patient=True, fresh=fresh) for fresh in ("one", "two")]
    outcomes = [[turn.outcome for turn in link.client.turns.values()] for link in links]
    assert outcomes[0] == outcomes[1] == [query.wanted for query in conversation.queries]
    for link in links:
        link.judge()


@pytest.mark.parametrize(("name", "conversation"), cases(refused=True))
async def test_a_recorded_handshake_that_was_refused_is_refused(
    make_house: MakeHouse, name: str, conversation: Conversation
) -> None:
    house = await house_for(make_house, name, "on")
    async with house.socketed() as socket:
        link = Link(socket, "reject-me", house)
        await link.say(conversation.steps[0].said)
        async with link.reading():
            assert (await link.ended()).code == conversation.closed
    assert link.heard == []


async def test_the_python_clients_handshake_is_refused_unless_it_is_let_through(make_house: MakeHouse) -> None:
    house = await make_house()
    (conversation,) = conversations("py")
    async with house.socketed() as socket:
        link = Link(socket, "py-user", house)
        await link.say(conversation.steps[0].said)
        async with link.reading():
            assert (await link.ended()).code == 1008
