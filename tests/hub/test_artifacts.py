"""Artifacts as the hub knows them: recorded with the prompt that brings them, gone with their session."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dragoman.hub.artifacts import ArtifactGone, is_artifact
from dragoman.hub.errors import ConflictingRepeat, InvalidRequest
from dragoman.hub.events import ArtifactStored, Attachment, PromptSubmitted
from dragoman.hub.permissions import LOCAL
from dragoman.hub.session import Session
from dragoman.services.artifacts import ArtifactSettings, ArtifactStore

from .rig import Hub, InMemory, idle, proven, until

PNG, FILE = b"\x89PNG\r\n\x1a\n", Attachment("file", "a", "upload:.co/uploads/a", None, 3)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[ArtifactStore]:
    opened = ArtifactStore(ArtifactSettings(spare=0), tmp_path / "artifacts")
    yield opened
    await opened.close()


@pytest.fixture
async def hub(tmp_path: Path, store: ArtifactStore) -> AsyncIterator[Hub]:
    async with proven(Hub(InMemory(), tmp_path, artifacts=store)) as opened:
        yield opened


async def picture(session: Session, data: bytes = PNG, **more: str) -> Attachment:
    assert session.artifacts is not None
    kept = await session.artifacts.put(session.id, [data])
    return Attachment("image", "a.png", kept.id, size=kept.size, **{"media_type": "image/png", **more})


async def test_what_is_new_is_recorded_right_before_its_prompt(hub: Hub) -> None:
    session = await hub.create()
    one, two = await picture(session), await picture(session, PNG + b"2")
    for attachments in ((FILE, one, one), (one, two)):
        await session.submit(LOCAL, "say hello", via="test", attachments=attachments)
        await idle(session)
    facts = [fact for fact in await hub.facts(session) if isinstance(fact, ArtifactStored | PromptSubmitted)]
    assert [getattr(fact, "artifact", "prompt") for fact in facts] == [one.artifact, "prompt", two.artifact, "prompt"]
    assert facts[0] == ArtifactStored(
        artifact=one.artifact, media_type="image/png", size=len(PNG), sha256=one.artifact, name="a.png"
    )


async def test_it_is_news_once_also_after_a_restart(hub: Hub) -> None:
    session = await hub.create()
    for _ in range(2):
        await session.submit(LOCAL, "say hello", via="test", attachments=(await picture(session),))
        await idle(session)
        await hub.restart()
        session = await hub.get(session)
    stored = [fact for fact in await hub.facts(session) if isinstance(fact, ArtifactStored)]
    assert len(stored) == 1


async def test_a_prompt_that_is_refused_records_nothing(hub: Hub) -> None:
    session = await hub.create("puppet")
    hub.puppets.refuses = InvalidRequest("no")
    head = session.head
    with pytest.raises(InvalidRequest):
        await session.submit(LOCAL, "hello", via="test", attachments=(await picture(session),))
    assert session.head == head


async def test_the_same_message_again_is_one_prompt_with_its_pictures(hub: Hub) -> None:
    """Invariant 3."""
    session = await hub.create()
    one = await picture(session)
    given = {"via": "test", "client_message_id": "m", "when_busy": "queue"}
    first = await session.submit(LOCAL, "hello", attachments=(one,), **given)  # type: ignore[arg-type]
    again = await session.submit(LOCAL, "hello", attachments=(one,), **given)  # type: ignore[arg-type]
    assert (again.prompt, again.duplicate) == (first.prompt, True)
    with pytest.raises(ConflictingRepeat):
        await session.submit(LOCAL, "hello", **given)  # type: ignore[arg-type]


async def test_they_go_with_their_session(hub: Hub, store: ArtifactStore, tmp_path: Path) -> None:
    session, other = await hub.create(), await hub.create()
    one, theirs = await picture(session), await picture(other)
    assert one.artifact == theirs.artifact
    await hub.registry.delete(LOCAL, session.id)
    await until(lambda: not (tmp_path / "artifacts" / session.id).exists())
    with pytest.raises(ArtifactGone):
        await store.read(session.id, one.artifact)
    assert await store.read(other.id, theirs.artifact) == PNG


async def test_what_a_lost_server_left_of_dropped_sessions_is_swept(
    hub: Hub, store: ArtifactStore, tmp_path: Path
) -> None:
    session = await hub.create()
    await picture(session)
    await store.put("of-nobody", [PNG])
    await hub.restart()
    left = tmp_path / "artifacts"
    await until(lambda: not (left / "of-nobody").exists(), lambda: list(left.iterdir()))
    assert (left / session.id).exists()


async def test_a_hub_without_a_store_has_none(tmp_path: Path) -> None:
    async with proven(Hub(InMemory(), tmp_path)) as hub:
        session = await hub.create()
        assert session.artifacts is None
        assert not await session.shows_pictures()


async def test_an_agent_that_says_nothing_of_pictures_is_shown_none(hub: Hub) -> None:
    assert not await (await hub.create()).shows_pictures()


@pytest.mark.parametrize(
    ("name", "is_one"),
    [("0" * 64, True), ("0" * 63, False), ("A" * 64, False), ("0" * 64 + "\n", False), ("upload:a", False)],
    ids=["hash", "short", "upper", "line", "upload"],
)
def test_how_artifacts_are_called(name: str, is_one: bool) -> None:
    assert is_artifact(name) is is_one
