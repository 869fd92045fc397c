"""A restart of the server: agents elsewhere do not notice it, nor do those who look."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.hub.errors import LimitReached
from dragoman.hub.events import tag_of
from tests.agents.hooked.kit import kinds, kit
from tests.agents.hooked.lives import (
    BUSY,
    CLAUDE,
    DONE,
    GIVEN,
    IN_CALL,
    SECOND,
    ancestors,
    needs_proc,
    program,
)
from tests.agents.hooked.manual_time import timed
from tests.agents.hooked.posts import Life, Payload, normalised

MOMENTS = {
    "at its start": BUSY[:1],
    "at work": BUSY,
    "in a call": IN_CALL,
    "at rest": DONE,
    "in a permission": [*IN_CALL, CLAUDE.permission("Bash", GIVEN)],
    "after its end": [*DONE, CLAUDE.end()],
}


@pytest.mark.parametrize("crash", [False, True], ids=["stopped", "killed"])
@pytest.mark.parametrize("moment", MOMENTS)
@timed
async def test_a_restart_changes_nothing_of_what_goes_on(moment: str, crash: bool, tmp_path: Path) -> None:
    """An agent elsewhere does not notice it; nor do those who look."""
    async with kit(tmp_path, disk=True, settles=10_000 if moment == "at its start" else 3) as k:
        await k.take_all(MOMENTS[moment])
        before, told, status = k.row(CLAUDE.session).session, await k.events(CLAUDE.session), k.status(CLAUDE.session)
        await k.restart(crash=crash, away=1)
        assert k.row(CLAUDE.session).session == before
        assert k.status(CLAUDE.session) == status
        assert await k.events(CLAUDE.session) == told
        await k.advance(5)
        await k.take_all(
            [SECOND.prompt("more"), SECOND.before("Read", "t8"), SECOND.after("Read", "t8"), SECOND.stop()]
        )
        assert k.status(CLAUDE.session) == "waiting (prompt)"
        assert len(k.rows()) == 1
        found = kinds(await k.events(CLAUDE.session))
        found.subtract(kinds(told))
        assert found["user_prompt_submit"] == found["stop"] == found["pre_tool_use"] == 1
        assert found["post_tool_use"] in (1, 1 + (moment in ("in a call", "in a permission")))


@pytest.mark.parametrize("crash", [False, True], ids=["stopped", "killed"])
@timed
async def test_a_call_goes_on_over_a_restart(crash: bool, tmp_path: Path) -> None:
    async with kit(tmp_path, disk=True) as k:
        await k.take_all(IN_CALL)
        await k.restart(crash=crash, away=10)
        assert k.status(CLAUDE.session) == "working (Bash)"
        await k.take(CLAUDE.after("Bash", "t1", GIVEN))
        (ended,) = [event for event in await k.events(CLAUDE.session) if event["type"] == "post_tool_use"]
        assert ended["toolUseId"] == "t1"
        assert ended["success"] is True
        assert ended["duration"] >= 10_000
        assert kinds(await k.events(CLAUDE.session))["pre_tool_use"] == 1


@pytest.mark.parametrize("crash", [False, True], ids=["stopped", "killed"])
@timed
async def test_nothing_is_told_twice_after_a_restart(crash: bool, tmp_path: Path) -> None:
    """Scripts may post again what they do not know to have come."""
    async with kit(tmp_path, disk=True) as k:
        payloads = [*IN_CALL, CLAUDE.after("Bash", "t1", GIVEN), CLAUDE.notify(None, "hear"), CLAUDE.stop()]
        named = [normalised(one, "claude", k.clock.now(), f"evt-{place}") for place, one in enumerate(payloads)]
        await k.take_all(named)
        told = await k.events(CLAUDE.session)
        assert len(told) == len(payloads)
        await k.restart(crash=crash, away=1)
        await k.take_all(named)
        assert await k.events(CLAUDE.session) == told
        assert k.status(CLAUDE.session) == "waiting (prompt)"


@pytest.mark.parametrize("crash", [False, True], ids=["stopped", "killed"])
@pytest.mark.parametrize("posted", [BUSY, IN_CALL, DONE], ids=["at work", "in a call", "at rest"])
@timed
async def test_who_was_gone_meanwhile_is_found_to_be(posted: list[Payload], crash: bool, tmp_path: Path) -> None:
    async with kit(tmp_path, disk=True) as k:
        await k.take_all(posted)
        await k.restart(crash=crash, away=k.settings.gone_idle * 2)
        await k.advance(k.settings.gone_idle + 60)
        assert k.status(CLAUDE.session) == "offline"
        session = await k.session(CLAUDE.session)
        assert not session.state.calls
        told = kinds(await k.events(CLAUDE.session))
        await k.restart(crash=crash, away=60)
        await k.advance(60)
        assert kinds(await k.events(CLAUDE.session)) == told, "and it is said once"


@needs_proc
@pytest.mark.parametrize("lives", [True, False], ids=["lives", "has ended"])
@timed
async def test_its_process_is_known_after_a_restart(lives: bool, tmp_path: Path) -> None:
    async with kit(tmp_path, disk=True) as k:
        with program(tmp_path / "bin") as process:
            for payload in DONE:
                await k.take(payload, "socket", agent="claude", parents=ancestors(process))
            if not lives:
                process.kill()
                process.wait()
            await k.restart(crash=True, away=1)
            if lives:
                await k.jump(k.settings.gone_idle * 3, 30)
            else:
                await k.advance(5)
            assert k.status(CLAUDE.session) == ("waiting (prompt)" if lives else "offline")


@timed
async def test_after_a_restart_the_limit_counts_those_that_there_are(tmp_path: Path) -> None:
    async with kit(tmp_path, sessions=2, disk=True) as k:
        for name in ("one", "two"):
            await k.take(Life("claude", name).prompt())
        await k.restart(away=1)
        with pytest.raises(LimitReached):
            await k.take(Life("claude", "three").prompt())
        await k.take(Life("claude", "one").stop())
        assert k.status("one") == "waiting (prompt)"


@timed
async def test_a_log_says_nothing_while_nothing_changes(tmp_path: Path) -> None:
    """Time that passes, and looks at what lives, write nothing."""
    async with kit(tmp_path, gone_idle=100_000) as k:
        await k.take_all(DONE)
        await k.advance(30)
        head = k.row(CLAUDE.session).head
        await k.jump(3000, 30)
        facts = [tag_of(type(event.fact)) for event in (await k.log(k.row(CLAUDE.session).session))[head:]]
        assert facts == []
