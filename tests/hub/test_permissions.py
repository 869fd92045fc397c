"""Who may do what, and that an id means nothing to whoever may not see it (invariant 12)."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from dragoman.hub.errors import AlreadyResolved, Gone, HubError, NotPermitted, UnknownDecision, UnknownSession
from dragoman.hub.events import Answer, DecisionRevised, LogWritten
from dragoman.hub.permissions import EVERYTHING, HOLDER, LOCAL, READ_ONLY, STRANGER, Principal, Right
from dragoman.hub.session import Session

from .rig import YES, Hub, ask, until

RIGHTS = [frozenset(chosen) for count in range(len(Right) + 1) for chosen in itertools.combinations(Right, count)]


@pytest.mark.parametrize("rights", RIGHTS, ids=lambda rights: "+".join(sorted(rights)) or "none")
def test_each_right_is_for_itself(rights: frozenset[Right]) -> None:
    everywhere, here = Principal("p", rights), Principal("p", rights, only=frozenset({"here"}))
    for right in Right:
        for principal, session, visible in (
            (everywhere, "here", Right.READ in rights),
            (here, "here", Right.READ in rights),
            (here, "there", False),
        ):
            assert principal.may_see(session) == visible
            if not visible:
                with pytest.raises(UnknownSession):
                    principal.check(session, right)
            elif right not in rights:
                with pytest.raises(NotPermitted, match=right):
                    principal.check(session, right)
            else:
                principal.check(session, right)


def test_the_standing_principals() -> None:
    assert LOCAL.rights == HOLDER.rights == EVERYTHING == frozenset(Right)
    assert STRANGER.rights == READ_ONLY == {Right.READ}
    assert {LOCAL.only, HOLDER.only, STRANGER.only} == {None}
    assert len({LOCAL.id, HOLDER.id, STRANGER.id}) == 3


Attempt = Callable[[Hub, Principal, str], Awaitable[object]]


async def _row(hub: Hub, principal: Principal, session: str) -> object:
    return hub.registry.row(principal, session)


ATTEMPTS: dict[str, Attempt] = {
    "row": _row,
    "get": lambda hub, principal, session: hub.registry.get(principal, session),
    "delete": lambda hub, principal, session: hub.registry.delete(principal, session),
}

BLIND: dict[str, Principal] = {
    "who sees another one only": Principal("guest", EVERYTHING, only=frozenset({"another"})),
    "who sees none": Principal("guest", EVERYTHING, only=frozenset()),
    "who may not read": Principal("guest", EVERYTHING - {Right.READ}),
    "who may do nothing": Principal("guest", frozenset()),
}


@pytest.mark.parametrize("principal", BLIND.values(), ids=BLIND)
@pytest.mark.parametrize("attempt", ATTEMPTS.values(), ids=ATTEMPTS)
async def test_a_session_out_of_sight_is_as_unknown_as_one_that_never_was(
    any_hub: Hub, attempt: Attempt, principal: Principal
) -> None:
    """Invariant 12: not in the kind of the refusal, not in its words, not in what happens."""
    there, dropped = await any_hub.create("puppet"), await any_hub.create("puppet")
    await any_hub.registry.delete(LOCAL, dropped.id)
    never = "never" + there.id[5:]
    refusals = []
    for session in (there.id, dropped.id, never):
        with pytest.raises(HubError) as refusal:
            await attempt(any_hub, principal, session)
        refusals.append((type(refusal.value), refusal.value.code, str(refusal.value).replace(session, "ID")))
    assert len(set(refusals)) == 1
    assert refusals[0][0] is UnknownSession
    assert any_hub.registry.row(LOCAL, there.id).status == "idle"


@pytest.mark.parametrize("principal", BLIND.values(), ids=BLIND)
async def test_a_session_out_of_sight_takes_no_command(hub: Hub, principal: Principal) -> None:
    """Invariant 12, for whoever came by the object all the same: rights are asked for on every write."""
    session = await hub.create("puppet")
    session.open_decision(ask())
    await session.durable(2)

    commands: dict[str, Callable[[Session], Awaitable[object]]] = {
        "submit": lambda session: session.submit(principal, "x", via="test"),
        "withdraw": lambda session: session.withdraw(principal, "x"),
        "cancel": lambda session: session.cancel(principal, via="test"),
        "answer": lambda session: session.answer(principal, "d", YES, via="test"),
        "settings": lambda session: session.change_settings(principal, {"a": 1}),
        "start": lambda session: session.start(principal),
    }
    for command in commands.values():
        with pytest.raises(UnknownSession):
            await command(session)
    with pytest.raises(UnknownSession):
        session.control(principal)
    assert session.head == 2


@pytest.mark.parametrize("principal", BLIND.values(), ids=BLIND)
async def test_lists_hold_only_what_is_in_sight(any_hub: Hub, principal: Principal) -> None:
    """Invariant 12."""
    session = await any_hub.create("puppet")
    await session.acknowledged(session.record(LogWritten(line="s3cret")))
    assert any_hub.registry.rows(principal) == []
    assert await any_hub.registry.newest(principal, 100) == []


async def test_who_sees_some_sees_those(any_hub: Hub) -> None:
    one, two, three = [await any_hub.create("puppet") for _ in range(3)]
    guest = Principal("guest", EVERYTHING, only=frozenset({one.id, three.id, "never"}))
    assert [row.session for row in any_hub.registry.rows(guest)] == [one.id, three.id]
    assert {name for name, _ in await any_hub.registry.newest(guest, 100)} == {one.id, three.id}
    assert (await any_hub.get(one, guest)).id == one.id
    await any_hub.registry.delete(guest, three.id)
    with pytest.raises(Gone):
        any_hub.registry.row(guest, three.id)
    with pytest.raises(UnknownSession):
        any_hub.registry.row(guest, two.id)


async def test_who_may_only_read_may_not_delete(hub: Hub) -> None:
    session = await hub.create("puppet")
    with pytest.raises(NotPermitted):
        await hub.registry.delete(STRANGER, session.id)
    with pytest.raises(NotPermitted):
        await hub.create("puppet", STRANGER)
    assert hub.registry.row(STRANGER, session.id).status == "idle"


async def test_reading_needs_no_other_right(hub: Hub) -> None:
    session = await hub.create("puppet")
    async with asyncio.timeout(5):
        assert (await hub.get(session, STRANGER)).shown.seq == 1
    assert len(hub.registry.rows(STRANGER)) == 1
    assert len(await hub.registry.newest(STRANGER, 5)) == 1


async def test_widening_what_an_agent_may_do_needs_the_approve_right(hub: Hub) -> None:
    """Design section 7: loosening a mode or approving needs the approve right."""
    session = await hub.create("puppet", settings={"mode": "plan"})
    writer = Principal("writer", frozenset({Right.READ, Right.WRITE}))
    with pytest.raises(NotPermitted, match="approve"):
        await session.change_settings(writer, {"title": "x", "mode": "full"})
    assert session.head == 1
    await session.change_settings(writer, {"title": "x"})
    await session.change_settings(LOCAL, {"mode": "full"})
    assert session.shown.settings["mode"] == "full"


@pytest.mark.parametrize("setting", ["mode", "output_directory"])
async def test_whose_agent_cannot_tell_needs_approve_for_any_change(hub: Hub, setting: str) -> None:
    session = await hub.create("puppet", settings={setting: "x"})
    writer = Principal("writer", frozenset({Right.READ, Right.WRITE}))
    for value in ("x", "y", None):
        with pytest.raises(NotPermitted, match="approve"):
            await session.change_settings(writer, {setting: value})
        with pytest.raises(NotPermitted, match="approve"):
            await hub.create("puppet", writer, settings={setting: value})
    assert session.head == 1
    await session.change_settings(LOCAL, {setting: None})


# Answering

ANSWERS = {
    "question": (Answer(text="so"), Right.WRITE),
    "form": (Answer(values={"name": "x"}), Right.WRITE),
    "permission": (YES, Right.APPROVE),
    "plan": (YES, Right.APPROVE),
    "setup": (YES, Right.APPROVE),
}
"""A valid answer to each kind of decision, and the right that it needs."""


@pytest.mark.parametrize("kind", ANSWERS)
async def test_what_answering_needs_depends_on_what_is_asked(hub: Hub, kind: str) -> None:
    """Whoever may write a prompt may say what is asked for; to permit something needs the approve right."""
    said, needed = ANSWERS[kind]
    other = ({Right.WRITE, Right.APPROVE} - {needed}).pop()
    session = await hub.create("puppet")
    await session.durable(session.open_decision(ask(kind=kind)).seq)
    with pytest.raises(NotPermitted, match=needed):
        await session.answer(Principal("p", frozenset({Right.READ, other})), "d", said, via="test")
    assert session.head == 2
    await session.answer(Principal("p", frozenset({Right.READ, needed})), "d", said, via="test")
    assert not session.shown.decisions


@pytest.mark.parametrize("right", [Right.WRITE, Right.APPROVE])
async def test_what_is_not_open_is_told_to_whoever_may_answer_something(hub: Hub, right: Right) -> None:
    session = await hub.create("puppet")
    session.open_decision(ask())
    await session.answer(LOCAL, "d", YES, via="test")
    principal = Principal("p", frozenset({Right.READ, right}))
    with pytest.raises(AlreadyResolved):
        await session.answer(principal, "d", YES, via="test")
    with pytest.raises(UnknownDecision):
        await session.answer(principal, "never", YES, via="test")
    for decision in ("d", "never"):
        with pytest.raises(NotPermitted):
            await session.answer(STRANGER, decision, YES, via="test")


async def test_a_question_that_turns_out_to_be_a_permission_needs_approve(hub: Hub) -> None:
    """Rights are asked for on every write: what a dialog is may be read only while its answer waits."""
    session = await hub.create("puppet")
    session.open_decision(ask(kind="question"))
    waits, go_on = asyncio.Event(), asyncio.Event()

    @asynccontextmanager
    async def slowly(decision: str, answer: Answer) -> AsyncIterator[None]:
        waits.set()
        await go_on.wait()
        yield

    session.ensure_agent().answering = slowly  # type: ignore[method-assign]
    writer = Principal("writer", frozenset({Right.READ, Right.WRITE}))
    answering = asyncio.create_task(session.answer(writer, "d", Answer(text="yes"), via="test"))
    await waits.wait()
    session.record(DecisionRevised(decision="d", kind="permission"))
    go_on.set()
    with pytest.raises(NotPermitted, match="approve"):
        await answering
    await until(lambda: session.shown.decisions["d"].kind == "permission", "it is still open")
