"""Sessions over HTTP (spec §3.2, and what upstream's tests ask of it, §10): made, changed, spoken to, ended."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from dragoman.hub.errors import InvalidRequest
from dragoman.hub.events import AgentExited, AgentStarted
from tests.dialects.cin.played import Play, played
from tests.dialects.cin.routes_table import EVERY, HOOKS
from tests.hub.rig import until
from tests.services.git.repositories import Person, write

NOBODY = "/sessions/00000000-0000-4000-8000-000000000000"
PIXEL = base64.b64encode(b"any bytes").decode()


@pytest.fixture
async def play(tmp_path: Path) -> AsyncIterator[Play]:
    async with played(tmp_path) as play:
        yield play


async def sessions(play: Play) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await play.good("GET", "/sessions"))["sessions"]
    return [plain(session) for session in found]


def plain(session: dict[str, Any]) -> dict[str, Any]:
    """Without what git says, which comes when it is known."""
    return {name: value for name, value in session.items() if name != "gitStatus"}


# Made


async def test_a_session_is_made_with_what_is_said_and_defaults_for_the_rest(play: Play) -> None:
    made = await play.made()

    assert (made["name"], made["type"], made["agent"], made["cwd"]) == ("work", "internal", "claude", str(play.folder))
    assert made["status"] in ("working", "idle")
    assert made["createdAt"] <= made["lastActivity"]
    assert await sessions(play) == [made]
    assert plain((await play.good("GET", f"/sessions/{made['id']}"))["session"]) == made


@pytest.mark.parametrize("agent", ["claude", "codex", "gemini", "qwen", "opencode"])
async def test_an_agent_is_what_was_asked_for(play: Play, agent: str) -> None:
    assert (await play.made(agent=agent))["agent"] == agent


async def test_a_name_a_folder_and_a_zone_are_kept(play: Play, tmp_path: Path) -> None:
    folder = tmp_path / "a folder"
    folder.mkdir()
    made = await play.made(name=" mine ", cwd=f"{folder}/.", zonePosition={"q": 1, "r": -2})

    assert (made["name"], made["cwd"], made["zonePosition"]) == ("mine", str(folder.resolve()), {"q": 1, "r": -2})


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"cwd": "/no/such/folder"}, "does not exist"),
        ({"cwd": "relative"}, "absolute"),
        ({"cwd": "~"}, "absolute"),
        ({"cwd": "/etc/passwd"}, "Not a directory"),
        ({"cwd": "/tmp\u0000/x"}, "control character"),
        ({"cwd": "/tmp\n; rm -rf /"}, "control character"),
        ({"cwd": "/" + "x" * 5000}, "longer than"),
        ({"cwd": 5}, "Invalid fields"),
        ({"agent": "nobody"}, "No adapter registered for agent: nobody"),
        ({"agent": "../claude"}, "No adapter"),
        ({"agent": "claude; sh"}, "No adapter"),
        ({"name": "x" * 201}, "longer than"),
        ({"name": "a\u001b[31m"}, "control character"),
        ({"flags": {"unknown": True}}, "Invalid flags"),
        ({"flags": {"skipPermissions": "yes"}}, "Invalid flags"),
        ({"flags": {"model": "--dangerously-skip-permissions"}}, "Invalid flags"),
        ({"flags": []}, "Invalid fields"),
        ({"zonePosition": {"q": 1}}, "Invalid fields"),
        ({"tmuxSession": "a; kill-server"}, "tmuxSession"),
        ({"tmuxSession": "a:b.c"}, "tmuxSession"),
        ({"tmuxSession": "a", "flags": {"model": "x"}}, "flags"),
        ("{", "Invalid JSON"),
    ],
)
async def test_what_cannot_be_made_is_refused_and_nothing_is_left(play: Play, body: Any, words: str) -> None:
    (await play.ask("POST", "/sessions", body)).failed(400, words)
    assert await sessions(play) == []


async def test_a_program_that_cannot_be_started_leaves_no_session(play: Play) -> None:
    play.programs.fails = InvalidRequest("claude: not found")

    (await play.ask("POST", "/sessions", {})).failed(400, "not found")
    assert await sessions(play) == []
    assert (await play.good("GET", "/projects"))["projects"] == []


FLAGS: list[tuple[str, dict[str, Any], list[str]]] = [
    ("claude", {}, ["claude"]),
    ("claude", {"skipPermissions": False}, ["claude"]),
    (
        "claude",
        {"skipPermissions": True},
        ["claude", "--permission-mode", "bypassPermissions", "--dangerously-skip-permissions"],
    ),
    ("claude", {"continue": True, "chrome": True}, ["claude", "--continue", "--chrome"]),
    (
        "claude",
        {"permissionMode": "plan", "model": "opus[1m]"},
        ["claude", "--permission-mode", "plan", "--model", "opus[1m]"],
    ),
    ("claude", {"openTerminal": True}, ["claude"]),
    ("codex", {}, ["codex"]),
    ("codex", {"model": "gpt-5"}, ["codex", "--model", "gpt-5"]),
    ("codex", {"skipPermissions": True}, ["codex", "--dangerously-bypass-approvals-and-sandbox"]),
    ("codex", {"fullAuto": True}, ["codex", "--sandbox", "workspace-write", "--ask-for-approval", "on-request"]),
    (
        "codex",
        {"sandbox": "read-only", "approval": "never"},
        ["codex", "--sandbox", "read-only", "--ask-for-approval", "never"],
    ),
    ("gemini", {"skipPermissions": True}, ["gemini", "--yolo"]),
    ("gemini", {"skipPermissions": False}, ["gemini"]),
]


@pytest.mark.parametrize(("agent", "flags", "command"), FLAGS)
async def test_flags_are_the_agents_own_words_and_nothing_is_skipped_unless_asked(
    play: Play, agent: str, flags: dict[str, Any], command: list[str]
) -> None:
    made = await play.made(agent=agent, flags=flags)
    assert play.programs.adopted[made["id"]]["command"] == command


async def test_a_session_of_somebodys_tmux_is_attached_to(play: Play) -> None:
    made = await play.made(tmuxSession="theirs_1")
    assert play.programs.adopted[made["id"]] == {"attach": "tmux:theirs_1"}
    assert made["tmuxSession"] == "theirs_1"


async def test_a_server_that_was_started_for_one_session_makes_no_other(tmp_path: Path) -> None:
    async with played(tmp_path, makes_sessions=False) as play:
        (await play.ask("POST", "/sessions", {})).failed(409, "one session")
        assert await sessions(play) == []


# Changed


async def test_a_session_is_renamed_and_moved_and_what_is_unknown_is_left_unread(play: Play) -> None:
    path = f"/sessions/{(await play.made())['id']}"

    changed = (await play.good("PATCH", path, {"name": "new", "zonePosition": {"q": 3, "r": 4}}))["session"]
    assert (changed["name"], changed["zonePosition"]) == ("new", {"q": 3, "r": 4})
    changed = (await play.good("PATCH", path, {"autoAccept": True}))["session"]
    assert (changed["name"], changed["autoAccept"]) == ("new", True)
    changed = (await play.good("PATCH", path, {"zonePosition": None}))["session"]
    assert "zonePosition" not in changed

    before = await play.good("GET", path)
    for nothing in ({}, {"name": ""}, {"name": "  "}, {"status": "offline", "cwd": "/", "id": "x"}):
        assert (await play.good("PATCH", path, nothing))["session"]["name"] == "new"
    assert (await play.good("GET", path))["session"]["status"] == before["session"]["status"]
    for wrong in ({"name": 5}, {"autoAccept": "yes"}, {"zonePosition": 5}, {"name": "a\nb"}, "{", "[]"):
        (await play.ask("PATCH", path, wrong)).failed(400)


async def test_a_deleted_session_is_gone_and_its_program_with_it(play: Play) -> None:
    made = await play.made()
    path = f"/sessions/{made['id']}"

    assert await play.good("DELETE", path) == {"ok": True}
    assert await sessions(play) == []
    assert play.program(made).session.state.executor is None
    for method, more in (("GET", ""), ("DELETE", ""), ("PATCH", ""), ("GET", "/files"), ("POST", "/prompt")):
        (await play.ask(method, path + more, {"prompt": "x"} if method == "POST" else None)).failed(404, "not found")


async def test_what_is_unknown_is_not_found(play: Play) -> None:
    for method, more, body in (
        ("GET", "", None),
        ("PATCH", "", {"name": "x"}),
        ("DELETE", "", None),
        ("POST", "/prompt", {"prompt": "x"}),
        ("POST", "/cancel", None),
        ("POST", "/restart", None),
        ("POST", "/terminal", None),
        ("POST", "/focus", None),
        ("POST", "/permission", {"response": "1"}),
        ("POST", "/link", {"claudeSessionId": "x"}),
    ):
        (await play.ask(method, NOBODY + more, body)).failed(404, "Session not found")


async def test_a_session_is_found_by_its_agents_own_name_for_it(play: Play) -> None:
    made = await play.made()
    await play.says(play.program(made).session, AgentExited(cause="exit"), AgentStarted(agent_session="agents-own"))

    found = (await play.good("GET", "/sessions/agents-own"))["session"]
    assert (found["id"], found["claudeSessionId"]) == (made["id"], "agents-own")


async def test_what_is_offline_is_cleaned_up_and_what_lives_is_not(play: Play, tmp_path: Path) -> None:
    gone, lives = await play.made(name="gone"), await play.made(name="lives")
    away, near, phantom = [await play.outsider("/x", pid=pid) for pid in (1, 1, None)]
    play.program(gone).exits()
    await play.says(away, AgentExited(cause="exit"))
    await until(lambda: play.program(gone).session.shown.executor is None)

    assert (await play.good("DELETE", "/sessions/cleanup?maxAge=3600000"))["deleted"] == 0
    assert (await play.good("DELETE", "/sessions/cleanup?type=external"))["deleted"] == 1
    assert {each["id"] for each in await sessions(play)} == {gone["id"], lives["id"], near.id, phantom.id}
    assert (await play.good("DELETE", "/sessions/cleanup"))["deleted"] == 1
    assert (await play.good("DELETE", "/sessions/cleanup?phantom=true"))["deleted"] == 1
    assert {each["id"] for each in await sessions(play)} == {lives["id"], near.id}
    for query in ("type=x", "maxAge=-1", "maxAge=x", "phantom=1"):
        (await play.ask("DELETE", f"/sessions/cleanup?{query}")).failed(400)


async def test_a_session_says_what_git_says_of_its_folder(play: Play, tmp_path: Path) -> None:
    person = Person(tmp_path / "person")
    folder = person.repository(tmp_path / "repository")
    write(folder / "a.txt", "changed\n")
    for made, expected in ((await play.made(cwd=str(folder)), True), (await play.made(), False)):
        for _ in range(1000):
            shown = (await play.good("GET", f"/sessions/{made['id']}"))["session"]
            if "gitStatus" in shown:
                break
            await asyncio.sleep(0.01)
        assert shown["gitStatus"]["isRepo"] is expected
        assert shown["gitStatus"]["branch"] == ("main" if expected else "")
        assert shown["gitStatus"]["unstaged"]["modified"] == int(expected)


async def test_a_program_that_ended_is_started_again_as_it_was(play: Play) -> None:
    made = await play.made(flags={"model": "opus"})
    path = f"/sessions/{made['id']}/restart"
    play.program(made).exits()
    await until(lambda: play.program(made).session.shown.executor is None)
    assert (await play.good("GET", f"/sessions/{made['id']}"))["session"]["status"] == "offline"

    again = (await play.good("POST", path))["session"]
    assert (again["id"], again["agent"]) == (made["id"], "claude")
    assert again["status"] != "offline"
    assert play.programs.adopted[made["id"]]["command"] == ["claude", "--model", "opus"]


async def test_a_program_whose_folder_is_gone_is_not_started_again(play: Play, tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    made = await play.made(cwd=str(folder))
    play.program(made).exits()
    folder.rmdir()
    (await play.ask("POST", f"/sessions/{made['id']}/restart")).failed(400, "does not exist")


# Spoken to


async def test_a_prompt_reaches_its_program(play: Play) -> None:
    made = await play.made()

    assert await play.good("POST", f"/sessions/{made['id']}/prompt", {"prompt": "do it\nnow"}) == {"ok": True}
    await until(lambda: play.programs.typed == ["do it\nnow"])
    assert (await play.good("GET", f"/sessions/{made['id']}"))["session"]["status"] == "working"


async def test_a_prompt_that_is_sent_twice_with_one_key_is_one(play: Play) -> None:
    path = f"/sessions/{(await play.made())['id']}/prompt"
    body = {"prompt": "once", "images": [{"data": PIXEL, "mediaType": "image/png"}]}
    for _ in range(3):
        await play.good("POST", path, body, idempotency_key="k1")
    await until(lambda: len(play.programs.typed) == 1)
    assert len(list((play.folder / ".cin-images").iterdir())) == 1


@pytest.mark.parametrize("body", [{}, {"prompt": ""}, {"prompt": " \n"}, {"prompt": None}, {"images": []}, ""])
async def test_a_prompt_is_required(play: Play, body: Any) -> None:
    made = await play.made()
    (await play.ask("POST", f"/sessions/{made['id']}/prompt", body)).failed(400, "Prompt is required")


async def test_nobody_offline_or_elsewhere_is_prompted(play: Play) -> None:
    made, outsider = await play.made(), await play.outsider("/x")
    play.program(made).exits()
    await until(lambda: play.program(made).session.shown.executor is None)
    (await play.ask("POST", f"/sessions/{made['id']}/prompt", {"prompt": "x"})).failed(404, "Session is offline")
    (await play.ask("POST", f"/sessions/{outsider.id}/prompt", {"prompt": "x"})).failed(404, "External session")


async def test_what_an_agent_does_is_stopped(play: Play) -> None:
    made = await play.made()
    path = f"/sessions/{made['id']}"
    await play.good("POST", f"{path}/cancel")
    await play.good("POST", f"{path}/prompt", {"prompt": "long work"})
    await until(lambda: play.programs.typed)

    assert await play.good("POST", f"{path}/cancel") == {"ok": True}
    await until(lambda: play.program(made).session.shown.turn is None)
    outsider = await play.outsider("/x")
    (await play.ask("POST", f"/sessions/{outsider.id}/cancel")).failed(400, "external")
    (await play.ask("POST", f"/sessions/{outsider.id}/restart")).failed(400, "external")
    (await play.ask("POST", f"/sessions/{outsider.id}/terminal")).failed(400, "external")
    (await play.ask("POST", f"/sessions/{outsider.id}/focus")).failed(400, "No terminal info")
    (await play.ask("POST", f"{path}/focus")).failed(400, "/terminal")
    assert await play.good("POST", f"{path}/terminal") == {"ok": True}


async def test_the_dashboards_stop_and_prompt_are_for_the_session_that_they_can_be_about(play: Play) -> None:
    idle, busy = await play.made(name="idle"), await play.made(name="busy")
    await play.good("POST", f"/sessions/{busy['id']}/prompt", {"prompt": "work"})
    await until(lambda: play.programs.typed == ["work"])

    assert (await play.good("POST", "/cancel"))["session"] == busy["id"]
    await until(lambda: play.program(busy).session.shown.turn is None)
    said = await play.good("POST", "/prompt", {"prompt": "more", "send": True})
    assert (said["sent"], said["session"]) == (True, busy["id"])
    await until(lambda: play.programs.typed == ["work", "more"])
    assert idle["id"] != busy["id"]


async def test_a_permission_is_answered_by_its_number(play: Play) -> None:
    made = await play.made()
    path = f"/sessions/{made['id']}/permission"
    (await play.ask("POST", path, {"response": "1"})).failed(409, "Nothing is asked")
    await play.asks(made)
    assert (await play.good("GET", f"/sessions/{made['id']}"))["session"]["status"] == "waiting"

    for wrong in (
        {},
        {"response": ""},
        {"response": "yes"},
        {"response": "-1"},
        {"response": "9999"},
        {"response": "\u0661"},
    ):
        (await play.ask("POST", path, wrong)).failed(400, "number")
    (await play.ask("POST", path, {"response": "4"})).failed(400, "1 to 3")
    (await play.ask("POST", path, {"response": "1", "decisionId": "other"})).failed(404)
    assert await play.good("POST", path, {"response": "2"}) == {"ok": True}
    await until(lambda: play.programs.told)
    ((outcome, answer),) = play.programs.told
    assert (outcome.decision, answer and answer.option) == ("d1", 2)
    (await play.ask("POST", path, {"response": "1", "decisionId": "d1"})).failed(409)


async def test_an_answer_is_not_to_what_was_asked_a_moment_ago_in_anothers_stead(play: Play) -> None:
    made = await play.made()
    path = f"/sessions/{made['id']}/permission"
    await play.asks(made, "first")
    await play.asks(made, "second")

    await play.good("POST", path, {"response": "3"}, user_agent="one person")
    (await play.ask("POST", path, {"response": "1"}, user_agent="another")).failed(409, "answer again")
    assert await play.good("POST", path, {"response": "1", "decisionId": "second"}, user_agent="another") == {
        "ok": True
    }
    await until(lambda: len(play.programs.told) == 2)


async def test_a_dashboards_guess_of_an_agent_links_nothing(play: Play) -> None:
    made = await play.made()
    assert await play.good("POST", f"/sessions/{made['id']}/link", {"claudeSessionId": "forged"}) == {"ok": True}
    assert plain((await play.good("GET", f"/sessions/{made['id']}"))["session"]) == made
    assert [plain(each) for each in (await play.good("POST", "/sessions/refresh"))["sessions"]] == [made]


# With a token


async def test_with_a_token_nothing_is_told_to_whoever_lacks_it(tmp_path: Path) -> None:
    async with played(tmp_path, token="s3cret") as play:
        for method, path in EVERY:
            for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": "s3cret"}):
                reply = await play.ask(method, path, "{}" if method != "GET" else None, **headers)
                assert reply.status == 401, (method, path, reply)
                assert path in HOOKS or reply.body["ok"] is False
                assert "s3cret" not in str(reply)
        assert (await play.ask("GET", "/sessions?token=wrong")).status == 401
        assert await play.good("GET", "/sessions?token=s3cret") == {"ok": True, "sessions": []}
        assert await play.good("GET", "/tiles", authorization="Bearer s3cret") == {"ok": True, "tiles": []}
