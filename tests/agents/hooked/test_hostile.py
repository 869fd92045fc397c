"""More than there is room for, and whatever else may be posted."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from dragoman.agents.common.observation import Observation
from dragoman.hub.errors import LimitReached, StorageUnavailable
from dragoman.hub.permissions import LOCAL
from dragoman.hub.ports import HookPost
from tests.agents.hooked.kit import kinds, kit
from tests.agents.hooked.manual_time import run, timed, until
from tests.agents.hooked.posts import Life, post

LIFE = Life("claude", "0a9d1a8e-5c3d-4b54-9f57-3a7a4f0b6c11")
OTHER = Life("claude", "7e0f44c1-9a3b-4a37-8d67-0d6f2f1f1f22")


# Limits


@timed
async def test_there_is_a_limit_to_sessions(tmp_path: Path) -> None:
    async with kit(tmp_path, sessions=3) as k:
        lives = [Life("claude", f"s-{number}") for number in range(4)]
        for life in lives[:3]:
            await k.take(life.prompt())
        with pytest.raises(LimitReached, match="sessions"):
            await k.take(lives[3].prompt())
        assert len(k.rows()) == 3
        # those that there are go on
        await k.take(lives[0].stop())
        assert k.status("s-0") == "waiting (prompt)"
        with pytest.raises(LimitReached):
            await k.intake.observed("claude", "s-9", Observation(), cwd="/a", create=True)


@timed
async def test_many_at_once_do_not_pass_the_limit(tmp_path: Path) -> None:
    async with kit(tmp_path, sessions=5) as k:
        takes = [asyncio.ensure_future(k.intake.take(post(Life("claude", f"s-{n}").prompt()))) for n in range(20)]
        await until(lambda: all(one.done() for one in takes), "all are answered")
        refused = [one for one in takes if one.exception() is not None]
        assert len(k.rows()) == 5
        assert len(refused) == 15
        assert all(isinstance(one.exception(), LimitReached) for one in refused)


@timed
async def test_many_first_posts_of_one_session_make_one(tmp_path: Path) -> None:
    async with kit(tmp_path) as k:
        payloads = [LIFE.start(), LIFE.prompt(), *(LIFE.before("Bash", f"t{n}") for n in range(20)), LIFE.stop()]
        takes = [asyncio.ensure_future(k.intake.take(post(one))) for one in payloads]
        await until(lambda: all(one.done() for one in takes), "all are answered")
        assert [one.exception() for one in takes] == [None] * len(takes)
        assert len(k.rows()) == 1
        assert kinds(await k.events(LIFE.session))["pre_tool_use"] == 20
        assert k.card(LIFE.session)["status"] == "waiting"


@timed
async def test_posts_wait_for_the_disk_up_to_a_limit(tmp_path: Path) -> None:
    async with kit(tmp_path, posts_waiting=10) as k:
        await k.take(LIFE.prompt())
        k.hub.journal.fail("the disk is full")
        takes = [asyncio.ensure_future(k.intake.take(post(LIFE.before("Bash", f"t{n}")))) for n in range(30)]
        await k.clock.settle()
        refused = [one for one in takes if one.done()]
        assert len(refused) >= 20
        assert all(isinstance(one.exception(), LimitReached | StorageUnavailable) for one in refused)
        k.hub.journal.heal()
        await until(lambda: all(one.done() for one in takes), "all are answered")
        taken = [n for n, one in enumerate(takes) if one.exception() is None]
        told = [event["toolUseId"] for event in await k.events(LIFE.session) if "toolUseId" in event]
        assert set(told) >= {f"t{n}" for n in taken}, "what was acknowledged is lost"


@timed
async def test_what_is_acknowledged_is_durable(tmp_path: Path) -> None:
    async with kit(tmp_path) as k:
        await k.take(LIFE.prompt())
        for number in range(20):
            await k.intake.take(post(LIFE.before("Bash", f"t{number}")))
            stored = k.hub.store.store.logs[k.row(LIFE.session).session]
            assert any(f'"t{number}"'.encode() in record.fact for record in stored.records)


# Whatever comes

names = st.sampled_from(
    [
        *("session_id", "thread_id", "sessionId", "hook_event_name", "type", "hook_type", "event_type", "agent", "id"),
        *("cwd", "tool_name", "tool", "tool_input", "toolInput", "tool_use_id", "toolUseId", "tool_response", "error"),
        *("prompt", "message", "timestamp", "prompt_id", "turn_id", "agent_id", "transcript_path", "source", "reason"),
        *("tool_calls", "notification_type", "details", "permission_suggestions", "stop_hook_active", "duration_ms"),
        *("last_assistant_message", "codexThreadId", "claude_session_id", "terminal", "tmux_pane", "tty", "level"),
    ]
)
words = st.sampled_from(
    [
        *("x", "claude", "codex", "gemini", "PreToolUse", "PostToolUse", "Stop", "SessionStart", "SessionEnd", "Bash"),
        *(
            "pre_tool_use",
            "post_tool_use",
            "stop",
            "UserPromptSubmit",
            "PermissionRequest",
            "Notification",
            "AfterTool",
        ),
        *("PostToolBatch", "SubagentStop", "Interrupt", "ToolPermission", "permission_prompt", "/etc/passwd", "clear"),
        LIFE.session,
    ]
)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64)
    | st.floats(allow_nan=False, allow_infinity=False)
    | words
    | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names | st.text(max_size=8), inner, max_size=5),
    max_leaves=12,
)
payloads = st.dictionaries(names | st.text(max_size=8), values, max_size=12)


@hypothesis_settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(payloads, st.sampled_from(["http", "file", "socket"])), min_size=1, max_size=12))
def test_whatever_is_posted_nothing_else_is_damaged(hostile: list[tuple[dict[str, Any], Any]]) -> None:
    """Any JSON is taken, or refused with one of the two documented errors; sessions of others stay as they are."""

    async def main() -> None:
        folder = Path(tempfile.mkdtemp(prefix="hostile-"))
        async with kit(folder) as k:
            own = await k.own(agent_session=LIFE.session)
            victim = Life("claude", "victim")
            await k.take_all([victim.start(), victim.prompt(), victim.before("Bash", "v1")], "socket")
            before, heads = await k.events("victim"), (own.head, k.row("victim").head)
            for payload, channel in hostile:
                if "victim" in json.dumps(payload):
                    continue
                with contextlib.suppress(LimitReached, StorageUnavailable):
                    await k.take(payload, channel, session=own.id, secret="wrong")
                with contextlib.suppress(LimitReached, StorageUnavailable):
                    await k.take_fast(HookPost(payload=payload, channel=channel))
            await k.settle()
            assert (own.head, k.row("victim").head) == heads
            assert await k.events("victim") == before
            await k.take_all([victim.after("Bash", "v1"), victim.stop()], "socket")
            assert k.status("victim") == "waiting (prompt)"

    run(main())


@pytest.mark.parametrize(
    "payload",
    [
        LIFE.before("Bash", "t", {"deep": functools.reduce(lambda inner, _: [inner], range(200), 0)}),
        LIFE.before("Bash", "t", {"text": "\ud800"}),
        LIFE.before("Bash", "\ud800"),
        LIFE.before("B" * 100_000, "t"),
        LIFE.before("Bash", "t" * 100_000),
        LIFE.prompt("\ud800\udfff"),
        LIFE.prompt("x" * 3_000_000),
        Life("claude", "s" * 100_000).prompt(),
        Life("claude", "\ud800").prompt(),
        Life("claude", "a\0b").prompt(),
        LIFE.hook("H" * 100_000),
        LIFE.notify("k" * 100_000, "\ud83d"),
        LIFE.before("Bash", "t", {"n": 2**200}),
    ],
    ids=range(13),
)
@timed
async def test_what_no_disk_can_hold_ends_nothing(payload: dict[str, Any], tmp_path: Path) -> None:
    async with kit(tmp_path) as k:
        await k.take_all([OTHER.start(), OTHER.prompt()])
        for channel in ("http", "socket"):
            with contextlib.suppress(LimitReached, StorageUnavailable):
                await k.take(payload, channel)
        await k.take_all([OTHER.stop()])
        assert k.status(OTHER.session) == "waiting (prompt)"
        for again in (LIFE.in_turn("later").prompt("good again"), LIFE.in_turn("later").stop()):
            await k.take(again, "socket")
        assert k.status(LIFE.session) == "waiting (prompt)"


@timed
async def test_a_deleted_session_is_made_anew_by_what_comes_next(tmp_path: Path) -> None:
    async with kit(tmp_path) as k:
        await k.take_all([LIFE.start(), LIFE.prompt()])
        gone = k.row(LIFE.session).session
        await k.registry.delete(LOCAL, gone)
        assert k.intake.session_of("claude", LIFE.session) is None
        await k.take(LIFE.before("Bash", "t"))
        assert k.row(LIFE.session).session != gone
        assert k.status(LIFE.session) == "working (Bash)"


@pytest.mark.parametrize("at", [-(10**18), -1, 0, 1, 2**53, 10**18, 2**70])
@timed
async def test_no_time_that_a_post_may_bear_ends_anything(at: int, tmp_path: Path) -> None:
    async with kit(tmp_path) as k:
        for number, payload in enumerate(
            (LIFE.start(), LIFE.prompt(), LIFE.before("Bash", "t"), LIFE.after("Bash", "t"), LIFE.stop())
        ):
            await k.take(payload, "socket", agent="claude", at=at if number % 2 else None)
            await k.jump(1)
        assert k.status(LIFE.session) == "waiting (prompt)"
        told = await k.events(LIFE.session)
        assert len(told) == 5
        assert all(event.get("duration", 0) >= 0 for event in told)
