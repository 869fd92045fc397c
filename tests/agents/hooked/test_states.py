"""What an agent elsewhere is taken to be doing (spec §5), from what it said last."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.hub.limits import HubLimits
from tests.agents.hooked.kit import Kit, kinds, kit
from tests.agents.hooked.lives import (
    ASIDE,
    BUSY,
    CLAUDE,
    CODEX,
    DONE,
    GEMINI,
    GIVEN,
    IN_CALL,
    SECOND,
)
from tests.agents.hooked.manual_time import timed
from tests.agents.hooked.posts import Life, Payload, normalised

TABLE: dict[str, tuple[list[Payload], str]] = {
    # what was posted, and what it is then
    "a start": ([CLAUDE.start()], "working"),
    "a prompt": (BUSY, "working"),
    "only a prompt": ([CLAUDE.prompt()], "working"),
    "a call": (IN_CALL, "working (Bash)"),
    "only a call": ([CLAUDE.before("Bash", "t1", GIVEN)], "working (Bash)"),
    "a call's end": ([*IN_CALL, CLAUDE.after("Bash", "t1", GIVEN)], "working"),
    "a call's failure": ([*IN_CALL, CLAUDE.failed("Bash", "t1", given=GIVEN)], "working"),
    "calls ended as a batch": ([*IN_CALL, CLAUDE.batch(("Bash", "t1"))], "working"),
    "two calls": ([*IN_CALL, CLAUDE.before("Read", "t2")], "working (Read)"),
    "two calls, the newer one over": (
        [*IN_CALL, CLAUDE.before("Read", "t2"), CLAUDE.after("Read", "t2")],
        "working (Bash)",
    ),
    "two calls, the older one over": (
        [*IN_CALL, CLAUDE.before("Read", "t2"), CLAUDE.after("Bash", "t1", GIVEN)],
        "working (Read)",
    ),
    "a sub-agent's call": (
        [*BUSY, CLAUDE.before("Task", "t1"), CLAUDE.before("Read", "s1", GIVEN, **ASIDE)],
        "working (Task)",
    ),
    "a sub-agent's call over": (
        [
            *(*BUSY, CLAUDE.before("Task", "t1"), CLAUDE.before("Read", "s1", GIVEN, **ASIDE)),
            CLAUDE.after("Read", "s1", GIVEN, **ASIDE),
        ],
        "working (Task)",
    ),
    "a sub-agent done": (
        [*BUSY, CLAUDE.before("Task", "t1"), CLAUDE.subagent_start("a1"), CLAUDE.subagent_stop("a1")],
        "working (Task)",
    ),
    "a prompt in a call": ([*IN_CALL, SECOND.prompt("no, stop")], "working"),
    "a stop": (DONE, "waiting (prompt)"),
    "only a stop": ([CLAUDE.stop()], "waiting (prompt)"),
    "a stop in a call": ([*IN_CALL, CLAUDE.stop()], "waiting (prompt)"),
    "a stop that a stop hook goes on from": ([*DONE, CLAUDE.stop(active=True)], "waiting (prompt)"),
    "a stop, and a sub-agent goes on": (
        [*DONE, CLAUDE.before("Read", "s1", GIVEN, **ASIDE)],
        "waiting (prompt)",
    ),
    "a stop, and a sub-agent is done": ([*DONE, CLAUDE.subagent_stop("a1")], "waiting (prompt)"),
    "a failed turn": ([*BUSY, CLAUDE.hook("StopFailure", error="server_error")], "waiting (prompt)"),
    "a prompt after a stop": ([*DONE, SECOND.prompt()], "working"),
    "a call after a stop": ([*DONE, SECOND.before("Bash", "t9")], "working (Bash)"),
    "a note at work": ([*IN_CALL, CLAUDE.notify("auth_success", "signed in")], "working (Bash)"),
    "a note that nobody types": ([*DONE, CLAUDE.notify("idle_prompt")], "waiting (prompt)"),
    "a note of no kind": ([*DONE, CLAUDE.notify(None, "hear")], "waiting (prompt)"),
    "an unknown hook at work": ([*IN_CALL, CLAUDE.hook("WorktreeCreate")], "working (Bash)"),
    "an unknown hook at rest": ([*DONE, CLAUDE.hook("ConfigChange", message="x")], "waiting (prompt)"),
    "a compaction at work": ([*BUSY, CLAUDE.compact()], "working"),
    "a permission": ([*IN_CALL, CLAUDE.permission("Bash", GIVEN)], "waiting (permission)"),
    "a permission, and the call over": (
        [*IN_CALL, CLAUDE.permission("Bash", GIVEN), CLAUDE.after("Bash", "t1", GIVEN)],
        "working",
    ),
    "a permission, and the call refused": (
        [*IN_CALL, CLAUDE.permission("Bash", GIVEN), CLAUDE.batch(("Bash", "t1")), CLAUDE.stop()],
        "waiting (prompt)",
    ),
    "a permission, and a new prompt": (
        [*IN_CALL, CLAUDE.permission("Bash", GIVEN), SECOND.prompt("rather not")],
        "working",
    ),
    "a permission, noted later": (
        [*IN_CALL, CLAUDE.permission("Bash", GIVEN), CLAUDE.notify("permission_prompt", "needs you")],
        "waiting (permission)",
    ),
    "an end": ([*DONE, CLAUDE.end()], "offline"),
    "an end at work": ([*IN_CALL, CLAUDE.end()], "offline"),
    "an end in a permission": ([*IN_CALL, CLAUDE.permission("Bash", GIVEN), CLAUDE.end()], "offline"),
    "an end, and back": ([*DONE, CLAUDE.end(), SECOND.start("resume"), SECOND.prompt()], "working"),
    "an end, and back by a prompt": ([*DONE, CLAUDE.end(), SECOND.prompt()], "working"),
}


async def pause(k: Kit, payload: Payload) -> None:
    """After a stop or an end nothing new comes at once: what comes at once is what was overtaken."""
    if payload.get("prompt_id") == SECOND.turn or payload.get("source") == "resume":
        await k.advance(k.settings.settles + 1)


@pytest.mark.parametrize("what", TABLE)
@timed
async def test_what_was_posted_last_says_what_it_is(what: str, tmp_path: Path) -> None:
    payloads, status = TABLE[what]
    async with kit(tmp_path) as k:
        for payload in payloads:
            await pause(k, payload)
            await k.take(payload)
            await k.jump(0.1)
        assert k.status(CLAUDE.session) == status
        if not status.startswith("working") and status != "waiting (permission)":
            assert "currentTool" not in k.card(CLAUDE.session)


@timed
async def test_of_whom_nothing_but_the_end_is_known_is_at_most_offline(tmp_path: Path) -> None:
    async with kit(tmp_path) as k:
        await k.take(CLAUDE.end())
        assert [k.status(CLAUDE.session) for _ in k.rows()] in ([], ["offline"])


@pytest.mark.parametrize("what", [what for what, (payloads, _) in TABLE.items() if what != "an unknown hook at work"])
@timed
async def test_normalised_events_say_the_same(what: str, tmp_path: Path) -> None:
    """Of what has a type among the seed's eight."""
    payloads, status = TABLE[what]
    plain = {"SessionStart", "SessionEnd", "UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop", "Notification"}
    if any(payload["hook_event_name"] not in plain or "agent_id" in payload for payload in payloads):
        pytest.skip("not of the seed's types alone")
    async with kit(tmp_path) as k:
        for number, payload in enumerate(payloads):
            await pause(k, payload)
            await k.take(normalised(payload, "claude", k.clock.now(), f"evt-{number}"))
            await k.jump(0.1)
        assert k.status(CLAUDE.session) == status


@pytest.mark.parametrize("life", [CODEX, GEMINI], ids=lambda life: life.agent)
@timed
async def test_the_others_have_the_same_states(life: Life, tmp_path: Path) -> None:
    tool = "Bash" if life.agent == "codex" else "run_shell_command"
    call = "c1" if life.agent == "codex" else None
    steps = [
        (life.start(), "working"),
        (life.prompt(), "working"),
        (life.before(tool, call, GIVEN), f"working ({tool})"),
        (life.after(tool, call, GIVEN), "working"),
        (life.stop(), "waiting (prompt)"),
        (life.end(), "offline"),
    ]
    async with kit(tmp_path) as k:
        for payload, status in steps:
            await k.take(payload, agent=life.agent)
            await k.jump(0.1)
            assert k.status(life.session, life.agent) == status


@timed
async def test_geminis_end_comes_twice_and_is_one(tmp_path: Path) -> None:
    async with kit(tmp_path) as k:
        for payload in (GEMINI.start(), GEMINI.prompt(), GEMINI.stop(), GEMINI.end("exit"), GEMINI.end("exit")):
            await k.take(payload, "socket", agent="gemini")
            await k.jump(0.05)
        assert kinds(await k.events(GEMINI.session, "gemini"))["session_end"] == 1
        assert k.status(GEMINI.session, "gemini") == "offline"


@timed
async def test_codex_tells_when_it_was_broken_off(tmp_path: Path) -> None:
    async with kit(tmp_path) as k:
        for payload in (CODEX.start(), CODEX.prompt(), CODEX.before("Bash", "c1"), CODEX.interrupt()):
            await k.take(payload, "socket", agent="codex")
        assert k.status(CODEX.session, "codex") == "waiting (prompt)"


@timed
async def test_a_shortening_that_nobody_asked_a_sub_agent_for_is_none(tmp_path: Path) -> None:
    """Claude fires SubagentStop, of nobody, for its own ``/compact``."""
    async with kit(tmp_path) as k:
        await k.take_all([*DONE, CLAUDE.hook("SubagentStop", agent_id="a9", agent_type="", stop_hook_active=False)])
        assert kinds(await k.events(CLAUDE.session))["subagent_stop"] == 0
        assert k.status(CLAUDE.session) == "waiting (prompt)"


@timed
async def test_a_call_right_after_a_stop_is_work_unless_it_was_overtaken(tmp_path: Path) -> None:
    """A stop hook of the user's own may have the agent go on, and then no prompt tells of it."""
    async with kit(tmp_path) as k:
        await k.take_all(DONE)
        await k.advance(1)
        await k.take(CLAUDE.before("Bash", "t9", GIVEN))
        await k.advance(k.settings.settles + 1)
        assert k.status(CLAUDE.session) == "working (Bash)"


@timed
async def test_a_call_whose_end_was_lost_is_not_shown_in_the_next_turn(tmp_path: Path) -> None:
    async with kit(tmp_path) as k:
        await k.take_all([*IN_CALL, CLAUDE.stop()])
        await k.advance(1)
        await k.take(SECOND.prompt("more"))
        assert k.status(CLAUDE.session) == "working"
        await k.take_all([SECOND.before("Read", "t2"), SECOND.after("Read", "t2")])
        assert k.status(CLAUDE.session) == "working"
        await k.advance(10)
        assert not (await k.session(CLAUDE.session)).state.calls


@pytest.mark.parametrize("given_up", ["by a stop", "by silence", "by its end"])
@timed
async def test_a_call_given_up_ends_once_even_if_its_end_comes_after_all(given_up: str, tmp_path: Path) -> None:
    """A machine may sleep in the midst of a call."""
    async with kit(tmp_path) as k:
        await k.take_all(IN_CALL)
        if given_up == "by silence":
            await k.jump(k.settings.gone_idle + 60, 20)
        else:
            await k.take(CLAUDE.stop() if given_up == "by a stop" else CLAUDE.end())
            await k.advance(k.settings.settles + 2)
        assert not (await k.session(CLAUDE.session)).state.calls
        await k.take(CLAUDE.after("Bash", "t1", GIVEN))
        found = kinds(await k.events(CLAUDE.session))
        assert (found["pre_tool_use"], found["post_tool_use"]) == (1, 1)


@timed
async def test_what_is_last_known_grows_only(tmp_path: Path) -> None:
    """``lastActivity`` never goes back, whenever a hook says that it ran."""
    async with kit(tmp_path) as k:
        last = 0
        for number, payload in enumerate([*IN_CALL, CLAUDE.after("Bash", "t1", GIVEN), CLAUDE.stop()]):
            await k.take(payload, "socket", agent="claude", at=k.clock.now() - 1000 * (number % 3))
            await k.jump(1)
            shown = k.card(CLAUDE.session)["lastActivity"]
            assert shown >= last
            last = shown


CLOCKS = {
    "right": lambda now: now,
    "a day ahead": lambda now: now + 86_400_000,
    "a day behind": lambda now: now - 86_400_000,
    "in seconds": lambda now: now // 1000,
    "in nanoseconds": lambda now: now * 1_000_000,
    "none": lambda now: 0,
}


@pytest.mark.parametrize("clock", CLOCKS)
@pytest.mark.parametrize("wrong", ["the prompt's", "the stop's", "both"])
@timed
async def test_a_scripts_clock_may_be_wrong(clock: str, wrong: str, tmp_path: Path) -> None:
    """What a post says of when it was is shown; no such word keeps a session at work, or at rest, for ever."""
    async with kit(tmp_path) as k:
        for turn, life in enumerate((CLAUDE, SECOND)):
            for number, (payload, whose) in enumerate(((life.prompt(), "the prompt's"), (life.stop(), "the stop's"))):
                right = k.clock.now()
                at = CLOCKS[clock](right) if wrong in (whose, "both") else right
                await k.take(normalised(payload, "claude", at, f"evt-{turn}-{number}"))
                await k.advance(10)
                assert k.status(CLAUDE.session) == ("working", "waiting (prompt)")[number]
        assert kinds(await k.events(CLAUDE.session)) == {"user_prompt_submit": 2, "stop": 2}


@timed
async def test_those_that_left_memory_come_back(tmp_path: Path) -> None:
    async with kit(tmp_path, limits=HubLimits(loaded_idle=2)) as k:
        lives = [Life("claude", f"57a7e500-0000-4000-8000-0000000001{number:02}") for number in range(12)]
        for life in lives:
            await k.take_all([life.start(), life.prompt(), life.before("Bash", f"t-{life.session}"), life.end()])
        await k.advance(10)
        assert k.registry.loaded < len(lives)
        for life in lives:
            again = life.in_turn("turn-2")
            await k.take_all([again.start("resume"), again.prompt("more")])
            assert k.status(life.session) == "working"
            await k.take(again.stop())
            assert k.status(life.session) == "waiting (prompt)"
        assert len(k.rows()) == len(lives)
        for life in lives:
            found = kinds(await k.events(life.session))
            assert (found["user_prompt_submit"], found["session_start"], found["stop"]) == (2, 2, 1)
