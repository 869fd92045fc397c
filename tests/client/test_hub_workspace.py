"""What surrounds a session, by the client library: on real sockets, also through connections that are cut."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.client.errors import Refused
from dragoman.client.hub import HubClient
from dragoman.hub.permissions import LOCAL
from dragoman.hub.session import Session
from dragoman.hub.skills import Expanded
from tests.dialects.hub.conftest import MakeRig
from tests.dialects.hub.rig import Rig, eventually
from tests.hub.workspaces import KeptCheckpoints, KnownSkills

from .chopper import Chopper
from .test_hub_client import QUICK


class Fickle(KnownSkills):
    """Its commands mean something else each time."""

    async def expand(self, cwd: Path, name: str, arguments: str) -> Expanded | None:
        self.asked.append(cwd)
        return Expanded(f"/{name} {arguments}", f"say {len(self.asked)}")


@pytest.fixture
def skills() -> KnownSkills:
    known = KnownSkills()
    known.add("pdf", "# PDF\n")
    known.add("docs", source="built-in")
    known.templates["review"] = ("say $ARGUMENTS", "review changes")
    return known


@pytest.fixture
async def surrounded(make_rig: MakeRig, skills: KnownSkills) -> Rig:
    return await make_rig(skills=skills, checkpoints=KeptCheckpoints())


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "notes").write_text("first")
    return folder


@pytest.fixture
async def session(surrounded: Rig, work: Path) -> Session:
    return await surrounded.registry.create(LOCAL, kind="scripted", cwd=str(work))


async def test_checkpoints(surrounded: Rig, session: Session, work: Path) -> None:
    async with HubClient(surrounded.url) as client:
        workspace = client.workspace(session.id)
        assert (await workspace.take_checkpoint())["checkpoint"] == "cp-0001"
        for checkpoint in ("cp-0001", None):
            (work / "notes").write_text("second")
            await workspace.restore(checkpoint)
            assert (work / "notes").read_text() == "first"
        await workspace.delete_checkpoint("cp-0001")
        listed = await workspace.checkpoints()
        assert [one["checkpoint"] for one in listed["checkpoints"]] == ["cp-0000", "cp-0002", "cp-0003"]
        assert listed["seq"] == session.shown.seq


async def test_skills(surrounded: Rig, session: Session) -> None:
    async with HubClient(surrounded.url) as client:
        workspace = client.workspace(session.id)
        assert [one["name"] for one in await workspace.skills()] == ["pdf", "docs"]
        assert (await workspace.read_skill("pdf"))["content"] == "# PDF\n"
        assert not (await workspace.disable_skill("pdf"))[0]["enabled"]
        assert (await workspace.enable_skill("pdf"))[0]["enabled"]
        assert [one["name"] for one in await workspace.delete_skill("pdf")] == ["docs"]
        with pytest.raises(Refused) as refused:
            await workspace.read_skill("pdf")
        assert refused.value.code == "unknown_skill"


async def test_commands(surrounded: Rig, session: Session) -> None:
    async with HubClient(surrounded.url) as client:
        workspace = client.workspace(session.id)
        assert [one["name"] for one in await workspace.commands()] == ["review"]
        receipt = await workspace.run("review", "hi", key="m-1")
        again = await workspace.run("review", "hi", key="m-1")
        assert (again["prompt"], again["duplicate"]) == (receipt["prompt"], True)
        with pytest.raises(Refused) as refused:
            await workspace.run("nobody")
        assert refused.value.code == "unknown_command"


async def test_commands_through_cuts_make_one_turn_each_whatever_they_mean_by_then(make_rig: MakeRig) -> None:
    rig = await make_rig(skills=Fickle())
    session = await rig.session()
    async with (
        Chopper(rig.port, cuts=30, seed=3, most=3000) as chopper,
        HubClient(chopper.url, options=QUICK) as client,
    ):
        workspace, sent = client.workspace(session.id), 0
        while chopper.cuts < 30:
            await workspace.run("review", str(sent), when_busy="queue")
            sent += 1
        await eventually(lambda: not session.shown.turn and not session.shown.queue, "all turns ended")
    assert session.shown.prompts == sent
