"""Decisions: exactly one outcome, durable before its effect, and whoever comes second is told (invariant 4)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dragoman.hub.decisions import DecisionClosed, check_answer
from dragoman.hub.errors import AlreadyResolved, InvalidAnswer, InvalidRequest, LimitReached, UnknownDecision
from dragoman.hub.events import (
    Answer,
    DecisionOpened,
    DecisionResolved,
    DecisionRevised,
    Event,
    MessageAdded,
    Option,
    Question,
    TurnEnded,
    encode_fact,
)
from dragoman.hub.limits import HubLimits
from dragoman.hub.permissions import LOCAL
from dragoman.hub.session import Session
from dragoman.hub.turns import TurnContext

from .conftest import MakeHub
from .rig import YES, FakeClock, Hub, answer, ask, echo, idle, open_decision, shows, turns_of_the_loop, until

NO = Answer(accept=False)


async def outcomes(hub: Hub, session: Session) -> list[DecisionResolved]:
    return [fact for fact in await hub.facts(session) if isinstance(fact, DecisionResolved)]


async def asked(hub: Hub, *, effects: list[object] | None = None, **more: Any) -> tuple[Session, DecisionOpened]:
    """A session whose turn waits for a decision and keeps what it was told in ``effects``."""
    kept = effects if effects is not None else []

    async def asks(turn: TurnContext) -> str | None:
        try:
            kept.append(await turn.decide(ask(turn.session.ids(), turn=turn.turn, **more)))
        except DecisionClosed as closed:
            kept.append(closed.outcome)
        return None

    hub.puppets.behave = asks
    session = await hub.create("puppet")
    await session.submit(LOCAL, "go", via="test")
    return session, await open_decision(session)


# One outcome


async def test_an_answer_reaches_the_turn_that_asked(any_hub: Hub) -> None:
    session = await any_hub.create()
    await session.submit(LOCAL, "permit rm -rf /tmp/x", via="test")
    opened = await open_decision(session)
    event = await answer(session, opened.decision)
    assert event.fact == DecisionResolved(
        decision=opened.decision, outcome="answered", answer=YES, by="local", via="test"
    )
    assert (await shows(session, MessageAdded)).text == "rm -rf /tmp/x: permitted"
    assert session.shown.decisions == {}


async def test_the_second_answer_is_told_what_stands(any_hub: Hub) -> None:
    """Invariant 4."""
    session, opened = await asked(any_hub)
    await answer(session, opened.decision, NO)
    for _ in range(2):
        with pytest.raises(AlreadyResolved) as refusal:
            await answer(session, opened.decision, YES)
        assert (refusal.value.decision, refusal.value.outcome) == (opened.decision, "answered")
        await any_hub.restart()
        session = await any_hub.get(session)
    (outcome,) = await outcomes(any_hub, session)
    assert outcome.answer == NO


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(st.integers(0, 6), min_size=2, max_size=12))
async def test_of_any_number_of_answers_at_once_one_counts(hub: Hub, steps: list[int]) -> None:
    """Invariant 4: compare and set, however the answers are spread over the loop's turns."""
    effects: list[object] = []
    session, opened = await asked(hub, effects=effects)

    async def one(number: int, steps: int) -> Event:
        for _ in range(steps):
            await asyncio.sleep(0)
        return await answer(session, opened.decision, Answer(accept=True, text=str(number)))

    results = await asyncio.gather(*(one(n, count) for n, count in enumerate(steps)), return_exceptions=True)
    await idle(session)
    (outcome,) = await outcomes(hub, session)
    won = [result for result in results if isinstance(result, Event)]
    assert [event.fact for event in won] == [outcome]
    lost = [result for result in results if not isinstance(result, Event)]
    assert all(isinstance(result, AlreadyResolved) for result in lost), lost
    assert effects == [outcome.answer]


async def test_answers_at_once_on_disk_too(make_hub: MakeHub) -> None:
    """Invariant 4, with a journal that takes its time."""
    hub = await make_hub(disk=True)
    effects: list[object] = []
    for _ in range(10):
        session, opened = await asked(hub, effects=effects)
        results = await asyncio.gather(
            *(answer(session, opened.decision, Answer(text=str(n))) for n in range(8)), return_exceptions=True
        )
        assert sum(isinstance(result, Event) for result in results) == 1
        assert sum(isinstance(result, AlreadyResolved) for result in results) == 7
        await idle(session)
        assert len(await outcomes(hub, session)) == 1
    assert len(effects) == 10


async def test_an_answer_racing_with_the_cancel_of_its_turn_gives_one_outcome(hub: Hub) -> None:
    """Invariants 4 and 9."""
    seen = set()
    for steps in range(12):
        session, opened = await asked(hub)

        async def late(session: Session = session, decision: str = opened.decision, steps: int = steps) -> Event:
            for _ in range(steps % 6):
                await asyncio.sleep(0)
            return await answer(session, decision)

        calls = [late(), session.cancel(LOCAL, via="test")]
        if steps >= 6:
            calls.reverse()
        await asyncio.gather(*calls, return_exceptions=True)
        await idle(session)
        (outcome,) = await outcomes(hub, session)
        seen.add(outcome.outcome)
    assert seen == {"answered", "cancelled"}


async def test_an_old_decision_is_known_however_long_its_log_has_become(make_hub: MakeHub) -> None:
    """Invariant 4: "already resolved" comes from the journal where memory does not reach back."""
    hub = await make_hub(disk=True, limits=HubLimits(tail_events=8, loaded_idle=0))
    session, opened = await asked(hub)
    await answer(session, opened.decision)
    await idle(session)
    hub.puppets.behave = echo
    for number in range(20):
        await session.submit(LOCAL, f"prompt {number}", via="test")
        await idle(session)
    for _ in range(2):
        with pytest.raises(AlreadyResolved):
            await answer(session, opened.decision)
        await hub.restart()
        session = await hub.get(session)


async def test_a_decision_that_never_was_is_unknown(any_hub: Hub) -> None:
    session = await any_hub.create("puppet")
    other, opened = await asked(any_hub)
    for decision in ("nonsense", opened.decision, "", "\ud800"):
        with pytest.raises(UnknownDecision):
            await answer(session, decision)
    assert list(other.shown.decisions) == [opened.decision]


async def test_an_outcome_cannot_be_recorded_twice_by_the_agent_either(hub: Hub) -> None:
    """Invariant 4: there is no other way to an outcome than the first one."""
    session, opened = await asked(hub)
    assert session.cancel_decision(opened.decision, "the dialog went away")
    assert not session.cancel_decision(opened.decision, "again")
    with pytest.raises(UnknownDecision):
        session.record(DecisionResolved(decision=opened.decision, outcome="answered", answer=YES), settling=True)
    await idle(session)
    (outcome,) = await outcomes(hub, session)
    assert outcome.reason == "the dialog went away"


async def test_a_decision_that_is_open_is_not_opened_again(hub: Hub) -> None:
    session = await hub.create("puppet")
    session.open_decision(ask())
    with pytest.raises(InvalidRequest, match="open already"):
        session.open_decision(ask())


async def test_open_decisions_have_a_limit(make_hub: MakeHub) -> None:
    hub = await make_hub(limits=HubLimits(open_decisions=2))
    session = await hub.create("puppet")
    session.open_decision(ask("one"))
    session.open_decision(ask("two"))
    with pytest.raises(LimitReached, match="open_decisions"):
        session.open_decision(ask("three"))


async def test_an_answer_has_a_limit_in_bytes(make_hub: MakeHub) -> None:
    hub = await make_hub(limits=HubLimits(prompt_bytes=100))
    session, opened = await asked(hub)
    with pytest.raises(LimitReached, match="prompt_bytes"):
        await session.answer(LOCAL, opened.decision, Answer(text="x" * 100), via="test")
    assert list(session.state.decisions) == [opened.decision]


# Durable before its effect


async def test_no_effect_before_the_outcome_is_durable(hub: Hub) -> None:
    """Invariant 4."""
    effects: list[object] = []
    session, opened = await asked(hub, effects=effects)
    answering = asyncio.create_task(answer(session, opened.decision))
    await turns_of_the_loop(1)
    hub.journal.fail("the disk is gone")
    assert session.state.decisions == {}
    await turns_of_the_loop()
    assert effects == []
    assert not answering.done()
    assert list(session.shown.decisions) == [opened.decision]
    hub.journal.heal()
    await answering
    await until(lambda: effects)
    assert effects == [YES]


async def test_an_answer_that_a_crash_took_back_never_happened(hub: Hub) -> None:
    """Invariants 4 and 6: the effect was not there either."""
    effects: list[object] = []
    session, opened = await asked(hub, effects=effects)
    answering = asyncio.create_task(answer(session, opened.decision))
    await turns_of_the_loop(1)
    hub.journal.fail("the machine stops")
    await turns_of_the_loop()
    await hub.recrash()
    answering.cancel()
    session = await hub.get(session)
    (outcome,) = await outcomes(hub, session)
    assert (outcome.outcome, outcome.answer) == ("cancelled", None)
    assert effects == []
    with pytest.raises(AlreadyResolved) as refusal:
        await answer(session, opened.decision)
    assert refusal.value.outcome == "cancelled"


async def test_a_decision_outside_a_turn_is_told_to_the_agent(hub: Hub) -> None:
    session = await hub.create("puppet")
    session.ensure_agent()
    session.open_decision(ask(kind="setup"))
    hub.journal.fail("the disk is gone")
    hub.journal.heal()
    said = Answer(text="code")
    await answer(session, "d", said)
    ((outcome, given),) = hub.puppets.told
    assert (outcome.outcome, given) == ("answered", said)


# What fits


FITS: list[tuple[DecisionOpened, Answer]] = [
    (ask(), YES),
    (ask(), NO),
    (ask(), Answer(text="not like this")),
    (ask(options=(Option("yes"), Option("no"))), Answer(option=2)),
    (ask(), Answer(option=1)),
    (ask(ready=False), Answer(option=3)),
    (ask(kind="plan"), YES),
    (ask(kind="setup"), Answer(text="code")),
    (ask(kind="form"), Answer(values={"a": 1})),
    (ask(kind="form"), NO),
    (ask(kind="question"), Answer(text="blue")),
    (ask(kind="question", options=(Option("red"),)), Answer(option=1)),
    (ask(kind="question"), Answer(choices=("red", "blue"))),
    (
        ask(kind="question", questions=(Question("a?", (Option("x"),)), Question("b?"))),
        Answer(answers=(Answer(option=1), Answer(text="free"))),
    ),
]

DOES_NOT_FIT: list[tuple[DecisionOpened, Answer]] = [
    *((ask(kind=kind), Answer()) for kind in ("permission", "question", "plan", "setup", "form")),
    (ask(options=(Option("yes"), Option("no"))), Answer(option=3)),
    (ask(options=(Option("yes"), Option("no"))), Answer(option=0)),
    (ask(ready=False), Answer(option=0)),
    (ask(), Answer(scope="session")),
    (ask(), Answer(values={"a": 1})),
    (ask(kind="form"), Answer(text="no form")),
    (ask(kind="question"), YES),
    (ask(kind="question", questions=(Question("a?", (Option("x"),)),)), Answer(answers=(Answer(option=2),))),
    (ask(kind="question", questions=(Question("a?"),)), Answer(answers=(Answer(text="x"), Answer(text="y")))),
]


@pytest.mark.parametrize(("opened", "said"), FITS)
def test_an_answer_that_the_decision_can_mean(opened: DecisionOpened, said: Answer) -> None:
    check_answer(opened, said)


@pytest.mark.parametrize(("opened", "said"), DOES_NOT_FIT)
def test_an_answer_that_the_decision_cannot_mean(opened: DecisionOpened, said: Answer) -> None:
    with pytest.raises(InvalidAnswer):
        check_answer(opened, said)


async def test_an_answer_that_does_not_fit_leaves_the_decision_open(hub: Hub) -> None:
    effects: list[object] = []
    session, opened = await asked(hub, effects=effects, options=(Option("yes"), Option("no")))
    for wrong in (Answer(option=3), Answer(accept=True, scope="x" * 2001)):
        with pytest.raises(InvalidAnswer):
            await answer(session, opened.decision, wrong)
    assert list(session.shown.decisions) == [opened.decision]
    await answer(session, opened.decision, Answer(option=2))
    await idle(session)
    assert effects == [Answer(option=2)]


async def test_an_answer_is_checked_against_the_decision_as_it_is_now(hub: Hub) -> None:
    """Invariant 4: options that were read later count; what was not revised stays."""
    session, opened = await asked(hub, ready=False, tool="Bash")
    revised = DecisionRevised(decision=opened.decision, options=(Option("a"), Option("b")), ready=True)
    await session.acknowledged(session.record(revised))
    now = session.shown.decisions[opened.decision]
    assert (now.options, now.ready, now.tool, now.text) == (revised.options, True, "Bash", opened.text)
    with pytest.raises(InvalidAnswer):
        await answer(session, opened.decision, Answer(option=3))
    await answer(session, opened.decision, Answer(option=2))


# Secrets


@pytest.mark.parametrize("disk", [False, True], ids=["memory", "disk"])
async def test_a_secret_answer_reaches_the_agent_and_not_the_log(make_hub: MakeHub, disk: bool) -> None:
    """Invariants 2 and 10."""
    hub = await make_hub(disk=disk)
    effects: list[object] = []
    session, opened = await asked(hub, effects=effects, secret=True)
    said = Answer(text="s3cret", values={"key": "s3cret"}, choices=("s3cret",), answers=(Answer(text="s3cret"),))
    event = await answer(session, opened.decision, said)
    await idle(session)
    assert effects == [said]
    assert isinstance(event.fact, DecisionResolved)
    assert event.fact.answer == Answer(withheld=True)
    assert not any(b"s3cret" in encode_fact(fact) for fact in await hub.facts(session))
    await hub.close()
    files = [path for path in (hub.store.folder.rglob("*") if disk else []) if path.is_file()]
    assert not any(b"s3cret" in path.read_bytes() for path in files)
    await hub.open()


async def test_a_secret_answer_outside_a_turn_reaches_the_agent(hub: Hub) -> None:
    session = await hub.create("puppet")
    session.ensure_agent()
    session.open_decision(ask(kind="setup", secret=True))
    await answer(session, "d", Answer(text="s3cret"))
    ((outcome, given),) = hub.puppets.told
    assert given == Answer(text="s3cret")
    assert outcome.answer == Answer(withheld=True)


async def test_the_accept_of_a_secret_answer_may_be_known(hub: Hub) -> None:
    session, opened = await asked(hub, secret=True)
    event = await answer(session, opened.decision, Answer(accept=False, text="s3cret"))
    assert isinstance(event.fact, DecisionResolved)
    assert event.fact.answer == Answer(accept=False, withheld=True)


# The end of a decision that nobody answered


async def test_a_decision_expires_once(make_hub: MakeHub) -> None:
    clock = FakeClock()
    hub = await make_hub(clock=clock)
    effects: list[object] = []
    session, opened = await asked(hub, effects=effects, expires_at=clock.now() + 20)
    await idle(session)
    (outcome,) = await outcomes(hub, session)
    assert (outcome.outcome, effects) == ("expired", ["expired"])
    with pytest.raises(AlreadyResolved) as refusal:
        await answer(session, opened.decision)
    assert refusal.value.outcome == "expired"


async def test_a_decision_that_expired_long_ago_expires_at_once(make_hub: MakeHub) -> None:
    clock = FakeClock()
    hub = await make_hub(clock=clock)
    effects: list[object] = []

    async def asks(turn: TurnContext) -> str | None:
        try:
            await turn.decide(ask(turn=turn.turn, expires_at=clock.now() - 1))
        except DecisionClosed as closed:
            effects.append(closed.outcome)
        return None

    hub.puppets.behave = asks
    session = await hub.create("puppet")
    await session.submit(LOCAL, "go", via="test")
    await idle(session)
    assert effects == ["expired"]


async def test_an_answered_decision_does_not_expire_later(make_hub: MakeHub) -> None:
    clock = FakeClock()
    hub = await make_hub(clock=clock)
    session, opened = await asked(hub, expires_at=clock.now() + 30)
    await answer(session, opened.decision)
    loop = asyncio.get_running_loop()
    late = loop.time() + 0.05
    await until(lambda: loop.time() > late)
    assert [outcome.outcome for outcome in await outcomes(hub, session)] == ["answered"]


async def test_closing_the_session_closes_its_decisions(any_hub: Hub) -> None:
    """Invariant 6."""
    session, opened = await asked(any_hub)
    session.open_decision(ask("outside", kind="setup"))
    await session.close("test")
    found = {outcome.decision: outcome.outcome for outcome in await outcomes(any_hub, session)}
    assert found == {opened.decision: "cancelled", "outside": "cancelled"}


async def test_a_decision_stays_open_over_a_turn_that_is_not_its_own(hub: Hub) -> None:
    hub.puppets.behave = echo
    session = await hub.create("puppet")
    session.ensure_agent()
    session.open_decision(ask("outside", kind="setup"))
    await session.submit(LOCAL, "go", via="test")
    await until(lambda: any(isinstance(event.fact, TurnEnded) for event in session.follow(0).take() or []))
    assert list(session.shown.decisions) == ["outside"]
    await answer(session, "outside")
    assert len(hub.puppets.told) == 1
