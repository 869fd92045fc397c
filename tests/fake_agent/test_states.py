"""What a Coop client is told is true: many scenarios, each with a fault, in the real server (README.md)."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest

from tests.fake_agent.sessions import (
    Case,
    Result,
    answered,
    play,
    said_no,
    said_yes,
    signalled,
    stopped,
    typed,
    waited,
)

pytestmark = pytest.mark.slow

AT_ONCE = 8
"""Sessions that run at the same time."""

WRONG = 0.01
"""The part of all time in which a client may be told something wrong."""

RECOVERY = 5000
"""Milliseconds from a true change until the right state is told, at most."""

ANNOUNCED = 500
"""Milliseconds from the drawing of a permission dialog until it is told, at most."""

BARE = ("--no-7501", "--no-titles", "--no-hooks", "--no-log")
TITLED = ("--no-7501", "--no-hooks")
DOWN, ESC = "\x1b[B", "\x1b"
ALLOWED, DENIED = ("allowed",), ("denied",)

CASES = [
    # a turn
    Case("hello"),
    Case("hello, nudged", nudged=True),
    Case(
        "hello twice, nudged, UserPromptSubmit lost",
        ("hello", "[[say:again]]"),
        ("--lose-hook", "UserPromptSubmit"),
        nudged=True,
    ),
    Case("thought, no hooks", ("[[think:1500]]",), ("--no-hooks",)),
    Case("thought, no status", ("[[think:1500]]",), ("--no-7501",)),
    Case("thought, no status, no titles", ("[[think:1500]]",), ("--no-7501", "--no-titles")),
    Case("thought, nothing but the screen", ("[[think:1500]]",), BARE),
    Case("thought, Stop lost", ("[[think:1500]]",), ("--lose-hook", "Stop")),
    Case("thought, Stop lost, no status", ("[[think:1500]]",), ("--lose-hook", "Stop", "--no-7501")),
    Case(
        "thought, Stop lost, no status, no titles",
        ("[[think:1500]]",),
        ("--lose-hook", "Stop", "--no-7501", "--no-titles"),
    ),
    Case("stream, no log", ("[[slow:10]]",), ("--no-log",)),
    Case("tools, log in halves", ("[[tools:3]]",), ("--split-log",)),
    Case("tools, late log", ("[[tools:3]]",), ("--delay-log", "900")),
    Case("tools, late log, no status", ("[[tools:3]]",), ("--delay-log", "900", "--no-7501")),
    Case("tools, hooks out of order", ("[[tools:3]]", "hello"), ("--delay-hooks", "300", "--seed", "1")),
    Case(
        "tools, hooks out of order, no status",
        ("[[tools:3]]", "hello"),
        ("--delay-hooks", "400", "--seed", "2", "--no-7501"),
    ),
    Case("tools, PostToolUse lost", ("[[tools:3]]",), ("--lose-hook", "PostToolUse", "--no-7501")),
    # permissions
    Case("permission, allowed", ("[[permission]]",), effects=ALLOWED),
    Case("permission, refused", ("[[permission]]",), dialogs=(said_no,), effects=DENIED),
    Case("permission, Escape", ("[[permission]]",), dialogs=(typed(ESC),), effects=DENIED),
    Case("permission, Escape, no status", ("[[permission]]",), ("--no-7501",), (typed(ESC),), effects=DENIED),
    Case("permission, typed, no status", ("[[permission]]",), ("--no-7501",), (typed("1"),), effects=ALLOWED),
    Case(
        "permission, PermissionRequest lost", ("[[permission]]",), ("--lose-hook", "PermissionRequest"), effects=ALLOWED
    ),
    Case(
        "permission, PermissionRequest lost, no status",
        ("[[permission]]",),
        ("--lose-hook", "PermissionRequest", "--no-7501"),
        effects=ALLOWED,
    ),
    Case("permission, PreToolUse lost", ("[[permission]]",), ("--lose-hook", "PreToolUse"), effects=ALLOWED),
    Case("permission, PostToolUse lost", ("[[permission]]",), ("--lose-hook", "PostToolUse"), effects=ALLOWED),
    Case("permission, no hooks", ("[[permission]]",), ("--no-hooks",), effects=ALLOWED),
    Case("permission, titles, log and screen", ("[[permission]]",), TITLED, effects=ALLOWED),
    Case("permission, titles and screen", ("[[permission]]",), (*TITLED, "--no-log"), effects=ALLOWED),
    Case(
        "permission refused, titles and screen", ("[[permission]]",), (*TITLED, "--no-log"), (said_no,), effects=DENIED
    ),
    Case(
        "permission, Escape, titles and screen",
        ("[[permission]]",),
        (*TITLED, "--no-log"),
        (typed(ESC),),
        effects=DENIED,
    ),
    Case("two permissions, titles and screen", ("[[twice]]",), (*TITLED, "--no-log"), effects=("allowed", "allowed")),
    Case(
        "permission after a turn, titles and hooks, PermissionRequest and UserPromptSubmit lost",
        ("hello", "[[permission]]"),
        ("--no-7501", "--no-log", "--lose-hook", "PermissionRequest", "--lose-hook", "UserPromptSubmit"),
        effects=ALLOWED,
    ),
    Case("plan, titles and screen", ("[[plan]]",), (*TITLED, "--no-log"), effects=("approved",)),
    Case("question, titles and screen", ("[[ask]]",), (*TITLED, "--no-log"), (answered(2),), effects=("answered",)),
    Case("thought, titles and screen", ("[[think:1500]]",), (*TITLED, "--no-log")),
    Case("hello, nudged, titles and screen", flags=(*TITLED, "--no-log"), nudged=True),
    Case("stream, Escape, titles and screen", ("[[slow:40]]",), (*TITLED, "--no-log"), during=typed(ESC)),
    Case("error, titles and screen", ("[[error]]",), (*TITLED, "--no-log")),
    Case("error, titles, log and screen", ("[[error]]", "hello"), TITLED),
    Case("permission, nothing but the screen", ("[[permission]]",), BARE, effects=ALLOWED),
    Case(
        "permission, hooks out of order", ("[[permission]]",), ("--delay-hooks", "400", "--seed", "4"), effects=ALLOWED
    ),
    Case(
        "permission, notified while it shows",
        ("[[permission]]",),
        ("--notify-after", "0.8", "--idle-after", "0.8"),
        effects=ALLOWED,
    ),
    Case("two permissions", ("[[twice]]",), effects=("allowed", "allowed")),
    Case(
        "two permissions, the second refused",
        ("[[twice]]",),
        dialogs=(said_yes, said_no),
        effects=("allowed", "denied"),
    ),
    Case(
        "two permissions, PostToolUse lost, no status",
        ("[[twice]]",),
        ("--lose-hook", "PostToolUse", "--no-7501"),
        effects=("allowed", "allowed"),
    ),
    Case("permission without numbers", ("[[unnumbered]]",), effects=ALLOWED),
    Case("permission without numbers, refused", ("[[unnumbered]]",), dialogs=(said_no,), effects=DENIED),
    Case("permission in another order", ("[[reversed]]",), effects=ALLOWED),
    Case("write, allowed", ("[[write]]",), effects=ALLOWED),
    # questions and plans
    Case("question", ("[[ask]]",), dialogs=(answered(2),), effects=("answered",)),
    Case("question, no hooks", ("[[ask]]",), ("--no-hooks",), (answered(2),), effects=("answered",)),
    Case("two questions", ("[[ask2]]",), dialogs=(answered(1, 2),), effects=("answered",)),
    Case("three questions, no status", ("[[ask3]]",), ("--no-7501",), (answered(2, 1, 3),), effects=("answered",)),
    Case("two questions, Escape, no status", ("[[ask2]]",), ("--no-7501",), (typed(ESC),), effects=("rejected",)),
    Case("plan, approved", ("[[plan]]",), effects=("approved",)),
    Case("plan, PermissionRequest lost", ("[[plan]]",), ("--lose-hook", "PermissionRequest"), effects=("approved",)),
    Case("plan, no hooks, no status", ("[[plan]]",), ("--no-hooks", "--no-7501"), effects=("approved",)),
    Case("plan, refused", ("[[plan]]",), dialogs=(typed(ESC),), effects=("rejected",)),
    Case("trust", ("hello",), ("--trust", "332"), (typed(DOWN + "\r"),), effects=ALLOWED),
    Case("trust, as 2.1.197 asks", ("hello",), ("--trust", "197"), (typed("1"),), effects=ALLOWED),
    # Escape in a turn
    Case("stream, Escape", ("[[slow:40]]",), during=typed(ESC)),
    Case("stream, Escape, no status", ("[[slow:40]]",), ("--no-7501",), during=typed(ESC)),
    Case("stream, Escape, no status, no titles", ("[[slow:40]]",), ("--no-7501", "--no-titles"), during=typed(ESC)),
    Case("a draft left by Escape, then nudged", ("[[think:4000]]", "hello"), during=typed(ESC), nudged=True),
    # errors and ends
    Case("error", ("[[error]]", "hello")),
    Case("error, StopFailure lost", ("[[error]]",), ("--lose-hook", "StopFailure")),
    Case("error, no status", ("[[error]]",), ("--no-7501",)),
    Case("error, nothing but the screen", ("[[error]]", "hello"), BARE, nudged=True),
    Case("error, nudged", ("[[error]]", "hello"), nudged=True),
    Case("error, no hooks, nudged", ("[[error]]", "hello"), ("--no-hooks",), nudged=True),
    Case("error, late log, StopFailure lost", ("[[error]]",), ("--lose-hook", "StopFailure", "--delay-log", "900")),
    Case("retries", ("[[retry:4]]",)),
    Case("it exits", ("[[die:3]]",)),
    Case("it kills itself", ("[[kill]]",)),
    Case("it is killed in a dialog", ("[[permission]]",), dialogs=(signalled(signal.SIGKILL),)),
    Case("it is ended", ("[[slow:40]]",), during=signalled(signal.SIGTERM)),
    # stopped and hung
    Case("stopped while idle", at_idle=stopped(2.5)),
    Case("stopped while working", ("[[think:2500]]",), during=stopped(2.5)),
    Case(
        "stopped while working, no hooks, no status",
        ("[[think:2500]]",),
        ("--no-hooks", "--no-7501"),
        during=stopped(2.5),
    ),
    Case("stopped in a dialog", ("[[permission]]",), dialogs=(stopped(2.5, said_yes),), effects=ALLOWED),
    Case("hung while working", ("[[hang:3]]",)),
    Case("hung while working, nothing but the screen", ("[[hang:3]]",), BARE),
    Case("hung in a dialog", ("[[permission]]",), ("--hang", "prompt:3"), effects=ALLOWED),
    # false evidence
    Case("garbage", ("[[garbage]]",)),
    Case("output that looks like a dialog", ("[[lookalike]]",), ("--no-hooks",)),
    Case("another agent in the turn", ("[[subagent:1500]]",)),
    Case("another agent in the turn, no status", ("[[subagent:1500]]",), ("--no-7501",)),
    Case("another agent in the background", ("[[background:4000]]",), turns=2),
    Case("another agent in the background, no status", ("[[background:4000]]",), ("--no-7501",), turns=2),
    Case("it draws while idle", flags=("--chatter", "150"), at_idle=waited(1)),
    Case("it draws while idle, nothing but the screen", flags=("--chatter", "150", *BARE), at_idle=waited(1)),
    Case("an Enter is lost, nudged", ("hello",), ("--swallow-enters", "1"), nudged=True),
    Case("like Codex, nudged", ("hello there",), ("--paste-like-codex",), nudged=True),
    Case(
        "a long nudge of many lines", ("\n".join(f"line {number} of the prompt" for number in range(40)),), nudged=True
    ),
]


def wanted(request: pytest.FixtureRequest) -> list[Case]:
    """The cases that this run asks for."""
    asked = [getattr(item, "callspec", None) for item in request.session.items]
    cases = [call.params.get("case") for call in asked if call is not None]
    chosen = [case.name for case in cases if isinstance(case, Case)]
    return [case for case in CASES if case.name in chosen] or CASES


async def play_all(cases: list[Case], folder: Path) -> dict[str, Result]:
    """All sessions, several at once."""
    slots = asyncio.Semaphore(AT_ONCE)

    async def one(number: int, case: Case) -> Result:
        async with slots:
            return await play(case, folder / f"s{number}")

    results = await asyncio.gather(*(one(number, case) for number, case in enumerate(cases)))
    return {result.case.name: result for result in results}


@pytest.fixture(scope="module")
def results(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Result]:
    """What came of every session."""
    return asyncio.run(play_all(wanted(request), tmp_path_factory.mktemp("states")))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_a_client_is_told(results: dict[str, Result], case: Case) -> None:
    result = results[case.name]
    verdict = result.verdict
    print(result.story, verdict, result.log[-4000:], sep="\n")
    assert result.problems == []
    assert not [entry for entry in result.record if entry.get("effect") == "crashed"]
    assert result.refusals == []
    assert verdict.recovery <= RECOVERY, verdict.stretches
    assert (verdict.twice, verdict.missed, verdict.invented, verdict.misnamed) == ([], [], [], [])
    assert verdict.never == []
    assert (verdict.false, verdict.untold) == ([], [])
    drawn = {entry["dialog"]: entry for entry in result.record if entry.get("state") == "prompt"}
    delays = {serial: delay for serial, delay in verdict.delays.items() if drawn[serial]["kind"] == "permission"}
    assert all(delay <= ANNOUNCED for delay in delays.values()), delays


@pytest.mark.parametrize("case", [case for case in CASES if "error" in case.name], ids=lambda case: case.name)
def test_an_error_is_told_once_and_as_what_it_was(results: dict[str, Result], case: Case) -> None:
    result = results[case.name]
    print(result.story)
    told = [frame for _, frame in result.frames if frame.get("next") == "error"]
    assert len({frame["seq"] for frame in told}) == 1
    assert len(told) <= 2
    assert [frame["error_category"] for frame in told if frame["error_detail"] != "unknown"] == ["server_error"]
    (true,) = [entry["detail"] for entry in result.record if entry.get("state") == "error"]
    assert true[:30] in told[-1]["error_detail"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_a_client_does_has_its_effect(results: dict[str, Result], case: Case) -> None:
    result = results[case.name]
    print(result.story)
    submitted = [entry["text"] for entry in result.record if entry.get("effect") == "submitted"]
    assert [text for text in submitted if not text.startswith("<task-notification>")] == list(case.prompts)
    if case.effects:
        assert [entry["result"] for entry in result.record if "result" in entry] == list(case.effects)


def test_over_all_sessions_hardly_any_time_is_wrong(results: dict[str, Result]) -> None:
    total = sum(result.verdict.total for result in results.values())
    wrong = sum(result.verdict.wrong for result in results.values())
    worst = sorted(results.values(), key=lambda result: -result.verdict.wrong)[:8]
    listed = [f"{result.verdict.wrong} ms {result.case.name}: {result.verdict.stretches}" for result in worst]
    assert wrong < WRONG * total, "\n".join([f"{wrong} of {total} ms", *listed])
