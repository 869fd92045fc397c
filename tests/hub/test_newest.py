"""The newest events by fact: what each journal gives is what a plain filter of all that was appended gives."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.hub.events import (
    AnyFact,
    Event,
    LogWritten,
    Notified,
    StepStarted,
    ToolCalled,
    ToolEnded,
    UsageReported,
    tag_of,
)
from dragoman.hub.permissions import HOLDER, LOCAL, Principal, Right
from dragoman.hub.registry import Registry

from .journal_kit import Listener, MemoryRig, Rig, SqliteRig, row
from .rig import Hub

SESSIONS = ("a", "b", "c")

FACTS: tuple[AnyFact, ...] = (
    ToolCalled(call="c", tool="t", input={"type": "tool.ended"}),
    ToolEnded(call="c", tool="t", status="ok"),
    UsageReported(message="m", output_tokens=1),
    Notified(message="usage.reported"),
    StepStarted(turn="t", step=1),
    LogWritten(line='{"type":"tool.called"}'),
)
"""Some of them speak of the others."""

TAGS = (*(tag_of(fact) for fact in FACTS), "no.such.fact")

Question = tuple[int, list[str] | None, list[str] | None]
"""Limit, sessions, facts."""

questions: st.SearchStrategy[Question] = st.tuples(
    st.integers(-1, 12),
    st.none() | st.lists(st.sampled_from([*SESSIONS, "no-such"]), unique=True),
    st.none() | st.lists(st.sampled_from(TAGS), unique=True),
)
appended = st.lists(st.tuples(st.sampled_from(SESSIONS), st.sampled_from(FACTS)), max_size=30)


@settings(max_examples=60, deadline=None)
@given(
    appended=appended,
    dropped=st.sets(st.sampled_from(SESSIONS), max_size=1),
    asked=st.lists(questions, min_size=1, max_size=6),
)
def test_the_newest_are_those_that_a_plain_filter_gives(
    appended: list[tuple[str, AnyFact]], dropped: set[str], asked: list[Question]
) -> None:
    async def compare(rig: Rig) -> None:
        journal = rig.make()
        await journal.open(Listener())
        try:
            log = _append(journal, appended)
            for session in dropped & {name for name, _ in log}:
                await journal.flush()
                last = sum(name == session for name, _ in log)
                await journal.drop(row(session, last, dropped_at=1))
                log = [(name, event) for name, event in log if name != session]
            await journal.flush()
            for limit, sessions, facts in asked:
                found = await journal.newest(limit, sessions, facts=facts)
                assert found == plain(log, limit, sessions, facts)
        finally:
            await journal.close()

    with tempfile.TemporaryDirectory() as folder:
        for rig in (MemoryRig(), SqliteRig(Path(folder))):
            asyncio.run(compare(rig))


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_what_is_not_durable_is_not_among_the_newest(kind: str, tmp_path: Path) -> None:
    """Invariant 3: nobody is told what a crash could take back."""
    rig = MemoryRig() if kind == "memory" else SqliteRig(tmp_path)
    journal = rig.make()
    await journal.open(Listener())
    log = _append(journal, [("a", FACTS[0]), ("a", FACTS[1])])
    await journal.flush()
    rig.fail()
    journal.append(Event(3, 3, "e", FACTS[0]), row("a", 3))
    assert await journal.newest(10, facts=["tool.called"]) == log[:1]
    rig.heal()
    await journal.flush()
    assert [event.seq for _, event in await journal.newest(10, facts=["tool.called"])] == [1, 3]
    await journal.close()


async def test_a_registry_gives_those_of_sessions_that_one_may_see(any_hub: Hub) -> None:
    """Invariant 12."""
    registry = any_hub.registry
    sessions = [await any_hub.create("puppet") for _ in range(3)]
    for number in range(4):
        for session in sessions:
            session.record(Notified(message=f"{number}"))
            session.record(LogWritten(line="x"))
    for session in sessions:
        await session.durable(session.head)
    one, two, three = (session.id for session in sessions)
    assert await _seen(registry, LOCAL, 4) == [(three, "2"), (one, "3"), (two, "3"), (three, "3")]
    assert await _seen(registry, HOLDER, 1) == [(three, "3")]
    only_one = Principal("guest", frozenset({Right.READ}), only=frozenset({one}))
    assert await _seen(registry, only_one, 3) == [(one, "1"), (one, "2"), (one, "3")]
    nobody = Principal("nobody", frozenset(), only=None)
    assert await _seen(registry, nobody, 3) == []
    await registry.delete(LOCAL, three)
    assert await _seen(registry, LOCAL, 2) == [(one, "3"), (two, "3")]


async def _seen(registry: Registry, principal: Principal, limit: int) -> list[tuple[str, str]]:
    found = await registry.newest(principal, limit, facts=["notified"])
    return [(name, event.fact.message) for name, event in found if isinstance(event.fact, Notified)]


def plain(
    log: list[tuple[str, Event]], limit: int, sessions: list[str] | None, facts: list[str] | None
) -> list[tuple[str, Event]]:
    """The same question, asked of a list."""
    fitting = [
        (name, event)
        for name, event in log
        if (sessions is None or name in sessions) and (facts is None or tag_of(event.fact) in facts)
    ]
    return fitting[-limit:] if limit > 0 else []


def _append(journal: Any, appended: list[tuple[str, AnyFact]]) -> list[tuple[str, Event]]:
    """Append each to its session; all of them in the order of the store."""
    heads: dict[str, int] = {}
    log: list[tuple[str, Event]] = []
    for session, fact in appended:
        seq = heads[session] = heads.get(session, 0) + 1
        event = Event(seq, len(log), "e", fact)
        journal.append(event, row(session, seq))
        log.append((session, event))
    return log
