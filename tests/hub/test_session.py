"""A session's commands: acknowledged once durable, the same message once, nothing recorded that cannot be (1, 2, 3)."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from dragoman.hub.errors import (
    Closed,
    ConflictingRepeat,
    HubError,
    InvalidRequest,
    NotPermitted,
    NotRunning,
    StorageUnavailable,
)
from dragoman.hub.events import (
    Answer,
    Attachment,
    DecisionResolved,
    Event,
    LogWritten,
    Problem,
    PromptSubmitted,
    SessionClosed,
    SettingsChanged,
    ToolCalled,
    ToolEnded,
    TurnEnded,
    TurnStarted,
)
from dragoman.hub.events.nesting import MAX_NESTING
from dragoman.hub.limits import HubLimits
from dragoman.hub.memory import MemoryJournal, MemoryStore
from dragoman.hub.permissions import LOCAL, STRANGER, Principal
from dragoman.hub.session import Session
from dragoman.hub.state import encode_state
from dragoman.hub.turns import Receipt, TurnContext

from .conftest import MakeHub
from .rig import Hub, InMemory, as_stored, idle, turns_of_the_loop, until


async def submit(session: Session, text: str = "hello", **more: Any) -> Receipt:
    principal = more.pop("principal", LOCAL)
    return await session.submit(principal, text, **{"via": "test", **more})


async def count(hub: Hub, session: Session, kind: type) -> int:
    return sum(isinstance(fact, kind) for fact in await hub.facts(session))


async def forever(turn: TurnContext) -> str | None:
    await asyncio.get_running_loop().create_future()
    return None


# The same message


async def test_the_same_message_id_gives_one_turn(any_hub: Hub) -> None:
    """Invariant 3."""
    session = await any_hub.create("puppet")
    first = await submit(session, client_message_id="m1")
    again = await submit(session, client_message_id="m1")
    assert (again.prompt, again.seq, again.duplicate) == (first.prompt, first.seq, True)
    await idle(session)
    late = await submit(session, client_message_id="m1")
    assert (late.prompt, late.duplicate) == (first.prompt, True)
    assert any_hub.puppets.began == ["hello"]


async def test_concurrent_twins_give_one_turn(any_hub: Hub) -> None:
    """Invariant 3."""
    session = await any_hub.create("puppet")
    receipts = await asyncio.gather(*(submit(session, client_message_id="m1") for _ in range(20)))
    assert len({receipt.prompt for receipt in receipts}) == 1
    assert sorted(receipt.duplicate for receipt in receipts) == [False, *[True] * 19]
    await idle(session)
    assert any_hub.puppets.began == ["hello"]


async def test_the_same_message_after_a_restart_gives_one_turn(any_hub: Hub) -> None:
    """Invariant 3."""
    session = await any_hub.create("puppet")
    first = await submit(session, client_message_id="m1")
    await idle(session)
    await any_hub.restart()
    again = await submit(await any_hub.get(session), client_message_id="m1")
    assert (again.prompt, again.duplicate) == (first.prompt, True)
    assert any_hub.puppets.began == ["hello"]


async def test_the_same_message_after_a_crash_gives_one_turn(any_hub: Hub) -> None:
    """Invariant 3: the crash comes before the client hears of it, and after the disk has."""
    session = await any_hub.create("puppet")
    any_hub.puppets.behave = forever
    first = await submit(session, client_message_id="m1")
    await until(lambda: any_hub.puppets.began)
    await any_hub.recrash()
    session = await any_hub.get(session)
    again = await submit(session, client_message_id="m1")
    assert (again.prompt, again.duplicate) == (first.prompt, True)
    await idle(session)
    assert any_hub.puppets.began == ["hello"]
    assert await count(any_hub, session, PromptSubmitted) == 1


async def test_a_message_that_a_crash_took_back_can_be_sent_again(hub: Hub) -> None:
    """Invariant 3: it was never acknowledged, so the repeat is the first."""
    session = await hub.create("puppet")
    sending = asyncio.create_task(submit(session, client_message_id="m1"))
    while session.head == 1:
        await asyncio.sleep(0)
    hub.journal.fail("the machine stops")
    await turns_of_the_loop()
    assert not sending.done()
    await hub.recrash()
    sending.cancel()
    session = await hub.get(session)
    assert session.head == 1
    receipt = await submit(session, client_message_id="m1")
    assert not receipt.duplicate
    await idle(session)
    assert hub.puppets.began == ["hello"]


class SlowKeys(MemoryJournal):
    """A journal whose look-ups for keys see the store at once and answer when they are let go."""

    def __init__(self, store: MemoryStore) -> None:
        super().__init__(store)
        self.hold: list[asyncio.Event] = []

    async def find_key(self, session: str, key: str) -> int | None:
        found = await super().find_key(session, key)
        if self.hold:
            await self.hold.pop().wait()
        return found


class SlowKeysStore(InMemory):
    def journal(self) -> MemoryJournal:
        return SlowKeys(self.store)


async def test_a_twin_that_becomes_durable_while_the_journal_is_asked_is_found(make_hub: MakeHub) -> None:
    """Invariant 3: the answer "no such key" may be older than the twin."""
    hub = await make_hub(store=SlowKeysStore())
    session = await hub.create("puppet")
    answer = asyncio.Event()
    hub.journal.hold.append(answer)
    slow = asyncio.create_task(submit(session, client_message_id="m1"))
    await until(lambda: not hub.journal.hold)
    fast = await submit(session, client_message_id="m1")
    await idle(session)
    answer.set()
    assert (await slow).prompt == fast.prompt
    assert (await slow).duplicate
    assert hub.puppets.began == ["hello"]


@pytest.mark.parametrize(
    "other",
    [
        {"text": "other"},
        {"content": "what the model sees"},
        {"attachments": (Attachment(kind="file", name="a", artifact="1"),)},
    ],
    ids=["text", "content", "attachments"],
)
async def test_the_same_message_id_with_other_content_is_refused(any_hub: Hub, other: dict[str, Any]) -> None:
    session = await any_hub.create("puppet")
    await submit(session, client_message_id="m1")
    await idle(session)
    for _ in range(2):
        with pytest.raises(ConflictingRepeat, match="m1"):
            await submit(session, **{"text": "hello", "client_message_id": "m1", **other})
        await any_hub.restart()
        session = await any_hub.get(session)
    assert await count(any_hub, session, PromptSubmitted) == 1


async def test_a_message_id_belongs_to_its_dialect_and_principal(hub: Hub) -> None:
    """Two clients that count their messages from 1 are no twins."""
    session = await hub.create("puppet")
    other = Principal("other", LOCAL.rights)
    receipts = [
        await submit(session, client_message_id="1", via=via, principal=principal, when_busy="queue")
        for via in ("coworker", "cin")
        for principal in (LOCAL, other)
    ]
    assert not any(receipt.duplicate for receipt in receipts)
    await idle(session)
    assert len(hub.puppets.began) == 4


async def test_a_message_id_belongs_to_its_session(hub: Hub) -> None:
    one, two = await hub.create("puppet"), await hub.create("puppet")
    assert not (await submit(one, client_message_id="1")).duplicate
    assert not (await submit(two, client_message_id="1")).duplicate


async def test_a_repeat_says_what_has_become_of_the_first(hub: Hub) -> None:
    hub.puppets.behave = forever
    session = await hub.create("puppet")
    first = await submit(session, client_message_id="runs")
    await submit(session, client_message_id="waits", when_busy="queue")
    await submit(session, client_message_id="steers", when_busy="steer")
    repeats = [await submit(session, client_message_id=name) for name in ("runs", "waits", "steers")]
    assert [(repeat.disposition, repeat.turn) for repeat in repeats] == [
        ("started", first.turn),
        ("queued", None),
        ("steering", None),
    ]


# Durable before anything


async def test_nothing_happens_before_it_is_durable_and_everything_after(hub: Hub) -> None:
    """Invariants 2 and 3: no acknowledgement, no effect, nothing visible; and then all of it, in order."""
    session = await hub.create("puppet")
    told: list[int] = []
    session.watch(lambda: told.append(session.shown.seq))
    follower = session.follow(1)
    hub.journal.fail("the disk is gone")
    pending = [session.record(LogWritten(line=f"line {number}")) for number in range(5)]
    waiting = asyncio.create_task(session.acknowledged(pending[2]))
    await turns_of_the_loop()
    assert not waiting.done()
    assert follower.take() == []
    assert not follower.behind
    assert (session.head, session.shown.seq, told) == (6, 1, [])
    assert await hub.log(session) == (await hub.log(session))[:1]
    hub.journal.heal()
    assert await waiting == pending[2]
    assert follower.take() == pending
    assert told == [6]


async def test_a_command_that_the_disk_does_not_take_in_time_says_so(make_hub: MakeHub) -> None:
    """Invariant 3: no acknowledgement; what was recorded still comes, once the disk writes again."""
    hub = await make_hub(limits=HubLimits(ack_seconds=0.05))
    session = await hub.create("puppet")
    changing = asyncio.create_task(session.change_settings(LOCAL, {"title": "new"}))
    await turns_of_the_loop(1)
    hub.journal.fail("the disk is full")
    assert session.head == 2
    with pytest.raises(StorageUnavailable, match="the disk is full"):
        await changing
    assert session.shown.title != "new"
    hub.journal.heal()
    await until(lambda: session.shown.title == "new")


Command = Callable[[Session], Awaitable[object]]

COMMANDS: dict[str, Command] = {
    "submit": submit,
    "withdraw": lambda session: session.withdraw(LOCAL, "nothing"),
    "answer": lambda session: session.answer(LOCAL, "nothing", Answer(accept=True), via="test"),
    "change_settings": lambda session: session.change_settings(LOCAL, {"title": "x"}),
    "start": lambda session: session.start(LOCAL),
}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
async def test_a_journal_with_a_problem_takes_no_command(hub: Hub, command: Command) -> None:
    session = await hub.create("puppet")
    hub.journal.fail("the disk is full")
    with pytest.raises(StorageUnavailable, match="the disk is full"):
        await command(session)
    assert session.head == 1
    hub.journal.heal()


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
async def test_a_closed_session_takes_no_command(hub: Hub, command: Command) -> None:
    session = await hub.create("puppet")
    await session.close("test")
    with pytest.raises(Closed):
        await command(session)
    assert session.head == 2


async def test_every_command_checks_its_right(hub: Hub) -> None:
    """A principal may lose a right while its link lives: it is asked for on every write."""
    session = await hub.create("puppet")
    reader = Principal("local", STRANGER.rights)
    commands: dict[str, Command] = {
        "submit": lambda session: submit(session, principal=reader),
        "withdraw": lambda session: session.withdraw(reader, "nothing"),
        "answer": lambda session: session.answer(reader, "nothing", Answer(accept=True), via="test"),
        "change_settings": lambda session: session.change_settings(reader, {"title": "x"}),
        "start": lambda session: session.start(reader),
        "cancel": lambda session: session.cancel(reader, via="test"),
    }
    for one in commands.values():
        with pytest.raises(NotPermitted):
            await one(session)
    with pytest.raises(NotPermitted):
        session.control(reader)
    assert session.head == 1


async def test_a_full_journal_takes_only_what_settles_something(make_hub: MakeHub) -> None:
    """Without these facts the state would lie (invariant 6)."""
    hub = await make_hub(store=InMemory(queue_events=3))
    session = await hub.create("puppet")
    hub.journal.fail("the disk is full")
    for number in range(3):
        session.record(LogWritten(line=f"line {number}"))
    with pytest.raises(StorageUnavailable):
        session.record(LogWritten(line="one too many"))
    closing = asyncio.create_task(session.close("test"))
    await until(lambda: session.state.closed)
    hub.journal.heal()
    await closing
    assert [type(fact) for fact in await hub.facts(session)][-2:] == [LogWritten, SessionClosed]


# What cannot be recorded


UNSTORABLE: dict[str, Any] = {
    "half a character": LogWritten(line="\ud800"),
    "half a character in JSON": ToolCalled(call="c", tool="x", input={"deep": ["\udfff"]}),
    "half a character as a key": SettingsChanged(changes={"\ud800": 1}),
    "an object": ToolCalled(call="c", tool="x", input=object()),
    "a structure without end": ToolCalled(call="c", tool="x", input=None),
    "an outcome of nothing": DecisionResolved(decision="d", outcome="cancelled"),
}
_loop: list[Any] = []
_loop.append(_loop)
UNSTORABLE["a structure without end"] = ToolCalled(call="c", tool="x", input=_loop)


def nested(levels: int) -> Any:
    """JSON of that many levels, lists and objects in turn."""
    value: Any = 1
    for level in range(levels):
        value = [value] if level % 2 else {"a": value}
    return value


UNSTORABLE["a level too many"] = ToolCalled(call="c", tool="x", input=nested(MAX_NESTING))
UNSTORABLE["as deep as can just be written"] = ToolCalled(call="c", tool="x", input=nested(970))
UNSTORABLE["deep in a struct"] = TurnEnded(
    turn="t", outcome="failed", problem=Problem(code="x", message="x", detail=nested(MAX_NESTING - 1))
)


@pytest.mark.parametrize("fact", UNSTORABLE.values(), ids=UNSTORABLE)
async def test_a_fact_that_cannot_be_stored_leaves_the_session_whole(any_hub: Hub, fact: Any) -> None:
    """Invariants 1 and 8: whoever brought it is refused, and the next event takes the next number."""
    session = await any_hub.create("puppet")
    session.record(LogWritten(line="before"))
    before = encode_state(session.state)
    with pytest.raises(HubError):
        session.record(fact)
    assert encode_state(session.state) == before
    event = session.record(LogWritten(line="after"))
    await session.acknowledged(event)
    assert [each.seq for each in await any_hub.log(session)] == [1, 2, 3]
    assert (await submit(session)).disposition == "started"
    await idle(session)


async def test_the_deepest_fact_that_is_taken_can_be_read_by_everyone(any_hub: Hub) -> None:
    """Invariants 1 and 8: the encoder's own limit depends on its caller; what one wrote another could not read."""
    session, other = await any_hub.create("puppet"), await any_hub.create("puppet")
    fact = ToolCalled(call="c", tool="x", input=nested(MAX_NESTING - 1))
    event = session.record(fact)
    await session.acknowledged(event)
    await other.acknowledged(other.record(LogWritten(line="x")))
    assert session.recent(1) == [event]
    assert await any_hub.log(session) == [*(await any_hub.log(session))[:1], event]
    await session.submit(LOCAL, "x", via="test", detail=nested(MAX_NESTING - 1))
    await idle(session)
    await any_hub.restart()
    await any_hub.check(session)


async def test_a_prompt_that_cannot_be_stored_is_refused(hub: Hub) -> None:
    """Invariant 8."""
    session = await hub.create("puppet")
    for bad in (
        {"text": "\ud800"},
        {"detail": {"a": "\ud800"}},
        {"client_message_id": "\ud800"},
        {"content": "\ud800"},
    ):
        with pytest.raises(InvalidRequest):
            await submit(session, **bad)
    assert session.head == 1
    await submit(session)
    await idle(session)


async def test_settings_that_cannot_be_stored_are_refused(hub: Hub) -> None:
    session = await hub.create("puppet")
    with pytest.raises(InvalidRequest):
        await session.change_settings(LOCAL, {"title": "\ud800"})
    await session.change_settings(LOCAL, {"title": "fine"})
    assert session.shown.title == "fine"


async def test_a_log_holds_nothing_after_its_close(hub: Hub) -> None:
    session = await hub.create("puppet")
    await session.close("test")
    with pytest.raises(Closed):
        session.record(LogWritten(line="too late"))
    assert session.head == 2


@pytest.mark.parametrize("closes", [True, False], ids=["the session closes", "the hub stops"])
async def test_a_prompt_in_flight_while_everything_ends_is_refused(make_hub: MakeHub, closes: bool) -> None:
    """Invariant 6: it was admitted, but by the time the journal has looked for its twin all is over."""
    hub = await make_hub(store=SlowKeysStore())
    session = await hub.create("puppet")
    answer = asyncio.Event()
    hub.journal.hold.append(answer)
    sending = asyncio.create_task(submit(session, client_message_id="m1"))
    await until(lambda: not hub.journal.hold)
    await (session.close("test") if closes else hub.registry.stop_sessions(1.0))
    head = session.head
    answer.set()
    with pytest.raises(Closed):
        await sending
    assert session.head == head


# Numbers


async def test_numbers_are_contiguous_and_go_on_after_a_restart(any_hub: Hub) -> None:
    """Invariant 1."""
    session = await any_hub.create("puppet")
    for life in range(3):
        await submit(session, f"life {life}")
        await idle(session)
        await any_hub.restart()
        session = await any_hub.get(session)
    events = await any_hub.log(session)
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert len({event.epoch for event in events}) == 3


async def test_numbers_that_nobody_saw_are_used_again_after_a_crash_and_only_those(hub: Hub) -> None:
    """Invariant 1: a reader can hold no ``seq`` that a crash takes back."""
    session = await hub.create("puppet")
    seen: list[Event] = []
    follower = session.follow(0)
    randomly = random.Random(7)
    for _ in range(20):
        for _ in range(randomly.randrange(1, 9)):
            session.record(LogWritten(line=str(session.head)))
            if randomly.random() < 0.5:
                await asyncio.sleep(0)
            seen += follower.take() or []
        await hub.recrash()
        session = await hub.get(session)
        assert [as_stored(event.fact) for event in await hub.log(session)][: len(seen)] == [
            as_stored(event.fact) for event in seen
        ]
        follower = session.follow(len(seen))


# Settings, the end, the terminal


async def test_settings_change_key_by_key(hub: Hub) -> None:
    session = await hub.create("puppet", settings={"model": "a", "mode": "plan"})
    event = await session.change_settings(LOCAL, {"mode": None, "title": "new", "effort": 3})
    assert isinstance(event.fact, SettingsChanged)
    assert event.fact.by == "local"
    assert session.shown.settings == {"model": "a", "title": "new", "effort": 3}
    assert session.shown.title == "new"


async def test_closing_twice_is_no_error_and_one_fact(any_hub: Hub) -> None:
    session = await any_hub.create("puppet")
    await asyncio.gather(session.close("one"), session.close("two"))
    await session.close("three")
    assert await count(any_hub, session, SessionClosed) == 1
    assert session.shown.summary == "closed"


async def test_closing_while_a_turn_runs_ends_the_turn_first(hub: Hub) -> None:
    """Invariant 6."""
    hub.puppets.behave = forever
    session = await hub.create("puppet")
    await submit(session)
    await session.close("test", by="someone")
    kinds = [type(fact) for fact in await hub.facts(session)]
    assert kinds[-2:] == [TurnEnded, SessionClosed]
    assert kinds.count(TurnStarted) == 1


async def test_closing_gives_every_open_call_its_one_result(hub: Hub) -> None:
    """Invariant 6: also a call that a detector saw outside any turn."""
    session = await hub.create("puppet")
    session.record(ToolCalled(call="c", tool="Bash"))
    await session.close("test")
    facts = await hub.facts(session)
    ended = next(fact for fact in facts if isinstance(fact, ToolEnded))
    assert (ended.call, ended.tool, ended.status) == ("c", "Bash", "interrupted")
    assert not session.shown.unsettled


async def test_a_session_without_a_terminal_has_nothing_to_write_to(hub: Hub) -> None:
    session = await hub.create("puppet")
    with pytest.raises(NotRunning):
        session.control(LOCAL)


async def test_reading_back_ends_before_the_given_cursor(any_hub: Hub) -> None:
    session = await any_hub.create("puppet")
    for number in range(9):
        session.record(LogWritten(line=str(number)))
    await session.durable(10)

    async def back(before: int | None, limit: int) -> list[int]:
        return [event.seq for event in await session.read_back(before, limit)]

    assert await back(None, 3) == [8, 9, 10]
    assert await back(8, 3) == [5, 6, 7]
    assert await back(2, 3) == [1]
    assert await back(1, 3) == []
    assert await back(0, 3) == []
    assert await back(99, 2) == [9, 10]


async def test_a_repeat_is_answered_as_the_first_was_also_when_its_turn_is_long_over(hub: Hub) -> None:
    session = await hub.create()
    first = await session.submit(LOCAL, "say hello", via="test", client_message_id="once")
    await until(lambda: session.shown.turn is None)
    again = await session.submit(LOCAL, "say hello", via="test", client_message_id="once")
    assert first.turn is not None
    assert (again.turn, again.prompt, again.seq, again.duplicate) == (first.turn, first.prompt, first.seq, True)
