"""What lists show of a session: its row says what its log says, whenever, and after whatever was lost (invariant 2).

``Listing`` is an independent reading of a log: it knows the facts, and nothing of the fold.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dragoman.hub.errors import InvalidRequest
from dragoman.hub.events import (
    AgentExited,
    AgentStarted,
    AnyFact,
    DecisionOpened,
    DecisionResolved,
    Event,
    HookAnswered,
    LogWritten,
    MessageAdded,
    Notified,
    Origin,
    PromptSubmitted,
    SessionCreated,
    SettingsChanged,
    StateChanged,
    TerminalTitled,
    ToolCalled,
    ToolEnded,
    TurnEnded,
    TurnStarted,
)
from dragoman.hub.journal import SessionRow
from dragoman.hub.permissions import LOCAL
from dragoman.hub.session import Session
from dragoman.hub.standing import Executor
from dragoman.hub.state import decode_state, encode_state

from .facts import logs
from .rig import Hub, InMemory, PuppetFactory, fold, rewrite

SILENT = frozenset(
    (
        *("settings.changed", "session.closed", "agent.exited", "prompt.withdrawn", "turn.cancel_requested"),
        *("log.written", "terminal.resized", "terminal.titled", "terminal.reserved"),
    )
)
"""Facts, of those that the logs here are made of, in which nobody did anything."""


class Listing:
    """What a list has to show after these events."""

    def __init__(self, events: Iterable[Event]) -> None:
        self.active_at = 0
        self.rests = False
        self.agent_session: str | None = None
        self._own_calls: list[tuple[str, str]] = []
        self._turn: str | None = None
        self._asked: list[tuple[str, str]] = []
        self._settings: dict[str, Any] = {}
        self._attach: Any = None
        for event in events:
            self._take(event)

    def said(self) -> dict[str, Any]:
        """By the row's names."""
        detail = {
            name: self._settings[name] for name in ("zone", "auto_accept", "suggestion") if name in self._settings
        }
        return {
            "active_at": self.active_at,
            "rests": self.rests,
            "tool": (self._own_calls[-1][1] or None) if self._own_calls else None,
            "agent_session": self.agent_session,
            "asks": self._asked[0][1] if self._asked else None,
            "detail": detail if self._attach is None else {**detail, "attach": self._attach},
        }

    def _take(self, event: Event) -> None:
        fact = event.fact
        if str(fact.__struct_config__.tag) not in SILENT:
            self.active_at = event.at
        match fact:
            case SessionCreated():
                self._settings, self._attach = dict(fact.settings), fact.options.get("attach")
            case SettingsChanged():
                self._settings = {k: v for k, v in {**self._settings, **fact.changes}.items() if v is not None}
            case ToolCalled() if fact.origin is None or fact.origin.subagent is None:
                self._own_calls.append((fact.call, fact.tool))
            case ToolEnded():
                self._own_calls = [call for call in self._own_calls if call[0] != fact.call]
            case DecisionOpened():
                self._asked.append((fact.decision, fact.kind))
            case DecisionResolved():
                self._asked = [asked for asked in self._asked if asked[0] != fact.decision]
            case TurnEnded() if fact.turn == self._turn:
                self._turn = None
                self._rest()
            case HookAnswered(hook="stop") if fact.verdict != "blocked":
                self._rest()
            case TurnStarted():
                self._turn, self.rests = fact.turn, False
            case StateChanged(next="working"):
                self.rests = False
            case StateChanged(next="idle") if fact.prev in ("working", "prompt") and self._turn is None:
                if fact.cause != "silence":
                    self._rest()
            case MessageAdded(role="user", turn=None):
                self._forget_calls()
            case AgentStarted():
                self.rests, self.agent_session = False, fact.agent_session or self.agent_session
            case HookAnswered(hook="start"):
                self.agent_session = fact.agent_session or self.agent_session

    def _rest(self) -> None:
        self.rests = True
        self._forget_calls()

    def _forget_calls(self) -> None:
        """What is open from before is none that the agent is at."""
        self._own_calls = [(call, "") for call, _ in self._own_calls]


class ElsewhereFactory(PuppetFactory):
    """Its agents run where the server does not start them."""

    kind = "elsewhere"
    elsewhere = True

    def validate(self, agent: str, cwd: str, options: dict[str, object]) -> dict[str, object]:
        if not cwd.startswith("/"):
            raise InvalidRequest("no path")
        return options


def listed(row: SessionRow) -> dict[str, Any]:
    """What of a row is for lists."""
    return {name: getattr(row, name) for name in ("active_at", "rests", "tool", "agent_session", "asks", "detail")}


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(log=logs(), data=st.data())
def test_a_row_says_what_its_log_says_at_any_moment(log: list[Event], data: st.DataObject) -> None:
    cut = data.draw(st.integers(1, len(log)))
    assert listed(fold(log[:cut]).row()) == Listing(log[:cut]).said()


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(log=logs(max_size=25), snapshot=st.booleans())
def test_a_session_elsewhere_is_listed_after_a_crash_as_it_was_before(log: list[Event], snapshot: bool) -> None:
    """Nobody knows what became of it but its factory: nothing of it is put right, and nothing is forgotten."""

    async def crashes() -> None:
        events = _elsewhere(log)
        hub = await _opened_on(events)
        try:
            before = fold(events, "s").row()
            assert hub.registry.rows(LOCAL) == [before]
            session = await hub.get("s")
            assert session.row() == before
            assert await hub.log("s") == events
            if snapshot:
                session.store_snapshot()
                await hub.journal.flush()
            await hub.recrash()
            assert hub.registry.rows(LOCAL) == [before]
            assert (await hub.get("s")).row() == before
            assert listed(before) == Listing(events).said()
        finally:
            await hub.close()

    asyncio.run(crashes())


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(log=logs(max_size=25))
def test_a_session_of_ours_is_listed_after_a_crash_as_its_log_says(log: list[Event]) -> None:
    """Its open calls and decisions are closed then (invariant 6), and so it shows no tool and asks for nothing."""

    async def crashes() -> None:
        hub = await _opened_on(log)
        try:
            events = await hub.log("s")
            assert events[: len(log)] == log
            (row,) = hub.registry.rows(LOCAL)
            assert (await hub.get("s")).row().agent_session == row.agent_session == Listing(log).agent_session
            assert (row.asks, row.detail) == (None, Listing(log).said()["detail"])
        finally:
            await hub.close()

    asyncio.run(crashes())


ASKED = DecisionOpened(decision="d", kind="permission", text="rm")
QUESTION = DecisionOpened(decision="q", kind="question", text="which?")
OWN = ToolCalled(call="own", tool="Bash")
SUB = ToolCalled(call="sub", tool="Grep", origin=Origin("hook", subagent="a1"))
STOP = HookAnswered(hook="stop")
RUN = AgentStarted(agent_session="thread")
WORKS = StateChanged(prev="starting", next="working", cause="hook")

ROWS: dict[str, tuple[tuple[AnyFact, ...], dict[str, Any]]] = {
    "new": ((), {"tool": None, "agent_session": None, "asks": None, "rests": False, "detail": {}, "active_at": 1}),
    "what a sub-agent does is not the agent's tool (spec 11 #23)": ((OWN, SUB), {"tool": "Bash"}),
    "the end of a sub-agent's call ends no other": (
        (OWN, SUB, ToolEnded(call="sub", tool="Grep", status="ok")),
        {"tool": "Bash"},
    ),
    "of several calls the newest": ((OWN, ToolCalled(call="2", tool="Read")), {"tool": "Read"}),
    "of several decisions the oldest": ((QUESTION, ASKED), {"asks": "question"}),
    "then the next": (
        (QUESTION, ASKED, DecisionResolved(decision="q", outcome="cancelled")),
        {"asks": "permission"},
    ),
    "a stop": ((RUN, WORKS, STOP), {"rests": True}),
    "a stop that was blocked": ((RUN, WORKS, HookAnswered(hook="stop", verdict="blocked")), {"rests": False}),
    "a stop, and work": ((RUN, WORKS, STOP, StateChanged(prev="idle", next="working", cause="x")), {"rests": False}),
    "a stop, and a program started again": ((STOP, AgentExited(cause="exit"), RUN), {"rests": False}),
    "a stop, and what is no work": (
        (STOP, StateChanged(prev="starting", next="idle", cause="x"), Notified(message="x")),
        {"rests": True, "active_at": 4},
    ),
    "a name of its own": ((RUN,), {"agent_session": "thread"}),
    "a later name": ((RUN, HookAnswered(hook="start", agent_session="resumed")), {"agent_session": "resumed"}),
    "a start that names none": ((RUN, HookAnswered(hook="start")), {"agent_session": "thread"}),
    "an end that names one": ((RUN, HookAnswered(hook="end", agent_session="x")), {"agent_session": "thread"}),
    "what a program writes is no sign of life": (
        (RUN, LogWritten(line="x"), TerminalTitled(title="x", tape_offset=0)),
        {"active_at": 2},
    ),
    "settings are none": ((SettingsChanged(changes={"title": "x"}),), {"active_at": 1}),
    "what it says is one": ((MessageAdded(message="m", role="user", text="hi"),), {"active_at": 2}),
    "a prompt is one": ((PromptSubmitted(prompt="p", text="x", by="local", via="cin"),), {"active_at": 2}),
    "settings that lists show": (
        (SettingsChanged(changes={"zone": {"q": 1, "r": 2}, "auto_accept": False, "mode": "plan"}),),
        {"detail": {"zone": {"q": 1, "r": 2}, "auto_accept": False}},
    ),
    "a place that was taken away": (
        (SettingsChanged(changes={"zone": {"q": 1, "r": 2}}), SettingsChanged(changes={"zone": None})),
        {"detail": {}},
    ),
}


@pytest.mark.parametrize(("facts", "said"), ROWS.values(), ids=ROWS)
def test_a_row_shows(facts: tuple[AnyFact, ...], said: dict[str, Any]) -> None:
    created = SessionCreated(kind="elsewhere", agent="claude", cwd="/", title="t", owner="local")
    events = [Event(seq, seq, "e", fact) for seq, fact in enumerate((created, *facts), 1)]
    row = fold(events).row()
    assert {name: getattr(row, name) for name in said} == said
    assert listed(row) == Listing(events).said()


def test_only_some_options_are_listed() -> None:
    options = {"attach": "tmux:work", "command": ["claude"], "secret": "x"}
    created = SessionCreated(kind="terminal", agent="claude", cwd="/", title="t", owner="local", options=options)
    assert fold([Event(1, 1, "e", created)]).row().detail == {"attach": "tmux:work"}


NEW = ("active_at", "rests", "tool", "agent_session", "asks", "detail")


def test_rows_and_snapshots_from_before_there_were_lists_can_be_read() -> None:
    created = SessionCreated(kind="elsewhere", agent="claude", cwd="/", title="t", owner="local")
    facts: tuple[AnyFact, ...] = (created, RUN, OWN, ASKED)
    state = fold([Event(seq, seq, "e", fact) for seq, fact in enumerate(facts, 1)])
    row = msgspec.json.decode(msgspec.json.encode(state.row()))
    assert row.keys() >= {"active_at", "tool", "agent_session", "asks"}
    old_row = msgspec.json.decode(
        msgspec.json.encode({key: value for key, value in row.items() if key not in NEW}), type=SessionRow
    )
    assert (old_row.active_at, old_row.rests, old_row.tool, old_row.detail) == (0, False, None, {})
    old = msgspec.json.decode(encode_state(state))
    for name in ("active_at", "rests", "agent_session"):
        old.pop(name, None)
    del old["calls"]["own"]["subagent"]
    read = decode_state(msgspec.json.encode(old))
    assert (read.tool, read.asks, read.row().agent_session) == ("Bash", "permission", None), "what is open is known"
    read.apply(Event(5, 5, "e", HookAnswered(hook="start", agent_session="again")))
    assert (read.row().agent_session, read.row().active_at) == ("again", 5)


# Agents elsewhere


async def test_only_an_agent_elsewhere_may_be_in_a_folder_that_is_not_here(tmp_path: Path) -> None:
    hub = Hub(InMemory(), tmp_path, factories=[ElsewhereFactory()])
    registry = await hub.open()
    far = str(tmp_path / "not" / "here")
    with pytest.raises(InvalidRequest):
        await registry.create(LOCAL, kind="puppet", cwd=far)
    session = await registry.create(LOCAL, kind="elsewhere", cwd=far)
    assert (session.row().cwd, session.row().title) == (far, "here")
    with pytest.raises(InvalidRequest):
        await registry.create(LOCAL, kind="elsewhere", cwd="relative")
    await hub.close()


async def test_what_an_agent_elsewhere_left_open_is_its_factorys_to_close(tmp_path: Path) -> None:
    """Invariant 6: a lost server is no reason to say that it ended. One of ours beside it is put right."""
    factory = ElsewhereFactory()
    hub = Hub(InMemory(), tmp_path, factories=[factory])
    registry = await hub.open()
    for kind in ("elsewhere", "puppet"):
        session = await registry.create(LOCAL, kind=kind, cwd=hub.cwd)
        for fact in (RUN, OWN, ASKED):
            session.record(fact)
        await session.durable(session.head)
    registry = await hub.recrash()
    theirs, ours = sorted(registry.rows(LOCAL), key=lambda row: row.kind)
    assert (theirs.kind, theirs.status, theirs.tool, theirs.asks) == ("elsewhere", "waiting", "Bash", "permission")
    assert (ours.kind, ours.status, ours.tool, ours.asks) == ("puppet", "exited", None, None)
    ((recovered, lost),) = factory.recovered
    assert recovered == theirs.session
    assert lost is not None
    assert (await hub.facts(theirs.session))[1:] == [RUN, OWN, ASKED]
    await hub.close()


async def test_a_prompt_for_one_elsewhere_waits_for_its_factory_after_a_loss(tmp_path: Path) -> None:
    """What its recovery records is what the log goes on with."""

    class Closes(ElsewhereFactory):
        async def recover(self, session: Session, lost: Executor | None) -> None:
            await super().recover(session, lost)
            session.record(ToolEnded(call="own", tool="Bash", status="interrupted"), settling=True)
            session.record(AgentExited(cause="server-lost"), settling=True)
            await session.durable(session.head)

    hub = Hub(InMemory(), tmp_path, factories=[Closes()])
    session = await (await hub.open()).create(LOCAL, kind="elsewhere", cwd=hub.cwd)
    for fact in (RUN, OWN):
        session.record(fact)
    await session.durable(session.head)
    await hub.recrash()
    again = await hub.get(session.id)
    if again.recovering is not None:
        await again.recovering
    assert (again.row().status, again.row().tool, again.row().unsettled) == ("exited", None, False)
    assert listed(again.row()) == Listing(await hub.log(again)).said()
    await hub.close()


def _elsewhere(log: Sequence[Event]) -> list[Event]:
    """The same log, of a session elsewhere, in which nothing waits that would run by itself."""
    created = SessionCreated(kind="elsewhere", agent="claude", cwd="/far", title="t", owner="local")
    facts: list[AnyFact] = [created, *(event.fact for event in log[1:] if _of_hooks(event.fact))]
    return [Event(seq, 1000 + seq, "before", fact) for seq, fact in enumerate(facts, 1)]


def _of_hooks(fact: AnyFact) -> bool:
    """Whether it can stand alone, without a turn of ours."""
    name = str(fact.__struct_config__.tag)
    return not name.startswith(("prompt.", "turn.", "session.")) and getattr(fact, "turn", None) is None


async def _opened_on(events: Sequence[Event]) -> Hub:
    store = InMemory()
    journal = store.journal()
    await journal.open(lambda _: None)
    rewrite(events, "s", journal)
    await journal.flush()
    await journal.close()
    hub = Hub(store, Path("/"), factories=[ElsewhereFactory()])
    await hub.open()
    return hub
