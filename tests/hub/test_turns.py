"""Turns: one at a time, in order, cancellable, and with a true end whatever the agent does (invariants 3, 6, 9)."""

from __future__ import annotations

import asyncio

import pytest

from dragoman.hub.errors import (
    Busy,
    Closed,
    InvalidRequest,
    LimitReached,
    NotPermitted,
    StorageUnavailable,
    UnknownTurn,
    Unsupported,
)
from dragoman.hub.events import (
    CancelRequested,
    DecisionOpened,
    DecisionResolved,
    LogWritten,
    MessageAdded,
    PartDelta,
    Problem,
    PromptSubmitted,
    PromptTaken,
    PromptWithdrawn,
    ToolCalled,
    ToolEnded,
    TurnEnded,
    TurnStarted,
)
from dragoman.hub.limits import HubLimits
from dragoman.hub.permissions import LOCAL, STRANGER
from dragoman.hub.session import Session
from dragoman.hub.turns import Receipt, TurnContext, TurnFailed

from .conftest import MakeHub
from .rig import Hub, InMemory, echo, idle, shows, turns_of_the_loop, until


async def submit(session: Session, text: str, **more: object) -> Receipt:
    return await session.submit(LOCAL, text, via="test", **more)  # type: ignore[arg-type]


async def ends(hub: Hub, session: Session) -> list[TurnEnded]:
    return [fact for fact in await hub.facts(session) if isinstance(fact, TurnEnded)]


async def forever(turn: TurnContext) -> str | None:
    await asyncio.get_running_loop().create_future()
    return None


# One after the other


async def test_a_prompt_becomes_a_turn_with_its_result(hub: Hub) -> None:
    session = await hub.create("puppet")
    receipt = await submit(session, "hello")
    assert receipt.disposition == "started"
    await idle(session)
    ended = await ends(hub, session)
    assert [(end.turn, end.outcome, end.result) for end in ended] == [(receipt.turn, "completed", "hello")]
    assert ended[0].duration_ms is not None


async def test_a_busy_session_refuses_unless_told_to_wait(hub: Hub) -> None:
    hub.puppets.behave = forever
    session = await hub.create("puppet")
    receipt = await submit(session, "first")
    with pytest.raises(Busy) as refusal:
        await submit(session, "second")
    assert refusal.value.turn == receipt.turn
    assert (await submit(session, "third", when_busy="queue")).disposition == "queued"
    assert (await submit(session, "fourth", when_busy="steer")).disposition == "steering"


async def test_of_two_prompts_at_once_one_runs_and_one_is_refused(hub: Hub) -> None:
    session = await hub.create("puppet")
    results = await asyncio.gather(submit(session, "one"), submit(session, "two"), return_exceptions=True)
    assert [type(result) for result in results] == [Receipt, Busy]


async def test_waiting_prompts_run_in_the_order_they_came(hub: Hub) -> None:
    gate = asyncio.Event()

    async def gated(turn: TurnContext) -> str | None:
        await gate.wait()
        return None

    hub.puppets.behave = gated
    session = await hub.create("puppet")
    names = [f"prompt {number}" for number in range(20)]
    receipts = await asyncio.gather(*(submit(session, name, when_busy="queue") for name in names))
    assert [receipt.disposition for receipt in receipts] == ["started", *["queued"] * 19]
    gate.set()
    await idle(session)
    assert hub.puppets.began == names
    await hub.check(session, settled=True)


async def test_the_queue_has_a_limit(make_hub: MakeHub) -> None:
    hub = await make_hub(limits=HubLimits(queue_prompts=2))
    hub.puppets.behave = forever
    session = await hub.create("puppet")
    for name in ("runs", "waits", "waits too"):
        await submit(session, name, when_busy="queue")
    with pytest.raises(LimitReached, match="queue_prompts"):
        await submit(session, "one too many", when_busy="queue")
    assert [type(fact) for fact in await hub.facts(session)].count(PromptSubmitted) == 3


async def test_a_prompt_has_a_limit_in_bytes(make_hub: MakeHub) -> None:
    hub = await make_hub(limits=HubLimits(prompt_bytes=10))
    session = await hub.create()
    await submit(session, "0123456789")
    await idle(session)
    with pytest.raises(LimitReached, match="prompt_bytes"):
        await submit(session, "éééééé")
    with pytest.raises(LimitReached, match="prompt_bytes"):
        await submit(session, "/short", content="what it means is longer")


async def test_what_the_agent_refuses_leaves_no_trace(hub: Hub) -> None:
    hub.puppets.refuses = Unsupported("not today")
    session = await hub.create("puppet")
    with pytest.raises(Unsupported, match="not today"):
        await submit(session, "hello")
    assert session.head == 1


async def test_a_waiting_prompt_can_be_taken_back_once(hub: Hub) -> None:
    hub.puppets.behave = forever
    session = await hub.create("puppet")
    await submit(session, "runs")
    waiting = await submit(session, "waits", when_busy="queue")
    await session.withdraw(LOCAL, waiting.prompt)
    with pytest.raises(InvalidRequest):
        await session.withdraw(LOCAL, waiting.prompt)
    await session.cancel(LOCAL, via="test")
    assert hub.puppets.began == ["runs"]
    assert PromptWithdrawn(prompt=waiting.prompt, reason="withdrawn", by="local") in await hub.facts(session)


async def test_a_running_prompt_cannot_be_taken_back(hub: Hub) -> None:
    hub.puppets.behave = forever
    session = await hub.create("puppet")
    running = await submit(session, "runs")
    for prompt in (running.prompt, "nonsense"):
        with pytest.raises(InvalidRequest):
            await session.withdraw(LOCAL, prompt)


# Steering


async def test_steering_is_taken_by_the_turn_that_runs(hub: Hub) -> None:
    more = asyncio.Event()

    async def steered(turn: TurnContext) -> str | None:
        await more.wait()
        return " ".join(prompt.text for prompt in turn.take_steering())

    hub.puppets.behave = steered
    session = await hub.create("puppet")
    first = await submit(session, "go")
    await submit(session, "plain", when_busy="queue")
    second = await submit(session, "left", when_busy="steer")
    third = await submit(session, "right", when_busy="steer")
    more.set()
    await until(lambda: "plain" in hub.puppets.began)
    await idle(session)
    facts = await hub.facts(session)
    taken = [fact for fact in facts if isinstance(fact, PromptTaken)]
    assert taken == [PromptTaken(prompt=receipt.prompt, turn=first.turn or "") for receipt in (second, third)]
    assert [fact.result for fact in facts if isinstance(fact, TurnEnded)] == ["left right", ""]
    assert hub.puppets.began == ["go", "plain"]


async def test_steering_that_no_turn_takes_becomes_a_turn_of_its_own(hub: Hub) -> None:
    gate = asyncio.Event()

    async def deaf(turn: TurnContext) -> str | None:
        await gate.wait()
        return None

    hub.puppets.behave = deaf
    session = await hub.create("puppet")
    await submit(session, "go")
    await submit(session, "left", when_busy="steer")
    gate.set()
    await idle(session)
    assert hub.puppets.began == ["go", "left"]


async def test_steering_in_the_moment_a_turn_ends_is_never_lost(hub: Hub) -> None:
    """Invariant 3: whatever the moment, an accepted prompt is taken or started, once."""
    session = await hub.create("puppet")
    loop = asyncio.get_running_loop()

    async def short(turn: TurnContext) -> str | None:
        for _ in range(len(hub.puppets.began) % 4):
            await asyncio.sleep(0)
        turn.take_steering()
        await asyncio.sleep(0)
        return None

    hub.puppets.behave = short
    accepted = []
    began = loop.time()
    for number in range(200):
        accepted.append(await submit(session, f"prompt {number}", when_busy="steer"))
        for _ in range(number % 3):
            await asyncio.sleep(0)
    await idle(session)
    assert loop.time() - began < 10
    facts = await hub.facts(session)
    used = [fact.prompt for fact in facts if isinstance(fact, (PromptTaken, TurnStarted))]
    assert sorted(used) == sorted(receipt.prompt for receipt in accepted)


async def test_steering_that_is_not_durable_has_no_effect_yet(hub: Hub) -> None:
    """Invariant 3: what a crash could still take back must not have been acted on."""
    taken: list[str] = []
    look = asyncio.Event()
    looked = asyncio.Event()

    async def steered(turn: TurnContext) -> str | None:
        for _ in range(2):
            await look.wait()
            look.clear()
            taken.extend(prompt.text for prompt in turn.take_steering())
            looked.set()
        return None

    hub.puppets.behave = steered
    session = await hub.create("puppet")
    await submit(session, "go")
    await until(lambda: hub.puppets.began)
    steering = asyncio.create_task(submit(session, "left", when_busy="steer"))
    await turns_of_the_loop(1)
    hub.journal.fail("the disk is gone")
    look.set()
    await looked.wait()
    assert taken == []
    hub.journal.heal()
    await steering
    look.set()
    await idle(session)
    assert taken == ["left"]


# Cancelling


async def test_cancel_ends_the_turn_and_says_so_first(hub: Hub) -> None:
    """Invariant 9."""
    hub.puppets.behave = forever
    session = await hub.create("puppet")
    receipt = await submit(session, "go")
    assert await session.cancel(LOCAL, receipt.turn, via="test") == receipt.turn
    facts = [fact for fact in await hub.facts(session) if isinstance(fact, (CancelRequested, TurnEnded))]
    assert [type(fact) for fact in facts] == [CancelRequested, TurnEnded]
    assert isinstance(facts[1], TurnEnded)
    assert facts[1].outcome == "cancelled"
    assert session.shown.summary == "idle"


async def test_cancel_names_a_turn_and_ends_no_other(hub: Hub) -> None:
    """Invariant 9: a cancel that comes too late must not hit the turn that runs by then."""
    hub.puppets.behave = forever
    session = await hub.create("puppet")
    first = await submit(session, "one")
    await submit(session, "two", when_busy="queue")
    await session.cancel(LOCAL, first.turn, via="test")
    await until(lambda: hub.puppets.began == ["one", "two"])
    for stale in (first.turn, "nonsense"):
        with pytest.raises(UnknownTurn):
            await session.cancel(LOCAL, stale, via="test")
    assert session.state.turn is not None
    assert not session.state.turn.cancelling
    assert [end.outcome for end in await ends(hub, session)] == ["cancelled"]


async def test_cancel_without_a_name_ends_the_open_turn(hub: Hub) -> None:
    hub.puppets.behave = forever
    session = await hub.create("puppet")
    with pytest.raises(UnknownTurn):
        await session.cancel(LOCAL, via="test")
    receipt = await submit(session, "go")
    assert await session.cancel(LOCAL, via="test") == receipt.turn


async def test_many_cancels_are_one(hub: Hub) -> None:
    hub.puppets.behave = forever
    session = await hub.create("puppet")
    receipt = await submit(session, "go")
    names = await asyncio.gather(*(session.cancel(LOCAL, via="test") for _ in range(10)))
    assert set(names) == {receipt.turn}
    assert len(await ends(hub, session)) == 1


async def test_a_turn_cancelled_before_its_first_step_still_ends(hub: Hub) -> None:
    """Invariants 6 and 9: the task of a turn that never ran leaves no turn open."""
    session = await hub.create("puppet")
    submitting = asyncio.create_task(submit(session, "go"))
    cancelling = asyncio.create_task(session.cancel(LOCAL, via="test"))
    async with asyncio.timeout(5):
        await asyncio.gather(submitting, cancelling)
    assert [end.outcome for end in await ends(hub, session)] == ["cancelled"]
    await submit(session, "again")
    await idle(session)
    assert hub.puppets.began == ["again"]


async def test_a_queued_turn_cancelled_before_its_first_step_still_ends(hub: Hub) -> None:
    """Invariants 6 and 9, for a turn that the end of another one starts."""
    hub.puppets.behave = forever
    session = await hub.create("puppet")
    await submit(session, "one")
    await submit(session, "two", when_busy="queue")

    async def chase() -> None:
        first = session.state.turn
        assert first is not None
        await session.cancel(LOCAL, first.turn, via="test")
        while session.state.turn is not None:
            await session.cancel(LOCAL, via="test")

    async with asyncio.timeout(5):
        await chase()
    assert [end.outcome for end in await ends(hub, session)] == ["cancelled", "cancelled"]


async def test_a_closed_turn_before_its_first_step_still_ends(hub: Hub) -> None:
    session = await hub.create("puppet")
    submitting = asyncio.create_task(submit(session, "go"))
    closing = asyncio.create_task(session.close("test"))
    async with asyncio.timeout(5):
        await asyncio.gather(submitting, closing)
    assert [end.outcome for end in await ends(hub, session)] == ["interrupted"]
    await hub.check(session, settled=True)


async def test_cancel_closes_the_turns_decision_before_the_turn_ends(hub: Hub) -> None:
    """Invariants 4 and 9."""
    session = await hub.create()
    receipt = await submit(session, "permit rm -rf /")
    opened = await shows(session, DecisionOpened)
    await session.cancel(LOCAL, receipt.turn, via="test")
    facts = await hub.facts(session)
    resolved = next(fact for fact in facts if isinstance(fact, DecisionResolved))
    assert (resolved.decision, resolved.outcome, resolved.reason) == (opened.decision, "cancelled", "cancelled")
    kinds = [type(fact) for fact in facts]
    assert kinds.index(CancelRequested) < kinds.index(DecisionResolved) < kinds.index(TurnEnded)
    assert not any(isinstance(fact, MessageAdded) for fact in facts)


async def test_cancel_leaves_decisions_of_nobodys_turn_open(hub: Hub) -> None:
    session = await hub.create("puppet")
    session.ensure_agent()
    session.open_decision(DecisionOpened(decision="setup", kind="setup", text="sign in"))
    hub.puppets.behave = forever
    await submit(session, "go")
    await session.cancel(LOCAL, via="test")
    assert list(session.shown.decisions) == ["setup"]


async def test_cancel_gives_a_dangling_call_its_one_marked_result(hub: Hub) -> None:
    """Invariant 6, while the server lives."""
    session = await hub.create()
    receipt = await submit(session, 'open search {"q": 1}\nwait')
    called = await shows(session, ToolCalled)
    await session.cancel(LOCAL, receipt.turn, via="test")
    ended = [fact for fact in await hub.facts(session) if isinstance(fact, ToolEnded)]
    assert [(end.call, end.tool, end.status, end.turn) for end in ended] == [
        (called.call, "search", "interrupted", receipt.turn)
    ]
    assert ended[0].duration_ms is not None


async def test_cancel_racing_with_completion_ends_the_turn_once(hub: Hub) -> None:
    """Invariant 9: whoever is first, there is one end, and no other turn is hit."""
    session = await hub.create("puppet")
    outcomes = []
    for steps in range(40):

        async def short(turn: TurnContext, steps: int = steps) -> str | None:
            for _ in range(steps % 8):
                await asyncio.sleep(0)
            return "done"

        hub.puppets.behave = short
        receipt = await submit(session, f"turn {steps}")
        for _ in range(steps // 8):
            await asyncio.sleep(0)
        try:
            await session.cancel(LOCAL, receipt.turn, via="test")
        except UnknownTurn:
            outcomes.append("too late")
        await idle(session)
    found = await ends(hub, session)
    assert len(found) == 40
    assert {end.outcome for end in found} <= {"completed", "cancelled"}
    assert len([end for end in found if end.outcome == "cancelled"]) > 0


async def test_cancel_needs_the_write_right(hub: Hub) -> None:
    hub.puppets.behave = forever
    session = await hub.create("puppet")
    await submit(session, "go")
    with pytest.raises(NotPermitted):
        await session.cancel(STRANGER, via="test")


async def test_a_turn_can_be_cancelled_while_the_journal_is_full(make_hub: MakeHub) -> None:
    """Invariant 9: the stop button works although nothing else does; what it records comes later."""
    hub = await make_hub(store=InMemory(queue_events=4))
    session = await hub.create("puppet")
    hub.puppets.behave = forever
    receipt = await submit(session, "go")
    await until(lambda: hub.puppets.began)
    hub.journal.fail("the disk is full")
    for number in range(4):
        session.record(LogWritten(line=f"line {number}"))
    assert hub.journal.full
    cancelling = asyncio.create_task(session.cancel(LOCAL, receipt.turn, via="test"))
    await until(lambda: session.state.turn is None)
    assert session.shown.turn is not None
    hub.journal.heal()
    assert await cancelling == receipt.turn
    assert session.shown.turn is None


# Agents that misbehave


async def test_an_agent_that_raises_fails_its_turn_without_showing_why(hub: Hub) -> None:
    """Invariant 10: what an exception says may hold anything."""

    async def raises(turn: TurnContext) -> str | None:
        raise RuntimeError("key=s3cret")

    hub.puppets.behave = raises
    session = await hub.create("puppet")
    await submit(session, "go")
    await idle(session)
    (ended,) = await ends(hub, session)
    assert ended.outcome == "failed"
    assert ended.problem is not None
    assert "s3cret" not in ended.problem.message


async def test_an_agent_that_fails_on_purpose_has_its_problem_shown(hub: Hub) -> None:
    async def fails(turn: TurnContext) -> str | None:
        raise TurnFailed(Problem(code="rate_limited", message="try later"))

    hub.puppets.behave = fails
    session = await hub.create("puppet")
    await submit(session, "go")
    await idle(session)
    (ended,) = await ends(hub, session)
    assert (ended.outcome, ended.problem) == ("failed", Problem(code="rate_limited", message="try later"))


class Panic(BaseException):
    """What a library in another language raises."""


@pytest.mark.parametrize("raised", [Panic("panicked"), asyncio.CancelledError()], ids=["a panic", "a stray cancel"])
async def test_no_exception_leaves_a_turn_open(hub: Hub, raised: BaseException) -> None:
    """Invariant 6. A cancellation that nobody asked for is the agent's failure, not an interruption."""

    async def raises(turn: TurnContext) -> str | None:
        turn.record(ToolCalled(call="c", tool="x", turn=turn.turn))
        raise raised

    hub.puppets.behave = raises
    session = await hub.create("puppet")
    await submit(session, "go")
    await idle(session)
    (ended,) = await ends(hub, session)
    assert ended.outcome == "failed"
    await hub.check(session, settled=True)


async def test_an_agent_that_cannot_be_made_fails_the_turn(hub: Hub) -> None:
    async def fails(turn: TurnContext) -> str | None:
        raise OSError("no such file")

    hub.puppets.behave = fails
    session = await hub.create("puppet")
    await submit(session, "one")
    await submit(session, "two", when_busy="queue")
    await idle(session)
    assert [end.outcome for end in await ends(hub, session)] == ["failed", "failed"]


async def test_an_agent_that_swallows_the_cancellation_still_ends_its_turn_truly(hub: Hub) -> None:
    """Invariant 9: "idle" is not published before it is true."""
    freed = asyncio.Event()

    async def stubborn(turn: TurnContext) -> str | None:
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            await freed.wait()
        return "finished after all"

    hub.puppets.behave = stubborn
    session = await hub.create("puppet")
    receipt = await submit(session, "go")
    await until(lambda: hub.puppets.began)
    cancelling = asyncio.create_task(session.cancel(LOCAL, receipt.turn, via="test"))
    await until(lambda: session.shown.turn is not None and session.shown.turn.cancelling)
    await turns_of_the_loop()
    assert session.shown.turn is not None
    assert not cancelling.done()
    freed.set()
    assert await cancelling == receipt.turn
    assert [end.outcome for end in await ends(hub, session)] == ["completed"]


async def test_closing_does_not_wait_for_an_agent_that_swallows_the_cancellation(hub: Hub) -> None:
    """Invariant 6: the log of a closed session has no open turn, and nothing comes after its close."""
    freed = asyncio.Event()

    async def stubborn(turn: TurnContext) -> str | None:
        turn.record(ToolCalled(call="c", tool="x", turn=turn.turn))
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            await freed.wait()
        turn.record(LogWritten(line="I am still here"))
        return "finished after all"

    hub.puppets.behave = stubborn
    session = await hub.create("puppet")
    await submit(session, "go")
    await submit(session, "never", when_busy="queue")
    await until(lambda: hub.puppets.began)
    try:
        async with asyncio.timeout(5):
            await session.close("test", budget=0.05)
        assert session.shown.closed == "test"
        await hub.check(session, settled=True)
    finally:
        head = session.head
        freed.set()
        await turns_of_the_loop()
    assert session.head == head
    assert [end.outcome for end in await ends(hub, session)] == ["interrupted"]


async def test_what_an_agent_reports_after_its_turn_was_given_up_is_refused(hub: Hub) -> None:
    """Invariant 6: the log of a stopped server says that the turn is over, and goes on saying it."""
    freed = asyncio.Event()
    refused: list[Exception] = []

    async def stubborn(turn: TurnContext) -> str | None:
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            await freed.wait()
        try:
            turn.record(LogWritten(line="I am still here", turn=turn.turn))
        except UnknownTurn as problem:
            refused.append(problem)
        return None

    hub.puppets.behave = stubborn
    session = await hub.create("puppet")
    await submit(session, "go")
    await until(lambda: hub.puppets.began)
    try:
        await session.stop(0.05)
        head = session.head
    finally:
        freed.set()
        await turns_of_the_loop()
    assert session.head == head
    assert len(refused) == 1


async def test_cancel_gives_up_when_the_end_cannot_be_recorded_any_more(make_hub: MakeHub) -> None:
    """Invariant 8: a journal that closes under it costs this one command an error, and the loop not a moment."""
    hub = await make_hub(limits=HubLimits(ack_seconds=0.05))
    hub.puppets.behave = forever
    session = await hub.create("puppet")
    await submit(session, "go")
    await until(lambda: hub.puppets.began)
    cancelling = asyncio.create_task(session.cancel(LOCAL, via="test"))
    await asyncio.sleep(0)
    await hub.crash()
    with pytest.raises(StorageUnavailable):
        await cancelling


async def test_a_result_that_no_disk_can_hold_fails_the_turn_and_nothing_else(hub: Hub) -> None:
    """Invariants 1 and 6."""

    async def half_a_character(turn: TurnContext) -> str | None:
        return "\ud800"

    hub.puppets.behave = half_a_character
    session = await hub.create("puppet")
    await submit(session, "go")
    await idle(session)
    (ended,) = await ends(hub, session)
    assert ended.outcome == "failed"
    hub.puppets.behave = echo
    await submit(session, "again")
    await idle(session)
    assert (await ends(hub, session))[-1].result == "again"


async def test_an_agent_that_runs_ahead_of_the_disk_can_wait_for_it(hub: Hub) -> None:
    """``recorded`` returns once all that was recorded is durable, and not before."""
    seen: list[int] = []

    async def fast(turn: TurnContext) -> str | None:
        for number in range(100):
            turn.record(LogWritten(line=str(number), turn=turn.turn))
        await turn.recorded()
        seen.append(turn.session.shown.seq - turn.session.head)
        return None

    hub.puppets.behave = fast
    session = await hub.create("puppet")
    await submit(session, "go")
    await idle(session)
    assert seen == [0]


async def test_a_turn_does_not_begin_before_its_start_is_durable(hub: Hub) -> None:
    """Invariant 3: no effect of a prompt that a crash could take back."""
    session = await hub.create("puppet")
    submitting = asyncio.create_task(submit(session, "go"))
    await turns_of_the_loop(1)
    assert session.head == 3
    hub.journal.fail("the disk is gone")
    await turns_of_the_loop()
    assert hub.puppets.began == []
    assert not submitting.done()
    assert session.shown.seq == 1
    hub.journal.heal()
    await submitting
    await idle(session)
    assert hub.puppets.began == ["go"]


async def test_a_queue_goes_on_after_the_journal_was_full_between_two_turns(make_hub: MakeHub) -> None:
    """Invariant 3: an acknowledged prompt is never left waiting with nothing running."""
    hub = await make_hub(store=InMemory(queue_events=6))
    gate = asyncio.Event()

    async def gated(turn: TurnContext) -> str | None:
        await gate.wait()
        return None

    hub.puppets.behave = gated
    session = await hub.create("puppet")
    await submit(session, "one")
    await submit(session, "two", when_busy="queue")
    await until(lambda: hub.puppets.began)
    hub.journal.fail("the disk is full")
    while not hub.journal.full:
        session.record(LogWritten(line="filling up"))
    gate.set()
    await until(lambda: session.state.turn is None or session.state.turn.prompt != "one")
    await turns_of_the_loop()
    hub.journal.heal()
    await idle(session)
    assert hub.puppets.began == ["one", "two"]


async def test_a_closed_session_takes_no_prompt_and_withdraws_what_waits(hub: Hub) -> None:
    hub.puppets.behave = forever
    session = await hub.create("puppet")
    await submit(session, "one")
    waiting = await submit(session, "two", when_busy="queue")
    await session.close("test")
    with pytest.raises(Closed):
        await submit(session, "three")
    assert PromptWithdrawn(prompt=waiting.prompt, reason="closed") in await hub.facts(session)
    assert hub.puppets.began == ["one"]


async def test_a_stopping_hub_keeps_waiting_prompts_for_the_next_one(any_hub: Hub) -> None:
    """Invariants 3 and 6: the open turn is interrupted, what waits runs after the restart, once."""
    hub = any_hub
    hub.puppets.behave = forever
    session = await hub.create("puppet")
    await submit(session, "one")
    await submit(session, "two", when_busy="queue")
    await submit(session, "three", when_busy="queue")
    await until(lambda: hub.puppets.began)
    hub.puppets.behave = echo
    await hub.restart()
    session = await hub.get(session)
    await idle(session)
    assert hub.puppets.began == ["one", "two", "three"]
    assert [end.outcome for end in await ends(hub, session)] == ["interrupted", "completed", "completed"]


async def test_deltas_of_a_turn_are_seen_in_order(hub: Hub) -> None:
    session = await hub.create()
    await submit(session, "burst 1500")
    await idle(session)
    texts = [fact.text for fact in await hub.facts(session) if isinstance(fact, PartDelta)]
    assert texts == [f"delta {number} " for number in range(1500)]


async def test_what_a_prompt_carries_counts_as_well(make_hub: MakeHub) -> None:
    """Whoever views the session is shown all of it."""
    hub = await make_hub(limits=HubLimits(prompt_bytes=20))
    session = await hub.create()
    await submit(session, "0123456789", client_message_id="0123456789")
    await idle(session)
    with pytest.raises(LimitReached, match="prompt_bytes"):
        await submit(session, "0123456789", client_message_id="0123456789-")
    with pytest.raises(LimitReached, match="prompt_bytes"):
        await submit(session, "", detail={"id": "0123456789-0123456789"})


async def test_settings_have_a_limit_in_bytes(make_hub: MakeHub) -> None:
    hub = await make_hub(limits=HubLimits(settings_bytes=20))
    session = await hub.create()
    await session.change_settings(LOCAL, {"note": "012345678"})
    with pytest.raises(LimitReached, match="settings_bytes"):
        await session.change_settings(LOCAL, {"note": "0123456789"})
    assert session.state.settings["note"] == "012345678"
