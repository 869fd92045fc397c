"""What is shown of sessions and events: the hub's own types, without what is nobody's business (invariant 10)."""

from __future__ import annotations

import msgspec

from dragoman.hub.events import AnyFact, DecisionOpened, Event, Json, PartDelta, PromptSubmitted, SessionCreated
from dragoman.hub.journal import SessionRow
from dragoman.hub.standing import AgentStatus, Executor, Exit, OpenCall, OpenTurn
from dragoman.hub.state import SessionState


class Row(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of a list of sessions. ``head`` is the cursor the row is valid at.

    ``status``: ``idle``, ``working``, ``waiting`` (for a human), ``exited``, ``closed``. ``dropped`` marks a session
    whose log is gone. Times are milliseconds since 1970.
    """

    session: str
    kind: str
    agent: str
    cwd: str
    title: str
    owner: str
    status: str
    created_at: int
    changed_at: int
    head: int
    dropped: bool = False


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is true of a session at cursor ``seq``: following after it leaves no gap and no overlap.

    ``status`` is the same word as in lists, ``state`` what the agent itself is doing. ``queue`` holds the prompts that
    wait, ``decisions`` what waits for a human, ``calls`` the tool calls without a result, all oldest first, ``grants``
    what is permitted until the session ends. ``options`` shows an environment by its names only.
    """

    session: str
    seq: int
    kind: str
    agent: str
    cwd: str
    title: str
    owner: str
    status: str
    created_at: int
    changed_at: int
    closed: str | None
    options: dict[str, Json]
    settings: dict[str, Json]
    state: AgentStatus
    executor: Executor | None
    runs: int
    exit: Exit | None
    tape_end: int
    window_title: str | None
    turn: OpenTurn | None
    calls: tuple[OpenCall, ...]
    queue: tuple[PromptSubmitted, ...]
    decisions: tuple[DecisionOpened, ...]
    prompts: int
    hooks: dict[str, int]
    grants: tuple[str, ...]


class JoinedEvent(msgspec.Struct, frozen=True):
    """The consecutive deltas ``first`` to ``seq`` of one part, as one: their texts joined, the rest from the last."""

    seq: int
    first: int
    at: int
    epoch: str
    fact: AnyFact


class PlacedEvent(msgspec.Struct, frozen=True):
    """An event with the session it belongs to."""

    session: str
    seq: int
    at: int
    epoch: str
    fact: AnyFact


def show_row(row: SessionRow) -> Row:
    """The line of a list."""
    return Row(
        session=row.session,
        kind=row.kind,
        agent=row.agent,
        cwd=row.cwd,
        title=row.title,
        owner=row.owner,
        status=row.status,
        created_at=row.created_at,
        changed_at=row.changed_at,
        head=row.head,
        dropped=row.dropped_at is not None,
    )


def show_state(state: SessionState) -> Snapshot:
    """The snapshot that a state is."""
    return Snapshot(
        session=state.session,
        seq=state.seq,
        kind=state.kind,
        agent=state.agent,
        cwd=state.cwd,
        title=state.title,
        owner=state.owner,
        status=state.summary,
        created_at=state.created_at,
        changed_at=state.changed_at,
        closed=state.closed,
        options=without_secrets(state.options),
        settings=state.settings,
        state=state.status,
        executor=state.executor,
        runs=state.runs,
        exit=state.exit,
        tape_end=state.tape_end,
        window_title=state.window_title,
        turn=state.turn,
        calls=tuple(state.calls.values()),
        queue=tuple(state.queue),
        decisions=tuple(state.decisions.values()),
        prompts=state.prompts,
        hooks=state.hooks,
        grants=tuple(state.grants),
    )


def show_event(event: Event) -> Event:
    """The event as anyone may read it: only ``session.created`` holds something to hide."""
    fact = event.fact
    if not isinstance(fact, SessionCreated) or "env" not in fact.options:
        return event
    shown = msgspec.structs.replace(fact, options=without_secrets(fact.options))
    return msgspec.structs.replace(event, fact=shown)


def place(session: str, event: Event) -> PlacedEvent:
    """The shown event with its session."""
    event = show_event(event)
    return PlacedEvent(session, event.seq, event.at, event.epoch, event.fact)


def without_secrets(options: dict[str, Json]) -> dict[str, Json]:
    """The options with the names, but not the values, of the environment."""
    if "env" not in options:
        return options
    env = options["env"]
    return {**options, "env": sorted(env) if isinstance(env, dict) else []}


def join_deltas(events: list[Event]) -> list[Event | JoinedEvent]:
    """The same events with consecutive deltas of one part joined. Nothing else is touched or left out."""
    joined: list[Event | JoinedEvent] = []
    run: list[Event] = []
    for event in events:
        if run and not _continues(run[-1].fact, event.fact):
            joined.append(_join(run))
            run = []
        if isinstance(event.fact, PartDelta):
            run.append(event)
        else:
            joined.append(event)
    if run:
        joined.append(_join(run))
    return joined


def _continues(before: AnyFact, fact: AnyFact) -> bool:
    if not isinstance(fact, PartDelta) or not isinstance(before, PartDelta):
        return False
    return (before.turn, before.part, before.kind, before.mode, before.provider_metadata) == (
        fact.turn,
        fact.part,
        fact.kind,
        fact.mode,
        fact.provider_metadata,
    )


def _join(run: list[Event]) -> Event | JoinedEvent:
    last = run[-1]
    if len(run) == 1:
        return last
    assert isinstance(last.fact, PartDelta)
    text = "".join(event.fact.text for event in run if isinstance(event.fact, PartDelta))
    return JoinedEvent(last.seq, run[0].seq, last.at, last.epoch, msgspec.structs.replace(last.fact, text=text))
