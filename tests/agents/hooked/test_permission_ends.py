"""Permissions that end otherwise than by one answer: too late, at the terminal, side by side, with the server."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from dragoman.hub.errors import AlreadyResolved, HubError, LimitReached, StorageUnavailable
from dragoman.hub.events import Answer, DecisionResolved
from dragoman.hub.permissions import LOCAL
from tests.agents.hooked.kit import choices, kit
from tests.agents.hooked.manual_time import timed, until
from tests.agents.hooked.posts import Payload
from tests.agents.hooked.test_permissions import CLAUDE, GIVEN, asks, at_work, verdict

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
