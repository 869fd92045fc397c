"""Whatever comes in whatever order, with any time between: logs keep their grammar, clients hear what makes sense."""

from __future__ import annotations

import asyncio
import contextlib
import random
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from dragoman.agents.common.logs import read_claude_line
from dragoman.agents.common.observation import Observation
from dragoman.hub.errors import AlreadyResolved, InvalidAnswer, LimitReached, StorageUnavailable, UnknownDecision
from dragoman.hub.permissions import LOCAL
from tests.agents.hooked.kit import Kit, choices, kit
from tests.agents.hooked.manual_time import run, until
from tests.agents.hooked.posts import SUGGESTIONS, Life, Payload, generated, half_normalised, normalised, post
from tests.dialects.cin import stream_checker
from tests.dialects.cin.rig import bridge

LIVES = (
    Life("claude", "a4700000-0000-4000-8000-000000000001"),
    Life("claude", "a4700000-0000-4000-8000-000000000002"),
    Life("codex", "a4700000-0000-7000-8000-000000000003"),
    Life("gemini", "a4700000-0000-4000-8000-000000000004"),
)

TOOLS = ("Bash", "Read", "AskUserQuestion", "ExitPlanMode")

PAUSES = (0, 0, 0, 0.1, 0.1, 1, 2, 4, 10, 70, 130, 310, 700, 3700)
"""Seconds, around each of the limits."""

Maker = Callable[[random.Random, Life], Payload]


def aside(seed: random.Random) -> dict[str, Any]:
    return {"agent_id": seed.choice("ab"), "agent_type": "general-purpose"} if seed.random() < 0.2 else {}


def given(seed: random.Random) -> Payload:
    return {"command": f"echo {seed.randrange(3)}"}


MAKERS: tuple[Maker, ...] = (
    lambda seed, life: life.start(seed.choice(("startup", "resume", "clear", "compact"))),
    lambda seed, life: life.prompt(seed.choice(("yes", "no", "go on"))),
    lambda seed, life: life.prompt(seed.choice(("yes", "no", "go on"))),
    lambda seed, life: life.stop(seed.choice(("Done.", "Done!", None)), active=seed.random() < 0.2),
    lambda seed, life: life.stop(seed.choice(("Done.", "Done!", None))),
    lambda seed, life: life.end(seed.choice(("other", "clear", "prompt_input_exit"))),
    *[lambda seed, life: life.before(seed.choice(TOOLS), name(seed, life), given(seed), **aside(seed))] * 3,
    *[lambda seed, life: life.after(seed.choice(TOOLS), name(seed, life), given(seed), **aside(seed))] * 3,
    lambda seed, life: life.failed(seed.choice(TOOLS), f"t{seed.randrange(6)}", given=given(seed)),
    lambda seed, life: life.batch(("Bash", f"t{seed.randrange(6)}"), ("Read", f"t{seed.randrange(6)}")),
    lambda seed, life: life.permission(seed.choice(TOOLS), given(seed), SUGGESTIONS, **aside(seed)),
    lambda seed, life: life.notify(seed.choice(("idle_prompt", "permission_prompt", "auth_success", None)), "hear"),
    lambda seed, life: life.tool_permission("ls"),
    lambda seed, life: life.subagent_start(seed.choice("ab")),
    lambda seed, life: life.subagent_stop(seed.choice("ab")),
    lambda seed, life: life.compact(seed.choice(("auto", "manual"))),
    lambda seed, life: life.hook("PostCompact", trigger="auto", compact_summary="s"),
    lambda seed, life: life.hook("StopFailure", error="rate_limit"),
    lambda seed, life: life.hook("PermissionDenied", tool_name="Bash", tool_use_id="t1", reason="no"),
    lambda seed, life: life.interrupt(),
    lambda seed, life: life.hook("ConfigChange"),
)


def name(seed: random.Random, life: Life) -> str | None:
    return None if life.agent == "gemini" or seed.random() < 0.15 else f"t{seed.randrange(6)}"


def formed(seed: random.Random, payload: Payload, agent: str, at: int) -> Payload:
    """In one of the forms of scripts, where it has one."""
    plain = {"SessionStart", "SessionEnd", "UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop"}
    form = seed.randrange(5)
    if form == 1:
        return generated(payload, agent, at)
    if payload["hook_event_name"] in plain and form == 2:
        return normalised(
            payload, agent, at, seed.choice((None, f"n-{payload['session_id'][-1]}-{seed.randrange(40)}"))
        )
    if payload["hook_event_name"] in plain and form == 3:
        return half_normalised(payload, agent, at, f"h-{payload['session_id'][-1]}-{seed.randrange(40)}")
    return payload


def log_line(seed: random.Random, life: Life, at: int) -> Observation:
    """A line of the transcript of one that keeps a log."""
    call = {"id": f"t{seed.randrange(6)}", "name": seed.choice(TOOLS), "input": given(seed)}
    result = {"tool_use_id": f"t{seed.randrange(6)}", "content": "ok", "is_error": seed.random() < 0.3}
    kind, block, more = seed.choice(
        (
            ("user", {"type": "text", "text": seed.choice(("yes", "no", "go on"))}, {}),
            ("user", {"type": "text", "text": "[Request interrupted by user]"}, {}),
            ("user", {"type": "tool_result", **result}, {}),
            ("user", {"type": "tool_result", **result}, {"toolUseResult": "User rejected tool use"}),
            ("assistant", {"type": "tool_use", **call}, {"stop_reason": "tool_use"}),
            ("assistant", {"type": "text", "text": seed.choice(("Done.", "Done!"))}, {"stop_reason": "end_turn"}),
            ("assistant", {"type": "text", "text": "Failed"}, {"error": "rate_limit"}),
        )
    )
    message = {
        "role": kind,
        "content": [block],
        "id": f"m{seed.randrange(9)}",
        "stop_reason": more.pop("stop_reason", None),
    }
    stamp = datetime.fromtimestamp((at - seed.randrange(5000)) / 1000, UTC).isoformat()
    record = {"type": kind, "sessionId": life.session, "uuid": f"u{seed.randrange(10**6)}", "timestamp": stamp}
    return read_claude_line({**record, "message": message, **more})


async def step(k: Kit, seed: random.Random, asking: list[asyncio.Task[str]]) -> None:
    """Something comes, or is answered, or time passes."""
    life = seed.choice(LIVES).in_turn(f"turn-{seed.randrange(4)}")
    payload = seed.choice(MAKERS)(seed, life)
    channel = seed.choice(("socket", "socket", "http", "file"))
    at = seed.choice((None, None, k.clock.now() - seed.randrange(5000)))
    if payload["hook_event_name"] == "PermissionRequest" and channel == "socket":
        asking.append(k.asking(post(payload, "socket", agent=life.agent, at=at)))
        await k.settle()
    else:
        form = formed(seed, payload, life.agent, k.clock.now())
        await (k.take_fast if seed.random() < 0.3 else k.take)(post(form, channel, agent=life.agent, at=at))
    if life.agent == "claude" and seed.random() < 0.2:
        seen = log_line(seed, life, k.clock.now())
        await k.intake.observed("claude", life.session, seen, cwd=life.cwd, create=seed.random() < 0.3)
    if asking and seed.random() < 0.1:
        asking.pop(seed.randrange(len(asking))).cancel()
    if seed.random() < 0.15:
        await answer_something(k, seed)
    await k.jump(seed.choice(PAUSES), seed.choice((1, 5)))


async def answer_something(k: Kit, seed: random.Random) -> None:
    for row in k.rows():
        session = await k.registry.get(LOCAL, row.session)
        for opened in list(session.shown.decisions.values()):
            number = seed.choice(choices(opened) or ["1"])
            with contextlib.suppress(AlreadyResolved, InvalidAnswer, UnknownDecision):
                known = next(life for life in LIVES if life.session == row.agent_session)
                await k.answer(known.session, opened, number, known.agent)


async def consistent(k: Kit) -> None:
    """Each log obeys the grammar, and nothing is asked by one that is gone."""
    for row in k.rows():
        await k.check(row.session)
        told = await k.told(row.session)
        assert len({event["id"] for event in told}) == len(told), "an id comes twice"
        session = await k.registry.get(LOCAL, row.session)
        state = session.shown
        if state.executor is None:
            # what a hook waits for stays, as long as only a stranger says that its agent has ended
            assert all(choices(one) for one in state.decisions.values()), f"{row.session} asks, and is gone"


@pytest.mark.parametrize("part", range(8))
def test_any_posts_in_any_order(part: int) -> None:
    async def main(number: int) -> None:
        seed = random.Random(number)
        folder = Path(tempfile.mkdtemp(prefix="any-order-"))
        async with kit(folder) as k, bridge(folder, k.hub) as served:
            client = await served.open()
            asking: list[asyncio.Task[str]] = []
            for _ in range(60):
                with contextlib.suppress(LimitReached, StorageUnavailable):
                    await step(k, seed, asking)
                client.take()
            await consistent(k)
            await k.jump(k.settings.answer_seconds + 10, 20)
            await k.jump(k.settings.gone_codex + 120, 20)
            await consistent(k)
            await until(lambda: all(one.done() for one in asking), "every hook was let go")
            for row in k.rows():
                assert row.status in ("exited", "closed"), "without a word for so long it is gone"
                state = (await k.registry.get(LOCAL, row.session)).shown
                assert not state.calls, "nothing runs without a live executor"
            client.take()
            assert stream_checker.problems(client.frames, legacy=False) == []

    for number in range(part * 12, part * 12 + 12):
        try:
            run(main(number))
        except BaseException as problem:
            problem.add_note(f"with the seed {number}")
            raise


@pytest.mark.parametrize("part", range(4))
def test_any_posts_in_any_order_through_any_restarts(part: int) -> None:
    async def main(number: int) -> None:
        seed = random.Random(number)
        async with kit(Path(tempfile.mkdtemp(prefix="any-order-"))) as k:
            asking: list[asyncio.Task[str]] = []
            for _ in range(60):
                if seed.random() < 0.1:
                    asking.clear()
                    await k.restart(crash=seed.random() < 0.5, away=seed.choice(PAUSES))
                with contextlib.suppress(LimitReached, StorageUnavailable):
                    await step(k, seed, asking)
            await consistent(k)
            await k.jump(k.settings.gone_codex + 120, 20)
            await consistent(k)
            assert {row.status for row in k.rows()} <= {"exited", "closed"}
            assert all(row.tool is None and row.asks is None for row in k.rows())

    for number in range(1000 + part * 12, 1000 + part * 12 + 12):
        try:
            run(main(number))
        except BaseException as problem:
            problem.add_note(f"with the seed {number}")
            raise
