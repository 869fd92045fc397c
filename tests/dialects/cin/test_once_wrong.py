"""What went wrong in the two original servers (spec §11), played against a started server of ours.

Each test is one of the rows of ``test_known_defects.py``.
"""

from __future__ import annotations

import itertools
import json
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from dragoman.dialects.cin.messages import PostToolUse
from dragoman.dialects.cin.projection import KEPT_CALLS, Story
from dragoman.hub.events import Event, ToolCalled, ToolEnded, UsageReported

from . import rig
from .recorded.bridge import LOCAL, Bridge, Link, of
from .recorded.claude import called, inherited, programs
from .seed_page import event_problems
from .stream_checker import Frame, problems

SCENARIO = "perm please"

STRANGER = "http://evil.example"


@pytest.fixture
async def bridge(tmp_path: Path) -> AsyncIterator[Bridge]:
    """A started server, on whose ``PATH`` a ``claude`` stands first."""
    served = Bridge(tmp_path, env={"PATH": programs(tmp_path / "bin")})
    await served.start()
    yield served
    if served.process is not None:
        served.stop()


@pytest.fixture
def project(tmp_path: Path) -> str:
    folder = tmp_path / "project"
    folder.mkdir()
    return str(folder.resolve())


def hook(name: str, session: str, cwd: str, **fields: Any) -> Frame:
    """What a hook of Claude Code posts."""
    about = {"session_id": session, "transcript_path": "/nonexistent/t.jsonl", "cwd": cwd}
    return {**about, "permission_mode": "default", "hook_event_name": name, **fields}


async def post(bridge: Bridge, payload: Frame) -> None:
    answer = await bridge.request("POST", "/event", payload)
    assert (answer.status, answer.body) == (200, {"ok": True})


async def make(bridge: Bridge, cwd: str, **body: Any) -> Frame:
    """A session with our ``claude``."""
    answer = await bridge.request("POST", "/sessions", {"cwd": cwd, **body})
    assert answer.status == 201, answer.body
    session: Frame = answer.body["session"]
    return session


async def listed(bridge: Bridge) -> list[Frame]:
    answer = await bridge.request("GET", "/sessions")
    sessions: list[Frame] = answer.body["sessions"]
    return sessions


async def prompt(bridge: Bridge, session: str, text: str) -> None:
    answer = await bridge.request("POST", f"/sessions/{session}/prompt", {"prompt": text})
    assert answer.status == 200, answer.body


def events(link: Link, session: str, kind: str | None = None) -> list[Frame]:
    """The events of a session that the link heard."""
    told = [frame["data"] for frame in of(link.frames, "event") if frame["data"]["sessionId"] == session]
    return [event for event in told if kind is None or event["type"] == kind]


async def test_a_permission_is_answered_over_http_and_resolved_once(bridge: Bridge, project: str) -> None:
    """Row 1."""
    async with bridge.link() as link:
        session = (await make(bridge, project))["id"]
        await prompt(bridge, session, SCENARIO)
        asked = await link.hear("permission_prompt", sessionId=session)
        first = asked["payload"]["options"][0]["number"]
        path = f"/sessions/{session}/permission"
        answer = await bridge.request("POST", path, {"response": first})
        assert (answer.status, answer.body) == (200, {"ok": True})
        await link.hear("permission_resolved", sessionId=session)
        await link.hear("event", type="stop", sessionId=session)
        again = await bridge.request("POST", path, {"response": first})
        assert again.status == 409, again.body
        assert again.ctype == "application/json"
        await link.pong()
        for prefix in ("", "cin:"):  # more may have been known of it after a moment
            asked_for = {frame["payload"]["decisionId"] for frame in of(link.frames, f"{prefix}permission_prompt")}
            resolved = [frame["payload"]["decisionId"] for frame in of(link.frames, f"{prefix}permission_resolved")]
            assert asked_for == {*resolved}
            assert len(resolved) == 1
        assert problems(link.frames) == []


@pytest.mark.parametrize(("limit", "count"), [(0, 0), (-1, 0), (2, 2), ("2", 2), (1_000_000, 4), (None, 4)])
async def test_a_limit_is_how_many_of_the_newest(bridge: Bridge, project: str, limit: Any, count: int) -> None:
    """Row 3."""
    async with bridge.link() as link:
        for number in range(4):
            await post(bridge, hook("UserPromptSubmit", "one", project, prompt=f"{number}"))
        await link.hear("event", prompt="3")
        told = [frame["data"]["id"] for frame in of(link.frames, "event")][-4:]
        before = len(of(link.frames, "history"))
        await link.say({"type": "get_history", "data": {"limit": limit} if limit is not None else {}})
        await link.until(lambda: len(of(link.frames, "history")) > before, "history")
        answer = of(link.frames, "history")[-1]["data"]
        assert [event["id"] for event in answer][-4:] == told[len(told) - count :]
        await link.say({"type": "get_history", "data": {"sessionId": "no-such-session"}})
        await link.until(lambda: len(of(link.frames, "history")) > before + 1, "history")
        assert of(link.frames, "history")[-1]["data"] == []


@pytest.mark.parametrize("first", ["file", "http"])
async def test_a_script_that_appends_and_posts_is_one_event(bridge: Bridge, project: str, first: str) -> None:
    """Row 5. Two real calls that are alike, on one channel, stay two."""
    call = {"tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_use_id": "tu-1"}
    payload = hook("PreToolUse", "generated", project, **call, hook_type="", agent="claude", tty="/dev/pts/1")

    async def append() -> None:
        with bridge.events_file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(payload) + "\n")

    async with bridge.link() as link:
        if first == "file":
            await append()
            await link.hear("event", type="pre_tool_use")
            await post(bridge, payload)
        else:
            await post(bridge, payload)
            await append()
        # A later line of the file, so that the one before has been read.
        with bridge.events_file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(hook("Notification", "generated", project, message="read")) + "\n")
        told = (await link.hear("event", message="read"))["data"]
        assert [event["type"] for event in events(link, told["sessionId"]) if event["type"] != "notification"] == [
            "pre_tool_use"
        ]
        for number in range(2):
            await post(bridge, hook("Notification", "generated", project, message="twice", number=number))
        await link.until(lambda: sum(one.get("message") == "twice" for one in events(link, told["sessionId"])) == 2, "")


async def test_a_half_normalised_event_is_a_whole_one(bridge: Bridge, project: str) -> None:
    """Row 6: the script in the repository names the type, and leaves the rest as it came."""
    own = {"id": str(uuid.uuid4()), "timestamp": 1_795_817_354_541, "type": "pre_tool_use", "sessionId": "hs"}
    call = {"tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_use_id": "tu-repo"}
    async with bridge.link() as link:
        await post(bridge, hook("PreToolUse", "hs", project, **call) | own | {"agent": "claude"})
        event = (await link.hear("event", type="pre_tool_use"))["data"]
        assert event_problems(event) == []
        assert (event["tool"], event["toolInput"], event["toolUseId"]) == ("Bash", {"command": "ls"}, "tu-repo")
        assert (event["id"], event["timestamp"]) == (own["id"], own["timestamp"])


async def test_an_agent_in_the_folder_of_one_of_ours_is_another_session(bridge: Bridge, project: str) -> None:
    """Row 7."""
    async with bridge.link() as link:
        ours = [(await make(bridge, project, name=name))["id"] for name in ("one", "two")]
        await post(bridge, hook("SessionStart", "foreign", project, source="startup"))
        told = (await link.hear("event", type="session_start", agentSessionId="foreign"))["data"]
        assert told["sessionId"] not in ours
        external = next(session for session in await listed(bridge) if session["id"] == told["sessionId"])
        assert (external["type"], external["agentSessionId"]) == ("external", "foreign")
        assert "foreign" not in {one.get("agentSessionId") for one in await listed(bridge) if one["id"] in ours}


@pytest.mark.parametrize("end", ["kill", "stop"])
async def test_sessions_and_history_outlive_the_server(bridge: Bridge, project: str, end: str) -> None:
    """Row 8."""
    async with bridge.link() as link:
        ours = (await make(bridge, project, name="ours"))["id"]
        await link.hear("event", type="session_start", sessionId=ours)
        await post(bridge, hook("UserPromptSubmit", "theirs", project, prompt="hi"))
        theirs = (await link.hear("event", prompt="hi"))["data"]["sessionId"]
        before = [event["id"] for event in events(link, theirs)]
        bridge.kill() if end == "kill" else bridge.stop()
    await bridge.start()
    after = {session["id"]: session for session in await listed(bridge)}
    assert after.keys() == {ours, theirs}
    assert (after[ours]["name"], after[ours]["status"]) == ("ours", "offline"), "its program was ended with the server"
    assert after[theirs]["agentSessionId"] == "theirs"
    async with bridge.link() as link:
        await link.say({"type": "get_history", "data": {"sessionId": theirs}})
        await link.until(lambda: len(of(link.frames, "history")) == 2, "history")
        assert [event["id"] for event in link.frames[-1]["data"]][: len(before)] == before
        restarted = await bridge.request("POST", f"/sessions/{ours}/restart")
        assert restarted.status == 200, restarted.body


async def test_old_lines_of_the_events_file_make_no_session(tmp_path: Path, project: str) -> None:
    """Row 11: neither those of a session long gone, nor raw ones, which have no session of ours."""
    bridge = Bridge(tmp_path)
    old = hook("PreToolUse", "old", project, tool_name="Bash", tool_input={}, tool_use_id="x")
    named = {"id": "e1", "type": "stop", "timestamp": 1_600_000_000_000, "sessionId": "older", "cwd": project}
    bridge.events_file.write_text("".join(json.dumps(line) + "\n" for line in (old, named)), "utf-8")
    await bridge.start()
    try:
        async with bridge.link() as link:
            with bridge.events_file.open("a", encoding="utf-8") as file:
                file.write(json.dumps(hook("SessionStart", "new", project, source="startup")) + "\n")
            told = (await link.hear("event", type="session_start"))["data"]
            assert [session["id"] for session in await listed(bridge)] == [told["sessionId"]]
            assert {frame["data"]["sessionId"] for frame in of(link.frames, "event")} == {told["sessionId"]}
    finally:
        bridge.stop()


async def test_what_names_no_session_makes_none(bridge: Bridge) -> None:
    """Row 11, and spec §3.1: it was named after the server's own folder."""
    async with bridge.link() as link:
        bodies: tuple[Any, ...] = ({"type": "stop"}, {}, [], 5, {"hook_event_name": "Stop"})
        for body in bodies:
            answer = await bridge.request("POST", "/event", json.dumps(body))
            assert answer.status == 200, body
        await link.pong()
        assert await listed(bridge) == []
        assert of(link.frames, "session:created") == []


async def test_other_origins_neither_post_nor_read(bridge: Bridge, project: str) -> None:
    """Row 15. A look-alike is another one; ``localhost`` on any port is not."""
    start = hook("SessionStart", "x", project, source="startup")
    for origin in (STRANGER, "http://localhost.evil.example", "null", "http://127.0.0.1.evil.example"):
        for method, path, body in (("POST", "/event", start), ("GET", "/sessions", None), ("POST", "/sessions", {})):
            answer = await bridge.request(method, path, body, origin=origin)
            assert (answer.status, answer.acao) == (403, None), (origin, path)
        link = Link()
        assert await link.open(bridge.port, "/", origin) == 403
    assert await listed(bridge) == []
    answer = await bridge.request("GET", "/sessions", origin="http://localhost:9")
    assert (answer.status, answer.acao) == (200, "http://localhost:9")


async def test_a_large_body_is_taken_and_one_too_large_is_told_so(bridge: Bridge, project: str) -> None:
    """Row 16: not a reset connection."""
    async with bridge.link() as link:
        large = hook("UserPromptSubmit", "large", project, prompt="x" * 2_000_000)
        too_large = hook("UserPromptSubmit", "large", project, prompt="x" * 33 * 1024 * 1024)
        answer = await bridge.request("POST", "/event", too_large)
        assert answer.status == 413
        assert answer.ctype == "application/json"
        for path in ("/sessions", "/tiles"):
            assert (await bridge.request("POST", path, {"name": "x" * 33 * 1024 * 1024})).status == 413, path
        await post(bridge, large)
        told = (await link.hear("event", type="user_prompt_submit"))["data"]
        assert len(told["prompt"]) >= 1_000_000


async def test_flags_are_the_programs_own_words_and_a_restart_remembers_them(
    bridge: Bridge, project: str, tmp_path: Path
) -> None:
    """Row 17: ``--continue`` and not ``--c``; permissions are skipped only where that was asked for."""
    flags = {"continue": True, "skipPermissions": False, "openTerminal": False}
    async with bridge.link() as link:
        session = (await make(bridge, project, flags=flags))["id"]
        await link.hear("event", type="session_start", sessionId=session)
        await prompt(bridge, session, "[[kill]]")
        await link.hear("session:status", id=session, status="offline")
        answer = await bridge.request("POST", f"/sessions/{session}/restart")
        assert answer.status == 200, answer.body
        await link.until(lambda: len(called(tmp_path / "bin", "claude")) == 2, "it is started again")
        for words in called(tmp_path / "bin", "claude"):
            assert "--continue" in words.split()
            assert "--c" not in words.split()
            assert "--dangerously-skip-permissions" not in words.split()


async def test_a_session_that_lives_is_not_cleaned_up(bridge: Bridge, project: str) -> None:
    """Row 20."""
    async with bridge.link() as link:
        session = (await make(bridge, project))["id"]
        await link.hear("event", type="session_start", sessionId=session)
        for query in ("", "?maxAge=0", "?type=internal", "?phantom=true"):
            answer = await bridge.request("DELETE", f"/sessions/cleanup{query}")
            assert (answer.status, answer.body) == (200, {"ok": True, "deleted": 0}), query
        assert [one["id"] for one in await listed(bridge)] == [session]
        await prompt(bridge, session, "hello")
        await link.hear("event", type="stop", sessionId=session)


@pytest.mark.parametrize("agent", ["claude", "no-such-agent"])
async def test_a_program_that_is_not_there_is_no_session(tmp_path: Path, project: str, agent: str) -> None:
    """Row 21: the API said 201, and that it works."""
    bridge = Bridge(tmp_path, env={"PATH": "/usr/bin:/bin"})
    await bridge.start()
    try:
        async with bridge.link() as link:
            answer = await bridge.request("POST", "/sessions", {"cwd": project, "agent": agent})
            assert answer.status == 400, answer.body
            assert answer.body["ok"] is False
            assert agent in answer.body["error"]
            assert await listed(bridge) == []
            await link.pong()
            assert problems(link.frames) == []
    finally:
        bridge.stop()


async def test_a_change_is_one_frame_and_one_list(bridge: Bridge, project: str) -> None:
    """Row 22: no list is repeated, neither by a clock nor because several things told of one change."""
    async with bridge.link() as link, bridge.link(origin=LOCAL) as other:
        for number in range(5):
            await post(bridge, hook("UserPromptSubmit", f"s{number}", project, prompt="hi"))
            await link.hear("event", agentSessionId=f"s{number}")
        await post(bridge, hook("Stop", "s0", project, stop_hook_active=False))
        await link.hear("event", type="stop")
        told = len(link.frames)
        renamed = (await listed(bridge))[0]["id"]
        await bridge.request("PATCH", f"/sessions/{renamed}", {"name": "new"})
        await link.hear("session:updated", told, id=renamed, name="new")
        await other.hear("session:updated", id=renamed, name="new")
        lists = [frame for frame in link.frames if frame["type"] == "sessions"]
        for before, after in itertools.pairwise(lists):
            assert before != after, "a list that says nothing new"
        assert problems(link.frames) == []


async def test_a_program_does_not_inherit_that_the_server_runs_in_an_agent(tmp_path: Path, project: str) -> None:
    """Row 14: it refused to run inside another one."""
    bridge = Bridge(tmp_path, env={"PATH": programs(tmp_path / "bin"), "CLAUDECODE": "1"})
    await bridge.start()
    try:
        async with bridge.link() as link:
            session = (await make(bridge, project))["id"]
            await link.hear("event", type="session_start", sessionId=session)
            assert inherited(tmp_path / "bin", "claude") == ["nothing"]
    finally:
        bridge.stop()


async def test_tokens_of_two_sessions_are_counted_apart(tmp_path: Path) -> None:
    """Row 18: of several reports of one message the last counts."""
    async with rig.bridge(tmp_path) as mine:
        one, two = await mine.hub.create("puppet"), await mine.hub.create("puppet")
        client = await mine.open()
        for session, message, spent in ((one, "a", 5), (two, "a", 70), (one, "b", 100), (one, "b", 200), (two, "c", 1)):
            session.record(UsageReported(message=message, input_tokens=spent, output_tokens=1))
        told = [frame["data"] for frame in await client.hear("cin:tokens", 5)]
        counted: dict[str, list[tuple[int, int]]] = {one.id: [], two.id: []}
        for said in told:
            counted[said["sessionId"]].append((said["current"], said["cumulative"]))
        assert counted == {one.id: [(6, 6), (101, 107), (201, 207)], two.id: [(71, 71), (2, 73)]}


def test_what_is_kept_of_calls_that_never_end_is_bounded() -> None:
    """Row 19."""
    story = Story(session="s", kind="hooked", agent="claude", cwd="/")
    for number in range(1, 3 * KEPT_CALLS):
        assert (
            story.tell(Event(number, number, "e", ToolCalled(call=f"{number}", tool="t", input={"x": 1}))) is not None
        )
    assert len(story.calls) == KEPT_CALLS
    newest = story.tell(Event(3 * KEPT_CALLS, 1, "e", ToolEnded(call=f"{3 * KEPT_CALLS - 1}", tool="t", status="ok")))
    assert isinstance(newest, PostToolUse)
    assert newest.tool_input == {"x": 1}


async def test_what_is_posted_is_appended_to_no_file(bridge: Bridge, project: str) -> None:
    """Row 19: the events file is the scripts', and nothing of ours makes it grow."""
    async with bridge.link() as link:
        for number in range(20):
            await post(bridge, hook("UserPromptSubmit", "s", project, prompt=f"{number}"))
        await link.hear("event", prompt="19")
    assert not bridge.events_file.exists()
