"""What an agent elsewhere is taken to be doing (spec §5), from what it said last and from how long ago that was."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from dragoman.agents.common.logs import read_claude_line, read_codex_line
from dragoman.agents.common.processes import pid_start
from dragoman.hub.errors import LimitReached
from dragoman.hub.events import tag_of
from dragoman.hub.limits import HubLimits
from dragoman.hub.permissions import LOCAL
from tests.agents.hooked.kit import Kit, kinds, kit
from tests.agents.hooked.manual_time import timed
from tests.agents.hooked.posts import Life, Payload, normalised

CLAUDE = Life("claude", "57a7e500-0000-4000-8000-000000000001")
CODEX = Life("codex", "57a7e500-0000-7000-8000-000000000002")
GEMINI = Life("gemini", "57a7e500-0000-4000-8000-000000000003")
GIVEN = {"command": "make"}
SECOND = CLAUDE.in_turn("turn-2")
ASIDE = {"agent_id": "a1", "agent_type": "general-purpose"}

BUSY = [CLAUDE.start(), CLAUDE.prompt()]
IN_CALL = [*BUSY, CLAUDE.before("Bash", "t1", GIVEN)]
DONE = [*BUSY, CLAUDE.stop()]

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


# Time


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


@contextmanager
def program(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is called as the agent is."""
    folder.mkdir(exist_ok=True)
    path = folder / "claude"
    shutil.copy(shutil.which("sleep") or "/bin/sleep", path)
    process = subprocess.Popen([path, "1000"], start_new_session=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def ancestors(process: subprocess.Popen[bytes]) -> tuple[tuple[int, int], ...]:
    """Those of a hook: the shell that ran it, which is over by now, the agent, and who started that."""
    shell = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    start = pid_start(shell.pid)
    shell.communicate(b"\n")
    agent, own = pid_start(process.pid), pid_start(os.getpid())
    known = ((shell.pid, start), (process.pid, agent), (os.getpid(), own))
    return tuple((pid, start) for pid, start in known if start is not None)


needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the system shows no processes")


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


# A restart of the server

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
