"""Permissions that are answered through the hook that asks for them (spec §9.1): what it is told to print, and when."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from dragoman.hub.errors import LimitReached, StorageUnavailable
from dragoman.hub.events import Answer
from dragoman.hub.permissions import LOCAL
from tests.agents.hooked.kit import Kit, choices, kinds, kit
from tests.agents.hooked.manual_time import timed, until
from tests.agents.hooked.posts import SUGGESTIONS, Life, Payload

CLAUDE = Life("claude", "c1a0de00-0000-4000-8000-000000000001")
CODEX = Life("codex", "c0dec000-0000-7000-8000-000000000001")
GEMINI = Life("gemini", "9e314100-0000-4000-8000-000000000001")

GIVEN = {"command": "touch made.txt", "description": "Run a command"}


def verdict(printed: Any) -> dict[str, Any]:
    """The decision in what a hook prints; nothing else is in there."""
    assert set(printed) == {"hookSpecificOutput"}
    inner = printed["hookSpecificOutput"]
    assert set(inner) == {"hookEventName", "decision"}
    assert inner["hookEventName"] == "PermissionRequest"
    decision: dict[str, Any] = inner["decision"]
    return decision


async def at_work(k: Kit, life: Life, *calls: tuple[str, str, Any]) -> None:
    """The agent is in these calls."""
    await k.take_all([life.start(), life.prompt()], "socket")
    for tool, call, given in calls:
        await k.take(life.before(tool, call, given), "socket", agent=life.agent)


async def asks(
    k: Kit, life: Life, given: Any = None, tool: str = "Bash", suggestions: Any = None, **more: Any
) -> asyncio.Task[str]:
    """The agent's hook asks, and it is shown."""
    known = {opened.decision for opened in await k.open_decisions(life.session, life.agent)}
    asking = k.asking(life.permission(tool, given or GIVEN, suggestions, **more), agent=life.agent)
    await k.settle()
    if asking.done():
        return asking
    session = await k.session(life.session, life.agent)
    await until(lambda: set(session.shown.decisions) - known, "it is asked")
    return asking


async def attend(k: Kit, life: Life) -> None:
    """Somebody watches."""
    (await k.session(life.session, life.agent)).watch(lambda: None)


# Claude: yes, no, and never again


@pytest.mark.parametrize("suggestions", [None, SUGGESTIONS], ids=["bare", "with suggestions"])
@timed
async def test_allowed(suggestions: Any, tmp_path: Path) -> None:
    async with kit(tmp_path) as k:
        await at_work(k, CLAUDE, ("Bash", "t1", GIVEN))
        asking = await asks(k, CLAUDE, suggestions=suggestions)
        opened = await k.decision(CLAUDE.session)
        assert (opened.kind, opened.tool, opened.text) == ("permission", "Bash", "touch made.txt")
        assert k.status(CLAUDE.session) == "waiting (permission)"
        assert len(choices(opened)) == 2 + len(suggestions or ())
        await k.answer(CLAUDE.session, opened, "1")
        assert verdict(await k.printed(asking)) == {"behavior": "allow"}
        assert k.status(CLAUDE.session) == "working (Bash)"
        assert not await k.open_decisions(CLAUDE.session)


@pytest.mark.parametrize("suggestions", [None, SUGGESTIONS], ids=["bare", "with suggestions"])
@timed
async def test_denied(suggestions: Any, tmp_path: Path) -> None:
    async with kit(tmp_path) as k:
        await at_work(k, CLAUDE, ("Bash", "t1", GIVEN))
        asking = await asks(k, CLAUDE, suggestions=suggestions)
        opened = await k.decision(CLAUDE.session)
        await k.answer(CLAUDE.session, opened, choices(opened)[-1])
        decision = verdict(await k.printed(asking))
        assert decision.pop("behavior") == "deny"
        assert isinstance(decision.pop("message", ""), str)
        assert decision.pop("interrupt", False) in (True, False)
        assert not decision
        assert not await k.open_decisions(CLAUDE.session)


@pytest.mark.parametrize("place", range(len(SUGGESTIONS)))
@timed
async def test_allowed_and_not_to_be_asked_again(place: int, tmp_path: Path) -> None:
    """What is never asked again is what Claude itself suggested, whole."""
    async with kit(tmp_path) as k:
        await at_work(k, CLAUDE, ("Bash", "t1", GIVEN))
        asking = await asks(k, CLAUDE, suggestions=SUGGESTIONS)
        await k.answer(CLAUDE.session, await k.decision(CLAUDE.session), str(place + 2))
        decision = verdict(await k.printed(asking))
        assert decision == {"behavior": "allow", "updatedPermissions": [SUGGESTIONS[place]]}


@pytest.mark.parametrize("suggestions", [[], "x", 5, {}, [None], [5, "x"], [{}], [{"type": 5}], [[]]], ids=repr)
@timed
async def test_strange_suggestions_are_not_offered(suggestions: Any, tmp_path: Path) -> None:
    """Or, if they are, they are handed back as they came."""
    async with kit(tmp_path) as k:
        await at_work(k, CLAUDE, ("Bash", "t1", GIVEN))
        asking = await asks(k, CLAUDE, suggestions=suggestions)
        opened = await k.decision(CLAUDE.session)
        if len(choices(opened)) > 2:
            await k.answer(CLAUDE.session, opened, "2")
            (update,) = verdict(await k.printed(asking))["updatedPermissions"]
            assert isinstance(update, dict)
            assert update in suggestions
        else:
            await k.answer(CLAUDE.session, opened, "1")
            assert verdict(await k.printed(asking)) == {"behavior": "allow"}


@timed
async def test_what_is_asked_is_one_event_at_most_and_ends_well(tmp_path: Path) -> None:
    """A permission is shown as one, and is no event of its own; its call begins and ends once."""
    async with kit(tmp_path) as k:
        await at_work(k, CLAUDE, ("Bash", "t1", GIVEN))
        asking = await asks(k, CLAUDE)
        await k.answer(CLAUDE.session, await k.decision(CLAUDE.session), "1")
        await k.printed(asking)
        await k.take_all([CLAUDE.after("Bash", "t1", GIVEN), CLAUDE.stop()], "socket")
        found = kinds(await k.events(CLAUDE.session))
        del found["notification"]
        assert found == dict.fromkeys(
            ("session_start", "user_prompt_submit", "pre_tool_use", "post_tool_use", "stop"), 1
        )
        assert k.status(CLAUDE.session) == "waiting (prompt)"


@timed
async def test_a_permission_whose_call_is_not_known_is_asked_all_the_same(tmp_path: Path) -> None:
    """The first that is heard of a session may be that it asks."""
    async with kit(tmp_path) as k:
        asking = k.asking(CLAUDE.permission(), agent="claude")
        await k.settle()
        opened = await k.decision(CLAUDE.session)
        assert k.status(CLAUDE.session) == "waiting (permission)"
        await k.answer(CLAUDE.session, opened, "1")
        assert verdict(await k.printed(asking)) == {"behavior": "allow"}


# Questions and plans come by the same hook


@pytest.mark.parametrize("tool", ["AskUserQuestion", "ExitPlanMode"])
@timed
async def test_a_question_or_a_plan_is_never_allowed_unseen(tool: str, tmp_path: Path) -> None:
    """It is shown as what it is. Whether it can be answered here or not, nothing is said for a person."""
    asked = {
        "AskUserQuestion": {"questions": [{"question": "Which?", "options": [{"label": "A"}, {"label": "B"}]}]},
        "ExitPlanMode": {"plan": "# Plan\n\n1. Go"},
    }[tool]
    async with kit(tmp_path) as k:
        await at_work(k, CLAUDE, (tool, "t1", asked))
        asking = k.asking(CLAUDE.permission(tool, asked), agent="claude")
        await k.settle()
        shown = k.card(CLAUDE.session)
        assert shown["status"] == "waiting"
        assert shown["waitingFor"] == ("question" if tool == "AskUserQuestion" else "permission")
        assert len(await k.open_decisions(CLAUDE.session)) == 1
        if not asking.done():
            await k.take(CLAUDE.after(tool, "t1", asked), "socket")
        assert await k.printed(asking) == ""
        await k.take(CLAUDE.after(tool, "t1", asked), "socket")
        assert k.card(CLAUDE.session)["status"] == "working"
        assert not await k.open_decisions(CLAUDE.session)


ONE = {"question": "Which?", "options": [{"label": "A"}, {"label": "B"}]}
TWO = {"question": "And how?", "options": [{"label": "fast"}, {"label": "well"}], "multiSelect": True}


@pytest.mark.parametrize(
    ("questions", "said", "answers"),
    [
        ([ONE], [Answer(option=2)], {"Which?": "B"}),
        ([ONE], [Answer(text="neither")], {"Which?": "neither"}),
        ([ONE, TWO], [Answer(option=1), Answer(choices=("fast", "well"))], {"Which?": "A", "And how?": "fast, well"}),
    ],
)
@timed
async def test_a_question_of_claude_is_answered_with_words(
    questions: list[Any], said: list[Answer], answers: dict[str, str], tmp_path: Path
) -> None:
    asked = {"questions": questions}
    async with kit(tmp_path) as k:
        await at_work(k, CLAUDE, ("AskUserQuestion", "t1", asked))
        asking = await asks(k, CLAUDE, tool="AskUserQuestion", given=asked)
        opened = await k.decision(CLAUDE.session)
        session = await k.session(CLAUDE.session)
        await k._do(session.answer(LOCAL, opened.decision, Answer(answers=tuple(said)), via="cin"))
        assert verdict(await k.printed(asking)) == {"behavior": "allow", "updatedInput": {**asked, "answers": answers}}
        assert k.card(CLAUDE.session)["status"] == "working"


# Codex: its dialog waits for the hook


@timed
async def test_codex_unattended_asks_by_itself_at_once(tmp_path: Path) -> None:
    async with kit(tmp_path) as k:
        await at_work(k, CODEX, ("Bash", "t1", GIVEN))
        asking = await asks(k, CODEX)
        assert await k.printed(asking) == ""
        assert k.status(CODEX.session, "codex") == "waiting (permission)"
        assert not [one for opened in await k.open_decisions(CODEX.session, "codex") for one in choices(opened)]
        await k.take(CODEX.after("Bash", "t1", GIVEN), "socket", agent="codex")
        assert k.status(CODEX.session, "codex") == "working"
        assert not await k.open_decisions(CODEX.session, "codex")


@pytest.mark.parametrize("behaviour", ["allow", "deny"])
@timed
async def test_codex_attended_is_answered_plainly(behaviour: str, tmp_path: Path) -> None:
    """Nothing beside yes and no: it takes no member that it does not know."""
    async with kit(tmp_path) as k:
        await at_work(k, CODEX, ("Bash", "t1", GIVEN))
        await attend(k, CODEX)
        asking = await asks(k, CODEX, suggestions=SUGGESTIONS)
        assert not asking.done()
        opened = await k.decision(CODEX.session, "codex")
        assert len(choices(opened)) == 2
        await k.answer(CODEX.session, opened, choices(opened)[0 if behaviour == "allow" else -1], "codex")
        decision = verdict(await k.printed(asking))
        assert decision["behavior"] == behaviour
        assert set(decision) <= ({"behavior"} if behaviour == "allow" else {"behavior", "message"})


@timed
async def test_codex_is_not_kept_waiting_for_long(tmp_path: Path) -> None:
    """About a minute, even where somebody watches: its own dialog is not there until then."""
    async with kit(tmp_path) as k:
        await at_work(k, CODEX, ("Bash", "t1", GIVEN))
        await attend(k, CODEX)
        asking = await asks(k, CODEX)
        await k.advance(30)
        assert not asking.done()
        await k.advance(60)
        assert await k.printed(asking) == ""
        # from here on it asks at its own terminal, and still waits for a person
        assert k.card(CODEX.session, "codex")["status"] == "waiting"


# Gemini has no such hook


@timed
async def test_geminis_permission_is_shown_and_answered_where_it_runs(tmp_path: Path) -> None:
    async with kit(tmp_path) as k:
        given = {"command": "touch made.txt"}
        for payload in (GEMINI.start(), GEMINI.prompt(), GEMINI.before("run_shell_command", None, given)):
            await k.take(payload, "socket", agent="gemini")
        asking = k.asking(GEMINI.tool_permission("touch made.txt"), agent="gemini")
        assert await k.printed(asking) == ""
        assert k.status(GEMINI.session, "gemini") == "waiting (permission)"
        assert not [one for opened in await k.open_decisions(GEMINI.session, "gemini") for one in choices(opened)]
        await k.take(GEMINI.after("run_shell_command", None, given), "socket", agent="gemini")
        assert k.status(GEMINI.session, "gemini") == "working"
        assert not await k.open_decisions(GEMINI.session, "gemini")


# Whatever else is asked


@pytest.mark.parametrize(
    "payload",
    [
        CLAUDE.prompt(),
        CLAUDE.before("Bash", "t"),
        CLAUDE.stop(),
        CLAUDE.start(),
        {},
        {"hook_event_name": "PermissionRequest"},
        {"hook_event_name": "PermissionRequest", "session_id": 5},
    ],
    ids=lambda payload: str(payload.get("hook_event_name")),
)
@timed
async def test_to_what_is_no_permission_nothing_is_said(payload: Payload, tmp_path: Path) -> None:
    """What is printed for a prompt or a start would become the model's context."""
    async with kit(tmp_path) as k:
        assert await k.printed(k.asking(payload, agent="claude")) == ""
        if "session_id" in payload and payload["session_id"] != 5:
            assert len(k.rows()) == 1, "it is taken all the same"


@timed
async def test_our_own_sessions_permission_is_left_to_its_own_hooks(tmp_path: Path) -> None:
    async with kit(tmp_path) as k:
        own = await k.own(agent_session=CLAUDE.session)
        before = own.head
        asking = k.asking(CLAUDE.permission(), agent="claude")
        assert await k.printed(asking) == ""
        await k.settle()
        assert own.head == before
        assert not k.rows()


@timed
async def test_a_session_that_is_deleted_lets_its_hook_go(tmp_path: Path) -> None:
    async with kit(tmp_path) as k:
        await at_work(k, CLAUDE, ("Bash", "t1", GIVEN))
        asking = await asks(k, CLAUDE)
        await k._do(k.registry.delete(LOCAL, k.row(CLAUDE.session).session))
        assert await k.printed(asking) == ""


@timed
async def test_a_closed_intake_takes_and_answers_nothing(tmp_path: Path) -> None:
    async with kit(tmp_path) as k:
        await at_work(k, CLAUDE)
        await k.intake.close()
        head = k.row(CLAUDE.session).head
        with pytest.raises((LimitReached, StorageUnavailable)):
            await k.take(CLAUDE.before("Bash", "t1", GIVEN))
        asking = k.asking(CLAUDE.permission(), agent="claude")
        await until(asking.done, "it is refused")
        assert isinstance(asking.exception(), LimitReached | StorageUnavailable)
        assert k.row(CLAUDE.session).head == head
