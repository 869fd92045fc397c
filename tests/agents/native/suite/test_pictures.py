"""A prompt's picture reaches the model through every adapter and API, and so it does in the next turn."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

pytest.importorskip("pydantic_ai")

from dragoman.hub.events import Attachment
from dragoman.services.artifacts import ArtifactSettings, ArtifactStore
from tests.agents.native.model_server import serving
from tests.agents.native.model_server.heard import Picture, User
from tests.agents.native.model_server.script import say
from tests.agents.native.native_rig import outcome

from .ways import WAYS, Way, reaching

PICTURES = {
    "image/png": b"\x89PNG\r\n\x1a\n" + bytes(range(256)),
    "image/jpeg": b"\xff\xd8\xff\xe0" + bytes(range(256)),
}


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[ArtifactStore]:
    opened = ArtifactStore(ArtifactSettings(spare=0), tmp_path / "artifacts")
    yield opened
    await opened.close()


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
async def test_pictures_reach_the_model(way: Way, tmp_path: Path, store: ArtifactStore) -> None:
    async with serving() as server, reaching(way, server, tmp_path, artifacts=store) as hub:
        session = await hub.session()
        attachments = []
        for kind, data in PICTURES.items():
            kept = await store.put(session.id, [data])
            attachments.append(Attachment("image", "a picture", kept.id, kind, kept.size))
        server.script(say("Seen."), say("Still there."))
        assert outcome(await hub.turn(session, "What is it?", attachments=tuple(attachments))) == "completed"
        assert outcome(await hub.turn(session, "And now?")) == "completed"
        assert server.violations == []
        wanted = tuple(Picture(kind, data) for kind, data in PICTURES.items())
        for entry in server.journal[:2]:
            first = entry.asked.messages[0]
            assert isinstance(first, User)
            assert (first.text, first.pictures) == ("What is it?", wanted)
