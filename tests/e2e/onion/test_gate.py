"""The trust gate with the real clients: a stranger shows a code, and is a contact from then on."""

from __future__ import annotations

import pytest

from tests.agents.native.model_server.script import say
from tests.faults.process import eventually

from .conftest import Clients
from .host import CODE, Stage
from .people import Raised, address_of, seed

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="session")]

SIGNED = ("python-1.2.1", "python-1.9.2")


def contacts(stage: Stage) -> str:
    """Whom the host knows."""
    path = stage.host.lists / "contacts.txt"
    return path.read_text() if path.exists() else ""


@pytest.mark.parametrize("kind", SIGNED)
async def test_a_stranger_shows_the_code(kind: str, gated: Stage, clients: Clients) -> None:
    key = seed()
    person = await clients.python(kind, gated.host, key=key)
    prompt = gated.prompt("Hello,", say("Welcome."))
    assert await person.say(prompt, codes=[CODE]) == {"text": "Welcome.", "done": True}
    [required] = await person.ui("onboard_required")
    assert (required["methods"], required["payment_amount"]) == (["invite_code"], None)
    assert address_of(key) in contacts(gated)
    conversation = await gated.host.conversation(prompt)
    assert [it["text"] for it in await conversation.facts("prompt.submitted")] == [prompt]

    # Whoever was let in is never asked again.
    later = await clients.python(kind, gated.host, key=key)
    assert await later.say(gated.prompt("Hello again,", say("Welcome back."))) == {
        "text": "Welcome back.",
        "done": True,
    }
    assert await later.ui("onboard_required") == []


@pytest.mark.parametrize("kind", SIGNED)
async def test_a_wrong_code_is_refused_and_the_right_one_still_opens(kind: str, gated: Stage, clients: Clients) -> None:
    person = await clients.python(kind, gated.host, key=(key := seed()))
    prompt = gated.prompt("Hello,", say("Welcome."))
    with pytest.raises(Raised, match="Auth error: Invalid invite code"):
        await person.say(prompt, codes=["wrong"])
    assert address_of(key) not in contacts(gated)
    assert gated.heard(prompt) == []
    assert await person.say(prompt, codes=[CODE]) == {"text": "Welcome.", "done": True}


async def test_nobody_gets_in_without_a_signature(gated: Stage, clients: Clients) -> None:
    person = await clients.python("python-1.2.1-unsigned", gated.host)
    prompt = gated.prompt("Hello,", say("Welcome."))
    before = contacts(gated)
    with pytest.raises(Raised, match="Auth error: unauthorized"):
        await person.say(prompt, codes=[CODE])
    assert len(await person.ui("onboard_required")) == 1
    assert (contacts(gated), gated.heard(prompt)) == (before, [])


async def test_npm_gives_up_after_a_wrong_code(gated: Stage, clients: Clients) -> None:
    """Its bug: it closes the socket, tells only that it is idle, and lets its caller wait for half a minute."""
    person = await clients.npm(gated.host)
    prompt = gated.prompt("Hello,", say("Welcome."))
    saying = person.begin("input", [prompt])
    assert (await person.shows("onboard_required"))["methods"] == ["invite_code"]
    await person.send(**(await person.call("signOnboard", [{"inviteCode": "wrong"}])))
    await person.becomes("idle")
    assert not saying.done()
    saying.cancel()
    assert person.principal.removeprefix("onion:") not in contacts(gated)
    assert gated.heard(prompt) == []


async def test_npm_shows_the_code_and_stumbles_over_an_empty_prompt_of_its_own(gated: Stage, clients: Clients) -> None:
    """Its bug (spec §13): on success it sends an empty prompt, and gives up when that is refused. It is a contact."""
    person = await clients.npm(gated.host)
    prompt = gated.prompt("Hello,", say("Welcome."))
    saying = person.begin("input", [prompt])
    await person.shows("onboard_required")
    await person.send(**(await person.call("signOnboard", [{"inviteCode": CODE}])))
    with pytest.raises(Raised, match=r"Agent error: prompt required|of null"):
        await saying
    assert (await person.ui("onboard_success"))[0]["level"] == "contact"
    address = person.principal.removeprefix("onion:")
    await eventually(lambda: address in contacts(gated), "it is a contact")
    later = await clients.npm(gated.host, key=person.name)
    assert await later.say(gated.prompt("Hello again,", say("Welcome back."))) == {
        "text": "Welcome back.",
        "done": True,
    }
    assert await later.ui("onboard_required") == []
