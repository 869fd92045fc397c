"""Tools that clients run: who may offer what; one result for every call, from the link that was asked or from us."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dragoman.hub.client_tools import CallResult, ClientCall, Declared
from dragoman.hub.errors import (
    AlreadyEnded,
    Closed,
    HubError,
    InvalidRequest,
    LimitReached,
    NotPermitted,
    StorageUnavailable,
    UnknownCall,
    UnknownSession,
)
from dragoman.hub.events import ClientToolsDeclared, Problem, ToolCalled, ToolEnded, TurnEnded
from dragoman.hub.limits import HubLimits
from dragoman.hub.permissions import EVERYTHING, LOCAL, STRANGER, Principal
from dragoman.hub.session import Session
from dragoman.hub.tool_offers import ToolOffer
from dragoman.hub.turns import TurnContext

from .conftest import MakeHub
from .rig import Hub, InMemory, idle, proven, turns_of_the_loop, until

LONG = 60.0


def tool(name: str, **more: Any) -> ToolOffer:
    return ToolOffer(name=name, description=f"does {name}", **more)


async def declare(session: Session, link: str, *names: str) -> Declared:
    return await session.declare_tools(LOCAL, link, [tool(name) for name in names])


def call(name: str, which: str, given: Any = None) -> ClientCall:
    return ClientCall(call=name, tool=which, input=given)


class Caller:
    """What puppets do here: each turn runs the steps it was given, and keeps their results."""

    def __init__(self, hub: Hub, *steps: Sequence[ClientCall], timeout: float = LONG) -> None:
        self.steps, self.timeout = steps, timeout
        self.results: list[list[ToolEnded]] = []
        hub.puppets.behave = self

    async def __call__(self, turn: TurnContext) -> str | None:
        for step in self.steps:
            self.results.append(await turn.session.call_client_tools(turn, step, self.timeout))
        return "went on"

    @property
    def said(self) -> list[tuple[str, str, str | None]]:
        """Call, status and problem of every result so far."""
        return [(end.call, end.status, end.problem and end.problem.code) for step in self.results for end in step]


async def go(session: Session) -> None:
    await session.submit(LOCAL, "go", via="test")


async def opened(session: Session, *calls: str) -> None:
    await until(lambda: session.shown.calls.keys() >= set(calls), lambda: f"open calls: {session.shown.calls}")


async def outcome(hub: Hub, session: Session) -> TurnEnded:
    await idle(session)
    return [fact for fact in await hub.facts(session) if isinstance(fact, TurnEnded)][-1]


# Offering


async def test_what_is_offered_can_be_called_while_its_link_lives(any_hub: Hub) -> None:
    session = await any_hub.create("puppet")
    declared = await declare(session, "one", "look", "click")
    assert (declared.accepted, declared.rejected) == (("look", "click"), ())
    fact = (await any_hub.facts(session))[-1]
    assert isinstance(fact, ClientToolsDeclared)
    assert (fact.by, fact.client) == ("local", "one")
    assert fact.accepted[0] == {"name": "look", "description": "does look"}
    assert [(offered.offer.name, offered.link) for offered in session.client_tools] == [
        ("look", "one"),
        ("click", "one"),
    ]
    session.retract_tools("one")
    session.retract_tools("nobody")
    assert session.client_tools == ()


async def test_each_offer_is_refused_for_its_own_reason(make_hub: MakeHub) -> None:
    hub = await make_hub(limits=HubLimits(client_tools=3, client_tool_bytes=300, client_tools_bytes=500))
    session = await hub.create("puppet")
    deep: dict[str, Any] = {}
    for _ in range(200):
        deep = {"properties": deep}
    offers = [
        tool("good", parameters={"type": "object", "properties": {"x": {"type": "string"}}}),
        tool("good"),
        tool("own"),
        tool(""),
        tool("a b"),
        tool("x" * 97),
        tool("a\n"),
        tool("list", parameters=["x"]),
        tool("none", parameters=None),
        tool("text", parameters={"type": "string"}),
        tool("deep", parameters=deep),
        tool("broken", parameters={"title": "\ud800"}),
        tool("large", detail={"x": "y" * 300}),
        tool("big", detail={"x": "y" * 200}),
        tool("full", detail={"x": "y" * 200}),
        tool("last"),
        tool("late"),
    ]
    declared = await session.declare_tools(LOCAL, "one", offers)
    assert declared.accepted == ("good", "big", "last")
    reasons = {refused.name: refused.reason for refused in declared.rejected}
    assert reasons["good"] == "offered twice"
    assert "agent has itself" in reasons["own"]
    for name in ("", "a b", "a\n"):
        assert "a name is" in reasons[name]
    for name in ("list", "none", "text"):
        assert "object" in reasons[name]
    assert "nested" in reasons["deep"]
    assert "stored" in reasons["broken"]
    assert "client_tool_bytes" in reasons["large"]
    assert "client_tools_bytes" in reasons["full"]
    assert "(client_tools)" in reasons["late"]
    assert len(declared.rejected) == len(offers) - 3
    fact = (await hub.facts(session))[-1]
    assert isinstance(fact, ClientToolsDeclared)
    assert len(fact.rejected) == len(offers) - 3


async def test_a_thousand_offers_leave_as_many_as_one_client_may_have(hub: Hub) -> None:
    session = await hub.create("puppet")
    declared = await declare(session, "one", *(f"tool{n}" for n in range(1000)))
    assert len(declared.accepted) == HubLimits().client_tools
    assert len(declared.rejected) == 1000 - HubLimits().client_tools
    assert len(session.client_tools) == HubLimits().client_tools


async def test_so_many_links_and_no_more_may_offer(make_hub: MakeHub) -> None:
    hub = await make_hub(limits=HubLimits(tool_links=2))
    session = await hub.create("puppet")
    await declare(session, "one", "a")
    await declare(session, "two", "b")
    with pytest.raises(LimitReached):
        await declare(session, "three", "c")
    await declare(session, "one")
    await declare(session, "three", "c")
    await declare(session, "two", "d")
    assert {offered.offer.name for offered in session.client_tools} == {"c", "d"}


async def test_the_newest_offer_of_a_name_wins_and_leaves_the_older_one_behind(hub: Hub) -> None:
    caller = Caller(hub, [call("c1", "look")], [call("c2", "look")])
    session = await hub.create("puppet")
    await declare(session, "one", "look")
    await declare(session, "two", "look")
    await go(session)
    await opened(session, "c1")
    assert session.shown.calls["c1"].client == "two"
    with pytest.raises(UnknownCall):
        await session.end_tool(LOCAL, "c1", link="one")
    session.retract_tools("two")
    await opened(session, "c2")
    assert session.shown.calls["c2"].client == "one"
    await session.end_tool(LOCAL, "c2", link="one", output="seen")
    assert (await outcome(hub, session)).result == "went on"
    assert caller.said == [("c1", "error", "client_gone"), ("c2", "ok", None)]


async def test_rights_are_asked_for_every_time(hub: Hub) -> None:
    Caller(hub, [call("c", "look")])
    session = await hub.create("puppet")
    elsewhere = Principal("elsewhere", EVERYTHING, frozenset({"another"}))
    for principal, error in ((STRANGER, NotPermitted), (elsewhere, UnknownSession)):
        with pytest.raises(error):
            await session.declare_tools(principal, "one", [tool("look")])
    assert session.client_tools == ()
    await declare(session, "one", "look")
    await go(session)
    await opened(session, "c")
    for principal, error in ((STRANGER, NotPermitted), (elsewhere, UnknownSession)):
        with pytest.raises(error):
            await session.end_tool(principal, "c", link="one")
        with pytest.raises(error):
            await session.end_tools(principal, "c", [], link="one")
    await session.close("done")
    with pytest.raises(Closed):
        await declare(session, "one", "look")
    with pytest.raises(Closed):
        await session.end_tool(LOCAL, "c", link="one")


async def test_a_declaration_that_is_not_recorded_changes_nothing(hub: Hub) -> None:
    session = await hub.create("puppet")
    await declare(session, "one", "look")
    hub.journal.fail("disk full")
    with pytest.raises(StorageUnavailable):
        await declare(session, "one", "click")
    hub.journal.heal()
    assert [offered.offer.name for offered in session.client_tools] == ["look"]


async def test_a_session_with_offers_stays_in_memory(hub: Hub) -> None:
    session = await hub.create("puppet")
    assert session.idle
    await declare(session, "one", "look")
    assert not session.idle
    session.retract_tools("one")
    assert session.idle
    await declare(session, "one", "look")
    await session.close("done")
    assert session.client_tools == ()
    assert session.idle


# Calling


async def test_a_call_says_who_runs_it_and_gets_what_the_client_said(any_hub: Hub) -> None:
    caller = Caller(any_hub, [call("c", "look", {"at": "door"})])
    session = await any_hub.create("puppet")
    await declare(session, "one", "look")
    await go(session)
    await opened(session, "c")
    assert session.shown.calls["c"].input == {"at": "door"}
    problem = Problem(code="failed", message="it is dark")
    event = await session.end_tool(
        LOCAL, "c", link="one", status="error", output=[1], problem=problem, artifacts=("a",), detail={"k": 1}
    )
    await outcome(any_hub, session)
    facts = await any_hub.facts(session)
    (called,) = [fact for fact in facts if isinstance(fact, ToolCalled)]
    assert (called.executor, called.client, called.bundle, called.position) == ("client", "one", None, None)
    ended = facts[event.seq - 1]
    assert isinstance(ended, ToolEnded)
    assert (ended.tool, ended.status, ended.output, ended.problem) == ("look", "error", [1], problem)
    assert (ended.artifacts, ended.detail, ended.turn) == (("a",), {"k": 1}, called.turn)
    assert ended.duration_ms is not None
    assert caller.results == [[ended]]


async def test_calls_of_one_step_are_bundles_that_never_mix_links(hub: Hub) -> None:
    step = [call("c1", "look"), call("c2", "click"), call("c3", "look"), call("c4", "hear"), call("c5", "fly")]
    caller = Caller(hub, step)
    session = await hub.create("puppet")
    await declare(session, "one", "look", "click")
    await declare(session, "two", "hear")
    await go(session)
    await opened(session, "c1", "c2", "c3", "c4")
    open_ = session.shown.calls
    bundle = open_["c1"].bundle
    assert bundle is not None
    assert [(open_[name].bundle, open_[name].position, open_[name].bundle_size) for name in ("c1", "c2", "c3")] == [
        (bundle, 0, 3),
        (bundle, 1, 3),
        (bundle, 2, 3),
    ]
    assert (open_["c4"].bundle, open_["c4"].client) == (None, "two")
    results = [CallResult(call="c2", output=2), CallResult(call="c1", output=1)]
    for link, name in (("two", bundle), ("one", "another"), ("one", "c4")):
        with pytest.raises(HubError):
            await session.end_tools(LOCAL, name, results, link=link)
    for wrong in ([*results, results[0]], [*results, CallResult(call="c4")]):
        with pytest.raises(HubError):
            await session.end_tools(LOCAL, bundle, wrong, link="one")
    assert open_.keys() == {"c1", "c2", "c3", "c4"}
    await session.end_tools(LOCAL, bundle, results, link="one")
    await session.end_tool(LOCAL, "c4", link="two")
    await outcome(hub, session)
    facts = await hub.facts(session)
    assert [fact.call for fact in facts if isinstance(fact, ToolEnded)] == ["c5", "c1", "c2", "c3", "c4"]
    assert caller.said == [
        ("c1", "ok", None),
        ("c2", "ok", None),
        ("c3", "interrupted", "not_run"),
        ("c4", "ok", None),
        ("c5", "error", "client_gone"),
    ]
    with pytest.raises(AlreadyEnded):
        await session.end_tools(LOCAL, bundle, results, link="one")
    with pytest.raises(UnknownCall):
        await session.end_tools(LOCAL, bundle, [], link="one")


async def test_a_bundle_may_be_ended_step_by_step_and_then_the_rest(hub: Hub) -> None:
    caller = Caller(hub, [call("c1", "look"), call("c2", "look"), call("c3", "look")])
    session = await hub.create("puppet")
    await declare(session, "one", "look")
    await go(session)
    await opened(session, "c1", "c2", "c3")
    bundle = session.shown.calls["c1"].bundle or ""
    await session.end_tool(LOCAL, "c1", link="one")
    with pytest.raises(AlreadyEnded):
        await session.end_tools(LOCAL, bundle, [CallResult(call="c1"), CallResult(call="c2")], link="one")
    await session.end_tools(LOCAL, bundle, [CallResult(call="c2")], link="one")
    await outcome(hub, session)
    assert [status for _, status, _ in caller.said] == ["ok", "ok", "interrupted"]


async def test_a_result_counts_once_and_only_if_it_can_be_kept(make_hub: MakeHub) -> None:
    hub = await make_hub(limits=HubLimits(tool_result_bytes=1000))
    caller = Caller(hub, [call("c", "look")])
    session = await hub.create("puppet")
    await declare(session, "one", "look")
    await go(session)
    await opened(session, "c")
    deep: Any = 0
    for _ in range(200):
        deep = [deep]
    head = session.head
    for output, error in (("x" * 1000, LimitReached), ("\ud800", InvalidRequest), (deep, InvalidRequest)):
        with pytest.raises(error):
            await session.end_tool(LOCAL, "c", link="one", output=output)
    for name, link in (("c", "two"), ("never", "one")):
        with pytest.raises(UnknownCall):
            await session.end_tool(LOCAL, name, link=link)
    assert session.head == head
    await session.end_tool(LOCAL, "c", link="one", output="first")
    with pytest.raises(AlreadyEnded):
        await session.end_tool(LOCAL, "c", link="one", output="second")
    with pytest.raises(UnknownCall):
        await session.end_tool(LOCAL, "c", link="two", output="foreign")
    await outcome(hub, session)
    assert [end.output for end in caller.results[0]] == ["first"]


async def test_a_result_is_not_acknowledged_before_it_is_on_disk(make_hub: MakeHub) -> None:
    """Invariant 3, for results."""
    hub = await make_hub(limits=HubLimits(ack_seconds=0.05))
    caller = Caller(hub, [call("c", "look")])
    session = await hub.create("puppet")
    await declare(session, "one", "look")
    await go(session)
    await opened(session, "c")
    hub.journal.fail("disk full")
    with pytest.raises(StorageUnavailable):
        await session.end_tool(LOCAL, "c", link="one")
    assert caller.results == []
    hub.journal.heal()
    await session.end_tool(LOCAL, "c", link="one")
    await outcome(hub, session)
    assert caller.said == [("c", "ok", None)]


async def test_what_does_not_come_in_time_fails_and_the_turn_goes_on(hub: Hub) -> None:
    caller = Caller(hub, [call("c1", "look"), call("c2", "look")], timeout=0.02)
    session = await hub.create("puppet")
    await declare(session, "one", "look")
    await go(session)
    assert (await outcome(hub, session)).result == "went on"
    assert caller.said == [("c1", "error", "timeout"), ("c2", "error", "timeout")]
    with pytest.raises(AlreadyEnded):
        await session.end_tool(LOCAL, "c2", link="one", output="late")


async def test_a_lost_link_fails_its_own_calls_at_once_and_the_turn_goes_on(hub: Hub) -> None:
    caller = Caller(hub, [call("c1", "look"), call("c2", "hear")])
    session = await hub.create("puppet")
    await declare(session, "one", "look")
    await declare(session, "two", "hear")
    await go(session)
    await opened(session, "c1", "c2")
    session.retract_tools("one")
    assert session.state.calls.keys() == {"c2"}
    with pytest.raises(AlreadyEnded):
        await session.end_tool(LOCAL, "c1", link="one")
    await session.end_tool(LOCAL, "c2", link="two")
    assert (await outcome(hub, session)).result == "went on"
    assert caller.said == [("c1", "error", "client_gone"), ("c2", "ok", None)]


async def test_offering_anew_fails_only_calls_of_tools_that_are_offered_no_more(hub: Hub) -> None:
    caller = Caller(hub, [call("c1", "look"), call("c2", "click")])
    session = await hub.create("puppet")
    await declare(session, "one", "look", "click")
    await go(session)
    await opened(session, "c1", "c2")
    await declare(session, "one", "click", "hear")
    assert session.state.calls.keys() == {"c2"}
    await session.end_tool(LOCAL, "c2", link="one")
    await outcome(hub, session)
    assert caller.said == [("c1", "error", "client_gone"), ("c2", "ok", None)]


async def test_a_cancelled_turn_leaves_one_marked_result_and_takes_no_other(hub: Hub) -> None:
    Caller(hub, [call("c1", "look"), call("c2", "look")])
    session = await hub.create("puppet")
    await declare(session, "one", "look")
    await go(session)
    await opened(session, "c1", "c2")
    await session.cancel(LOCAL, via="test")
    with pytest.raises(AlreadyEnded):
        await session.end_tool(LOCAL, "c1", link="one")
    ends = [fact for fact in await hub.facts(session) if isinstance(fact, ToolEnded)]
    assert [(end.call, end.status) for end in ends] == [("c1", "interrupted"), ("c2", "interrupted")]
    assert not session._results


async def test_a_call_id_is_used_once(hub: Hub) -> None:
    Caller(hub, [call("c", "look"), call("c", "look")])
    session = await hub.create("puppet")
    await declare(session, "one", "look")
    await go(session)
    assert (await outcome(hub, session)).outcome == "failed"
    assert not [fact for fact in await hub.facts(session) if isinstance(fact, ToolCalled)]


async def test_a_step_that_cannot_be_recorded_leaves_no_call_open(hub: Hub) -> None:
    async def careless(turn: TurnContext) -> str | None:
        with pytest.raises(InvalidRequest):
            await turn.session.call_client_tools(turn, [call("c1", "look"), call("c2", "look", "\ud800")], LONG)
        assert not turn.session.state.calls
        assert await turn.session.call_client_tools(turn, [], LONG) == []
        return "went on"

    hub.puppets.behave = careless
    session = await hub.create("puppet")
    await declare(session, "one", "look")
    await go(session)
    assert (await outcome(hub, session)).result == "went on"


# Restarts


async def test_after_a_lost_server_calls_are_interrupted_and_nothing_is_offered(any_hub: Hub) -> None:
    """Invariant 6."""
    Caller(any_hub, [call("c1", "look"), call("c2", "look")])
    session = await any_hub.create("puppet")
    await declare(session, "one", "look")
    await go(session)
    await opened(session, "c1", "c2")
    await any_hub.recrash()
    again = await any_hub.get(session)
    assert again.client_tools == ()
    ends = [fact for fact in await any_hub.facts(again) if isinstance(fact, ToolEnded)]
    assert [(end.call, end.status) for end in ends] == [("c1", "interrupted"), ("c2", "interrupted")]
    with pytest.raises(AlreadyEnded):
        await again.end_tool(LOCAL, "c1", link="one")
    with pytest.raises(UnknownCall):
        await again.end_tool(LOCAL, "c1", link="two")


async def test_a_server_that_stops_ends_what_clients_run(any_hub: Hub) -> None:
    Caller(any_hub, [call("c", "look")])
    session = await any_hub.create("puppet")
    await declare(session, "one", "look")
    await go(session)
    await opened(session, "c")
    await any_hub.restart()
    (end,) = [fact for fact in await any_hub.facts(session) if isinstance(fact, ToolEnded)]
    assert end.status == "interrupted"


# Whatever happens, in whatever order

_LINKS = ("one", "two", "three")
_TOOLS = ("look", "click", "hear")

_moves = st.one_of(
    st.tuples(st.just("declare"), st.sampled_from(_LINKS), st.lists(st.sampled_from(_TOOLS), min_size=1, unique=True)),
    st.tuples(st.just("declare"), st.sampled_from(_LINKS), st.just([])),
    st.tuples(st.just("retract"), st.sampled_from(_LINKS)),
    st.tuples(st.just("step"), st.lists(st.sampled_from((*_TOOLS, "never")), min_size=1, max_size=4)),
    st.tuples(st.just("end"), st.sampled_from((None, *_LINKS)), st.integers(0, 30)),
    st.tuples(st.just("end all"), st.sampled_from((None, *_LINKS)), st.integers(0, 30), st.integers(0, 3)),
    st.tuples(st.just("let run")),
    st.tuples(st.just("cancel")),
)
"""Numbers count the calls from the newest back; without a link it is the right one that ends the call."""


class Play:
    """Does the moves, and expects of every result what the log before it says."""

    def __init__(self, hub: Hub, session: Session) -> None:
        self.session = session
        self.steps: asyncio.Queue[list[ClientCall]] = asyncio.Queue()
        self.calls: list[str] = []
        hub.puppets.behave = self.work

    async def work(self, turn: TurnContext) -> str | None:
        while True:
            step = await self.steps.get()
            ends = await turn.session.call_client_tools(turn, step, LONG)
            assert [end.call for end in ends] == [call.call for call in step]

    async def do(self, move: tuple[Any, ...]) -> None:
        await getattr(self, "_" + move[0].replace(" ", "_"))(*move[1:])

    async def _declare(self, link: str, names: list[str]) -> None:
        await declare(self.session, link, *names)

    async def _retract(self, link: str) -> None:
        self.session.retract_tools(link)
        assert not [open_ for open_ in self.session.state.calls.values() if open_.client == link]

    async def _step(self, tools: list[str]) -> None:
        if self.session.state.turn is None:
            await go(self.session)
        step = [call(f"c{len(self.calls) + n}", name) for n, name in enumerate(tools)]
        self.calls += [one.call for one in step]
        self.steps.put_nowait(step)
        await turns_of_the_loop()

    def _pick(self, which: int) -> str:
        return f"c{len(self.calls) - 1 - which}"

    async def _end(self, link: str | None, which: int) -> None:
        name = self._pick(which)
        open_ = self.session.state.calls.get(name)
        link = link or (open_ and open_.client) or "one"
        mine = open_ is not None and open_.client == link
        head = self.session.head
        try:
            await self.session.end_tool(LOCAL, name, link=link, output=link)
        except (UnknownCall, AlreadyEnded):
            assert not mine
            assert self.session.state.calls.get(name) == open_
        else:
            assert mine
            assert self.session.head > head

    async def _end_all(self, link: str | None, which: int, count: int) -> None:
        open_ = self.session.state.calls.get(self._pick(which))
        if open_ is None or open_.bundle is None:
            return
        link = link or open_.client or "one"
        steps = [step.call for step in self.session.state.calls.values() if step.bundle == open_.bundle]
        results = [CallResult(call=step) for step in steps[:count]]
        try:
            await self.session.end_tools(LOCAL, open_.bundle, results, link=link)
        except UnknownCall:
            assert open_.client != link
        else:
            assert open_.client == link
            assert not self.session.state.calls.keys() & set(steps)

    async def _let_run(self) -> None:
        await turns_of_the_loop()

    async def _cancel(self) -> None:
        if self.session.state.turn is not None:
            await self.session.cancel(LOCAL, via="test")
            while not self.steps.empty():
                self.steps.get_nowait()


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(moves=st.lists(_moves, min_size=5, max_size=40))
def test_every_call_ends_once_and_by_nobody_but_its_link(tmp_path: Path, moves: list[tuple[Any, ...]]) -> None:
    async def play() -> None:
        async with proven(Hub(InMemory(), tmp_path)) as hub:
            session = await hub.create("puppet")
            game = Play(hub, session)
            await declare(session, "one", *_TOOLS)
            for move in moves:
                await game.do(move)
            await game._cancel()
            called: dict[str, ToolCalled] = {}
            ended: list[str] = []
            for fact in await hub.facts(session):
                if isinstance(fact, ToolCalled):
                    called[fact.call] = fact
                elif isinstance(fact, ToolEnded):
                    ended.append(fact.call)
                    if fact.output is not None:
                        assert fact.output == called[fact.call].client
            assert sorted(ended) == sorted(called)

    asyncio.run(play())


async def test_a_turn_whose_prompt_names_its_client_has_that_clients_tools_only(hub: Hub) -> None:
    """The next turn, which names nobody, has everybody's again."""
    session = await hub.create("puppet")
    await declare(session, "one", "shared", "mine")
    await declare(session, "two", "shared", "other")
    seen: list[dict[str, str]] = []

    async def look(turn: TurnContext) -> str | None:
        seen.append({tool.offer.name: tool.link for tool in turn.session.client_tools})
        return None

    hub.puppets.behave = look
    for client in ("one", "gone", None):
        await session.submit(LOCAL, "go", via="test", client=client)
        await idle(session)
    assert seen == [{"shared": "one", "mine": "one"}, {}, {"shared": "two", "mine": "one", "other": "two"}]


async def test_a_call_goes_to_the_client_of_its_prompt(hub: Hub) -> None:
    session = await hub.create("puppet")
    await declare(session, "one", "shared")
    await declare(session, "two", "shared", "other")
    caller = Caller(hub, [call("a", "shared"), call("b", "other")])
    await session.submit(LOCAL, "go", via="test", client="one")
    await opened(session, "a")
    with pytest.raises(UnknownCall):
        await session.end_tool(LOCAL, "a", link="two")
    await session.end_tool(LOCAL, "a", link="one", output=1)
    await idle(session)
    assert caller.said == [("a", "ok", None), ("b", "error", "client_gone")]
