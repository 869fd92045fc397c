"""What surrounds a session over the hub dialect: checkpoints of its folder, skills, and slash commands."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from dragoman.dialects.hub.link import HubLink
from dragoman.hub.permissions import LOCAL, Principal, Right
from dragoman.hub.session import Session
from dragoman.hub.skills import Expanded
from tests.hub.workspaces import KeptCheckpoints, KnownSkills

from .conftest import MakeRig
from .rig import Rig, eventually
from .test_link import Wire, asked


@pytest.fixture
def kept() -> KeptCheckpoints:
    return KeptCheckpoints()


@pytest.fixture
def skills() -> KnownSkills:
    known = KnownSkills()
    known.add("pdf", "# PDF\n")
    known.add("docs", source="built-in")
    known.templates["review"] = ("Review these changes: $ARGUMENTS", "review changes")
    known.templates["nothing"] = ("$ARGUMENTS", None)
    return known


@pytest.fixture
async def surrounded(make_rig: MakeRig, skills: KnownSkills, kept: KeptCheckpoints) -> Rig:
    return await make_rig(skills=skills, checkpoints=kept)


@pytest.fixture
async def session(surrounded: Rig) -> Session:
    folder = surrounded.folder / "work"
    folder.mkdir()
    (folder / "notes").write_text("first")
    return await surrounded.registry.create(LOCAL, kind="scripted", cwd=str(folder))


@pytest.fixture
def notes(surrounded: Rig) -> Path:
    """A file in the session's folder."""
    return surrounded.folder / "work" / "notes"


def ids(answer: dict[str, Any]) -> list[tuple[str, str]]:
    return [(one["checkpoint"], one["trigger"]) for one in answer["checkpoints"]]


# Checkpoints


async def test_checkpoints_are_taken_listed_restored_and_deleted_over_the_socket(
    surrounded: Rig, session: Session, notes: Path
) -> None:
    async with surrounded.link() as link:
        before = await link.ask("checkpoints", session=session.id)
        assert before["checkpoints"] == []
        assert (before["wanted"], before["folder"]) == (False, f"/checkpoints/{session.id}")
        notes.write_text("second")
        saved = (await link.ask("take_checkpoint", session=session.id))["saved"]
        assert (saved["checkpoint"], saved["trigger"], saved["problem"]) == ("cp-0001", "manual", None)
        notes.write_text("third")
        restored = await link.ask("restore_checkpoint", session=session.id, checkpoint="cp-0001")
        assert notes.read_text() == "second"
        after = await link.ask("checkpoints", session=session.id)
        assert ids(after) == [("cp-0000", "initial"), ("cp-0001", "manual"), ("cp-0002", "safety")]
        assert after["seq"] == restored["seq"] == session.shown.seq
        await link.ask("follow", session=session.id, after=after["seq"])
        await link.ask("delete_checkpoint", session=session.id, checkpoint="cp-0001")
        await link.until(lambda: link.facts(session.id) == ["checkpoint.deleted"], "the fact behind the list's cursor")
        assert await link.refused("restore_checkpoint", session=session.id, checkpoint="cp-0001") == (
            "unknown_checkpoint"
        )


async def test_the_same_over_http(surrounded: Rig, session: Session, notes: Path) -> None:
    path = f"/sessions/{session.id}"
    made = await surrounded.http("POST", f"{path}/checkpoints")
    assert (made.status, made.json["saved"]["trigger"]) == (201, "manual")
    assert made.json["seq"] == session.shown.seq
    notes.write_text("second")
    assert (await surrounded.http("POST", f"{path}/restore", {"checkpoint": "cp-0001"})).status == 200
    assert notes.read_text() == "first"
    assert (await surrounded.http("DELETE", f"{path}/checkpoints/cp-0001")).json == {"seq": session.shown.seq}
    listed = await surrounded.http("GET", f"{path}/checkpoints")
    assert ids(listed.json) == [("cp-0000", "initial"), ("cp-0002", "safety")]
    assert (await surrounded.http("DELETE", f"{path}/checkpoints/cp-0001")).code == (404, "unknown_checkpoint")


@pytest.mark.parametrize("body", [None, {}, {"checkpoint": None}, {"checkpoint": "cp-0000"}])
async def test_the_first_one_is_restored_by_its_id_or_without_any(
    surrounded: Rig, session: Session, notes: Path, body: Any
) -> None:
    path = f"/sessions/{session.id}"
    await surrounded.http("POST", f"{path}/checkpoints")
    notes.write_text("second")
    assert (await surrounded.http("POST", f"{path}/restore", body)).status == 200
    assert notes.read_text() == "first"
    assert (await surrounded.http("DELETE", f"{path}/checkpoints/cp-0000")).code == (400, "invalid_request")


async def test_an_empty_id_is_no_id_and_restores_nothing(surrounded: Rig, session: Session, notes: Path) -> None:
    await session.checkpoint(LOCAL)
    notes.write_text("second")
    reply = await surrounded.http("POST", f"/sessions/{session.id}/restore", {"checkpoint": ""})
    assert reply.code == (400, "invalid_request")
    assert notes.read_text() == "second"


async def test_a_checkpoint_that_cannot_be_taken_is_refused_and_listed(
    surrounded: Rig, session: Session, kept: KeptCheckpoints
) -> None:
    await session.checkpoint(LOCAL)
    kept.problem = "notes cannot be read"
    path = f"/sessions/{session.id}"
    refused = await surrounded.http("POST", f"{path}/checkpoints")
    assert refused.code == (422, "checkpoint_failed")
    assert "notes cannot be read" in refused.json["error"]["message"]
    last = (await surrounded.http("GET", f"{path}/checkpoints")).json["checkpoints"][-1]
    assert (last["checkpoint"], last["problem"]) == ("cp-0002", "notes cannot be read")
    assert (await surrounded.http("POST", f"{path}/restore", {"checkpoint": "cp-0002"})).code[1] == "checkpoint_failed"


async def test_nothing_of_it_happens_while_a_turn_runs(surrounded: Rig, session: Session) -> None:
    async with surrounded.link() as link:
        await link.ask("submit", session=session.id, text="permit x")
        await eventually(lambda: session.shown.decisions, "a turn that waits")
        for op, fields in (
            ("take_checkpoint", {}),
            ("restore_checkpoint", {}),
            ("delete_checkpoint", {"checkpoint": "cp-0001"}),
        ):
            assert await link.refused(op, session=session.id, **fields) == "busy"
        assert (await link.ask("checkpoints", session=session.id))["checkpoints"] == []


async def test_a_server_that_keeps_none_says_so(rig: Rig) -> None:
    session = await rig.session()
    path = f"/sessions/{session.id}"
    listed = (await rig.http("GET", f"{path}/checkpoints")).json
    assert listed == {"seq": session.shown.seq, "wanted": False, "folder": None, "checkpoints": []}
    assert (await rig.http("POST", f"{path}/checkpoints")).code == (422, "unsupported")
    assert (await rig.http("POST", f"{path}/restore")).code == (422, "unsupported")
    assert (await rig.http("DELETE", f"{path}/checkpoints/cp-0001")).code == (422, "unsupported")


# Skills


async def test_skills_are_listed_and_read_over_http(surrounded: Rig, session: Session, skills: KnownSkills) -> None:
    path = f"/sessions/{session.id}/skills"
    first, second = (await surrounded.http("GET", path)).json["skills"]
    assert (second["name"], second["source"]) == ("docs", "built-in")
    assert first == {
        "name": "pdf",
        "path": "/skills/pdf/SKILL.md",
        "source": "global",
        "enabled": True,
        "triggers": ["pdf"],
        "description": "What pdf is for",
        "interface": {"display_name": "Pdf"},
    }
    assert (await surrounded.http("GET", f"{path}/pdf")).json == {"skill": first, "content": "# PDF\n"}
    unknown = await surrounded.http("GET", f"{path}/nothing")
    assert unknown.code == (404, "unknown_skill")
    assert unknown.json["error"]["message"] == 'Skill "nothing" not found.'
    assert set(skills.asked) == {Path(session.shown.cwd)}


async def test_global_skills_are_switched_and_deleted_and_the_list_comes_back(
    surrounded: Rig, session: Session, skills: KnownSkills
) -> None:
    path = f"/sessions/{session.id}/skills"
    off = await surrounded.http("POST", f"{path}/pdf/disable")
    assert [(one["name"], one["enabled"]) for one in off.json["skills"]] == [("pdf", False), ("docs", True)]
    async with surrounded.link() as link:
        on = await link.ask("enable_skill", session=session.id, skill="pdf")
        assert [one["enabled"] for one in on["skills"]] == [True, True]
        assert await link.refused("disable_skill", session=session.id, skill="docs") == "invalid_request"
        assert await link.refused("delete_skill", session=session.id, skill="docs") == "invalid_request"
    gone = await surrounded.http("DELETE", f"{path}/pdf")
    assert [one["name"] for one in gone.json["skills"]] == ["docs"]
    assert "pdf" not in skills.known


async def test_who_is_bound_to_a_session_changes_nothing_for_all_of_them(
    surrounded: Rig, session: Session, skills: KnownSkills
) -> None:
    bound = Principal("bound", LOCAL.rights, frozenset({session.id}))
    reader = Principal("reader", frozenset({Right.READ, Right.APPROVE}))
    for who in (bound, reader):
        link = HubLink(surrounded.dialect, who, Wire())
        for op in ("enable_skill", "disable_skill", "delete_skill"):
            assert (await asked(link, op, session=session.id, skill="pdf"))["code"] == "not_permitted", op
        assert (await asked(link, "skills", session=session.id))["type"] == "ok"
        assert (await asked(link, "read_skill", session=session.id, skill="pdf"))["content"] == "# PDF\n"
    assert skills.known["pdf"].skill.enabled


async def test_a_server_that_knows_no_skills_says_so(rig: Rig) -> None:
    path = f"/sessions/{(await rig.session()).id}"
    for method, rest in (
        ("GET", "/skills"),
        ("GET", "/skills/pdf"),
        ("POST", "/skills/pdf/enable"),
        ("POST", "/skills/pdf/disable"),
        ("DELETE", "/skills/pdf"),
        ("GET", "/commands"),
        ("POST", "/commands/review"),
    ):
        assert (await rig.http(method, path + rest)).code == (422, "unsupported"), rest


# Slash commands


async def test_a_command_is_listed_and_runs_as_what_it_means(surrounded: Rig, session: Session) -> None:
    path = f"/sessions/{session.id}/commands"
    assert (await surrounded.http("GET", path)).json["commands"][1] == {
        "name": "review",
        "source": "command",
        "hints": ["$ARGUMENTS"],
        "description": "review changes",
    }
    async with surrounded.link() as link:
        await link.ask("follow", session=session.id, after=session.shown.seq)
        receipt = await link.ask("run_command", session=session.id, command="Review", arguments=" HEAD~3 ")
        assert (receipt["disposition"], receipt["duplicate"]) == ("started", False)
        await link.until(lambda: "turn.ended" in link.facts(session.id), "its turn")
        facts = [event["fact"] for event in link.events(session.id)]
    prompt = next(fact for fact in facts if fact["type"] == "prompt.submitted")
    assert (prompt["text"], prompt["content"]) == ("/review HEAD~3", "Review these changes: HEAD~3")
    assert prompt["detail"] == {"command": {"name": "Review", "arguments": " HEAD~3 "}}
    said = next(fact for fact in facts if fact["type"] == "message.added" and fact["role"] == "assistant")
    assert said["text"] == "You said: Review these changes: HEAD~3"


async def test_a_repeated_command_is_one_turn_even_if_it_means_something_else_by_then(
    surrounded: Rig, session: Session, skills: KnownSkills
) -> None:
    async def run(arguments: str = "HEAD", **more: Any) -> Any:
        body = {"arguments": arguments, "client_message_id": "m-1", "when_busy": "queue", **more}
        return await surrounded.http("POST", f"/sessions/{session.id}/commands/review", body)

    first = (await run()).json
    skills.templates["review"] = ("Look at: $ARGUMENTS", None)
    again = (await run()).json
    del skills.templates["review"]
    for repeat in (again, (await run()).json):
        assert (repeat["prompt"], repeat["duplicate"]) == (first["prompt"], True)
    assert (await run("other")).code == (404, "unknown_command")
    skills.templates["review"] = ("Look at: $ARGUMENTS", None)
    assert (await run("other")).code == (409, "conflicting_repeat")
    await eventually(lambda: not session.shown.turn and not session.shown.queue, "the end of it")
    assert session.shown.prompts == 1


async def test_twins_that_are_looked_up_at_once_are_one_turn(make_rig: MakeRig) -> None:
    class Fickle(KnownSkills):
        """Means something else to each of two that ask together."""

        both = asyncio.Barrier(2)

        async def expand(self, cwd: Path, name: str, arguments: str) -> Expanded | None:
            return Expanded(f"/{name}", f"say {await self.both.wait()}")

    rig = await make_rig(skills=Fickle())
    session = await rig.session()
    async with rig.link() as link:
        call = {"session": session.id, "command": "review", "client_message_id": "m-1", "when_busy": "queue"}
        answers = [await link.answer(asked) for asked in [await link.send("run_command", **call) for _ in range(2)]]
    assert answers[0]["prompt"] == answers[1]["prompt"]
    assert sorted(answer["duplicate"] for answer in answers) == [False, True]


async def test_the_message_id_of_a_command_may_be_in_the_header(surrounded: Rig, session: Session) -> None:
    path, headers = f"/sessions/{session.id}/commands/review", {"Idempotency-Key": "m-1"}
    first = (await surrounded.http("POST", path, headers=headers)).json
    body = {"client_message_id": "m-1", "when_busy": "queue"}
    again = (await surrounded.http("POST", path, body)).json
    assert (again["prompt"], again["duplicate"]) == (first["prompt"], True)
    other = await surrounded.http("POST", path, {"client_message_id": "m-2"}, headers=headers)
    assert other.code == (400, "invalid_request")


@pytest.mark.parametrize(
    ("command", "arguments", "code"),
    [
        ("nothing-of-it", "", (404, "unknown_command")),
        ("nothing", "  ", (400, "invalid_request")),
        ("review", "x" * 100_001, (400, "invalid_request")),
    ],
)
async def test_what_is_no_command_starts_no_turn(
    surrounded: Rig, session: Session, command: str, arguments: str, code: tuple[int, str]
) -> None:
    before = session.shown.seq
    reply = await surrounded.http("POST", f"/sessions/{session.id}/commands/{command}", {"arguments": arguments})
    assert reply.code == code
    assert session.head == before


async def test_a_command_while_a_turn_runs_does_as_it_says(surrounded: Rig, session: Session) -> None:
    async with surrounded.link() as link:
        await link.ask("submit", session=session.id, text="permit x")
        await eventually(lambda: session.shown.decisions, "a turn that waits")
        assert await link.refused("run_command", session=session.id, command="review") == "busy"
        queued = await link.ask("run_command", session=session.id, command="review", when_busy="queue")
        assert queued["disposition"] == "queued"
