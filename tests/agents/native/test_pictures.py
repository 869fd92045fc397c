"""Pictures that came with prompts, as the model gets them: after a restart too, and while it works; or words."""

from __future__ import annotations

import base64
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path

import msgspec
import pytest

from dragoman.agents.native.compaction import transcript
from dragoman.agents.native.delegates.port import Delegate
from dragoman.agents.native.delegates.transcript import with_transcript
from dragoman.agents.native.delegates.turn import given_text
from dragoman.agents.native.factory import NativeFactory
from dragoman.agents.native.pictures import refuses_pictures
from dragoman.agents.native.providers.conversation import (
    Image,
    Message,
    ModelRequest,
    Picture,
    ToolMessage,
    UserMessage,
)
from dragoman.agents.native.providers.port import ProviderFailed, StreamEvent
from dragoman.agents.native.providers.scripted import Scripted
from dragoman.agents.native.settings import ContextLimits, NativeSettings, TurnLimits
from dragoman.agents.native.tokens import count_messages, most_in_messages
from dragoman.hub.errors import InvalidRequest, LimitReached, Unsupported
from dragoman.hub.events import ArtifactStored, Attachment, Json, LogWritten, PromptSubmitted, ToolEnded
from dragoman.hub.events.nesting import MAX_NESTING
from dragoman.hub.permissions import LOCAL
from dragoman.hub.session import Session
from dragoman.hub.tool_offers import ToolOffer
from dragoman.services.artifacts import ArtifactSettings, ArtifactStore
from tests.agents.native.native_rig import Recording
from tests.hub.rig import InMemory, OnDisk, proven, until

from .native_rig import QUICK, Given, NativeHub, OneModel, native_hub, of, outcome, script, settled

PNG, GIF = b"\x89PNG\r\n\x1a\n" + b"a" * 92, b"GIF89a" + b"b" * 94
"""A hundred bytes each."""


class Blind(Recording):
    """A model that takes no pictures."""

    async def stream(self, request: ModelRequest, *, raw: bool = False) -> AsyncGenerator[StreamEvent, None]:
        if any(shown_in((message,)) for message in request.messages):
            self.requests.append(request)
            raise ProviderFailed("this model does not support image input", cause="invalid_request", status=400)
        async for event in super().stream(request, raw=raw):
            yield event


@pytest.fixture
def model() -> Recording:
    return Recording()


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[ArtifactStore]:
    opened = ArtifactStore(ArtifactSettings(spare=0), tmp_path / "artifacts")
    yield opened
    await opened.close()


@pytest.fixture
async def hub(tmp_path: Path, model: Recording, store: ArtifactStore) -> AsyncIterator[NativeHub]:
    async with native_hub(tmp_path, provider=model, artifacts=store) as opened:
        yield opened


async def attached(session: Session, *pictures: bytes, name: str = "image") -> tuple[Attachment, ...]:
    """Pictures as a prompt has them."""
    assert session.artifacts is not None
    found = []
    for number, data in enumerate(pictures, 1):
        kept = await session.artifacts.put(session.id, [data])
        kind = "image/png" if data.startswith(b"\x89PNG") else "image/gif"
        found.append(Attachment("image", f"{name}-{number}", kept.id, kind, kept.size))
    return tuple(found)


def images_in(messages: tuple[Message, ...]) -> list[Image]:
    return [image for message in messages if isinstance(message, UserMessage) for image in message.images]


def shown_in(messages: tuple[Message, ...]) -> list[Image]:
    """The pictures among them, without what was made ahead for adapters."""
    return [msgspec.structs.replace(image, encoded="") for image in images_in(messages)]


def words(message: Message) -> str:
    assert isinstance(message, UserMessage)
    return message.text


async def test_the_model_is_shown_what_came_with_a_prompt(hub: NativeHub, model: Recording) -> None:
    session = await hub.session()
    text = "look"
    facts = await hub.turn(session, text, attachments=await attached(session, PNG, GIF))
    assert outcome(facts) == "completed"
    assert [words(message) for message in model.last] == [text]
    assert shown_in(model.last) == [Image("image/png", PNG, "image-1"), Image("image/gif", GIF, "image-2")]
    await hub.turn(session, "and again")
    assert shown_in(model.last[:1]) == shown_in(model.requests[0].messages), "it is there in later turns"


@pytest.mark.parametrize("size", [100, 3 * 64 * 1024, 3 * 64 * 1024 + 1, 500_000])
async def test_a_picture_is_encoded_once_for_all_steps(hub: NativeHub, model: Recording, size: int) -> None:
    session = await hub.session()
    data = (PNG + bytes(range(256)) * (size // 256 + 1))[:size]
    text = script('call todoWrite {"todos": []}', "say done")
    await hub.turn(session, text, attachments=await attached(session, data))
    first, second = (images_in(request.messages) for request in model.requests)
    assert base64.b64decode(first[0].encoded, validate=True) == data
    assert first[0].encoded is second[0].encoded


async def test_it_is_shown_again_after_a_restart(tmp_path: Path, model: Recording, store: ArtifactStore) -> None:
    disk = OnDisk(tmp_path / "disk")
    async with native_hub(tmp_path, provider=model, artifacts=store, store=disk) as hub:
        session = await hub.session()
        await hub.turn(session, "look", attachments=await attached(session, PNG))
        await hub.recrash()
        session = await hub.get(session)
        await hub.turn(session, "and again")
        assert shown_in(model.last) == [Image("image/png", PNG, "image-1")]


async def test_a_prompt_that_steers_brings_its_pictures(hub: NativeHub, model: Recording) -> None:
    session = await hub.session()
    begin = script('call bash {"command": "while [ ! -e go ]; do sleep 0.01; done"}', "say done")
    pictures = await attached(session, GIF)
    await session.change_settings(LOCAL, {"mode": "all"})
    await hub.submit(session, begin)
    await until(lambda: session.shown.calls, "the command runs")
    await hub.submit(session, "and this", when_busy="steer", attachments=pictures)
    (Path(session.state.cwd) / "go").touch()
    await settled(session)
    assert [len(shown_in(request.messages)) for request in model.requests] == [0, 1]
    assert shown_in(model.last) == [Image("image/gif", GIF, "image-1")]
    assert any(words(it).endswith("and this") for it in model.last if isinstance(it, UserMessage))


async def test_one_whose_bytes_are_gone_is_said(hub: NativeHub, model: Recording, store: ArtifactStore) -> None:
    session = await hub.session()
    pictures = await attached(session, PNG, GIF)
    await store.release(session.id, pictures[0].artifact)
    facts = await hub.turn(session, "look", attachments=pictures)
    assert outcome(facts) == "completed"
    assert words(model.last[0]).endswith("\n\n[The picture image-1 was here; it is gone.]")
    assert shown_in(model.last) == [Image("image/gif", GIF, "image-2")]


@pytest.mark.parametrize(
    "limits", [ContextLimits(pictures=2), ContextLimits(picture_bytes=299)], ids=["number", "bytes"]
)
async def test_the_newest_are_shown_and_the_others_named(
    tmp_path: Path, model: Recording, store: ArtifactStore, limits: ContextLimits
) -> None:
    settings = NativeSettings(turn=TurnLimits(retry_first=0.01), context=limits)
    async with native_hub(tmp_path, provider=model, artifacts=store, settings=settings) as hub:
        session = await hub.session()
        for number in range(3):
            data = PNG[:-1] + bytes([number])
            await hub.turn(session, "look", attachments=await attached(session, data, name=f"picture-{number}"))
    asked = [message for message in model.last if isinstance(message, UserMessage)]
    assert words(asked[0]).endswith("\n\n[The picture picture-0-1 is here; it is not shown again.]")
    assert [image.name for image in shown_in(model.last)] == ["picture-1-1", "picture-2-1"]


async def test_one_that_comes_twice_is_shown_where_it_came_last(hub: NativeHub, model: Recording) -> None:
    session = await hub.session()
    for name in ("first", "second"):
        await hub.turn(session, "look", attachments=await attached(session, PNG, name=name))
    assert [len(shown_in((message,))) for message in model.last] == [0, 0, 1]
    assert shown_in(model.last) == [Image("image/png", PNG, "second-1")]


async def test_a_model_without_eyes_is_asked_again_in_words(tmp_path: Path, store: ArtifactStore) -> None:
    model = Blind()
    async with native_hub(tmp_path, provider=model, artifacts=store) as hub:
        session = await hub.session()
        facts = await hub.turn(session, "look", attachments=await attached(session, PNG))
        assert outcome(facts) == "completed"
        (told,) = of(facts, LogWritten)
        assert "asked again without" in told.line
        assert "does not support image input" in told.line
        assert words(model.last[0]).endswith("\n\n[The picture image-1 is here, but you cannot be shown pictures.]")
        facts = await hub.turn(session, "and again")
        assert outcome(facts) == "completed", "a picture of long ago stops no later turn"


@pytest.mark.parametrize(
    ("failure", "refuses"),
    [
        (ProviderFailed("bad request", cause="invalid_request"), True),
        (ProviderFailed("Image input is not supported", cause="failed", status=500), True),
        (ProviderFailed("out of memory", cause="failed", status=500), False),
        (ProviderFailed("image", cause="rate_limited"), False),
        (ProviderFailed("image", cause="unauthorized"), False),
    ],
    ids=["invalid", "says_so", "failed", "rate", "key"],
)
def test_which_failures_may_be_for_the_pictures(failure: ProviderFailed, refuses: bool) -> None:
    assert refuses_pictures(failure) is refuses


async def test_what_no_model_is_shown_is_refused(hub: NativeHub) -> None:
    session = await hub.session()
    (png,) = await attached(session, PNG)
    for wrong, why in (
        (Attachment("image", "a", "somewhere", "image/png", 1), "keeps no pictures"),
        (Attachment("screenshot", "a", png.artifact, "image/tiff", 1), "models are shown"),
        (Attachment("image", "a", png.artifact, None, 1), "models are shown"),
    ):
        with pytest.raises(Unsupported, match=why):
            await hub.submit(session, "hello", attachments=(wrong,))
    assert await session.shows_pictures()


async def test_a_server_without_a_store_takes_files_only(tmp_path: Path, model: Recording) -> None:
    async with native_hub(tmp_path, provider=model) as hub:
        session = await hub.session()
        assert not await session.shows_pictures()
        file = Attachment("file", "a", "upload:.co/uploads/a", None, 1)
        with pytest.raises(Unsupported, match="keeps no pictures"):
            await hub.submit(session, "hello", attachments=(Attachment("image", "a", "a" * 64, "image/png", 1),))
        await hub.turn(session, "what I typed", content="read it", attachments=(file,))
    assert model.last == (UserMessage("read it"),)


async def test_another_sessions_picture_is_none(hub: NativeHub, model: Recording) -> None:
    theirs = await attached(await hub.session(), PNG)
    session = await hub.session()
    await hub.turn(session, "look", attachments=theirs)
    assert shown_in(model.last) == []
    assert "it is gone" in words(model.last[0])


PICTURED = UserMessage("look", (Image("image/png", PNG, "a"),), (Picture("0" * 64, "image/gif", "b", 1),))


def test_pictures_are_counted_and_named_where_they_are_not_shown() -> None:
    bare = count_messages([UserMessage("look")])
    assert count_messages([PICTURED]) == bare + 2000
    assert most_in_messages([PICTURED]) >= bare + 2000
    named = "[The picture a was shown here.]\n\n[The picture b was shown here.]"
    assert transcript([PICTURED]) == f"PERSON: look\n\n{named}"
    assert f"User: look\n\n{named}" in with_transcript("now", [PICTURED], 1000)


def test_a_program_is_told_of_pictures_that_it_cannot_be_shown() -> None:
    pictures = (Attachment("image", "a.png", "0" * 64, "image/png", 1), Attachment("file", "b", "upload:b"))
    prompt = PromptSubmitted(prompt="p", text="typed", content="told", by="me", via="test", attachments=pictures)
    assert given_text(prompt) == "told\n\n[The picture a.png came with this, but you cannot be shown it.]"


class Chosen(OneModel):
    """Every session has what a test says."""

    given: Given | ProviderFailed

    async def choose(self, provider: str | None, model: str | None) -> Given:
        if isinstance(self.given, ProviderFailed):
            raise self.given
        return self.given


def no_delegate() -> Delegate:
    raise AssertionError("nobody runs a turn here")


@pytest.mark.parametrize(
    ("given", "shows"),
    [
        (Given("scripted", "m", Scripted), True),
        (Given("claude-code", "m", Scripted, delegate=no_delegate), False),
        (ProviderFailed("no provider"), True),
    ],
    ids=["model", "program", "none"],
)
async def test_a_session_is_shown_pictures_unless_a_program_runs_its_turns(
    tmp_path: Path, store: ArtifactStore, given: Given | ProviderFailed, shows: bool
) -> None:
    models = Chosen(Scripted())
    models.given = given
    async with proven(
        NativeHub(InMemory(), tmp_path, factories=[NativeFactory(models, QUICK)], artifacts=store)
    ) as hub:
        assert await (await hub.create("native")).shows_pictures() is shows


# Results of tools


async def called_with_a_picture(hub: NativeHub, session: Session, *pictures: bytes, times: int = 1) -> None:
    """A turn in which a client's tool gives these pictures."""
    offer = ToolOffer(name="look", description="Looks.")
    await session.declare_tools(LOCAL, "link", [offer])
    await hub.submit(session, script(*["call look {}"] * times, "say done"))
    for _ in range(times):
        (call,) = await until(lambda: list(session.shown.calls.values()), "the call")
        kept = await attached(session, *pictures, name="shot")
        await session.end_tool(
            LOCAL, call.call, link="link", output="seen", artifacts=tuple(it.artifact for it in kept), stored=kept
        )
        await until(lambda was=call.call: was not in session.shown.calls, "its end")
    await settled(session)


def result_of(messages: tuple[Message, ...]) -> ToolMessage:
    return next(message for message in reversed(messages) if isinstance(message, ToolMessage))


async def test_the_model_is_shown_what_a_tool_gave(hub: NativeHub, model: Recording) -> None:
    session = await hub.session(enabled_tools=[])
    await called_with_a_picture(hub, session, PNG, GIF)
    given = result_of(model.last)
    assert given.text == "seen"
    assert [(image.media_type, image.data, image.name) for image in given.images] == [
        ("image/png", PNG, "shot-1"),
        ("image/gif", GIF, "shot-2"),
    ]
    assert not given.pictures, "no adapter is given where a picture lies"


async def test_the_log_says_once_what_a_result_s_pictures_are(hub: NativeHub) -> None:
    session = await hub.session(enabled_tools=[])
    await called_with_a_picture(hub, session, PNG, times=2)
    facts = await hub.facts(session)
    (stored,) = of(facts, ArtifactStored)
    first, second = of(facts, ToolEnded)
    assert first.artifacts == second.artifacts == (stored.artifact,)
    assert facts.index(stored) < facts.index(first)


async def test_a_result_s_picture_is_shown_where_it_is_newest(hub: NativeHub, model: Recording) -> None:
    session = await hub.session(enabled_tools=[])
    await called_with_a_picture(hub, session, PNG, times=2)
    results = [message for message in model.last if isinstance(message, ToolMessage)]
    assert [len(message.images) for message in results] == [0, 1]
    assert "is not shown again" in results[0].text


async def test_a_result_whose_picture_nobody_described_is_a_text(hub: NativeHub, model: Recording) -> None:
    session = await hub.session(enabled_tools=[])
    await session.declare_tools(LOCAL, "link", [ToolOffer(name="look", description="Looks.")])
    await hub.submit(session, script("call look {}", "say done"))
    (call,) = await until(lambda: list(session.shown.calls.values()), "the call")
    await session.end_tool(LOCAL, call.call, link="link", output="seen", artifacts=("0" * 64,))
    await settled(session)
    assert result_of(model.last) == ToolMessage(call.call, "look", "seen")


async def test_a_refused_result_records_no_picture(hub: NativeHub) -> None:
    session = await hub.session(enabled_tools=[])
    await session.declare_tools(LOCAL, "link", [ToolOffer(name="look", description="Looks.")])
    await hub.submit(session, script("call look {}", "say done"))
    (call,) = await until(lambda: list(session.shown.calls.values()), "the call")
    kept = await attached(session, PNG)
    deep: Json = []
    for _ in range(MAX_NESTING + 1):
        deep = [deep]
    for output in (deep, "x" * (hub.limits.tool_result_bytes + 1)):
        with pytest.raises((InvalidRequest, LimitReached)):
            await session.end_tool(LOCAL, call.call, link="link", output=output, stored=kept)
    assert not of(await hub.facts(session), ArtifactStored)
    await session.end_tool(LOCAL, call.call, link="link")
    await settled(session)
