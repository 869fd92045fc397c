"""Session logs and the events file with the real intake: what clients of the bridge see of sessions that write them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from dragoman.agents.hooked.factory import HookedFactory
from dragoman.agents.hooked.intake import Intake
from dragoman.agents.hooked.settings import HookedSettings
from dragoman.agents.hooked.watchers import Watchers
from dragoman.hub.events import AgentExited, AgentStarted
from dragoman.hub.permissions import LOCAL
from tests.hub.rig import Hub, InMemory, until

from .kit import DrivenFactory, Kit, kinds
from .test_events_file import line
from .test_rollouts import ROLLOUTS, rollout
from .watching import (
    CLAUDE,
    CODEX,
    INTERRUPTED,
    PERMITTED,
    answered,
    append,
    lines_of,
    now_recorded,
    said,
    transcript,
)


class Live(Kit):
    """The same kit where time passes."""

    def __init__(self, hub: Hub, settings: HookedSettings) -> None:
        self.hub = hub
        self.settings = settings
        self.driven = hub.factories[-1]

    async def open(self) -> None:
        factory = HookedFactory(self.settings)
        self.hub.factories.append(factory)
        await self.hub.open()
        self.intake = Intake(self.registry, factory, self.settings)
        await self.intake.open()

    async def settle(self) -> None:
        await self.registry.journal.flush()

    async def _do(self, work: Any) -> Any:
        return await work


@asynccontextmanager
async def watched(folder: Path, *, drove: str = "", **settings: Any) -> AsyncIterator[tuple[Live, Watchers]]:
    """An intake and watchers that give on to it, where a Codex that we ``drove`` is over."""
    given = HookedSettings(look=0.01, discover=0.02, **settings)
    k = Live(Hub(InMemory(), folder, factories=[DrivenFactory()]), given)
    await k.open()
    if drove:
        own = await k.registry.create(LOCAL, kind="driven", cwd=str(folder), agent="codex")
        own.record(AgentStarted(run=1, agent_session=drove))
        own.record(AgentExited(cause="exit"))
        await k.settle()
    watchers = Watchers(k.intake, given, home=folder, environ={})
    k.intake.transcript_named = watchers.named
    await watchers.open()
    try:
        await until(watchers.searched.is_set)
        yield k, watchers
    finally:
        await watchers.close()
        await k.close()


def session_in(log: bytes) -> str:
    found: str = json.loads(lines_of(log)[0])["payload"]["id"]
    return found


def hook(name: str, session: str, **more: Any) -> dict[str, Any]:
    return {"hook_event_name": name, "session_id": session, "cwd": "/tmp/project", "agent": "claude"} | more


@pytest.mark.parametrize("name", [name for name in ROLLOUTS if name != "error"])
async def test_codex_is_known_by_its_rollout(tmp_path: Path, name: str) -> None:
    log = now_recorded("codex", name)
    session = session_in(log)
    async with watched(tmp_path) as (k, watchers):
        append(rollout(tmp_path), log)
        await until(lambda: _all_read(watchers, len(log)))
        await until(lambda: k.card(session, "codex")["status"] == "waiting")
        told = await k.events(session, "codex")
    found = kinds(told)
    turns = sum(json.loads(record)["payload"].get("type") == "task_started" for record in lines_of(log))
    assert (found["session_start"], found["stop"]) == (1, turns)
    assert found["pre_tool_use"] == found["post_tool_use"]
    assert told[0]["type"] == "session_start"
    assert all(event["agentSessionId"] == session for event in told)


@pytest.mark.parametrize("hooked", [False, True])
async def test_a_turn_that_failed_is_over_by_the_log(tmp_path: Path, hooked: bool) -> None:
    log = now_recorded("codex", "error")
    session = session_in(log)
    async with watched(tmp_path) as (k, watchers):
        append(rollout(tmp_path), log)
        await until(lambda: _all_read(watchers, len(log)))
        if hooked:
            failed = hook("StopFailure", session, error="server_error", error_details="busy", agent="codex")
            await k.take(failed, "socket", agent="codex")
        await until(lambda: k.card(session, "codex")["status"] == "waiting")
        found = kinds(await k.events(session, "codex"))
    assert found == {"session_start": 1, "user_prompt_submit": 1, "notification": 1}


async def test_codex_with_hooks_tells_each_thing_once(tmp_path: Path) -> None:
    log = now_recorded("codex", "permission")
    session, records = session_in(log), lines_of(log)
    async with watched(tmp_path) as (k, watchers):
        path = rollout(tmp_path)
        append(path, records[0])
        for name, more in (
            ("SessionStart", {"source": "startup", "transcript_path": str(path)}),
            ("UserPromptSubmit", {"prompt": "[[esc:touch made.txt]]"}),
        ):
            await k.take(hook(name, session, **more) | {"agent": "codex"}, "socket", agent="codex")
        append(path, *records[1:19])
        await until(lambda: _all_read(watchers, path.stat().st_size))
        stop = hook("Stop", session, last_assistant_message="The tool finished. All done.")
        await k.take(stop | {"agent": "codex"}, "socket", agent="codex")
        await until(lambda: k.status(session, "codex") == "waiting (prompt)")
        found = kinds(await k.events(session, "codex"))
    assert found == {"session_start": 1, "user_prompt_submit": 1, "pre_tool_use": 1, "post_tool_use": 1, "stop": 1}


async def test_claude_is_known_by_its_transcript(tmp_path: Path) -> None:
    log = now_recorded("claude", "permission")
    async with watched(tmp_path) as (k, watchers):
        append(transcript(tmp_path, PERMITTED), log)
        await until(lambda: _all_read(watchers, len(log)), "all of it is read")
        await until(lambda: k.status(PERMITTED) == "waiting (prompt)")
        await until(lambda: PERMITTED and not k.intake._agents[k.row(PERMITTED).session][1]._left)
        told = await k.events(PERMITTED)
        assert k.card(PERMITTED)["cwd"] == "/tmp/project"
    found = kinds(told)
    assert (found["user_prompt_submit"], found["pre_tool_use"], found["post_tool_use"], found["stop"]) == (3, 3, 3, 3)
    assert [event["success"] for event in told if event["type"] == "post_tool_use"] == [True, False, True]


async def test_a_hook_and_the_log_tell_each_thing_once(tmp_path: Path) -> None:
    async with watched(tmp_path, watch=()) as (k, watchers):
        path = transcript(tmp_path)
        await k.take(hook("SessionStart", CLAUDE, source="startup", transcript_path=str(path)), "socket")
        await until(lambda: len(watchers._logs) == 1, "the log is followed")
        await k.take(hook("UserPromptSubmit", CLAUDE, prompt="go"), "socket")
        append(path, said("go"))
        await until(lambda: _all_read(watchers, path.stat().st_size), "the prompt is read")
        append(path, said(INTERRUPTED))
        await until(lambda: k.status(CLAUDE) == "waiting (prompt)", "Esc")
        assert kinds(await k.events(CLAUDE)) == {"session_start": 1, "user_prompt_submit": 1, "stop": 1}


async def test_a_lost_stop_is_told_by_the_log(tmp_path: Path) -> None:
    async with watched(tmp_path, watch=()) as (k, watchers):
        path = transcript(tmp_path)
        await k.take(hook("SessionStart", CLAUDE, source="startup", transcript_path=str(path)), "socket")
        await k.take(hook("UserPromptSubmit", CLAUDE, prompt="go"), "socket")
        append(path, said("go"), answered("Done."))
        await until(lambda: k.status(CLAUDE) == "waiting (prompt)", seconds=5)
        assert len(watchers._logs) == 1
        told = await k.events(CLAUDE)
    assert [event["type"] for event in told] == ["session_start", "user_prompt_submit", "stop"]
    assert told[-1]["response"] == "Done."


async def test_what_scripts_append_is_one_with_what_they_post(tmp_path: Path) -> None:
    """Both forms of scripts do both."""
    file = tmp_path / "events.jsonl"
    raw = hook("PreToolUse", CLAUDE, tool_name="Bash", tool_input={"command": "ls"}, tool_use_id="x1")
    normalised = raw | {
        "id": "e2",
        "type": "pre_tool_use",
        "tool_use_id": "x2",
        "sessionId": CLAUDE,
        "timestamp": int(datetime.now(UTC).timestamp() * 1000),
    }
    async with watched(tmp_path, watch=(), events_file=str(file)) as (k, _):
        for payload in (hook("UserPromptSubmit", CLAUDE, prompt="go"), raw, normalised):
            await k.take(payload)
            append(file, line(payload))
        append(file, line(hook("Stop", CLAUDE, last_assistant_message="Done.")))
        await until(lambda: k.status(CLAUDE) == "waiting (prompt)", "the stop")
        found = kinds(await k.events(CLAUDE))
    assert (found["user_prompt_submit"], found["pre_tool_use"], found["stop"]) == (1, 2, 1)


async def test_sessions_that_run_already_are_in_the_list_without_a_story(tmp_path: Path) -> None:
    working, resting = transcript(tmp_path), transcript(tmp_path, PERMITTED)
    append(working, said("before"))
    append(resting, said("before", PERMITTED), answered("Done.", PERMITTED))
    async with watched(tmp_path, settles=0.1) as (k, _):
        await until(lambda: len(k.rows()) == 2)
        await until(lambda: (k.status(CLAUDE), k.status(PERMITTED)) == ("working", "idle"))
        assert await k.events(CLAUDE) == await k.events(PERMITTED) == []


@pytest.mark.parametrize("named", [CODEX, None], ids=["named", "not named yet"])
async def test_an_agent_that_we_drive_makes_no_session_by_its_log(tmp_path: Path, named: str | None) -> None:
    async with watched(tmp_path) as (k, watchers):
        own = await k.own("codex", named)
        append(rollout(tmp_path), now_recorded("codex", "text"))
        if named is None:
            await until(lambda: any(one.waiting for one in watchers._logs))
            own.hooks.agent_session = CODEX  # type: ignore[union-attr]
        append(transcript(tmp_path), said("theirs"))
        await until(lambda: len(k.rows()) == 1)
        await until(lambda: len(watchers._logs) == 1)
        assert [row.agent for row in k.rows()] == ["claude"]


async def test_a_session_that_we_drove_makes_none_by_its_log_later(tmp_path: Path) -> None:
    """After a restart its log is one that was written to a short while ago. Who goes on with it is somebody else."""
    append(rollout(tmp_path), now_recorded("codex", "text"))
    async with watched(tmp_path, drove=CODEX) as (k, watchers):
        append(transcript(tmp_path), said("theirs"))
        await until(lambda: len(k.rows()) == 1)
        assert [row.agent for row in k.rows()] == ["claude"]
        assert str(rollout(tmp_path)) not in {str(one.path) for one in watchers._logs}
        tomorrow = datetime.now(UTC) + timedelta(days=1)
        later = {"type": "event_msg", "payload": {"type": "task_started"}, "timestamp": tomorrow.isoformat()}
        watchers._logs._aside.clear()  # as after a minute
        append(rollout(tmp_path), line(later))
        await until(lambda: len(k.rows()) == 2)


def _all_read(watchers: Watchers, size: int) -> bool:
    return any(one.tail.offset == size and not one.waiting for one in watchers._logs)
