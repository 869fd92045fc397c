"""After a lost server nothing runs that has no executor, whatever the moment was (invariants 1, 3, 4, 6)."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from dragoman.hub.errors import AlreadyResolved
from dragoman.hub.events import (
    AgentExited,
    AgentStarted,
    Answer,
    AnyFact,
    CancelRequested,
    DecisionOpened,
    DecisionResolved,
    Event,
    LogWritten,
    Problem,
    PromptSubmitted,
    PromptTaken,
    PromptWithdrawn,
    SessionClosed,
    SessionCreated,
    StateChanged,
    TerminalReserved,
    ToolCalled,
    ToolEnded,
    TurnEnded,
    TurnSettled,
    TurnStarted,
)
from dragoman.hub.limits import HubLimits
from dragoman.hub.memory import MemoryJournal
from dragoman.hub.permissions import LOCAL
from dragoman.hub.recovery import facts_after_loss
from dragoman.hub.session import Session
from dragoman.hub.standing import Executor
from dragoman.hub.turns import TurnContext

from .checker import check_log
from .conftest import MakeHub
from .facts import CREATED, logs
from .rig import PATIENCE, Hub, InMemory, answer, ask, fold, idle, open_decision, rewrite, turns_of_the_loop, until

SCRIPT = """think about it
tool read {"path": "a"}
open search {"q": 1}
permit rm -rf /tmp/x
ask Which? | red | blue
steer
say the end"""


async def a_long_day(hub: Hub) -> list[Event]:
    """The log of a session in which everything has happened that a scripted agent can do."""
    session = await hub.create()
    first = await session.submit(LOCAL, SCRIPT, via="test", client_message_id="first")
    await session.submit(LOCAL, "say queued", via="test", when_busy="queue", client_message_id="second")
    await answer(session, (await open_decision(session)).decision)
    await until(lambda: any(opened.kind == "question" for opened in session.shown.decisions.values()))
    await session.submit(LOCAL, "steering", via="test", when_busy="steer", client_message_id="third")
    withdrawn = await session.submit(LOCAL, "say never", via="test", when_busy="queue", client_message_id="fourth")
    await session.withdraw(LOCAL, withdrawn.prompt)
    await answer(session, next(iter(session.shown.decisions)), Answer(option=2))
    await until(lambda: session.state.turn is None or session.state.turn.turn != first.turn)
    await idle(session)
    await session.submit(LOCAL, "open dangling\nwait", via="test", client_message_id="fifth")
    await until(lambda: session.shown.calls)
    await session.cancel(LOCAL, via="test")
    await session.submit(LOCAL, "fail on purpose", via="test", client_message_id="sixth")
    await idle(session)
    await session.change_settings(LOCAL, {"title": "new"})
    await session.close("done")
    return await hub.log(session)


async def store_with(events: Sequence[Event]) -> InMemory:
    """A store in which exactly these events of a session ``s`` are durable."""
    store = InMemory()
    journal = store.journal()
    await journal.open(lambda _: None)
    rewrite(events, "s", journal)
    await journal.flush()
    await journal.close()
    return store


async def hub_on(make_hub: MakeHub, events: Sequence[Event]) -> tuple[Hub, str]:
    """A hub that has just opened such a store."""
    return await make_hub(store=await store_with(events)), "s"


async def test_a_crash_after_any_event_of_a_log_ends_well(hub: Hub, make_hub: MakeHub) -> None:
    """Invariants 1, 3, 4, 6: cut the log after each event, open it, and look at what became of everything."""
    whole = await a_long_day(hub)
    check_log(whole, settled=True)
    kinds = {type(event.fact) for event in whole}
    assert kinds >= {
        TurnStarted,
        ToolCalled,
        DecisionOpened,
        PromptTaken,
        PromptWithdrawn,
        CancelRequested,
        SessionClosed,
    }
    for cut in range(1, len(whole) + 1):
        await recovers(make_hub, whole[:cut])


async def recovers(make_hub: MakeHub, log: list[Event]) -> None:
    before = fold(log, "s")
    hub, name = await hub_on(make_hub, log)
    session = await hub.get(name)
    # What was durable stays, at its place.
    after = await hub.log(session)
    assert after[: len(log)] == log
    # Nothing runs of what ran: the first facts after the loss say so.
    if before.turn is not None:
        ended = next(event.fact for event in after[len(log) :] if isinstance(event.fact, TurnEnded))
        assert (ended.turn, ended.outcome) == (before.turn.turn, "interrupted")
        assert ended.duration_ms is not None
    results = [event.fact for event in after[len(log) :] if isinstance(event.fact, ToolEnded)]
    lost = [fact for fact in results if fact.call in before.calls]
    assert sorted(fact.call for fact in lost) == sorted(before.calls)
    assert all(fact.status == "interrupted" and fact.problem is not None for fact in lost)
    assert all(fact.duration_ms is not None for fact in lost)
    for decision in before.decisions:
        with pytest.raises(AlreadyResolved) as refusal:
            await answer(session, decision)
        assert refusal.value.outcome == "cancelled"
    # What waited runs, once, and in its order; what had run or was taken back does not.
    await runs_dry(session)
    prompts = [event.fact.prompt for event in await hub.log(session) if isinstance(event.fact, TurnStarted)]
    started = [event.fact.prompt for event in log if isinstance(event.fact, TurnStarted)]
    assert prompts == [*started, *(prompt.prompt for prompt in before.queue)]
    # The next prompt works, and the old ones are known.
    if before.closed is None:
        receipt = await session.submit(LOCAL, "say hello", via="test", client_message_id="new")
        assert not receipt.duplicate
        await idle(session)
        assert session.shown.status.last_message == "hello"
        for old in [event.fact for event in log if isinstance(event.fact, PromptSubmitted)]:
            again = await session.submit(LOCAL, old.text, via="test", client_message_id=old.client_message_id)
            assert (again.prompt, again.duplicate) == (old.prompt, True)
    await hub.check(session, settled=True)
    assert session.shown.summary == ("closed" if before.closed else "idle")
    await hub.close()


async def runs_dry(session: Session) -> None:
    """Answer and cancel until nothing is left to do: resumed prompts ask and wait again."""
    async with asyncio.timeout(PATIENCE):
        while session.head != session.shown.seq or session.state.turn is not None or session.state.queue:
            if session.shown.decisions or session.shown.calls:
                await session.cancel(LOCAL, via="test")
            await asyncio.sleep(0)


async def test_a_crash_while_it_recovers_ends_well_too(hub: Hub, make_hub: MakeHub) -> None:
    """Invariant 6: the facts of a recovery are a log like any other, and may be cut as well."""
    session = await hub.create()
    await session.submit(LOCAL, "open a\nopen b\npermit x", via="test", client_message_id="first")
    await open_decision(session)
    await session.submit(LOCAL, "say queued", via="test", when_busy="queue", client_message_id="second")
    head = session.shown.seq
    await hub.recrash()
    session = await hub.get(session)
    await idle(session)
    log = await hub.log(session)
    assert {type(event.fact) for event in log[head:]} >= {ToolEnded, DecisionResolved, TurnEnded, TurnStarted}
    for cut in range(head, len(log)):
        await recovers(make_hub, log[:cut])


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(log=logs(max_size=25))
async def test_any_log_recovers_to_one_that_says_nothing_runs(log: list[Event]) -> None:
    """Invariant 6, for executors, calls and decisions outside turns too."""
    state = fold(log)
    facts = facts_after_loss(state)
    more = [Event(len(log) + n, 2**41, "next", fact) for n, fact in enumerate(facts, 1)]
    check_log([*log, *more], settled=True)
    fold(more, state=state)
    assert (state.turn, state.executor, state.calls, state.decisions) == (None, None, {}, {})
    assert facts_after_loss(state) == []


RUN = AgentStarted(pid=4242, pid_start=17, cols=80, rows=24, tape_offset=0, tape_reserved=1000)


def log_of(*facts: AnyFact) -> list[Event]:
    created = SessionCreated(kind="puppet", agent="unknown", cwd="/", title="t", owner="local")
    return [Event(seq, 1000 + seq, "before", fact) for seq, fact in enumerate((created, *facts), 1)]


async def test_a_lost_executor_is_said_to_be_lost_and_given_to_its_factory(make_hub: MakeHub) -> None:
    """Invariants 6 and 7: nobody knows how far its bytes had come, so all that was reserved is given up."""
    log = log_of(RUN, StateChanged(prev="starting", next="working", cause="x"), TerminalReserved(tape_reserved=2000))
    hub, name = await hub_on(make_hub, log)
    facts = (await hub.facts(name))[len(log) :]
    assert facts == [
        AgentExited(cause="server-lost", tape_offset=2000),
        StateChanged(prev="working", next="exited", cause="process:server-lost"),
    ]
    session = await hub.get(name)
    assert (session.shown.tape_end, session.shown.summary) == (2000, "exited")
    await until(lambda: hub.puppets.recovered)
    assert hub.puppets.recovered == [
        (name, Executor(pid=4242, pid_start=17, cols=80, rows=24, started_at=1002)),
    ]


async def test_a_new_program_waits_until_the_lost_one_is_put_away(tmp_path: Path) -> None:
    """Invariant 6: what ends the leftovers of a lost run must not meet the next run."""
    order: list[str] = []
    done = asyncio.Event()
    hub = Hub(await store_with(log_of(RUN)), tmp_path)

    async def slowly(session: Session, lost: Executor | None) -> None:
        order.append("begins to put away")
        await done.wait()
        order.append("is put away")

    hub.puppets.recover = slowly  # type: ignore[method-assign]
    await hub.open()
    session = await hub.get("s")

    async def start() -> None:
        order.append("starts")

    session.ensure_agent().start = start  # type: ignore[method-assign]
    starting = asyncio.create_task(session.start(LOCAL))
    await turns_of_the_loop()
    done.set()
    await starting
    assert order == ["begins to put away", "is put away", "starts"]
    await hub.close()


async def test_a_turn_waits_until_what_a_lost_server_left_running_is_put_away(tmp_path: Path) -> None:
    """Invariant 6: what ends the leftovers of a lost turn must not meet the commands of the next one."""
    done = asyncio.Event()
    waiting = PromptSubmitted(prompt="p", text="go on", by="local", via="test")
    hub = Hub(await store_with(log_of(waiting)), tmp_path)

    async def slowly(session: Session, lost: Executor | None) -> None:
        await done.wait()

    hub.puppets.recover = slowly  # type: ignore[method-assign]
    await hub.open()
    session = await hub.get("s")
    await until(lambda: session.shown.turn is not None)
    await turns_of_the_loop()
    assert hub.puppets.began == []
    done.set()
    await idle(session)
    assert hub.puppets.began == ["go on"]
    await hub.close()


async def test_what_waits_runs_once_over_any_number_of_crashes(make_hub: MakeHub) -> None:
    """Invariant 3: a prompt whose turn began is never run again, one that waited is never forgotten."""
    hub = await make_hub(disk=True)
    began: list[str] = []
    randomly = random.Random(3)

    async def slow(turn: TurnContext) -> str | None:
        began.append(turn.prompt.text)
        for _ in range(randomly.randrange(6)):
            turn.record(LogWritten(line="working", turn=turn.turn))
            await turn.recorded()
        return None

    hub.puppets.behave = slow
    session = await hub.create("puppet")
    acknowledged: list[str] = []
    for life in range(8):
        for number in range(5):
            text = f"{life}.{number}"
            receipt = await session.submit(LOCAL, text, via="test", when_busy="queue", client_message_id=text)
            acknowledged.append(receipt.prompt)
        for _ in range(randomly.randrange(30)):
            await asyncio.sleep(0)
        await hub.recrash()
        session = await hub.get(session)
    await idle(session)
    events = await hub.check(session, settled=True)
    started = [event.fact.prompt for event in events if isinstance(event.fact, TurnStarted)]
    assert started == acknowledged
    assert len(began) == len(set(began))


async def test_many_open_sessions_are_all_put_right(make_hub: MakeHub) -> None:
    hub = await make_hub(disk=True, limits=HubLimits(loaded_idle=2))
    sessions = [await hub.create() for _ in range(30)]
    for session in sessions:
        await session.submit(LOCAL, "open x\nwait", via="test")
    await until(lambda: all(session.shown.calls for session in sessions))
    await hub.recrash()
    for session in sessions:
        events = await hub.check(session, settled=True)
        assert [event.fact.outcome for event in events if isinstance(event.fact, TurnEnded)] == ["interrupted"]
    assert {row.status for row in hub.registry.rows(LOCAL)} == {"idle"}


async def test_a_settled_session_is_not_touched_by_a_crash(make_hub: MakeHub) -> None:
    """Invariant 1: nothing is written where nothing was lost."""
    hub = await make_hub(disk=True)
    session = await hub.create()
    await session.submit(LOCAL, "hello", via="test")
    await idle(session)
    before = await hub.log(session)
    await hub.recrash()
    assert await hub.log(session) == before
    assert hub.registry.loaded == 0


async def test_a_clean_stop_leaves_open_what_only_the_next_start_can_close(any_hub: Hub) -> None:
    """Invariants 4 and 6: a decision outside any turn has no agent any more after the restart."""
    session = await any_hub.create("puppet")
    session.ensure_agent()
    await session.acknowledged(session.open_decision(ask("outside", kind="setup")))
    await any_hub.restart()
    session = await any_hub.get(session)
    facts = await any_hub.facts(session)
    assert facts[-1] == DecisionResolved(decision="outside", outcome="cancelled", reason="server-lost")
    with pytest.raises(AlreadyResolved):
        await answer(session, "outside")


def test_the_facts_after_a_loss_come_in_the_order_of_a_live_server() -> None:
    log = log_of(
        PromptSubmitted(prompt="p", text="x", by="local", via="test"),
        TurnStarted(turn="t", prompt="p"),
        ToolCalled(call="in", tool="a", turn="t"),
        ToolCalled(call="out", tool="b"),
        DecisionOpened(decision="in", kind="plan", text="?", turn="t"),
        DecisionOpened(decision="out", kind="setup", text="?"),
        RUN,
    )
    facts = facts_after_loss(fold(log))
    assert [type(fact) for fact in facts] == [
        *(DecisionResolved, ToolEnded, ToolEnded, DecisionResolved, TurnEnded, AgentExited, StateChanged)
    ]
    assert [getattr(fact, "call", None) or getattr(fact, "decision", None) for fact in facts[:4]] == [
        *("in", "in", "out", "out")
    ]


def test_nothing_is_said_of_a_session_where_nothing_was_lost() -> None:
    assert facts_after_loss(fold([Event(1, 1, "e", CREATED)])) == []


async def test_a_loss_under_a_journal_that_fails_is_put_right_when_it_heals(make_hub: MakeHub) -> None:
    """Invariant 3: the hub is not open before what was lost is durable."""
    hub = await make_hub()
    session = await hub.create()
    await session.submit(LOCAL, "open x\nwait", via="test")
    await until(lambda: session.shown.calls)
    await hub.crash()
    opening = asyncio.create_task(hub.open())
    await turns_of_the_loop(1)
    journal: MemoryJournal = hub.journal
    journal.fail("the disk is full")
    await turns_of_the_loop(50)
    assert not opening.done()
    journal.heal()
    await opening
    await hub.check(session, settled=True)


def test_a_turn_whose_workspace_was_still_to_save_ends_as_it_came_out() -> None:
    """What it did is done, and known: only the image of its folder is missing."""
    problem = Problem(code="provider_failed", message="no")
    facts = [
        CREATED,
        PromptSubmitted(prompt="p", text="hi", by="local", via="hub"),
        TurnStarted(turn="t", prompt="p"),
        TurnSettled(turn="t", outcome="failed", problem=problem),
    ]
    state = fold([Event(seq, seq, "e", fact) for seq, fact in enumerate(facts, 1)])
    assert facts_after_loss(state) == [TurnEnded(turn="t", outcome="failed", problem=problem, duration_ms=1)]
