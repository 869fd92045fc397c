"""Queries: what their turns run with, in which order they run, and what comes with them."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from dragoman.agents.native.providers.conversation import Image, UserMessage
from dragoman.agents.native.providers.port import ProviderFailed
from dragoman.dialects.windie.settings import WindieSettings
from dragoman.hub.events import ArtifactStored, ClientToolsDeclared, PromptSubmitted, SettingsChanged, TurnStarted
from dragoman.hub.permissions import LOCAL
from dragoman.hub.session import Session
from tests.agents.native.native_rig import Given, of, script, settled
from tests.hub.rig import turns_of_the_loop, until

from .judges.sequence import faults, heard
from .link_rig import PNG, Place, definition, place, tool

WAIT = script("wait")
NO_MEMORY = "<episodic_memory>\nNone\n</episodic_memory>\n\n<semantic_memory>\nNone\n</semantic_memory>\n\n"


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[Place]:
    async with place(tmp_path) as opened:
        yield opened


def images_of(message: Any) -> list[bytes]:
    assert isinstance(message, UserMessage)
    return [image.data for image in message.images]


async def prompts(here: Place, session: Session) -> list[PromptSubmitted]:
    return of(await here.hub.facts(session), PromptSubmitted)


async def test_a_query_is_a_turn_of_its_conversation(here: Place) -> None:
    client = await here.client()
    name = client.ask(script("say Hi."), name="turn_1")
    assert await client.ended(name) == "Hi."
    mine = [frame for frame in client.heard if frame.get("id") == name]
    assert not faults(map(heard, client.heard))
    assert mine[0]["type"] == "query-accepted"
    assert {frame["conversation_ref"] for frame in mine} == {"conv"}
    assert await client.ended(client.ask(script("say Again."))) == "Again."
    assert len(here.hub.registry.rows(LOCAL)) == 1, "both are in one session"


async def test_the_model_sees_the_content_and_the_log_has_the_text(here: Place) -> None:
    client = await here.client()
    await client.ended(client.ask("hello", content="<user_query>\nhello\n</user_query>"))
    await client.ended(client.ask("bare", content=None))
    assert [message.text for message in here.model.last if isinstance(message, UserMessage)] == [
        "<user_query>\nhello\n</user_query>",
        f"{NO_MEMORY}<user_query>\nbare\n</user_query>",
    ]
    assert [prompt.text for prompt in await prompts(here, await here.session())] == ["hello", "bare"]


async def test_what_comes_beside_the_text_is_kept_and_not_shown(here: Place) -> None:
    client = await here.client()
    beside = {
        "system_state_internal": {"active_window": "W"},
        "query_context": {"a": 1},
        "capture_meta": {"frame_id": "f"},
        "revision_id": "r1",
        "workspace_path": "/home/me/project",
    }
    await client.ended(client.ask("hello", **beside))
    (prompt,) = await prompts(here, await here.session())
    assert prompt.detail == beside
    assert prompt.client == client.link.id
    request = here.model.requests[-1]
    assert "/home/me/project" in request.system
    assert "frame_id" not in str(request)


# What a turn runs with


async def test_the_definition_the_layers_and_the_instructions_make_the_prompt(here: Place) -> None:
    client = await here.client(
        agent_definition=definition(system_prompt={"mode": "replace", "content": "You are a parrot."})
    )
    await client.ended(
        client.ask(
            "hello",
            client_prompt_layers=[{"id": "l", "type": "note", "content": "LAYER"}],
            repo_instruction_messages=[{"role": "user", "content": "INSTRUCTION"}],
        )
    )
    system = here.model.requests[-1].system
    assert "You are a parrot." in system
    assert "LAYER" in system
    assert "INSTRUCTION" in system
    await client.ended(client.ask("again"))
    assert "LAYER" not in here.model.requests[-1].system, "layers are the query's own"


async def test_the_model_is_offered_the_clients_tools_and_no_others(here: Place) -> None:
    client = await here.client(agent_definition=definition(tool("one"), tool("two")))
    await client.ended(client.ask("hello"))
    assert [spec.name for spec in here.model.requests[-1].tools] == ["one", "two"]


async def test_nothing_is_recorded_that_does_not_differ(here: Place) -> None:
    """Both SDKs send the whole definition with every query."""
    mine = definition(tool())
    client = await here.client(agent_definition=mine)
    for _ in range(3):
        await client.ended(client.ask("hello", agent_definition=mine))
    facts = await here.hub.facts(await here.session())
    assert not of(facts, SettingsChanged)
    assert len(of(facts, ClientToolsDeclared)) == 1


async def test_a_querys_own_manifest_is_that_of_its_turn(here: Place) -> None:
    client = await here.client(agent_definition=definition(tool("one")))
    await client.ended(client.ask("hello", agent_definition=definition(tool("two"))))
    assert [spec.name for spec in here.model.requests[-1].tools] == ["two"]
    await client.ended(client.ask("hello"))
    assert [spec.name for spec in here.model.requests[-1].tools] == ["one"]


async def test_an_empty_manifest_beside_a_policy_takes_the_tools_away(here: Place) -> None:
    """Defect 646f44ca of the original: it was ignored."""
    client = await here.client(agent_definition=definition(tool("one")))
    await client.ended(client.ask("hello"))
    await client.ended(client.ask("hello", agent_definition=definition()))
    assert not here.model.requests[-1].tools
    without = {"version": 1, "tools": {"client_manifest": {"version": 1, "tools": []}}}
    await client.ended(client.ask("hello", agent_definition=without))
    assert "one" in [spec.name for spec in here.model.requests[-1].tools]


async def test_settings_of_the_user_count_from_the_next_query_on(here: Place) -> None:
    client = await here.client()
    await client.ended(client.ask("hello"))
    await here.dialect.host.users.change("user", {"selected_model_id": "gpt-5.4@@gpt-5-4-none-thinking"})
    await client.ended(client.ask("hello"))
    assert [request.model for request in here.model.requests] == ["test-model", "gpt-5.4"]


async def test_a_sessions_of_others_is_asked_and_nothing_of_it_is_set(here: Place) -> None:
    """What somebody set up in another client stays as it is."""
    session = await here.hub.session(system_prompt="Theirs.", enabled_tools=["todoWrite"])
    client = await here.client(agent_definition=definition(tool("one")))
    assert await client.ended(client.ask("hello", session.id)) == "You said: hello"
    request = here.model.requests[-1]
    assert "Theirs." in request.system
    assert [spec.name for spec in request.tools] == ["todoWrite"]


async def test_an_agent_of_another_kind_is_asked(here: Place) -> None:
    session = await here.hub.create("scripted")
    client = await here.client()
    name = client.ask("say hello", session.id)
    await client.reply(name, "streaming-complete")


async def test_an_agent_that_is_shown_no_pictures_is_asked_without(
    here: Place, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    session = await here.hub.create("scripted")
    client = await here.client()
    name = client.ask("say hello", session.id, screenshot_ref=await here.upload())
    await client.reply(name, "streaming-complete")
    (prompt,) = await prompts(here, session)
    assert not prompt.attachments
    assert "goes without screenshots" in caplog.text


async def test_no_program_with_tools_of_its_own_answers_a_query(tmp_path: Path) -> None:
    """Whoever named it: the server's settings, or the folder that the conversation works in."""
    async with place(tmp_path) as here:

        async def choose(provider: str | None, model: str | None) -> Given:
            return Given("claude-code", "m", lambda: here.model, delegate=_no_program)

        _factory(here)._models.choose = choose
        client = await here.client()
        assert "claude-code has tools of its own" in await client.ended(client.ask("hello"))


def _factory(here: Place) -> Any:
    return next(factory for factory in here.hub.factories if factory.kind == "native")


def _no_program() -> Any:
    raise ProviderFailed("it is not there")


async def test_a_workspace_that_is_permitted_is_where_the_conversation_works(tmp_path: Path) -> None:
    project = tmp_path / "projects" / "mine"
    project.mkdir(parents=True)
    async with place(tmp_path, WindieSettings(workspaces=(str(project.parent),))) as here:
        client = await here.client()
        await client.ended(client.ask("hello", workspace_path=str(project)))
        assert (await here.session()).state.cwd == str(project)
        assert "on their own machine" not in here.model.requests[-1].system
        await client.ended(client.ask("hello", agent_definition=definition(runtime={"workspace_path": str(project)})))
        assert "on their own machine" not in here.model.requests[-1].system
        await client.ended(client.ask("hello", "other", workspace_path=str(tmp_path)))
        assert (await here.session("other")).state.cwd == here.hub.cwd
        assert f"on their own machine: {tmp_path}" in here.model.requests[-1].system


async def test_tools_are_taken_back_where_nothing_runs_before_they_are_offered_in_too_many_places(
    tmp_path: Path,
) -> None:
    """Else every conversation that a link ever had would stay in memory."""
    async with place(tmp_path, WindieSettings(followed=4, tasks=3)) as here:
        client = await here.client(agent_definition=definition(tool()))
        running = client.ask(WAIT, "running")
        await client.reply(running, "query-accepted")
        for ref in ("one", "two", "three", "four", "one"):
            assert await client.ended(client.ask(script("say Hi."), ref)) == "Hi."
            assert [spec.name for spec in here.model.requests[-1].tools] == ["save_note"]
        offering = [
            ref
            for ref in ("running", "one", "two", "three", "four")
            if (await here.session(ref)).offers_tools(client.link.id)
        ]
        assert offering == ["running", "one", "three", "four"]


async def test_a_conversations_name_has_an_end(here: Place) -> None:
    client = await here.client()
    error = await client.reply(client.ask("hello", "x" * 513), "error")
    assert "query.payload.conversation_ref: must have at most 512 characters" in error["payload"]["message"]


# Order


async def test_queries_of_a_conversation_run_in_their_order_and_each_with_its_own(here: Place) -> None:
    """Defect e19fab33 of the original: a turn's events and another's were mixed up."""
    client = await here.client()
    names = [
        client.ask(script(f"pause 5\nsay {number}"), agent_definition=definition(tool(f"tool{number}")))
        for number in range(5)
    ]
    ends = [await client.ended(name) for name in names]
    assert ends == [str(number) for number in range(5)]
    offered = [[spec.name for spec in request.tools] for request in here.model.requests]
    assert offered == [[f"tool{number}"] for number in range(5)]
    told = [frame["id"] for frame in client.heard if frame.get("id") in names]
    assert told == sorted(told, key=names.index), "nothing of a turn is told once the next one is"
    assert not faults(map(heard, client.heard))


async def test_conversations_do_not_wait_for_each_other(here: Place) -> None:
    client = await here.client()
    first = client.ask(WAIT, "one")
    assert await client.ended(client.ask("hello", "two")) == "You said: hello"
    assert "streaming-complete" not in client.told(first)


async def test_a_query_waits_for_a_turn_that_began_elsewhere(here: Place) -> None:
    client = await here.client()
    await client.ended(client.ask("hello"))
    session = await here.session()
    before = session.state.settings["system_prompt"]
    await session.submit(LOCAL, WAIT, via="test")
    name = client.ask("next", agent_definition=definition(system_prompt={"mode": "replace", "content": "New."}))
    await turns_of_the_loop(50)
    assert client.told(name) == []
    assert session.state.settings["system_prompt"] == before, "nothing changes under a turn that runs"
    await session.cancel(LOCAL, via="test")
    assert (await client.ended(name)).endswith("next")
    assert "New." in here.model.requests[-1].system


# Repeats


@pytest.mark.parametrize("others", [0, 2])
@pytest.mark.parametrize("end", ["completed", "failed", "cancelled"])
async def test_who_comes_back_with_a_querys_id_is_told_its_turn_from_the_beginning(
    here: Place, end: str, others: int
) -> None:
    client, watcher = await here.client(), await here.client()
    text = script({"completed": "say Hi.", "failed": "fail", "cancelled": "say Hi.\nwait"}[end])
    name = client.ask(text)
    if end == "cancelled":
        await client.reply(name, "streaming-response")
        await (await here.session()).cancel(LOCAL, via="test")
    whole = await watcher.reply(name, "streaming-complete", "error")
    told = [frame for frame in watcher.heard if frame.get("id") == name]
    for number in range(others):
        await client.ended(client.ask(script(f"say {number}")))
    client.leave()
    back = await here.client()
    back.ask(text, name=name)
    assert await back.reply(name, "streaming-complete", "error") == whole
    assert [frame for frame in back.heard if frame.get("id") == name] == told
    back.ask(text, name=name)  # once more: nothing new begins
    next_ = back.ask(script("say next"))
    await back.ended(next_)
    assert [frame["id"] for frame in back.heard if frame["type"] == "query-accepted"][-1] == next_


@pytest.mark.parametrize("running", [True, False])
async def test_a_query_that_comes_again_is_one_turn(here: Place, running: bool) -> None:
    client = await here.client()
    name = client.ask(script("pause 20\nsay Hi."))
    if not running:
        await client.ended(name)
    client.ask(script("pause 20\nsay Hi."), name=name)
    assert await client.ended(name) == "Hi."
    await client.ended(client.ask("the next one"))
    facts = await here.hub.facts(await here.session())
    assert len(of(facts, TurnStarted)) == 2
    assert "error" not in client.told(name)
    assert client.told(name).count("streaming-complete") == 1


async def test_an_id_that_comes_again_with_other_text_is_refused(here: Place) -> None:
    client = await here.client()
    name = client.ask("hello")
    await client.ended(name)
    client.ask("something else", name=name)
    error = await client.reply(name, "error")
    assert "already used with other content" in error["payload"]["message"]


# Screenshots


async def test_screenshots_reach_the_model_in_their_order(here: Place) -> None:
    client = await here.client()
    pictures = [PNG + bytes([number]) for number in range(3)]
    refs = [await here.upload(data) for data in pictures]
    await client.ended(client.ask("look", screenshot_refs=[refs[1], refs[0], refs[1]], screenshot_ref=refs[2]))
    assert images_of(here.model.last[-1]) == [pictures[2], pictures[1], pictures[0]]
    session = await here.session()
    (prompt,) = await prompts(here, session)
    assert [(it.kind, it.name) for it in prompt.attachments] == [
        ("screenshot", refs[2]),
        ("screenshot", refs[1]),
        ("screenshot", refs[0]),
    ]
    assert len(of(await here.hub.facts(session), ArtifactStored)) == 3


@pytest.mark.parametrize("head", ["", "data:image/png;base64,"])
async def test_a_screenshot_comes_inline(here: Place, head: str) -> None:
    client = await here.client()
    await client.ended(client.ask("look", screenshot=head + base64.b64encode(PNG).decode()))
    (message,) = [each for each in here.model.last if isinstance(each, UserMessage)]
    assert [(image.media_type, image.data) for image in message.images] == [("image/png", PNG)]
    assert all(isinstance(image, Image) for image in message.images)


async def test_without_a_screenshot_that_is_not_there_the_text_is_asked(
    here: Place, caplog: pytest.LogCaptureFixture
) -> None:
    client = await here.client()
    pdf, mine = await here.upload(b"%PDF-1.7 and so on"), await here.upload()
    theirs = await here.upload(owner="somebody")
    refs = ["shot.png", "../../etc/passwd", pdf, theirs, mine]
    assert await client.ended(client.ask("look", screenshot_refs=refs)) == "You said: look"
    assert images_of(here.model.last[-1]) == [PNG]
    for ref in refs[:4]:
        assert f"goes without screenshot '{ref}'" in caplog.text


@pytest.mark.parametrize("inline", ["no base64!", "data:image/png;base64,%%%", base64.b64encode(b"a text").decode()])
async def test_a_query_with_a_screenshot_that_is_none_is_refused_and_leaves_nothing(here: Place, inline: str) -> None:
    client = await here.client()
    name = client.ask("look", screenshot=inline, screenshot_ref=await here.upload())
    error = await client.reply(name, "error")
    assert error["payload"]["message"].startswith("Invalid screenshot: ")
    session = await here.session()
    assert not await prompts(here, session)
    kept = here.hub.artifacts
    assert not any((kept._folder / session.id).iterdir())  # type: ignore[union-attr]


async def test_too_many_screenshots_are_refused(here: Place) -> None:
    client = await here.client()
    name = client.ask("look", screenshot_refs=[f"{number}.png" for number in range(21)])
    error = await client.reply(name, "error")
    assert error["payload"]["message"] == "Invalid query: it has more than 20 screenshots"


async def test_what_the_hub_refuses_is_an_error_with_the_querys_id(
    here: Place, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    client = await here.client()
    name = client.ask("x", content="x" * (5 * 1024 * 1024), screenshot=base64.b64encode(PNG).decode())
    error = await client.reply(name, "error")
    assert "prompt_bytes" in error["payload"]["message"]
    assert f"INPUT_SIZE_LIMIT_ERROR: query {name}" in caplog.text
    session = await here.session()
    await until(lambda: not any((here.hub.artifacts._folder / session.id).iterdir()), "the picture is let go")  # type: ignore[union-attr]


async def test_a_turn_that_fails_is_logged_with_the_contracts_code(
    here: Place, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    client = await here.client()
    assert "too much" in await client.ended(client.ask(script("fail rate_limited too much")))
    await until(lambda: "LLM_RATE_LIMIT: turn" in caplog.text, lambda: caplog.text)


# Links that go


async def test_a_query_that_waits_goes_with_its_link(here: Place) -> None:
    """What runs goes on while the user has another link; what has not begun never does."""
    client, other = await here.client(), await here.client(agent_definition=definition(tool()))
    running = other.ask(script('call save_note {"text": "a"}', "say Hi."))
    call = await other.called()
    client.ask("never")
    await turns_of_the_loop()
    client.leave()
    other.send("tool-result", {"request_id": call["request_id"], "success": True, "data": {"output": "saved"}})
    assert await other.ended(running) == "Hi."
    await other.ended(other.ask("mine"))
    assert [prompt.text for prompt in await prompts(here, await here.session())][1:] == ["mine"]


async def test_with_the_users_last_link_its_turns_end(here: Place) -> None:
    client = await here.client()
    name = client.ask(WAIT)
    await client.reply(name, "query-accepted")
    client.leave()
    session = await here.session()
    await settled(session)
    assert session.shown.turn is None


@pytest.mark.parametrize("steps", range(40))
async def test_no_turn_is_begun_that_nobody_hears(here: Place, steps: int) -> None:
    """However far the query has come when the last link goes."""
    client = await here.client()
    client.ask(WAIT, screenshot=base64.b64encode(PNG).decode())
    await turns_of_the_loop(steps)
    client.leave()
    await until(lambda: not here.dialect.tasks, "nothing is worked on any more")
    for row in here.hub.registry.rows(LOCAL):
        await settled(await here.hub.get(row.session))


async def test_a_prompt_that_the_disk_takes_late_is_ended_with_the_last_link(here: Place) -> None:
    client = await here.client()
    await client.ended(client.ask("hello"))
    session = await here.session()
    with here.slow_disk():
        client.ask(WAIT)
        await until(lambda: session.state.turn, "its turn is recorded")
        client.leave()
        await turns_of_the_loop()
    await settled(session)
    assert session.shown.turn is None


async def test_a_disk_that_fails_is_told(here: Place, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    client = await here.client()
    await client.ended(client.ask("hello"))
    here.hub.journal.fail("no room")
    name = client.ask("later")
    assert "no room" in (await client.reply(name, "error"))["payload"]["message"]
    assert f"SESSION_ERROR: query {name}" in caplog.text
    here.hub.journal.heal()
    client.ask(script("say Now."), name=name)
    assert (await client.reply(name, "streaming-complete"))["payload"]["final_response"] == "Now."


async def test_a_link_that_is_being_closed_begins_nothing(here: Place) -> None:
    """Between the end that we make and the loss of the socket, nobody hears of a new turn."""
    client = await here.client()
    await client.ended(client.ask("hello"))
    client.ask(WAIT, "new")
    client.link.revoked()
    await until(lambda: len(here.dialect.tasks) == 0, "nothing is worked on any more")
    (known,) = here.hub.registry.rows(LOCAL)
    assert known.session == (await here.session()).id
