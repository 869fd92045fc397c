"""Questions, approvals and plans with the real clients."""

from __future__ import annotations

import pytest

from tests.agents.native.model_server.heard import Result
from tests.agents.native.model_server.script import Answer, say, use

from .conftest import Clients
from .host import Conversation, Stage
from .people import Raised, seed

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="session")]

QUESTION = {"question": "Which language?", "options": ["Python 3", "Rust"]}
OPTIONS = ["Python 3", "Rust"]
STOPPED = "What would you like me to do?"


def question(stage: Stage, text: str = "Ask me.") -> str:
    """A prompt upon which the agent asks, and says ``Thanks.`` to the answer."""
    return stage.prompt(text, Answer((use("ask", QUESTION),)), say("Thanks."))


def command(stage: Stage, name: str) -> str:
    """A prompt upon which the agent wants to run a command that makes a file in the host's folder."""
    return stage.prompt("Make it.", Answer((use("bash", {"command": f"echo made > {name}"}),)), say("Made."))


def result(stage: Stage, prompt: str) -> str:
    """What the model was told of its newest call."""
    told = [it.text for it in stage.heard(prompt)[-1].messages if isinstance(it, Result)]
    return told[-1]


async def resolved(conversation: Conversation) -> list[tuple[str, str]]:
    """What became of the decisions, and who decided."""
    return [(it["outcome"], it["by"]) for it in await conversation.facts("decision.resolved")]


async def test_python_1_9_2_answers_a_question_from_its_callback(stage: Stage, clients: Clients) -> None:
    person = await clients.python("python-1.9.2", stage.host)
    prompt = question(stage)
    asking = person.begin("input_async", {"prompt": prompt}, on=["on_ask"])
    asked = await person.asked(asking, "on_ask")
    assert (asked["event"]["question"], asked["event"]["options"]) == ("Which language?", OPTIONS)
    person.answer(asked, "Rust")
    assert await asking == {"text": "Thanks.", "done": True}
    assert result(stage, prompt) == "Rust"
    conversation = await stage.host.conversation(prompt)
    assert await resolved(conversation) == [("answered", person.principal)]


async def test_python_1_9_2_answers_a_question_later_on_another_socket(stage: Stage, clients: Clients) -> None:
    person = await clients.python("python-1.9.2", stage.host)
    prompt = question(stage)
    assert await person.say(prompt) == {"text": "Which language?", "done": False}
    assert (await person.state())["status"] == "waiting"
    assert await person.say("Python 3") == {"text": "Thanks.", "done": True}
    assert result(stage, prompt) == "Python 3"
    conversation = await stage.host.conversation(prompt)
    assert [it["text"] for it in await conversation.facts("prompt.submitted")] == [prompt]


async def test_npm_answers_a_question(stage: Stage, clients: Clients) -> None:
    person = await clients.npm(stage.host)
    prompt = question(stage)
    asking = person.begin("input", [prompt])
    asked = await person.shows("ask_user")
    assert (asked["options"], asked["multi_select"]) == (OPTIONS, False)
    assert asked["text"] == "", "it reads the question from a field that no host has (its bug, spec row 31)"
    await person.send(type="ASK_USER_RESPONSE", answer="Rust")
    assert await asking == {"text": "Thanks.", "done": True}
    assert result(stage, prompt) == "Rust"


@pytest.mark.parametrize("kind", ["python-1.2.1", "python-1.2.1-unsigned"])
async def test_python_1_2_1_can_be_asked_but_cannot_answer(kind: str, stage: Stage, clients: Clients) -> None:
    """Its bugs (spec §13): the text is empty, and what it says next is an interjection, not an answer."""
    person = await clients.meet(kind, stage.host)
    prompt = question(stage)
    assert await person.say(prompt) == {"text": "", "done": False}
    [asked] = await person.ui("ask_user")
    assert (asked["text"], asked["options"]) == (None, OPTIONS)
    assert await person.say(reply := stage.prompt("Python 3", say("As you like."))) == {"text": "", "done": False}
    conversation = await stage.host.conversation(prompt)
    assert await resolved(conversation) == []

    # Somebody else answers, and nothing that was said is lost.
    [opened] = await conversation.facts("decision.opened")
    await conversation.answer(opened["decision"], {"text": "Rust"})
    await conversation.has("turn.ended")
    assert [it["text"] for it in await conversation.facts("prompt.submitted")] == [prompt, reply]
    assert await conversation.texts() == ["As you like."]


async def test_python_1_9_2_approves_and_refuses_from_its_callback(stage: Stage, clients: Clients) -> None:
    person = await clients.python("python-1.9.2", stage.host)
    for number, (name, approved) in enumerate((("approved.txt", True), ("refused.txt", False)), 1):
        prompt = command(stage, name)
        asking = person.begin("input_async", {"prompt": prompt}, on=["on_approval"])
        asked = await person.asked(asking, "on_approval")
        assert (asked["event"]["tool"], asked["event"]["arguments"]) == ("bash", {"command": f"echo made > {name}"})
        assert not (stage.host.work / name).exists()
        person.answer(asked, approved)
        assert await asking == {"text": "Made." if approved else STOPPED, "done": True}
        assert (stage.host.work / name).exists() == approved
        conversation = await stage.host.conversation(prompt)
        assert len(await conversation.facts("decision.opened")) == number
    assert {by for _, by in await resolved(conversation)} == {person.principal}


async def test_python_1_9_2_approves_for_the_rest_of_the_session(stage: Stage, clients: Clients) -> None:
    person = await clients.python("python-1.9.2", stage.host)
    asking = person.begin("input_async", {"prompt": command(stage, "first.txt")}, on=["on_approval"])
    person.answer(await person.asked(asking, "on_approval"), {"approved": True, "scope": "session"})
    assert await asking == {"text": "Made.", "done": True}
    prompt = command(stage, "second.txt")
    assert await person.say(prompt) == {"text": "Made.", "done": True}
    assert (stage.host.work / "second.txt").exists()
    conversation = await stage.host.conversation(prompt)
    assert len(await conversation.facts("decision.opened")) == 1


async def test_python_1_9_2_approves_later_on_another_socket(stage: Stage, clients: Clients) -> None:
    person = await clients.python("python-1.9.2", stage.host)
    prompt = command(stage, "later.txt")
    with pytest.raises(Raised, match="waiting for approval to run 'bash'") as raised:
        await person.say(prompt)
    assert raised.value.kind == "ApprovalPendingError"
    assert not (stage.host.work / "later.txt").exists()
    assert await person.call("respond_to_approval_async", {"approved": True}) == {"text": "Made.", "done": True}
    assert (stage.host.work / "later.txt").exists()
    conversation = await stage.host.conversation(prompt)
    assert await resolved(conversation) == [("answered", person.principal)]


async def test_python_1_9_2_declines_what_nobody_answered_by_its_deadline(stage: Stage, clients: Clients) -> None:
    """It says no and closes the socket at once; that must reach us."""
    person = await clients.python("python-1.9.2", stage.host)
    prompt = command(stage, "too-late.txt")
    asking = person.begin("input_async", {"prompt": prompt, "timeout": 4.0}, on=["on_approval"])
    asked = await person.asked(asking, "on_approval")
    with pytest.raises(Raised, match="that approval was declined") as raised:
        await asking
    assert raised.value.kind == "TurnTimeoutError"
    conversation = await stage.host.conversation(prompt)
    [answered] = await conversation.has("decision.resolved")
    assert (answered["answer"]["accept"], answered["by"]) == (False, person.principal)
    person.answer(asked, True)
    await conversation.has("turn.ended")
    assert not (stage.host.work / "too-late.txt").exists()


async def test_npm_approves_and_refuses(stage: Stage, clients: Clients) -> None:
    person = await clients.npm(stage.host)
    asking = person.begin("input", [command(stage, "npm-approved.txt")])
    asked = await person.shows("approval_needed")
    assert (asked["tool"], asked["arguments"]) == ("bash", {"command": "echo made > npm-approved.txt"})
    await person.send(type="APPROVAL_RESPONSE", approved=True, scope="once")
    assert await asking == {"text": "Made.", "done": True}
    assert (stage.host.work / "npm-approved.txt").exists()

    prompt = command(stage, "npm-refused.txt")
    asking = person.begin("input", [prompt])
    await person.shows("approval_needed", 2)
    answer = {"approved": False, "mode": "reject_soft", "feedback": "Use another name."}
    await person.send(type="APPROVAL_RESPONSE", **answer)
    assert await asking == {"text": "Made.", "done": True}
    assert not (stage.host.work / "npm-refused.txt").exists()
    assert "Use another name." in result(stage, prompt)
    assert [call["status"] for call in await person.ui("tool_call")] == ["done", "error"]


@pytest.mark.parametrize("kind", ["python-1.2.1", "python-1.2.1-unsigned"])
async def test_python_1_2_1_waits_until_somebody_else_approves(kind: str, stage: Stage, clients: Clients) -> None:
    """It knows no approvals; a client that does may join in."""
    person = await clients.meet(kind, stage.host)
    prompt = command(stage, f"{kind}.made")
    asking = person.begin("input_async", {"prompt": prompt})
    conversation = await stage.host.conversation(prompt)
    [opened] = await conversation.has("decision.opened")
    await conversation.answer(opened["decision"], {"accept": True})
    assert await asking == {"text": "Made.", "done": True}
    assert (stage.host.work / f"{kind}.made").exists()


async def test_npm_approves_what_the_same_person_asked_for_with_python_1_2_1(stage: Stage, clients: Clients) -> None:
    """One key, one session, two clients: the older one has no approvals, the other has."""
    key = seed()
    python, npm = await clients.python("python-1.2.1", stage.host, key=key), await clients.npm(stage.host, key=key)
    assert python.principal == npm.principal
    prompt = command(stage, "both.txt")
    asking = python.begin("input_async", {"prompt": prompt})
    conversation = await stage.host.conversation(prompt)
    await conversation.has("decision.opened")
    watching = npm.begin("reconnect", [(await python.state())["session"]["session_id"]])
    assert (await npm.shows("approval_needed"))["arguments"] == {"command": "echo made > both.txt"}
    await npm.send(type="APPROVAL_RESPONSE", approved=True)
    assert await asking == await watching == {"text": "Made.", "done": True}
    assert (stage.host.work / "both.txt").exists()


async def test_npm_reviews_a_plan(stage: Stage, clients: Clients) -> None:
    person = await clients.npm(stage.host)
    await person.say(stage.prompt("Hello,", say("Hello.")))
    await person.call("setMode", ["plan"])
    plan = "# Plan\n\n1. Nothing\n"
    first = Answer((use("presentPlan", {"plan": plan}),))
    second = Answer((use("presentPlan", {"plan": plan + "2. Rest\n"}),))
    prompt = stage.prompt("Plan it.", first, second, say("Planned."))
    asking = person.begin("input", [prompt])
    assert (await person.shows("plan_review"))["plan_content"] == plan
    await person.send(type="PLAN_REVIEW_RESPONSE", message="And then?")
    assert (await person.shows("plan_review", 2))["plan_content"] == plan + "2. Rest\n"
    await person.send(type="PLAN_REVIEW_RESPONSE", message="Plan approved")
    assert await asking == {"text": "Planned.", "done": True}
    told = [it.text for it in stage.heard(prompt)[1].messages if isinstance(it, Result)]
    assert "And then?" in told[-1]


async def test_npm_lets_the_agent_edit_unasked(stage: Stage, clients: Clients) -> None:
    person = await clients.npm(stage.host)
    for mode, name, asked in (("safe", "asked.txt", 1), ("accept_edits", "unasked.txt", 1)):
        await person.say(stage.prompt("Hello,", say("Hello.")))
        await person.call("setMode", [mode])
        write = Answer((use("write", {"filePath": name, "content": "edited\n"}),))
        writing = person.begin("input", [stage.prompt("Write it.", write, say("Written."))])
        if mode == "safe":
            await person.shows("approval_needed")
            await person.send(type="APPROVAL_RESPONSE", approved=True)
        assert await writing == {"text": "Written.", "done": True}
        assert (stage.host.work / name).read_text() == "edited\n"
        assert len(await person.ui("approval_needed")) == asked
