"""What an agent elsewhere is taken to be doing while it says nothing: by time, by its process, by its log."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from dragoman.agents.common.logs import read_claude_line, read_codex_line
from dragoman.agents.common.processes import pid_start
from dragoman.hub.permissions import LOCAL
from tests.agents.hooked.kit import kinds, kit
from tests.agents.hooked.lives import (
    BUSY,
    CLAUDE,
    CODEX,
    DONE,
    GIVEN,
    IN_CALL,
    SECOND,
    ancestors,
    needs_proc,
    program,
)
from tests.agents.hooked.manual_time import timed
from tests.agents.hooked.posts import Payload


@timed
async def test_a_start_settles(tmp_path: Path) -> None:
    """It starts at work, as the seed's clients expect; once it has started it is idle, and waits for nobody yet."""
    async with kit(tmp_path) as k:
        await k.take(CLAUDE.start())
        await k.advance(k.settings.settles - 0.5)
        assert k.status(CLAUDE.session) == "working"
        await k.advance(1.5)
        assert k.status(CLAUDE.session) == "idle"


@timed
async def test_a_start_with_a_prompt_does_not_settle(tmp_path: Path) -> None:
    async with kit(tmp_path) as k:
        await k.take(CLAUDE.start())
        await k.advance(1)
        await k.take(CLAUDE.prompt())
        await k.advance(k.settings.settles * 3)
        assert k.status(CLAUDE.session) == "working"


@timed
async def test_silence_at_work_is_idleness(tmp_path: Path) -> None:
    async with kit(tmp_path, gone_working=100_000, gone_idle=100_000) as k:
        await k.take_all(BUSY)
        await k.advance(k.settings.silence - 2)
        assert k.status(CLAUDE.session) == "working"
        await k.advance(15)
        assert k.card(CLAUDE.session)["status"] == "idle"
        assert kinds(await k.events(CLAUDE.session))["stop"] == 0, "nobody said that it has stopped"


@timed
async def test_every_sign_of_life_begins_the_silence_anew(tmp_path: Path) -> None:
    async with kit(tmp_path) as k:
        await k.take_all(BUSY)
        for number in range(4):
            await k.jump(k.settings.silence * 0.8, 4)
            assert k.status(CLAUDE.session) == "working"
            await k.take(CLAUDE.before("Read", f"t{number}"))
            await k.take(CLAUDE.after("Read", f"t{number}"))
        assert k.status(CLAUDE.session) == "working"


@timed
async def test_a_long_call_is_no_silence(tmp_path: Path) -> None:
    """A build may take an hour."""
    async with kit(tmp_path, gone_working=100_000) as k:
        await k.take_all(IN_CALL)
        await k.jump(3600, 60)
        assert k.status(CLAUDE.session) == "working (Bash)"
        await k.take(CLAUDE.after("Bash", "t1", GIVEN))
        assert k.status(CLAUDE.session) == "working"
        (call,) = [event for event in await k.events(CLAUDE.session) if event["type"] == "post_tool_use"]
        assert call["duration"] == 3_600_000


@pytest.mark.parametrize(
    ("posted", "setting"),
    [(BUSY, "gone_working"), (IN_CALL, "gone_working"), (DONE, "gone_idle"), (BUSY[:1], "gone_idle")],
)
@timed
async def test_without_a_sign_of_life_it_is_gone(posted: list[Payload], setting: str, tmp_path: Path) -> None:
    async with kit(tmp_path, silence=100_000) as k:
        await k.take_all(posted)
        before = getattr(k.settings, setting)
        await k.jump(before - 5, 20)
        assert k.card(CLAUDE.session)["status"] != "offline"
        await k.advance(70)
        shown = k.card(CLAUDE.session)
        assert shown["status"] == "offline"
        assert "currentTool" not in shown
        session = await k.session(CLAUDE.session)
        assert not session.state.calls, "nothing runs without a live executor"
        assert kinds(await k.events(CLAUDE.session))["session_end"] <= 1


@timed
async def test_it_is_back_by_whatever_it_says_next(tmp_path: Path) -> None:
    async with kit(tmp_path) as k:
        await k.take_all(DONE)
        await k.jump(k.settings.gone_idle + 60, 12)
        assert k.status(CLAUDE.session) == "offline"
        name = k.row(CLAUDE.session).session
        await k.take(SECOND.prompt())
        assert k.status(CLAUDE.session) == "working"
        await k.take(SECOND.stop())
        assert k.status(CLAUDE.session) == "waiting (prompt)"
        assert k.row(CLAUDE.session).session == name
        await k.jump(k.settings.gone_idle + 60, 12)
        assert k.status(CLAUDE.session) == "offline"


@timed
async def test_a_permission_nobody_answers_is_not_forgotten_before_its_agent_is_gone(tmp_path: Path) -> None:
    async with kit(tmp_path) as k:
        await k.take_all([*IN_CALL, CLAUDE.permission("Bash", GIVEN)])
        await k.jump(k.settings.gone_working - 10, 10)
        assert k.status(CLAUDE.session) == "waiting (permission)"
        await k.jump(k.settings.gone_idle + 60, 20)
        assert k.status(CLAUDE.session) == "offline"
        assert not (await k.session(CLAUDE.session)).state.decisions


@timed
async def test_long_after_its_end_it_leaves_the_list_and_its_log_stays(tmp_path: Path) -> None:
    async with kit(tmp_path) as k:
        await k.take_all([*DONE, CLAUDE.end()])
        name = k.row(CLAUDE.session).session
        await k.advance(5)
        await k.jump(k.settings.forget - 60, 10)
        assert k.registry.row(LOCAL, name).status != "closed"
        await k.jump(200, 20)
        assert k.registry.row(LOCAL, name).status == "closed"
        assert k.intake.session_of("claude", CLAUDE.session) is None
        assert len(await k.log(name)) > 4
        # resumed after that it is a new one
        await k.take(SECOND.prompt())
        assert k.row(CLAUDE.session).session != name
        assert k.status(CLAUDE.session) == "working"


# Its process


@needs_proc
@pytest.mark.parametrize("posted", [BUSY, IN_CALL, DONE], ids=["at work", "in a call", "at rest"])
@timed
async def test_when_its_process_ends_it_is_offline_soon(posted: list[Payload], tmp_path: Path) -> None:
    async with kit(tmp_path) as k:
        with program(tmp_path / "bin") as process:
            parents = ancestors(process)
            for payload in posted:
                await k.take(payload, "socket", agent="claude", parents=parents)
            await k.advance(10)
            assert k.card(CLAUDE.session)["status"] != "offline"
            process.send_signal(signal.SIGKILL)
            process.wait()
            await k.advance(5)
            assert k.status(CLAUDE.session) == "offline"
            assert not (await k.session(CLAUDE.session)).state.calls


@needs_proc
@timed
async def test_while_its_process_lives_it_is_not_gone(tmp_path: Path) -> None:
    """However long nobody types, or a call takes."""
    async with kit(tmp_path) as k:
        with program(tmp_path / "bin") as process:
            parents = ancestors(process)
            for payload in DONE:
                await k.take(payload, "socket", agent="claude", parents=parents)
            await k.jump(k.settings.gone_idle * 4, 40)
            assert k.status(CLAUDE.session) == "waiting (prompt)"
            for payload in (SECOND.prompt(), SECOND.before("Bash", "t1", GIVEN)):
                await k.take(payload, "socket", agent="claude", parents=parents)
            await k.jump(k.settings.gone_idle * 4, 40)
            assert k.status(CLAUDE.session) == "working (Bash)"


@needs_proc
@timed
async def test_at_work_and_silent_with_its_process_it_is_idle(tmp_path: Path) -> None:
    async with kit(tmp_path) as k:
        with program(tmp_path / "bin") as process:
            for payload in BUSY:
                await k.take(payload, "socket", agent="claude", parents=ancestors(process))
            await k.jump(k.settings.silence * 3, 30)
            assert k.card(CLAUDE.session)["status"] == "idle"


@needs_proc
@timed
async def test_a_pid_that_was_given_to_another_process_is_not_its(tmp_path: Path) -> None:
    async with kit(tmp_path) as k:
        own = pid_start(os.getpid())
        assert own is not None
        for payload in DONE:
            await k.take(payload, "socket", agent="claude", parents=((os.getpid(), own + 1),))
        await k.advance(k.settings.gone_idle + 60)
        assert k.status(CLAUDE.session) == "offline"


# What its log says


def claude_line(kind: str, content: Any, **more: Any) -> Any:
    message = {"role": kind, "content": content} | more.pop("message", {})
    return read_claude_line({"type": kind, "sessionId": CLAUDE.session, "message": message, "uuid": "u9", **more})


@timed
async def test_a_lost_stop_is_read_in_the_log(tmp_path: Path) -> None:
    async with kit(tmp_path) as k:
        await k.take_all([*BUSY, CLAUDE.before("Bash", "t1", GIVEN), CLAUDE.after("Bash", "t1", GIVEN)])
        last = [{"type": "text", "text": "All done."}]
        said = claude_line("assistant", last, message={"id": "msg_9", "stop_reason": "end_turn"})
        assert await k.intake.observed("claude", CLAUDE.session, said)
        await k.advance(5)
        assert k.status(CLAUDE.session) == "waiting (prompt)"
        # and when the hook comes after all, it is that stop
        await k.take(CLAUDE.stop("All done."))
        assert kinds(await k.events(CLAUDE.session))["stop"] == 1
        assert k.status(CLAUDE.session) == "waiting (prompt)"


@pytest.mark.parametrize("posted", [BUSY, IN_CALL, [*IN_CALL, CLAUDE.permission("Bash", GIVEN)]])
@timed
async def test_escape_is_read_in_the_log(posted: list[Payload], tmp_path: Path) -> None:
    """No hook of Claude's tells of it."""
    async with kit(tmp_path) as k:
        await k.take_all(posted)
        broken = claude_line("user", [{"type": "text", "text": "[Request interrupted by user for tool use]"}])
        assert await k.intake.observed("claude", CLAUDE.session, broken)
        await k.advance(5)
        shown = k.card(CLAUDE.session)
        assert shown["status"] in ("waiting", "idle")
        assert shown.get("waitingFor") != "permission"
        assert "currentTool" not in shown
        assert not (await k.session(CLAUDE.session)).state.decisions


@timed
async def test_a_permission_refused_at_the_terminal_is_read_in_the_log(tmp_path: Path) -> None:
    async with kit(tmp_path) as k:
        await k.take_all([*IN_CALL, CLAUDE.permission("Bash", GIVEN)])
        refused = claude_line(
            "user",
            [{"type": "tool_result", "tool_use_id": "t1", "is_error": True, "content": "The user doesn't want"}],
            toolUseResult="User rejected tool use",
        )
        assert await k.intake.observed("claude", CLAUDE.session, refused)
        await k.advance(5)
        assert not (await k.session(CLAUDE.session)).state.decisions
        (ended,) = [event for event in await k.events(CLAUDE.session) if event["type"] == "post_tool_use"]
        assert ended["success"] is False
        assert k.card(CLAUDE.session).get("waitingFor") != "permission"


@timed
async def test_codex_by_its_rollout_alone(tmp_path: Path) -> None:
    """No hooks: all that is known is what its log says."""
    started = {"type": "event_msg", "payload": {"type": "task_started", "turn_id": "x"}}
    done = {"type": "event_msg", "payload": {"type": "task_complete", "turn_id": "x", "last_agent_message": "Done."}}
    async with kit(tmp_path) as k:
        for record, status in ((started, "working"), (done, "waiting (prompt)")):
            seen = read_codex_line({"timestamp": "2027-01-15T08:00:00.000Z", **record})
            await k.intake.observed("codex", CODEX.session, seen, cwd=CODEX.cwd, create=True)
            await k.advance(1)
            assert k.status(CODEX.session, "codex") == status
        await k.jump(k.settings.gone_idle + 120, 20)
        assert k.card(CODEX.session, "codex")["status"] != "offline"
        await k.jump(k.settings.gone_codex, 60)
        assert k.status(CODEX.session, "codex") == "offline"
