"""Permissions that are answered through the hook that asks for them (spec §9.1): what it is told to print, and when."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from dragoman.hub.errors import AlreadyResolved, HubError, LimitReached, StorageUnavailable
from dragoman.hub.events import Answer, DecisionResolved
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


# Nobody answers


@timed
async def test_after_its_time_it_prints_nothing(tmp_path: Path) -> None:
    async with kit(tmp_path) as k:
        await at_work(k, CLAUDE, ("Bash", "t1", GIVEN))
        asking = await asks(k, CLAUDE)
        opened = await k.decision(CLAUDE.session)
        await k.advance(k.settings.answer_seconds - 1)
        assert not asking.done()
        await k.advance(2)
        assert await k.printed(asking) == ""
        # and no answer comes through any more
        left = await k.open_decisions(CLAUDE.session)
        assert all(not choices(one) for one in left)
        with pytest.raises(HubError):
            await k.answer(CLAUDE.session, opened, "1")
        facts = [event.fact for event in await k.log(k.row(CLAUDE.session).session)]
        assert not [fact for fact in facts if isinstance(fact, DecisionResolved) and fact.answer is not None]


@timed
async def test_while_it_asks_the_agent_is_not_taken_to_be_idle_or_gone(tmp_path: Path) -> None:
    """A person may take their time; a hook that waits is a sign of life."""
    async with kit(tmp_path, answer_seconds=100_000) as k:
        await at_work(k, CLAUDE, ("Bash", "t1", GIVEN))
        asking = await asks(k, CLAUDE)
        await k.jump(k.settings.gone_idle * 3, 30)
        assert k.status(CLAUDE.session) == "waiting (permission)"
        await k.answer(CLAUDE.session, await k.decision(CLAUDE.session), "1")
        assert verdict(await k.printed(asking)) == {"behavior": "allow"}


@timed
async def test_a_hook_that_is_gone_was_answered_at_the_terminal(tmp_path: Path) -> None:
    async with kit(tmp_path) as k:
        await at_work(k, CLAUDE, ("Bash", "t1", GIVEN))
        asking = await asks(k, CLAUDE)
        opened = await k.decision(CLAUDE.session)
        asking.cancel()
        await until(asking.done, "it is over")
        await k.settle()
        assert not await k.open_decisions(CLAUDE.session)
        assert k.card(CLAUDE.session).get("waitingFor") != "permission"
        with pytest.raises(AlreadyResolved):
            await k.answer(CLAUDE.session, opened, "1")


@pytest.mark.parametrize(
    "after",
    [
        CLAUDE.after("Bash", "t1", GIVEN),
        CLAUDE.failed("Bash", "t1", given=GIVEN),
        CLAUDE.batch(("Bash", "t1")),
        CLAUDE.stop(),
        CLAUDE.in_turn("turn-2").prompt("never mind"),
        CLAUDE.end(),
    ],
    ids=lambda payload: payload["hook_event_name"],
)
@timed
async def test_what_the_agent_did_meanwhile_tells_that_it_was_answered(after: Payload, tmp_path: Path) -> None:
    """Yes at the terminal, and the hook is not told: it must not wait on, nor say anything."""
    async with kit(tmp_path) as k:
        await at_work(k, CLAUDE, ("Bash", "t1", GIVEN))
        asking = await asks(k, CLAUDE)
        await k.take(after, "socket", agent="claude")
        assert await k.printed(asking) == ""
        assert not await k.open_decisions(CLAUDE.session)
        assert k.card(CLAUDE.session).get("waitingFor") != "permission"


@timed
async def test_what_another_call_does_says_nothing_of_this_one(tmp_path: Path) -> None:
    async with kit(tmp_path) as k:
        other = {"command": "sleep 1"}
        await at_work(k, CLAUDE, ("Bash", "t0", other), ("Bash", "t1", GIVEN))
        asking = await asks(k, CLAUDE)
        await k.take_all([CLAUDE.after("Bash", "t0", other), CLAUDE.notify("permission_prompt", "needs you")], "socket")
        await k.take(CLAUDE.before("Read", "t2", {"file_path": "/a"}, agent_id="a1", agent_type="x"), "socket")
        await k.take(CLAUDE.after("Read", "t2", {"file_path": "/a"}, agent_id="a1", agent_type="x"), "socket")
        await k.settle()
        assert not asking.done()
        assert k.status(CLAUDE.session) == "waiting (permission)"
        assert len(await k.open_decisions(CLAUDE.session)) == 1
        await k.answer(CLAUDE.session, await k.decision(CLAUDE.session), "1")
        assert verdict(await k.printed(asking)) == {"behavior": "allow"}


@pytest.mark.parametrize("first", ["answer", "post"])
@timed
async def test_an_answer_and_the_terminals_at_once_are_one_outcome(first: str, tmp_path: Path) -> None:
    """Whoever was first is; the other is told so, or nothing (invariant 4)."""
    async with kit(tmp_path) as k:
        await at_work(k, CLAUDE, ("Bash", "t1", GIVEN))
        asking = await asks(k, CLAUDE)
        opened = await k.decision(CLAUDE.session)
        steps = [k.answer(CLAUDE.session, opened, "1"), k.take(CLAUDE.after("Bash", "t1", GIVEN), "socket")]
        if first == "post":
            steps.reverse()
        done = await asyncio.gather(*steps, return_exceptions=True)
        printed = await k.printed(asking)
        facts = [event.fact for event in await k.log(k.row(CLAUDE.session).session)]
        assert len([fact for fact in facts if isinstance(fact, DecisionResolved)]) == 1
        refused = [one for one in done if isinstance(one, BaseException)]
        assert all(isinstance(one, AlreadyResolved) for one in refused)
        if refused:
            assert printed == ""
        else:
            assert verdict(printed) == {"behavior": "allow"}
        await k.take(CLAUDE.stop(), "socket")
        assert k.status(CLAUDE.session) == "waiting (prompt)"


# Several at once


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@timed
async def test_two_at_once_are_each_answered_for_themselves(order: tuple[int, int], tmp_path: Path) -> None:
    """Sub-agents ask side by side."""
    given = [{"command": "rm one"}, {"command": "rm two"}]
    asides = [{"agent_id": f"a{n}", "agent_type": "general-purpose"} for n in range(2)]
    async with kit(tmp_path) as k:
        await at_work(k, CLAUDE)
        for number in range(2):
            await k.take(CLAUDE.before("Bash", f"t{number}", given[number], **asides[number]), "socket")
        asking = [await asks(k, CLAUDE, given[number], **asides[number]) for number in range(2)]
        opened = {one.text: one for one in await k.open_decisions(CLAUDE.session)}
        assert set(opened) == {"rm one", "rm two"}
        texts = ["rm one", "rm two"]
        first, second = order
        await k.answer(CLAUDE.session, opened[texts[first]], choices(opened[texts[first]])[-1])
        assert verdict(await k.printed(asking[first]))["behavior"] == "deny"
        await k.settle()
        assert not asking[second].done()
        assert k.status(CLAUDE.session) == "waiting (permission)"
        await k.answer(CLAUDE.session, opened[texts[second]], "1")
        assert verdict(await k.printed(asking[second])) == {"behavior": "allow"}


@timed
async def test_two_equal_ones_at_once_are_two(tmp_path: Path) -> None:
    """The same command by two sub-agents: yes to one is not yes to the other."""
    async with kit(tmp_path) as k:
        await at_work(k, CLAUDE)
        asking = []
        for number in range(2):
            aside = {"agent_id": f"a{number}", "agent_type": "general-purpose"}
            await k.take(CLAUDE.before("Bash", f"t{number}", GIVEN, **aside), "socket")
            asking.append(await asks(k, CLAUDE, GIVEN, **aside))
        opened = await k.open_decisions(CLAUDE.session)
        assert len(opened) == 2
        await k.answer(CLAUDE.session, opened[0], "1")
        await k.settle()
        assert [one.done() for one in asking].count(True) == 1
        await k.answer(CLAUDE.session, opened[1], choices(opened[1])[-1])
        said = sorted([verdict(await k.printed(one))["behavior"] for one in asking])
        assert said == ["allow", "deny"]


@timed
async def test_asked_again_after_a_no_it_is_a_new_one(tmp_path: Path) -> None:
    async with kit(tmp_path) as k:
        await at_work(k, CLAUDE, ("Bash", "t1", GIVEN))
        first = await asks(k, CLAUDE)
        opened = await k.decision(CLAUDE.session)
        await k.answer(CLAUDE.session, opened, choices(opened)[-1])
        await k.printed(first)
        await k.take(CLAUDE.before("Bash", "t2", GIVEN), "socket")
        second = await asks(k, CLAUDE)
        again = await k.decision(CLAUDE.session)
        assert again.decision != opened.decision
        await k.answer(CLAUDE.session, again, "1")
        assert verdict(await k.printed(second)) == {"behavior": "allow"}


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


# The server ends, or the disk


@pytest.mark.parametrize("end", ["intake", "everything"])
@timed
async def test_at_the_servers_stop_a_hook_prints_nothing(end: str, tmp_path: Path) -> None:
    async with kit(tmp_path) as k:
        await at_work(k, CLAUDE, ("Bash", "t1", GIVEN))
        asking = await asks(k, CLAUDE)
        if end == "intake":
            await k.intake.close()
        else:
            await k.restart(away=1)
        await until(asking.done, "the hook is let go")
        if asking.exception() is None:
            assert asking.result() == ""
        else:
            assert isinstance(asking.exception(), LimitReached | StorageUnavailable)


@timed
async def test_after_a_restart_no_answer_can_go_to_a_hook_that_is_gone(tmp_path: Path) -> None:
    """What was asked may be shown on, for its agent still asks; it is answered where that runs."""
    async with kit(tmp_path, disk=True) as k:
        await at_work(k, CLAUDE, ("Bash", "t1", GIVEN))
        await asks(k, CLAUDE)
        opened = await k.decision(CLAUDE.session)
        await k.restart(crash=True, away=2)
        session = await k.session(CLAUDE.session)
        assert all(not choices(one) for one in session.shown.decisions.values())
        with pytest.raises(HubError):
            await k.answer(CLAUDE.session, opened, "1")
        await k.take(CLAUDE.after("Bash", "t1", GIVEN), "socket")
        assert not await k.open_decisions(CLAUDE.session)
        assert k.card(CLAUDE.session)["status"] == "working"


@timed
async def test_an_outcome_that_is_not_durable_is_not_printed(tmp_path: Path) -> None:
    """Durable before its effect (invariant 4)."""
    async with kit(tmp_path) as k:
        await at_work(k, CLAUDE, ("Bash", "t1", GIVEN))
        asking = await asks(k, CLAUDE)
        opened = await k.decision(CLAUDE.session)
        session = await k.session(CLAUDE.session)
        commit, k.hub.journal._commit = k.hub.journal._commit, lambda: None
        answering = asyncio.ensure_future(session.answer(LOCAL, opened.decision, Answer(accept=True), via="cin"))
        await k.clock.settle()
        assert not asking.done()
        k.hub.journal._commit = commit
        commit()
        await until(answering.done, "it is answered")
        answering.result()
        assert verdict(await k.printed(asking)) == {"behavior": "allow"}
