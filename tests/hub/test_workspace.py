"""A session's checkpoints: when they are taken, what is refused, what the log says of them (seed: session backups)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dragoman.hub.checkpoints import CheckpointGone, CheckpointProblem, Saved
from dragoman.hub.errors import (
    Busy,
    CheckpointFailed,
    Closed,
    Gone,
    HubError,
    InvalidRequest,
    NotPermitted,
    UnknownCheckpoint,
    Unsupported,
)
from dragoman.hub.events import (
    AnyFact,
    CheckpointDeleted,
    CheckpointRestored,
    CheckpointTaken,
    DecisionResolved,
    Problem,
    SessionClosed,
    ToolCalled,
    ToolEnded,
    TurnEnded,
    TurnSettled,
    TurnStarted,
)
from dragoman.hub.limits import HubLimits
from dragoman.hub.permissions import LOCAL, STRANGER
from dragoman.hub.session import Session
from dragoman.hub.state import decode_state, encode_state
from dragoman.hub.turns import Receipt, TurnContext, TurnFailed

from .conftest import MakeHub
from .rig import Hub, InMemory, OnDisk, ask, echo, fold, idle, open_decision, shows, turns_of_the_loop, until
from .shelf import UNREADABLE, Shelf, look

CHECKPOINTS = {"checkpoints": True}


@pytest.fixture
def shelf() -> Shelf:
    return Shelf()


@pytest.fixture
async def saving(make_hub: MakeHub, shelf: Shelf) -> Hub:
    """A hub that keeps checkpoints on a shelf."""
    return await make_hub(checkpoints=shelf)


async def create(hub: Hub, **more: Any) -> Session:
    """A session that wants checkpoints, with its first one taken unless something holds that up."""
    session = await hub.create("puppet", **{"settings": CHECKPOINTS, **more})
    if hub.checkpoints is not None and hub.checkpoints.works.is_set():  # type: ignore[attr-defined]
        await until(lambda: session.shown.checkpoints_taken)
    return session


async def submit(session: Session, text: str = "go", **more: Any) -> Receipt:
    return await session.submit(LOCAL, text, via="test", **more)


async def run(session: Session, text: str = "go") -> None:
    """One whole turn."""
    await submit(session, text)
    await idle(session)


def file(hub: Hub, name: str = "a.txt") -> Path:
    return Path(hub.cwd) / name


def writes(content: str) -> Any:
    """A turn that leaves this in the workspace."""

    async def behave(turn: TurnContext) -> str | None:
        (Path(turn.session.state.cwd) / "a.txt").write_text(content)
        return None

    return behave


async def forever(turn: TurnContext) -> str | None:
    await asyncio.get_running_loop().create_future()
    return None


async def of_kind(hub: Hub, session: Session, *kinds: type) -> list[AnyFact]:
    return [fact for fact in await hub.facts(session) if isinstance(fact, kinds)]


async def taken(hub: Hub, session: Session) -> list[tuple[str, str]]:
    """The id and the trigger of every checkpoint that the log has."""
    facts = await of_kind(hub, session, CheckpointTaken)
    return [(fact.checkpoint, fact.trigger) for fact in facts if isinstance(fact, CheckpointTaken)]


def listed(session: Session) -> list[str]:
    return list(session.shown.checkpoints)


# When they are taken


async def test_a_session_is_saved_when_it_begins(saving: Hub, shelf: Shelf) -> None:
    file(saving).write_text("before")
    session = await create(saving)
    assert await taken(saving, session) == [("cp-0000", "initial")]
    assert shelf.images[session.id] == {"cp-0000": {"a.txt": b"before"}}
    assert session.shown.first_checkpoint == session.shown.checkpoints["cp-0000"]
    assert session.checkpoint_folder == shelf.folder(session.id)


@pytest.mark.parametrize("settings", [{}, {"checkpoints": False}, {"checkpoints": None}])
async def test_nothing_is_saved_for_a_session_that_does_not_want_it(
    saving: Hub, shelf: Shelf, settings: dict[str, Any]
) -> None:
    session = await saving.create("puppet", settings=settings)
    await run(session)
    assert (shelf.calls, await taken(saving, session)) == ([], [])


async def test_a_server_without_checkpoints_refuses_them_and_runs_its_turns(hub: Hub) -> None:
    session = await create(hub)
    await run(session)
    for refused in (
        session.checkpoint(LOCAL),
        session.restore_checkpoint(LOCAL),
        session.delete_checkpoint(LOCAL, "cp-0001"),
    ):
        with pytest.raises(Unsupported):
            await refused
    assert session.checkpoint_folder is None
    assert await taken(hub, session) == []


async def test_a_checkpoint_follows_every_turn_and_says_whether_it_differs_from_the_first(saving: Hub) -> None:
    session = await create(saving)
    for content in ("one", "one", "two"):
        saving.puppets.behave = writes(content)
        await run(session)
    file(saving).unlink()
    saving.puppets.behave = echo
    await run(session)
    assert [(it.checkpoint, it.trigger, it.changed) for it in session.shown.checkpoints.values()] == [
        ("cp-0000", "initial", False),
        ("cp-0001", "auto", True),
        ("cp-0002", "auto", True),
        ("cp-0003", "auto", True),
        ("cp-0004", "auto", False),
    ]


async def fails(turn: TurnContext) -> str | None:
    raise TurnFailed(Problem(code="rate_limited", message="try later"))


async def raises(turn: TurnContext) -> str | None:
    raise RuntimeError


@pytest.mark.parametrize(
    ("behave", "outcome"), [(echo, "completed"), (fails, "failed"), (raises, "failed"), (forever, "cancelled")]
)
async def test_however_a_turn_comes_out_its_checkpoint_comes_right_before_its_end(
    saving: Hub, behave: Any, outcome: str
) -> None:
    """The seed's client hears of the checkpoint before the session is no longer busy."""
    session = await create(saving)
    saving.puppets.behave = behave
    await submit(session)
    await until(lambda: saving.puppets.began)
    if outcome == "cancelled":
        await session.cancel(LOCAL, via="test")
    await idle(session)
    saved, ended = (await saving.facts(session))[-2:]
    assert isinstance(saved, CheckpointTaken)
    assert isinstance(ended, TurnEnded)
    assert (saved.trigger, saved.problem, ended.outcome) == ("auto", None, outcome)


async def test_what_a_turn_leaves_open_is_settled_before_it_is_saved(saving: Hub, shelf: Shelf) -> None:
    """A dialog that nobody waits for any more must not stay open for as long as a large workspace takes."""
    session = await create(saving)

    async def asks(turn: TurnContext) -> str | None:
        turn.record(ToolCalled(call="c", tool="x", turn=turn.turn))
        await turn.decide(ask(turn=turn.turn))
        return None

    saving.puppets.behave = asks
    await submit(session)
    await open_decision(session)
    shelf.works.clear()
    cancelling = asyncio.create_task(session.cancel(LOCAL, via="test"))
    await until(lambda: shelf.working)
    await until(lambda: not session.shown.decisions and not session.shown.calls)
    assert not cancelling.done()
    shelf.works.set()
    await cancelling
    kinds = [type(fact) for fact in (await saving.facts(session))[-5:]]
    assert kinds == [DecisionResolved, ToolEnded, TurnSettled, CheckpointTaken, TurnEnded]


async def test_what_a_turn_said_is_shown_before_its_saving_begins(
    saving: Hub, shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await create(saving)
    await idle(session)
    begun: list[bool] = []
    save = shelf.take

    async def take(name: str, cwd: Path, checkpoint: str, *, first: str | None) -> Saved:
        begun.append(session.shown.seq == session.head)
        return await save(name, cwd, checkpoint, first=first)

    monkeypatch.setattr(shelf, "take", take)
    await submit(session)
    await idle(session)
    assert begun == [True]


async def test_the_session_is_busy_until_its_turn_is_saved(saving: Hub, shelf: Shelf) -> None:
    session = await create(saving)
    shelf.works.clear()
    receipt = await submit(session)
    await until(lambda: shelf.working)
    assert session.shown.turn is not None
    with pytest.raises(Busy) as refusal:
        await submit(session, "second")
    assert refusal.value.turn == receipt.turn
    await submit(session, "third", when_busy="queue")
    await turns_of_the_loop()
    assert saving.puppets.began == ["go"]
    shelf.works.set()
    await idle(session)
    assert saving.puppets.began == ["go", "third"]
    assert [name for name, _ in await taken(saving, session)] == ["cp-0000", "cp-0001", "cp-0002"]


async def test_the_first_turn_waits_for_the_first_checkpoint(saving: Hub, shelf: Shelf) -> None:
    shelf.works.clear()
    session = await create(saving)
    saving.puppets.behave = writes("from the turn")
    await submit(session)
    await until(lambda: shelf.working)
    await turns_of_the_loop()
    assert session.shown.turn is not None
    assert look(Path(saving.cwd)) == {}
    shelf.works.set()
    await idle(session)
    assert shelf.images[session.id] == {"cp-0000": {}, "cp-0001": {"a.txt": b"from the turn"}}


async def test_a_turn_that_is_cancelled_before_the_first_checkpoint_ends_and_leaves_none_of_its_own(
    saving: Hub, shelf: Shelf
) -> None:
    shelf.works.clear()
    session = await create(saving)
    await submit(session)
    await until(lambda: shelf.working)
    cancelling = asyncio.create_task(session.cancel(LOCAL, via="test"))
    await turns_of_the_loop()
    shelf.works.set()
    await cancelling
    assert saving.puppets.began == []
    await run(session)
    assert (await taken(saving, session))[0] == ("cp-0000", "initial")
    assert saving.puppets.began == ["go"]


async def test_wanting_them_later_saves_the_workspace_then(saving: Hub, shelf: Shelf) -> None:
    session = await saving.create("puppet")
    await run(session)
    await session.change_settings(LOCAL, CHECKPOINTS)
    await until(lambda: session.shown.checkpoints_taken)
    await run(session)
    await session.change_settings(LOCAL, {"checkpoints": None})
    await run(session)
    assert await taken(saving, session) == [("cp-0000", "initial"), ("cp-0001", "auto")]


async def test_wanting_them_while_a_turn_runs_saves_nothing_that_the_turn_is_at_work_on(
    saving: Hub, shelf: Shelf
) -> None:
    """A half-done piece of work is no state that anybody wants to go back to."""
    session = await saving.create("puppet")
    saving.puppets.behave = forever
    await submit(session)
    await until(lambda: saving.puppets.began)
    await session.change_settings(LOCAL, CHECKPOINTS)
    await turns_of_the_loop()
    assert shelf.calls == []
    await session.cancel(LOCAL, via="test")
    saving.puppets.behave = echo
    await run(session)
    assert (await taken(saving, session))[0] == ("cp-0000", "initial")


async def test_two_hundred_sessions_that_begin_at_once_are_all_saved(make_hub: MakeHub, shelf: Shelf) -> None:
    hub = await make_hub(checkpoints=shelf)
    sessions = await asyncio.gather(*(hub.create("puppet", settings=CHECKPOINTS) for _ in range(200)))
    await until(lambda: all(session.shown.checkpoints_taken for session in sessions))
    assert [await taken(hub, session) for session in sessions] == [[("cp-0000", "initial")]] * 200


# By hand


async def test_a_checkpoint_by_hand_takes_the_first_one_where_there_is_none(saving: Hub) -> None:
    session = await saving.create("puppet")
    saved = await session.checkpoint(LOCAL)
    assert (saved.checkpoint, saved.number, saved.trigger) == ("cp-0001", 1, "manual")
    assert await taken(saving, session) == [("cp-0000", "initial"), ("cp-0001", "manual")]
    assert session.shown.checkpoints["cp-0001"] == saved


async def test_going_back_saves_what_was_there_first(saving: Hub, shelf: Shelf) -> None:
    """And so it can be undone: going back is no loss."""
    file(saving).write_text("first")
    session = await create(saving)
    file(saving).write_text("second")
    await session.checkpoint(LOCAL)
    file(saving).write_text("third")
    event = await session.restore_checkpoint(LOCAL, "cp-0001")
    assert event.fact == CheckpointRestored(checkpoint="cp-0001", by=LOCAL.id)
    assert file(saving).read_text() == "second"
    assert (await taken(saving, session))[-1] == ("cp-0002", "safety")
    await session.restore_checkpoint(LOCAL, "cp-0002")
    assert file(saving).read_text() == "third"
    await session.restore_checkpoint(LOCAL)
    assert file(saving).read_text() == "first"


async def test_what_was_saved_of_another_folder_is_not_put_into_the_one_of_now(saving: Hub, tmp_path: Path) -> None:
    session = await create(saving)
    other = tmp_path / "other"
    other.mkdir()
    (other / "a.txt").write_text("somebody else's")
    await session.change_settings(LOCAL, {"cwd": str(other)})
    for checkpoint in ("cp-0000", None):
        with pytest.raises((CheckpointFailed, UnknownCheckpoint)):
            await session.restore_checkpoint(LOCAL, checkpoint)
    assert (other / "a.txt").read_text() == "somebody else's"
    of_now = await session.checkpoint(LOCAL)
    (other / "a.txt").write_text("changed")
    await session.restore_checkpoint(LOCAL, of_now.checkpoint)
    assert (other / "a.txt").read_text() == "somebody else's"
    await session.change_settings(LOCAL, {"cwd": saving.cwd})
    with pytest.raises(CheckpointFailed, match="now"):
        await session.restore_checkpoint(LOCAL, of_now.checkpoint)


async def test_a_folder_that_becomes_another_one_while_it_is_saved_fails_the_checkpoint(
    saving: Hub, shelf: Shelf, tmp_path: Path
) -> None:
    session = await create(saving)
    shelf.works.clear()
    taking = asyncio.create_task(session.checkpoint(LOCAL))
    await until(lambda: session.saving)
    await asyncio.sleep(0)
    await session.change_settings(LOCAL, {"cwd": str(tmp_path)})
    shelf.works.set()
    with pytest.raises(CheckpointFailed, match="another one"):
        await taking


async def test_without_an_id_the_first_one_is_meant_and_nothing_else_means_it(saving: Hub) -> None:
    """Known defect of the original: an empty id restored the original."""
    file(saving).write_text("first")
    session = await create(saving)
    file(saving).write_text("second")
    for unknown in ("", "cp-0000", "cp-0001", "original", "../cp-0000", "cp-0000/../cp-0000"):
        with pytest.raises(UnknownCheckpoint) as refusal:
            await session.restore_checkpoint(LOCAL, unknown)
        assert refusal.value.checkpoint == unknown
        with pytest.raises(UnknownCheckpoint):
            await session.delete_checkpoint(LOCAL, unknown)
    assert file(saving).read_text() == "second"
    await session.restore_checkpoint(LOCAL)
    assert file(saving).read_text() == "first"


async def test_a_deleted_checkpoint_is_gone_and_cannot_be_deleted_twice(saving: Hub, shelf: Shelf) -> None:
    session = await create(saving)
    saved = await session.checkpoint(LOCAL)
    await session.delete_checkpoint(LOCAL, saved.checkpoint)
    assert (listed(session), list(shelf.images[session.id])) == (["cp-0000"], ["cp-0000"])
    for again in (session.delete_checkpoint, session.restore_checkpoint):
        with pytest.raises(UnknownCheckpoint):
            await again(LOCAL, saved.checkpoint)


@pytest.mark.parametrize("disk", [False, True], ids=["memory", "disk"])
async def test_an_id_never_comes_again_after_a_delete_nor_in_a_later_life(
    make_hub: MakeHub, shelf: Shelf, disk: bool
) -> None:
    """Known defect of the original: the id was the length of the list."""
    hub = await make_hub(disk=disk, checkpoints=shelf)
    session = await create(hub)
    for _ in range(3):
        await session.checkpoint(LOCAL)
    await session.delete_checkpoint(LOCAL, "cp-0001")
    await session.delete_checkpoint(LOCAL, "cp-0003")
    await session.checkpoint(LOCAL)
    await hub.restart()
    session = await hub.get(session)
    await session.checkpoint(LOCAL)
    await session.delete_checkpoint(LOCAL, "cp-0005")
    await hub.recrash()
    session = await hub.get(session)
    await run(session)
    names = [name for name, _ in await taken(hub, session)]
    assert names == [f"cp-{number:04}" for number in range(7)]
    assert listed(session) == ["cp-0000", "cp-0002", "cp-0004", "cp-0006"]
    assert [it.number for it in session.shown.checkpoints.values()] == [0, 2, 4, 6]


async def test_a_session_that_is_older_than_its_server_is_saved_by_its_next_turn(
    make_hub: MakeHub, shelf: Shelf
) -> None:
    hub = await make_hub()
    session = await create(hub)
    hub.checkpoints = shelf
    await hub.restart()
    session = await hub.get(session)
    await run(session)
    assert await taken(hub, session) == [("cp-0000", "initial"), ("cp-0001", "auto")]


# What is refused, and what waits


async def test_nothing_is_saved_restored_or_deleted_by_hand_while_a_turn_runs(saving: Hub) -> None:
    session = await create(saving)
    await session.checkpoint(LOCAL)
    saving.puppets.behave = forever
    receipt = await submit(session)
    for refused in (
        session.checkpoint(LOCAL),
        session.restore_checkpoint(LOCAL),
        session.delete_checkpoint(LOCAL, "cp-0001"),
    ):
        with pytest.raises(Busy) as refusal:
            await refused
        assert refusal.value.turn == receipt.turn
    assert listed(session) == ["cp-0000", "cp-0001"]


async def test_checkpoints_need_the_write_right(saving: Hub, shelf: Shelf) -> None:
    session = await create(saving)
    await session.checkpoint(LOCAL)
    done = len(shelf.calls)
    for refused in (
        session.checkpoint(STRANGER),
        session.restore_checkpoint(STRANGER),
        session.delete_checkpoint(STRANGER, "cp-0001"),
    ):
        with pytest.raises(NotPermitted):
            await refused
    assert len(shelf.calls) == done


async def test_a_checkpoint_and_a_restore_at_once_come_one_after_the_other(saving: Hub, shelf: Shelf) -> None:
    """Known defect of the original: the two interleaved. The shelf complains if they do."""
    file(saving).write_text("first")
    session = await create(saving)
    file(saving).write_text("second")
    shelf.works.clear()
    work = [
        asyncio.create_task(it)
        for it in (
            session.checkpoint(LOCAL),
            session.restore_checkpoint(LOCAL),
            session.checkpoint(LOCAL),
            session.restore_checkpoint(LOCAL),
        )
    ]
    await until(lambda: shelf.working)
    await turns_of_the_loop()
    assert shelf.calls == ["take cp-0000", "take cp-0001"]
    shelf.works.set()
    await asyncio.gather(*work)
    assert shelf.calls[1:] == ["take cp-0001", "restore cp-0000", "take cp-0003", "restore cp-0000"]
    assert shelf.images[session.id]["cp-0001"] == shelf.images[session.id]["cp-0002"] == {"a.txt": b"second"}
    assert shelf.images[session.id]["cp-0003"] == {"a.txt": b"first"}


async def test_a_turn_waits_for_a_restore(saving: Hub, shelf: Shelf) -> None:
    file(saving).write_text("first")
    session = await create(saving)
    file(saving).write_text("second")
    seen: list[str] = []

    async def reads(turn: TurnContext) -> str | None:
        seen.append(file(saving).read_text())
        return None

    saving.puppets.behave = reads
    shelf.works.clear()
    restoring = asyncio.create_task(session.restore_checkpoint(LOCAL))
    await until(lambda: shelf.working)
    assert (await submit(session)).disposition == "started"
    await turns_of_the_loop()
    assert saving.puppets.began == []
    shelf.works.set()
    await restoring
    await idle(session)
    assert seen == ["first"]
    restored, ended = CheckpointRestored, TurnEnded
    assert [type(fact) for fact in await of_kind(saving, session, restored, ended)] == [restored, ended]


async def test_a_turn_that_waits_for_a_restore_can_be_cancelled(saving: Hub, shelf: Shelf) -> None:
    session = await create(saving)
    shelf.works.clear()
    restoring = asyncio.create_task(session.restore_checkpoint(LOCAL))
    await until(lambda: shelf.working)
    await submit(session)
    cancelling = asyncio.create_task(session.cancel(LOCAL, via="test"))
    await turns_of_the_loop()
    shelf.works.set()
    await restoring
    await cancelling
    assert saving.puppets.began == []
    assert (await of_kind(saving, session, TurnEnded))[-1].outcome == "cancelled"  # type: ignore[union-attr]


async def test_a_session_whose_workspace_is_worked_on_stays_in_memory(make_hub: MakeHub, shelf: Shelf) -> None:
    """A log has one writer: who restores must not find that another object of the session has taken over."""
    hub = await make_hub(checkpoints=shelf, limits=HubLimits(loaded_idle=0))
    session = await create(hub)
    shelf.works.clear()
    working = asyncio.create_task(session.checkpoint(LOCAL))
    await until(lambda: shelf.working)
    assert (session.saving, session.idle) == (True, False)
    shelf.works.set()
    await working
    assert (session.saving, session.idle) == (False, True)


# What stands in the way


@pytest.mark.parametrize("value", ["yes", 1, [], {}])
async def test_whether_it_is_wanted_is_true_or_false(saving: Hub, value: Any) -> None:
    with pytest.raises(InvalidRequest, match="checkpoints: it is true or false"):
        await saving.create("puppet", settings={"checkpoints": value})
    session = await saving.create("puppet")
    with pytest.raises(InvalidRequest, match="checkpoints: it is true or false"):
        await session.change_settings(LOCAL, {"checkpoints": value})


async def test_while_a_first_checkpoint_cannot_be_taken_there_are_none(saving: Hub, shelf: Shelf) -> None:
    shelf.fails = UNREADABLE
    session = await create(saving)
    first = session.shown.checkpoints["cp-0000"]
    assert (first.trigger, first.problem) == ("initial", str(UNREADABLE))
    assert session.shown.first_checkpoint is None
    await run(session)
    assert shelf.calls == ["take cp-0000"]
    for refused in (session.checkpoint(LOCAL), session.restore_checkpoint(LOCAL)):
        with pytest.raises(CheckpointFailed, match="secret"):
            await refused
    assert listed(session) == ["cp-0002"]
    assert saving.puppets.began == ["go"]


async def test_what_stood_in_the_way_of_the_first_checkpoint_may_go_away(saving: Hub, shelf: Shelf) -> None:
    shelf.fails = UNREADABLE
    session = await create(saving)
    shelf.fails = None
    await session.checkpoint(LOCAL)
    assert session.shown.first_checkpoint is not None
    assert [(it.checkpoint, it.trigger) for it in session.shown.checkpoints.values()] == [
        ("cp-0001", "initial"),
        ("cp-0002", "manual"),
    ]
    await run(session)
    assert listed(session) == ["cp-0001", "cp-0002", "cp-0003"]


async def test_a_turn_whose_workspace_cannot_be_saved_still_ends(saving: Hub, shelf: Shelf) -> None:
    session = await create(saving)
    shelf.fails = UNREADABLE
    await run(session)
    saved, ended = (await saving.facts(session))[-2:]
    assert isinstance(saved, CheckpointTaken)
    assert isinstance(ended, TurnEnded)
    assert (saved.problem, saved.changed, saved.size, ended.outcome) == (str(UNREADABLE), False, 0, "completed")


async def test_a_checkpoint_that_failed_is_listed_and_cannot_be_restored(saving: Hub, shelf: Shelf) -> None:
    session = await create(saving)
    file(saving).write_text("now")
    shelf.fails = UNREADABLE
    with pytest.raises(CheckpointFailed, match="secret"):
        await session.checkpoint(LOCAL)
    shelf.fails = None
    assert session.shown.checkpoints["cp-0001"].problem == str(UNREADABLE)
    with pytest.raises(CheckpointFailed, match="secret"):
        await session.restore_checkpoint(LOCAL, "cp-0001")
    assert shelf.calls == ["take cp-0000", "take cp-0001"]
    assert file(saving).read_text() == "now"
    await session.delete_checkpoint(LOCAL, "cp-0001")
    assert listed(session) == ["cp-0000"]
    assert shelf.calls == ["take cp-0000", "take cp-0001"]


async def test_of_those_that_failed_only_the_newest_is_listed(saving: Hub, shelf: Shelf) -> None:
    session = await create(saving)
    await run(session)
    shelf.fails = UNREADABLE
    for _ in range(3):
        await run(session)
    assert listed(session) == ["cp-0000", "cp-0001", "cp-0004"]
    shelf.fails = None
    await run(session)
    assert listed(session) == ["cp-0000", "cp-0001", "cp-0004", "cp-0005"]


async def test_a_problem_that_names_a_file_no_disk_can_name_is_recorded_all_the_same(saving: Hub, shelf: Shelf) -> None:
    """A file's name is bytes. That it stood in the way must be said even where it is not UTF-8."""
    session = await create(saving)
    shelf.fails = CheckpointProblem(f"{b'caf' + bytes([0xE9])!r} or caf\udce9 cannot be read")
    await run(session)
    with pytest.raises(CheckpointFailed, match="cannot be read"):
        await session.checkpoint(LOCAL)
    with pytest.raises(CheckpointFailed, match="cannot be read") as refusal:
        await session.restore_checkpoint(LOCAL)
    assert str(refusal.value).encode()
    facts = await of_kind(saving, session, CheckpointTaken)
    assert [fact.problem is None for fact in facts if isinstance(fact, CheckpointTaken)] == [True, False, False]
    assert (await of_kind(saving, session, TurnEnded))[-1].outcome == "completed"  # type: ignore[union-attr]


async def test_a_restore_that_fails_records_nothing_and_uses_no_id(saving: Hub, shelf: Shelf) -> None:
    session = await create(saving)
    file(saving).write_text("now")
    shelf.fails = CheckpointProblem("the disk is full")
    head = session.head
    with pytest.raises(CheckpointFailed, match="the disk is full"):
        await session.restore_checkpoint(LOCAL)
    assert (session.head, file(saving).read_text()) == (head, "now")
    shelf.fails = None
    await session.restore_checkpoint(LOCAL)
    assert (await taken(saving, session))[-1] == ("cp-0001", "safety")


async def test_what_takes_too_long_has_failed(make_hub: MakeHub, shelf: Shelf) -> None:
    hub = await make_hub(checkpoints=shelf, limits=HubLimits(checkpoint_seconds=0.02))
    session = await create(hub)
    shelf.works.clear()
    await run(session)
    assert shelf.cancelled == ["take cp-0001"]
    assert "checkpoint_seconds" in (session.shown.checkpoints["cp-0001"].problem or "")
    with pytest.raises(CheckpointFailed, match="checkpoint_seconds"):
        await session.checkpoint(LOCAL)
    with pytest.raises(CheckpointFailed, match="checkpoint_seconds"):
        await session.restore_checkpoint(LOCAL)
    assert shelf.cancelled == ["take cp-0001", "take cp-0002", "restore cp-0000"]
    shelf.works.set()
    await session.restore_checkpoint(LOCAL)


async def test_a_first_checkpoint_that_takes_too_long_holds_no_turn_up(make_hub: MakeHub, shelf: Shelf) -> None:
    hub = await make_hub(checkpoints=shelf, limits=HubLimits(checkpoint_seconds=0.02))
    shelf.works.clear()
    session = await create(hub)
    await run(session)
    assert hub.puppets.began == ["go"]
    assert session.shown.first_checkpoint is None
    assert [type(fact) for fact in await of_kind(hub, session, CheckpointTaken, TurnStarted, TurnEnded)].count(
        CheckpointTaken
    ) == 1


async def test_checkpoints_that_were_let_go_for_room_are_no_longer_listed(saving: Hub, shelf: Shelf) -> None:
    session = await create(saving)
    for _ in range(3):
        await session.checkpoint(LOCAL)
    shelf.lets_go = ("cp-0001", "cp-0002")
    await run(session)
    assert listed(session) == ["cp-0000", "cp-0003", "cp-0004"]
    assert await of_kind(saving, session, CheckpointDeleted) == [
        CheckpointDeleted(checkpoint="cp-0001"),
        CheckpointDeleted(checkpoint="cp-0002"),
    ]
    assert isinstance((await saving.facts(session))[-1], TurnEnded)


async def test_a_checkpoint_that_cannot_be_let_go_is_gone_for_everyone_all_the_same(saving: Hub, shelf: Shelf) -> None:
    session = await create(saving)
    await session.checkpoint(LOCAL)
    shelf.fails = CheckpointProblem("the disk is read-only")
    with pytest.raises(CheckpointFailed, match="read-only"):
        await session.delete_checkpoint(LOCAL, "cp-0001")
    assert listed(session) == ["cp-0000"]


async def test_a_checkpoint_of_which_nothing_is_kept_leaves_the_list(saving: Hub, shelf: Shelf) -> None:
    """It was let go for room, and the server was lost before it could say so."""
    session = await create(saving)
    for _ in range(2):
        await session.checkpoint(LOCAL)
    shelf.fails = CheckpointGone("nothing is kept of it")
    with pytest.raises(CheckpointFailed, match="nothing is kept"):
        await session.restore_checkpoint(LOCAL, "cp-0001")
    await idle(session)
    assert listed(session) == ["cp-0000", "cp-0002"]
    await session.delete_checkpoint(LOCAL, "cp-0002")
    with pytest.raises(CheckpointFailed, match="nothing is kept"):
        await session.restore_checkpoint(LOCAL)
    assert listed(session) == ["cp-0000"]


async def test_a_client_that_goes_away_leaves_the_workspace_as_it_was(saving: Hub, shelf: Shelf) -> None:
    session = await create(saving)
    file(saving).write_text("now")
    for command in (session.checkpoint, session.restore_checkpoint):
        shelf.works.clear()
        head = session.head
        working = asyncio.create_task(command(LOCAL))
        await until(lambda: shelf.working)
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working
        shelf.works.set()
        assert (session.head, session.saving, file(saving).read_text()) == (head, False, "now")
    assert shelf.cancelled == ["take cp-0001", "restore cp-0000"]
    await session.checkpoint(LOCAL)


async def test_a_restore_that_was_done_when_its_client_went_away_is_recorded(saving: Hub, shelf: Shelf) -> None:
    """It cannot be as it was any more: then the log has to say so, and where the way back is."""
    file(saving).write_text("first")
    session = await create(saving)
    file(saving).write_text("now")
    shelf.works.clear()
    shelf.stubborn = True
    working = asyncio.create_task(session.restore_checkpoint(LOCAL))
    await until(lambda: shelf.working)
    working.cancel()
    await turns_of_the_loop()
    shelf.works.set()
    await asyncio.wait([working])
    assert file(saving).read_text() == "first"
    await until(lambda: "cp-0001" in session.shown.checkpoints)
    await session.restore_checkpoint(LOCAL, "cp-0001")
    assert file(saving).read_text() == "now"


# Sessions that end


@pytest.mark.parametrize("command", ["checkpoint", "restore_checkpoint"])
async def test_a_session_that_is_closed_meanwhile_ends_what_goes_on(saving: Hub, shelf: Shelf, command: str) -> None:
    """Nothing comes after ``session.closed``; who asked, or waits for others who asked, is told."""
    session = await create(saving)
    shelf.works.clear()
    asked = [asyncio.create_task(getattr(session, command)(LOCAL)) for _ in range(2)]
    await until(lambda: shelf.working)
    async with asyncio.timeout(5):
        await session.close("test")
    shelf.works.set()
    for one in asked:
        with pytest.raises(Closed):
            await one
    assert len(shelf.cancelled) == 1
    assert isinstance((await saving.facts(session))[-1], SessionClosed)
    await saving.check(session, settled=True)
    assert shelf.told == [f"closed {session.id}"]


@pytest.mark.parametrize("command", ["checkpoint", "restore_checkpoint"])
async def test_closing_does_not_wait_for_work_that_does_not_end(saving: Hub, shelf: Shelf, command: str) -> None:
    session = await create(saving)
    shelf.works.clear()
    shelf.stubborn = True
    asked = asyncio.create_task(getattr(session, command)(LOCAL))
    await until(lambda: shelf.working)
    async with asyncio.timeout(5):
        await session.close("test", budget=0.05)
    shelf.works.set()
    with pytest.raises(Closed):
        await asked
    assert isinstance((await saving.facts(session))[-1], SessionClosed)


async def test_a_server_that_stops_ends_what_goes_on(saving: Hub, shelf: Shelf) -> None:
    """Its journal is closed next: what would be done to the folder then nobody would ever know of."""
    session = await create(saving)
    file(saving).write_text("now")
    shelf.works.clear()
    asked = asyncio.create_task(session.restore_checkpoint(LOCAL))
    await until(lambda: shelf.working)
    await saving.restart()
    shelf.works.set()
    with pytest.raises(Closed):
        await asked
    assert file(saving).read_text() == "now"
    assert await taken(saving, session) == [("cp-0000", "initial")]


async def test_a_session_that_is_closed_before_its_first_checkpoint_has_none(saving: Hub, shelf: Shelf) -> None:
    shelf.works.clear()
    session = await create(saving)
    await until(lambda: shelf.working)
    async with asyncio.timeout(5):
        await session.close("test")
    shelf.works.set()
    await turns_of_the_loop()
    assert await taken(saving, session) == []
    assert shelf.images[session.id] == {}
    assert isinstance((await saving.facts(session))[-1], SessionClosed)


@pytest.mark.parametrize("how", ["close", "delete", "restart"])
async def test_a_turn_whose_save_is_given_up_comes_out_as_it_did(saving: Hub, shelf: Shelf, how: str) -> None:
    """The agent was done: that the server had no time to save its folder makes it no interrupted turn."""
    session = await create(saving)
    shelf.works.clear()
    await submit(session, "hello")
    await until(lambda: shelf.working)
    if how == "close":
        await session.close("test", budget=0.05)
    elif how == "delete":
        await session.stop(0.05)
    else:
        await saving.close(budget=0.05)
        shelf.works.set()
        await saving.open()
        session = await saving.get(session)
    shelf.works.set()
    (ended,) = await of_kind(saving, session, TurnEnded)
    assert isinstance(ended, TurnEnded)
    assert (ended.outcome, ended.result) == ("completed", "hello")
    assert [name for name, _ in await taken(saving, session)] == ["cp-0000"]


async def test_a_closed_session_takes_none_restores_none_and_deletes_none(saving: Hub, shelf: Shelf) -> None:
    session = await create(saving)
    await session.checkpoint(LOCAL)
    await session.close("test")
    for refused in (
        session.checkpoint(LOCAL),
        session.restore_checkpoint(LOCAL),
        session.delete_checkpoint(LOCAL, "cp-0001"),
    ):
        with pytest.raises(Closed):
            await refused
    assert shelf.told == [f"closed {session.id}"]
    assert listed(session) == ["cp-0000", "cp-0001"]


async def test_with_a_sessions_log_its_checkpoints_go(saving: Hub, shelf: Shelf) -> None:
    session = await create(saving)
    other = await create(saving)
    await saving.registry.delete(LOCAL, session.id)
    assert shelf.told == [f"closed {session.id}", f"dropped {session.id}"]
    assert list(shelf.images) == [other.id]
    with pytest.raises(Gone):
        await saving.get(session)


async def test_a_session_that_is_deleted_while_it_is_saved_leaves_nothing(saving: Hub, shelf: Shelf) -> None:
    session = await create(saving)
    shelf.works.clear()
    working = asyncio.create_task(session.checkpoint(LOCAL))
    await until(lambda: shelf.working)
    async with asyncio.timeout(5):
        await saving.registry.delete(LOCAL, session.id)
    shelf.works.set()
    with pytest.raises(HubError):
        await working
    assert shelf.images == {}


# Crashes


@pytest.mark.parametrize("disk", [False, True], ids=["memory", "disk"])
async def test_a_server_that_is_lost_while_it_saves_starts_over(make_hub: MakeHub, shelf: Shelf, disk: bool) -> None:
    hub = await make_hub(disk=disk, checkpoints=shelf)
    shelf.works.clear()
    session = await create(hub)
    await until(lambda: shelf.working)
    await hub.recrash()
    shelf.works.set()
    session = await hub.get(session)
    await run(session)
    assert await taken(hub, session) == [("cp-0000", "initial"), ("cp-0001", "auto")]


@pytest.mark.parametrize("store", ["memory", "disk"])
async def test_what_was_saved_but_never_recorded_gives_its_place_to_the_next(
    make_hub: MakeHub, shelf: Shelf, tmp_path: Path, store: str
) -> None:
    """The server was lost in between: nobody was ever told of that id."""
    hub = await make_hub(store=InMemory() if store == "memory" else OnDisk(tmp_path / "store"), checkpoints=shelf)
    session = await create(hub)
    shelf.images[session.id]["cp-0001"] = {"left.txt": b"behind"}
    await hub.recrash()
    session = await hub.get(session)
    file(hub).write_text("new")
    await session.checkpoint(LOCAL)
    assert shelf.images[session.id]["cp-0001"] == {"a.txt": b"new"}
    assert [name for name, _ in await taken(hub, session)] == ["cp-0000", "cp-0001"]


async def test_a_turn_of_a_lost_server_is_saved_with_the_next_one(make_hub: MakeHub, shelf: Shelf) -> None:
    hub = await make_hub(checkpoints=shelf)
    session = await create(hub)
    hub.puppets.behave = forever
    await submit(session)
    await until(lambda: hub.puppets.began)
    await hub.recrash()
    session = await hub.get(session)
    hub.puppets.behave = writes("two")
    await run(session)
    assert await taken(hub, session) == [("cp-0000", "initial"), ("cp-0001", "auto")]
    assert shelf.images[session.id]["cp-0001"] == {"a.txt": b"two"}


# The fold


async def test_a_session_is_its_log_also_with_checkpoints(saving: Hub, shelf: Shelf) -> None:
    """Invariant 2, with every kind of fact there is about them; from a snapshot too."""
    session = await create(saving)
    await run(session)
    await session.restore_checkpoint(LOCAL)
    await session.delete_checkpoint(LOCAL, "cp-0001")
    shelf.fails = UNREADABLE
    await run(session)
    log = await saving.check(session, settled=True)
    half = decode_state(encode_state(fold(log[: len(log) // 2], session.id)))
    assert encode_state(fold(log[len(log) // 2 :], state=half)) == encode_state(session.shown)
    await saving.restart()
    assert encode_state((await saving.get(session)).shown) == encode_state(session.shown)


async def test_a_snapshot_from_before_there_were_checkpoints_can_be_read(saving: Hub) -> None:
    session = await create(saving)
    old = msgspec.json.decode(encode_state(session.shown))
    del old["checkpoints"], old["checkpoints_taken"]
    read = decode_state(msgspec.json.encode(old))
    assert (read.checkpoints, read.checkpoints_taken, read.first_checkpoint) == ({}, 0, None)


async def test_a_taken_checkpoint_is_shown_only_once_it_is_durable(saving: Hub, shelf: Shelf) -> None:
    """Invariant 3: what a client is told of can be restored after a crash."""
    session = await create(saving)
    shelf.works.clear()
    working = asyncio.create_task(session.checkpoint(LOCAL))
    await until(lambda: shelf.working)
    saving.journal.fail("the disk is slow")
    shelf.works.set()
    await until(lambda: session.state.checkpoints_taken == 2)
    await turns_of_the_loop()
    assert not working.done()
    assert listed(session) == ["cp-0000"]
    saving.journal.heal()
    await working
    assert listed(session) == ["cp-0000", "cp-0001"]
    shown = await shows(session, CheckpointTaken, checkpoint="cp-0001")
    assert shown.trigger == "manual"
