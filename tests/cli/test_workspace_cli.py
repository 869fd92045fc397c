"""`dragoman checkpoints`, `dragoman skills`, and slash commands of a folder in `dragoman chat`, on a real server."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from dragoman.cli.chat_input import _Commands
from dragoman.cli.chat_talk import Talk
from dragoman.client.hub import HubClient
from dragoman.hub.permissions import LOCAL
from dragoman.hub.session import Session
from tests.dialects.hub.rig import Rig
from tests.hub.workspaces import KeptCheckpoints, KnownSkills

LIMIT = 20


@pytest.fixture
def kept() -> KeptCheckpoints:
    return KeptCheckpoints()


@pytest.fixture
def skills() -> KnownSkills:
    known = KnownSkills()
    known.add("pdf", "# PDF\n\x1b[31mred", description="Use when\ntasks involve PDF files")
    known.add("docs", source="built-in")
    known.templates["review"] = ("Review these changes: $ARGUMENTS", "review changes")
    known.templates["model"] = ("which one?", "hidden by the chat's own")
    return known


@pytest.fixture
async def rig(tmp_path: Path, skills: KnownSkills, kept: KeptCheckpoints) -> AsyncIterator[Rig]:
    made = Rig(tmp_path, skills=skills, checkpoints=kept)
    await made.start()
    yield made
    await made.stop()


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "notes").write_text("first")
    return folder


@pytest.fixture
async def session(rig: Rig, work: Path) -> Session:
    return await rig.registry.create(LOCAL, kind="scripted", cwd=str(work))


async def dragoman(rig: Rig, *words: str, cwd: Path | None = None, typed: bytes = b"") -> tuple[int, str, str]:
    """Exit code, standard output and standard error of one command against that server."""
    line = [sys.executable, "-m", "dragoman", *words, "--url", f"http://127.0.0.1:{rig.port}"]
    pipe = asyncio.subprocess.PIPE
    env = {**os.environ, "DRAGOMAN_DATA": str(rig.folder / "own")}
    process = await asyncio.create_subprocess_exec(*line, stdin=pipe, stdout=pipe, stderr=pipe, cwd=cwd, env=env)
    out, err = await asyncio.wait_for(process.communicate(typed), LIMIT)
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


# Checkpoints


async def test_a_folder_is_saved_and_gone_back_to(rig: Rig, session: Session, work: Path) -> None:
    name = session.id[:8]
    assert await dragoman(rig, "checkpoints", "list", name) == (0, "no checkpoints\n", "")
    assert await dragoman(rig, "checkpoints", "take", name) == (0, "the folder is saved as cp-0001\n", "")
    (work / "notes").write_text("second")
    said = "the folder is again as cp-0001 has it\nwhat was there before is cp-0002\n"
    assert await dragoman(rig, "checkpoints", "restore", name, "cp-0001") == (0, said, "")
    assert (work / "notes").read_text() == "first"
    said = "the folder is again as cp-0002 has it\nwhat was there before is cp-0003\n"
    assert await dragoman(rig, "checkpoints", "restore", name, "cp-0002") == (0, said, "")
    assert (work / "notes").read_text() == "second"
    assert (await dragoman(rig, "checkpoints", "restore", name))[1].startswith("the folder is again as the first")
    assert await dragoman(rig, "checkpoints", "delete", name, "cp-0001") == (0, "cp-0001 is gone\n", "")
    _, listed, _ = await dragoman(rig, "checkpoints", "list", name)
    rows = [line.split() for line in listed.splitlines()]
    assert [row[:2] for row in rows] == [
        ["cp-0000", "initial"],
        ["cp-0002", "safety"],
        ["cp-0003", "safety"],
        ["cp-0004", "safety"],
    ]
    assert rows[1][-3:] == ["changed", "6", "B"]
    _, listed, _ = await dragoman(rig, "checkpoints", "list", name, "--json")
    assert [json.loads(line)["checkpoint"] for line in listed.splitlines()] == [row[0] for row in rows]


async def test_a_folder_is_saved_after_each_turn_when_that_is_wanted(rig: Rig, session: Session) -> None:
    name = session.id
    assert await dragoman(rig, "checkpoints", "on", name) == (0, "the folder is saved after each turn\n", "")
    await rig.play(session, "say hi")
    assert [saved.trigger for saved in session.shown.checkpoints.values()] == ["initial", "auto"]
    assert await dragoman(rig, "checkpoints", "off", name) == (0, "it is saved by hand only\n", "")
    assert not session.wants_checkpoints


async def test_what_stood_in_the_way_is_said_and_listed(rig: Rig, session: Session, kept: KeptCheckpoints) -> None:
    await session.checkpoint(LOCAL)
    kept.problem = "notes cannot be read"
    assert await dragoman(rig, "checkpoints", "take", session.id) == (1, "", "dragoman: notes cannot be read\n")
    _, listed, _ = await dragoman(rig, "checkpoints", "list", session.id)
    assert listed.splitlines()[-1].endswith("failed: notes cannot be read")


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("delete", "SESSION"), 2, "which one?"),
        (("list", "SESSION", "cp-0001"), 2, "takes a session and nothing else"),
        (("list", "nobody"), 2, "no session begins with 'nobody'"),
        (("restore", "SESSION", "cp-0009"), 1, "no checkpoint 'cp-0009'"),
        (("restore", "SESSION", ""), 1, ""),
        (("delete", "SESSION", "../x"), 1, ""),
        (("dance", "SESSION"), 2, "dance"),
    ],
)
async def test_what_is_asked_wrongly_is_one_line(
    rig: Rig, session: Session, work: Path, words: tuple[str, ...], code: int, says: str
) -> None:
    await session.checkpoint(LOCAL)
    (work / "notes").write_text("second")
    ended, said, err = await dragoman(rig, "checkpoints", *(session.id if w == "SESSION" else w for w in words))
    assert (ended, said, len(err.splitlines())) == (code, "", 1)
    assert says in err
    assert (work / "notes").read_text() == "second"


# Skills


async def test_skills_of_this_folder_are_listed_read_and_switched(
    rig: Rig, session: Session, work: Path, skills: KnownSkills
) -> None:
    elsewhere = rig.folder / "elsewhere"
    elsewhere.mkdir()
    await rig.registry.create(LOCAL, kind="scripted", cwd=str(elsewhere))
    code, listed, _ = await dragoman(rig, "skills", cwd=work)
    assert code == 0
    assert [line.split(maxsplit=3) for line in listed.splitlines()] == [
        ["pdf", "on", "global", "Use when tasks involve PDF files"],
        ["docs", "on", "built-in", "What docs is for"],
    ]
    assert set(skills.asked) == {Path(session.shown.cwd)}
    code, text, _ = await dragoman(rig, "skills", "read", "pdf", cwd=work)
    assert (code, text.splitlines()[0], "\x1b" in text) == (0, "# PDF", False)
    assert await dragoman(rig, "skills", "disable", "pdf", cwd=work) == (0, "pdf is off\n", "")
    assert not skills.known["pdf"].skill.enabled
    assert await dragoman(rig, "skills", "enable", "pdf", "--session", session.id) == (0, "pdf is on\n", "")
    assert await dragoman(rig, "skills", "delete", "pdf", cwd=work) == (0, "pdf is deleted\n", "")
    _, listed, _ = await dragoman(rig, "skills", "--json", cwd=work)
    assert [json.loads(line)["name"] for line in listed.splitlines()] == ["docs"]


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("list", "pdf"), 2, "takes no name"),
        (("enable",), 2, "which one?"),
        (("read", "nothing"), 1, 'Skill "nothing" not found.'),
        (("delete", "docs"), 1, "Only global skills"),
        (("read", "../pdf"), 1, ""),
        (("list", "--session", "nobody"), 2, "no session begins with 'nobody'"),
    ],
)
async def test_a_skill_that_is_none_is_one_line(
    rig: Rig, session: Session, work: Path, words: tuple[str, ...], code: int, says: str
) -> None:
    ended, said, err = await dragoman(rig, "skills", *words, cwd=work)
    assert (ended, said, len(err.splitlines())) == (code, "", 1)
    assert says in err


async def test_letters_that_a_terminal_does_not_know_are_escapes(
    rig: Rig, session: Session, work: Path, skills: KnownSkills, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    skills.add("größe", description="Größe \U0001f4a9 \x1b[2J")
    code, listed, problems = await dragoman(rig, "skills", cwd=work)
    assert (code, problems) == (0, "")
    assert "gr\\xf6\\xdfe" in listed


async def test_where_no_session_works_it_has_to_be_said_which(rig: Rig, tmp_path: Path) -> None:
    code, _, err = await dragoman(rig, "skills", cwd=tmp_path)
    assert code == 2
    assert "--session" in err


# Slash commands in a chat


async def test_a_slash_command_of_the_folder_runs_in_a_chat(rig: Rig, session: Session) -> None:
    typed = b"/review HEAD~3\n/help\n/nothing\n/model\n"
    code, said, _ = await dragoman(rig, "chat", "--session", session.id, typed=typed)
    assert code == 0
    assert "You said: Review these changes: HEAD~3" in said
    assert "/review     review changes $ARGUMENTS" in said
    assert said.count("hidden by the chat's own") == 0
    assert "there is no /nothing: /help" in said
    assert "/exit /review" in said
    prompts = [event.fact for event in await session.read(0) if type(event.fact).__name__ == "PromptSubmitted"]
    assert [prompt.text for prompt in prompts] == ["/review HEAD~3"]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("prompt", "answer"),
    [
        ("/review HEAD", "You said: Review these changes: HEAD"),
        ("/nothing at all", "You said: /nothing at all"),
        ("/a/path", "You said: /a/path"),
    ],
)
async def test_one_prompt_may_be_a_slash_command(rig: Rig, session: Session, prompt: str, answer: str) -> None:
    assert (await dragoman(rig, "chat", "--session", session.id, "--print", prompt))[:2] == (0, f"{answer}\n")


async def test_commands_of_the_folder_are_completed_behind_the_chats_own(rig: Rig, session: Session) -> None:
    async with HubClient(f"http://127.0.0.1:{rig.port}/hub") as client:
        talk = Talk(client, session.id, lambda _: None)
        await talk.learn_commands()
    completer = _Commands(lambda: talk)

    def completed(typed: str) -> list[tuple[str, str]]:
        found = completer.get_completions(Document(typed), CompleteEvent())
        return [(each.text, each.display_meta_text) for each in found]

    assert completed("/rev") == [("/review", "review changes $ARGUMENTS")]
    assert [text for text, _ in completed("/mo")] == ["/model", "/mode"]
    assert "hidden" not in completed("/model")[0][1]
    assert completed("/review ") == []


async def test_a_server_without_commands_has_none_to_complete(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    await rig.start()
    session = await rig.session()
    async with HubClient(f"http://127.0.0.1:{rig.port}/hub") as client:
        talk = Talk(client, session.id, lambda _: None)
        await talk.learn_commands()
    await rig.stop()
    assert talk.commands == []
