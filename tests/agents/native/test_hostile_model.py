"""A model that tries for more than it was given: other words for what was granted, other modes, other sessions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dragoman.hub.errors import HubError
from dragoman.hub.events import Answer, DecisionOpened, ToolEnded
from dragoman.hub.permissions import LOCAL

from .native_rig import answered, asked, native_hub, of, script, settled


def call(tool: str, **given: object) -> str:
    return f"call {tool} {json.dumps(given)}"


def bash(command: str) -> str:
    return call("bash", command=command)


def files(folder: Path) -> dict[Path, bytes | None]:
    return {each: each.read_bytes() if each.is_file() else None for each in folder.rglob("*")}


NOTEBOOK = '{"cells": [{"cell_type": "code", "source": "x"}], "nbformat": 4, "nbformat_minor": 4}'
CHANGES = {
    "bash": bash("touch made"),
    "bash of a listed command with more": bash("ls; touch made"),
    "write": call("write", filePath="made", content="x"),
    "edit": call("edit", filePath="file", oldString="a", newString="b"),
    "notebookEdit": call("notebookEdit", notebookPath="n.ipynb", cellIndex=0, newSource="y"),
    "memory": call("memory", action="write", content="x"),
    "deep memory": call("memory", action="write", key="k", content="x"),
    "spawnAgent write": call("spawnAgent", task='#script\ncall write {"filePath":"made","content":"x"}'),
    "spawnAgent memory": call("spawnAgent", task='#script\ncall memory {"action":"write","content":"x"}'),
    "spawnAgent bash": call("spawnAgent", agentType="explore", task='#script\ncall bash {"command":"touch made"}'),
    "spawnAgent spawnAgent": call("spawnAgent", task='#script\ncall spawnAgent {"task":"x"}'),
    "spawnAgent ask": call("spawnAgent", task='#script\ncall ask {"question":"x"}'),
    "spawnAgent presentPlan": call("spawnAgent", task='#script\ncall presentPlan {"plan":"x"}'),
    "todoWrite": call("todoWrite", todos=[]),
    "skill": call("skill", skillName="../x"),
}


@pytest.mark.parametrize("change", CHANGES)
async def test_plan_mode_changes_no_file_and_asks_nobody(tmp_path: Path, change: str) -> None:
    (tmp_path / "file").write_text("a")
    (tmp_path / "n.ipynb").write_text(NOTEBOOK)
    before = files(tmp_path)
    async with native_hub(tmp_path) as hub:
        session = await hub.session(mode="plan")
        facts = await hub.turn(session, script(CHANGES[change]))
        assert of(facts, DecisionOpened) == []
        assert files(tmp_path) == before
        assert session.state.settings["mode"] == "plan"


@pytest.mark.parametrize("mode", ["ask", "accept_edits", "all"])
async def test_a_change_of_mode_counts_for_the_next_call_of_the_same_turn(tmp_path: Path, mode: str) -> None:
    async with native_hub(tmp_path) as hub:
        session = await hub.session(mode=mode)
        first, second = call("ask", question="?"), call("write", filePath="made", content="x")
        await hub.submit(session, script(first, second))
        question = await asked(session)
        await session.change_settings(LOCAL, {"mode": "plan"})
        await session.answer(LOCAL, question.decision, Answer(text="x"), via="test")
        await settled(session)
        assert not (tmp_path / "made").exists()
        assert of(await hub.facts(session), ToolEnded)[-1].status == "denied"


GRANTED = "touch made"


@pytest.mark.parametrize(
    "other",
    [
        *("touch  made", " touch made", "touch made ", "touch made\n", "touch\tmade", "touch made;", "touch 'made'"),
        *("touch made other", "TOUCH made", "touch ma\u00adde", "touch made) (x", "touch \u200bmade", "touch made #"),
    ],
)
async def test_a_grant_is_for_the_very_command(tmp_path: Path, other: str) -> None:
    async with native_hub(tmp_path) as hub:
        session = await hub.session()
        await hub.submit(session, script(bash(GRANTED)))
        await answered(session, 2)
        assert of(await hub.turn(session, script(bash(GRANTED))), DecisionOpened) == []
        await hub.submit(session, script(bash(other)))
        assert (await answered(session, 4)).text == other


async def test_a_grant_is_for_its_own_session_and_its_own_kind(tmp_path: Path) -> None:
    async with native_hub(tmp_path) as hub:
        mine, other = await hub.session(), await hub.session()
        await hub.submit(mine, script(bash(GRANTED)))
        await answered(mine, 3)
        await hub.submit(other, script(bash(GRANTED)))
        await answered(other, 4)
        for line in (call("write", filePath="made", content="x"), bash("rm -rf x"), bash("echo x | sudo sh")):
            await hub.submit(mine, script(line))
            await answered(mine, len((await asked(mine)).options))


async def test_a_decision_is_answered_in_its_own_session_only(tmp_path: Path) -> None:
    async with native_hub(tmp_path) as hub:
        mine, other = await hub.session(), await hub.session()
        await hub.submit(mine, script(bash(GRANTED)))
        opened = await asked(mine)
        with pytest.raises(HubError):
            await other.answer(LOCAL, opened.decision, Answer(option=1), via="test")
        for wrong in (Answer(option=0), Answer(option=5), Answer(option=-1), Answer()):
            with pytest.raises(HubError):
                await mine.answer(LOCAL, opened.decision, wrong, via="test")
        assert not (tmp_path / "made").exists()
        await answered(mine, 4)


@pytest.mark.parametrize("text", ["yes", "1", "Yes", "once", "session", "rule:bash"])
async def test_words_alone_permit_nothing(tmp_path: Path, text: str) -> None:
    async with native_hub(tmp_path) as hub:
        session = await hub.session()
        await hub.submit(session, script(bash(GRANTED)))
        opened = await asked(session)
        await session.answer(LOCAL, opened.decision, Answer(text=text), via="test")
        await settled(session)
        assert not (tmp_path / "made").exists()
        assert session.state.grants == []
