"""An independent reading of a log: the grammar that every log must obey, whoever wrote it.

Knows the facts and nothing else of the hub: it does not use the fold, so that a mistake there cannot hide itself here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from dragoman.hub.events import (
    AgentExited,
    AgentStarted,
    CancelRequested,
    CheckpointDeleted,
    CheckpointRestored,
    CheckpointTaken,
    DecisionOpened,
    DecisionResolved,
    DecisionRevised,
    Event,
    LogWritten,
    PartDelta,
    PartEnded,
    PartStarted,
    PromptSubmitted,
    PromptTaken,
    PromptWithdrawn,
    SessionClosed,
    SessionCreated,
    StateChanged,
    TerminalReserved,
    TerminalResized,
    TerminalTitled,
    ToolCalled,
    ToolEnded,
    ToolProgressed,
    TurnEnded,
    TurnStarted,
    encode_fact,
)

LATE = (AgentExited, StateChanged, TerminalTitled, LogWritten)
"""What may still come after ``session.closed``, and only of a program that could not be ended in time."""


class LogBroken(AssertionError):
    """The log says what no log may say. The message holds every complaint and the log itself."""


def check_log(events: Sequence[Event], *, settled: bool = False) -> None:
    """Raise ``LogBroken`` unless the events are a whole log from its first one, that obeys the grammar.

    ``settled``: also nothing may be left open at its end (after a recovery, or a clean stop); prompts may still wait.
    """
    reading = _Reading()
    for event in events:
        reading.take(event)
    if settled:
        reading.check_settled()
    if reading.complaints:
        raise LogBroken("\n".join([*reading.complaints, "the log:", *transcript(events)]))


def transcript(events: Iterable[Event]) -> list[str]:
    """The log for people, one line per event."""
    return [f"{event.seq:5} {event.epoch[:4]} {encode_fact(event.fact).decode()[:160]}" for event in events]


class _Reading:
    """What has been read so far, and what is wrong with it."""

    def __init__(self) -> None:
        self.complaints: list[str] = []
        self._at: Event | None = None
        self._seq = 0
        self._epochs: list[str] = []
        self._closed = False
        self._lived_on = False
        self._prompts: dict[str, str] = {}
        self._steering: set[str] = set()
        self._message_ids: set[tuple[str, str, str]] = set()
        self._turns: set[str] = set()
        self._turn: str | None = None
        self._cancelled: set[str] = set()
        self._at_a_terminal = False
        """A person may break a turn off there, or refuse what it wants, and nobody but the agent is asked for it."""
        self._parts: dict[tuple[str, str], bool] = {}
        self._calls: dict[str, ToolCalled | None] = {}
        self._bundles: dict[str, list[ToolCalled]] = {}
        self._decisions: dict[str, DecisionOpened | None] = {}
        self._checkpoints: dict[str, CheckpointTaken | None] = {}
        self._live = False
        self._run = 0
        self._state = "starting"
        self._asked: str | None = None
        self._began = 0
        self._offset = 0
        self._reserved: int | None = None

    def take(self, event: Event) -> None:
        self._at = event
        self._need(event.seq == self._seq + 1, f"follows {self._seq}")
        self._seq = event.seq
        self._read_epoch(event.epoch)
        fact = event.fact
        self._need(
            (event.seq == 1) == isinstance(fact, SessionCreated), "session.created is the first fact, and only it"
        )
        if self._closed:
            late = isinstance(fact, LogWritten) or (self._state != "exited" and isinstance(fact, LATE))
            self._need(self._lived_on and late, "comes after session.closed")
        turn = getattr(fact, "turn", None)
        if turn is not None and not isinstance(fact, TurnStarted):
            self._need(turn == self._turn, f"speaks of turn {turn}, but {self._turn} is open")
        self._read_offset(fact)
        read = _READERS.get(type(fact))
        if read is not None:
            read(self, fact)

    def check_settled(self) -> None:
        self._need(self._turn is None, f"turn {self._turn} is left open")
        self._need(not self._live, "an executor is left live")
        self._need(not (left := self._open_calls()), f"calls are left without a result: {left}")
        self._need(not (left := self._open_decisions()), f"decisions are left open: {left}")

    # -- what is open ----------------------------------------------------------------------

    def _open_calls(self, turn: str | None = None) -> list[str]:
        return [name for name, call in self._calls.items() if call is not None and (turn is None or call.turn == turn)]

    def _open_decisions(self, turn: str | None = None) -> list[str]:
        return [
            name
            for name, opened in self._decisions.items()
            if opened is not None and (turn is None or opened.turn == turn)
        ]

    def _waiting(self) -> list[str]:
        return [prompt for prompt, what in self._prompts.items() if what == "waiting"]

    def _need(self, holds: bool, complaint: str) -> None:
        if not holds:
            where = "at the end" if self._at is None else f"seq {self._at.seq} ({type(self._at.fact).__name__})"
            self.complaints.append(f"{where}: {complaint}")

    # -- one reader per kind of fact -------------------------------------------------------

    def _read_epoch(self, epoch: str) -> None:
        if not self._epochs or self._epochs[-1] != epoch:
            self._need(epoch not in self._epochs, f"epoch {epoch} comes back")
            self._epochs.append(epoch)

    def _read_offset(self, fact: object) -> None:
        offset = getattr(fact, "tape_offset", None)
        if isinstance(fact, AgentStarted):
            self._began = offset or 0
        if isinstance(fact, TerminalTitled):  # paced: it may be told after what came later
            self._need(offset >= self._began, f"tape offset {offset} lies before this run's first")
        elif offset is not None:
            self._need(offset >= self._offset, f"tape offset {offset} lies before {self._offset}")
            self._offset = offset
        reserved = getattr(fact, "tape_reserved", None)
        if reserved is not None:
            self._need(reserved >= max(self._offset, self._reserved or 0), f"reserves less than before: {reserved}")
            self._reserved = reserved
        if self._reserved is not None and offset is not None:
            self._need(offset <= self._reserved, f"tape offset {offset} was not reserved")

    def _created(self, fact: SessionCreated) -> None:
        """Its place was checked before."""
        self._at_a_terminal = fact.kind == "terminal"

    def _closed_(self, _: SessionClosed) -> None:
        self._need(self._turn is None, f"closed while turn {self._turn} is open")
        self._need(not self._open_decisions(), f"closed with open decisions: {self._open_decisions()}")
        self._need(not self._open_calls(), f"closed with calls without a result: {self._open_calls()}")
        self._need(not self._waiting(), f"closed with waiting prompts: {self._waiting()}")
        self._closed = True
        self._lived_on = self._live

    def _submitted(self, fact: PromptSubmitted) -> None:
        self._need(fact.prompt not in self._prompts, f"prompt {fact.prompt} is submitted twice")
        self._prompts[fact.prompt] = "waiting"
        if fact.steer:
            self._steering.add(fact.prompt)
        if fact.client_message_id is not None:
            identity = (fact.via, fact.by, fact.client_message_id)
            self._need(identity not in self._message_ids, f"client message {identity} is accepted twice")
            self._message_ids.add(identity)

    def _use(self, prompt: str, how: str) -> None:
        was = self._prompts.get(prompt)
        self._need(was == "waiting", f"prompt {prompt} is {how}, but it is {was or 'unknown'}")
        self._prompts[prompt] = how

    def _taken(self, fact: PromptTaken) -> None:
        self._need(fact.prompt in self._steering, f"prompt {fact.prompt} is taken, but it does not steer")
        self._use(fact.prompt, "taken")

    def _withdrawn(self, fact: PromptWithdrawn) -> None:
        self._use(fact.prompt, "withdrawn")

    def _turn_started(self, fact: TurnStarted) -> None:
        self._need(self._turn is None, f"starts while turn {self._turn} is open")
        self._need(fact.turn not in self._turns, f"turn {fact.turn} starts twice")
        first = next(iter(self._waiting()), None)
        self._need(fact.prompt == first, f"starts with {fact.prompt}, but {first} waits in front")
        self._use(fact.prompt, "started")
        self._turns.add(fact.turn)
        self._turn = fact.turn

    def _cancel_requested(self, fact: CancelRequested) -> None:
        self._need(fact.turn not in self._cancelled, f"turn {fact.turn} is cancelled twice")
        self._cancelled.add(fact.turn)

    def _turn_ended(self, fact: TurnEnded) -> None:
        asked = fact.turn in self._cancelled or self._at_a_terminal
        self._need(fact.outcome != "cancelled" or asked, "ends as cancelled, but nobody asked for it")
        self._need(not (left := self._open_calls(fact.turn)), f"ends with calls without a result: {left}")
        self._need(not (left := self._open_decisions(fact.turn)), f"ends with open decisions: {left}")
        self._turn = None

    def _part_started(self, fact: PartStarted) -> None:
        self._need((fact.turn, fact.part) not in self._parts, f"part {fact.part} starts twice")
        self._parts[fact.turn, fact.part] = True

    def _part_goes_on(self, fact: PartDelta | PartEnded) -> None:
        self._need(self._parts.get((fact.turn, fact.part), False), f"part {fact.part} is not open")
        if isinstance(fact, PartEnded):
            self._parts[fact.turn, fact.part] = False

    def _called(self, fact: ToolCalled) -> None:
        self._need(fact.call not in self._calls, f"call {fact.call} begins twice")
        self._calls[fact.call] = fact
        if fact.bundle is not None:
            steps = self._bundles.setdefault(fact.bundle, [])
            self._need(fact.position == len(steps), f"step {fact.position} of a bundle follows {len(steps)} others")
            self._need(not steps or steps[0].client == fact.client, "a bundle is run by two clients")
            steps.append(fact)

    def _call_goes_on(self, fact: ToolProgressed | ToolEnded) -> None:
        called = self._calls.get(fact.call)
        known = "ended already" if fact.call in self._calls else "unknown"
        self._need(called is not None, f"call {fact.call} is {known}")
        if isinstance(fact, ToolEnded):
            self._need(called is None or called.tool == fact.tool, "ends as another tool")
            self._calls[fact.call] = None

    def _opened(self, fact: DecisionOpened) -> None:
        self._need(fact.decision not in self._decisions, f"decision {fact.decision} is opened twice")
        self._decisions[fact.decision] = fact

    def _decided(self, fact: DecisionRevised | DecisionResolved) -> None:
        opened = self._decisions.get(fact.decision)
        known = "resolved already" if fact.decision in self._decisions else "unknown"
        self._need(opened is not None, f"decision {fact.decision} is {known}")
        if isinstance(fact, DecisionRevised) and opened is not None and fact.secret is not None:
            self._decisions[fact.decision] = msgspec.structs.replace(opened, secret=fact.secret)
        if isinstance(fact, DecisionResolved):
            self._decisions[fact.decision] = None
            # what was answered at the agent's own terminal nobody may know
            unheard = fact.outcome == "answered" and fact.via == "terminal"
            self._need(
                (fact.answer is not None) == (fact.outcome == "answered") or (unheard and fact.answer is None),
                "an answer belongs to 'answered', and only there",
            )
            if opened is not None and opened.secret and fact.answer is not None:
                said = msgspec.structs.replace(fact.answer, accept=None, option=None, withheld=False)
                self._need(fact.answer.withheld and said == type(said)(), "a secret answer is in the log")

    def _saved(self, fact: CheckpointTaken) -> None:
        self._need(fact.checkpoint not in self._checkpoints, f"checkpoint {fact.checkpoint} is taken twice")
        known = [it for it in self._checkpoints.values() if it is not None and it.trigger == "initial"]
        begun = any(it.problem is None for it in known)
        self._need((fact.trigger == "initial") != begun, "the first checkpoint that holds anything is the initial one")
        self._need(fact.trigger != "auto" or self._turn is not None, "an automatic checkpoint without a turn that ends")
        self._checkpoints[fact.checkpoint] = fact

    def _restored(self, fact: CheckpointRestored) -> None:
        saved = self._checkpoints.get(fact.checkpoint)
        self._need(saved is not None and saved.problem is None, "restores what holds nothing")
        newest = list(self._checkpoints.values())[-1] if self._checkpoints else None
        self._need(newest is not None and newest.trigger == "safety", "restores without saving what was there")

    def _let_go(self, fact: CheckpointDeleted) -> None:
        saved = self._checkpoints.get(fact.checkpoint)
        stays = saved is not None and saved.trigger == "initial" and saved.problem is None
        self._need(saved is not None and not stays, "lets go what is not there, or must stay")
        self._checkpoints[fact.checkpoint] = None

    def _agent_started(self, fact: AgentStarted) -> None:
        self._need(not self._live, "an executor starts while another one lives")
        self._need(fact.run == self._run + 1, f"run {fact.run} follows run {self._run}")
        self._live, self._run, self._state = True, fact.run, "starting"

    def _agent_exited(self, fact: AgentExited) -> None:
        self._need(self._live, "an executor exits, but none lives")
        if fact.cause == "server-lost" and self._reserved is not None:
            self._need(fact.tape_offset == self._reserved, "a lost program may have used all that was reserved")
        self._live, self._reserved = False, None

    def _changed(self, fact: StateChanged) -> None:
        self._need(fact.prev == self._state, f"moves from {fact.prev}, but the state is {self._state}")
        elsewhere = fact.next != fact.prev or (fact.next == "prompt" and fact.decision != self._asked)
        self._need(elsewhere, "moves to where it is")
        self._need(self._live or fact.next == "exited", f"is {fact.next} without a live executor")
        self._state, self._asked = fact.next, fact.decision

    def _resized(self, _: TerminalResized | TerminalReserved) -> None:
        self._need(self._live, "a terminal changes, but no program lives")


_READERS: dict[type, Callable[[_Reading, Any], None]] = {
    SessionCreated: _Reading._created,
    SessionClosed: _Reading._closed_,
    PromptSubmitted: _Reading._submitted,
    PromptTaken: _Reading._taken,
    PromptWithdrawn: _Reading._withdrawn,
    TurnStarted: _Reading._turn_started,
    CancelRequested: _Reading._cancel_requested,
    TurnEnded: _Reading._turn_ended,
    PartStarted: _Reading._part_started,
    PartDelta: _Reading._part_goes_on,
    PartEnded: _Reading._part_goes_on,
    ToolCalled: _Reading._called,
    ToolProgressed: _Reading._call_goes_on,
    ToolEnded: _Reading._call_goes_on,
    DecisionOpened: _Reading._opened,
    DecisionRevised: _Reading._decided,
    DecisionResolved: _Reading._decided,
    CheckpointTaken: _Reading._saved,
    CheckpointRestored: _Reading._restored,
    CheckpointDeleted: _Reading._let_go,
    AgentStarted: _Reading._agent_started,
    AgentExited: _Reading._agent_exited,
    StateChanged: _Reading._changed,
    TerminalResized: _Reading._resized,
    TerminalReserved: _Reading._resized,
}
