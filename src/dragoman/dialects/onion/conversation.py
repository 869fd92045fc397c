"""A session's log as this protocol's session object and chat items (spec §7; docs/mapping.md, "The session object").

A fold: fed every event once, in order, it can be asked at any time. What each event adds is encoded then, so that the
end of a turn costs a join of bytes and no more, however long the conversation is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

import msgspec

from dragoman.hub.events import (
    Event,
    Fact,
    HistoryMerged,
    HistoryMessage,
    HistoryReset,
    Json,
    MessageAdded,
    PromptSubmitted,
    PromptTaken,
    PromptWithdrawn,
    SessionCreated,
    SettingsChanged,
    StepEnded,
    StepStarted,
    ToolCalled,
    ToolEnded,
    TurnEnded,
    TurnStarted,
)

from .merging import Measure, measure_after, text_of
from .messages import Mode
from .projection import WHAT_NEXT
from .transcript import Entry, Piece, Size, Transcript
from .words import mode_word, result_text

_encoder = msgspec.json.Encoder()
_entries = msgspec.json.Decoder(Entry)


class _Stand(msgspec.Struct, frozen=True):
    """Where a conversation stood at some time."""

    size: Size
    traced: int
    turn: int
    iteration: int
    updated: float
    prompt: bytes
    result: str | None


class Past:
    """What was known of a conversation at some time: all that decides whether a client lacks something of it."""

    def __init__(self, measure: Measure, since: float, texts: Callable[[], Iterator[tuple[str, bytes]]]) -> None:
        self.measure = measure
        self.since = since
        self.texts = texts


class Conversation:
    """The fold of a session's log as the session object. Feed it every event once, in order, from seq 1.

    ``trace_entries`` is how many entries of the trace are kept: the newest.
    """

    def __init__(self, *, trace_entries: int) -> None:
        self._trace: deque[bytes] = deque(maxlen=trace_entries)
        self._waiting: dict[str, str] = {}
        self._mode: Mode = "safe"
        self._since = self._now = 0.0
        self._begin()

    def _begin(self) -> None:
        """Know nothing of a conversation."""
        self._transcript = Transcript()
        self._trace.clear()
        self._traced = 0
        self._turn = self._iteration = 0
        self._updated = 0.0
        self._in_step = False
        self._prompt = b"null"
        self._result: str | None = None
        self._before_turn: _Stand | None = None

    @property
    def turn(self) -> int:
        """Turns since ``history.reset``, those of a history that was taken in and the open one counted."""
        return self._turn

    @property
    def measure(self) -> Measure:
        """How far the conversation is; all zero while nothing is known of any."""
        return Measure(self._turn, self._iteration, self._updated)

    @property
    def since(self) -> float:
        """When the conversation was begun anew (``history.reset``), in seconds since 1970; 0 when it never was."""
        return self._since

    @property
    def result(self) -> str | None:
        """What came of the last turn, as OUTPUT says it; None while it is open, and when it failed."""
        return self._result

    def texts(self) -> Iterator[tuple[str, bytes]]:
        """Who said what, in order: ``user`` or ``assistant``, and the text as JSON."""
        return self._transcript.texts(self._transcript.size)

    @property
    def before_turn(self) -> Past:
        """What was known when the open turn began; what is known now when none is open.

        Whoever sees the open turn from its first event on lacks only what was there before it.
        """
        stand, transcript = self._before_turn or self._stand(), self._transcript
        measure = Measure(stand.turn, stand.iteration, stand.updated)
        return Past(measure, self._since, lambda: transcript.texts(stand.size))

    def take(self, event: Event, said: Sequence[bytes]) -> None:
        """Fold an event in. ``said`` are the stream events, without a session, that it adds to the trace."""
        self._now = event.at / 1000
        entries = [_entries.decode(encoded) for encoded in said]
        fold = _FOLDS.get(type(event.fact))
        shows = fold is not None and fold(self, event.fact, entries)
        if shows or said:
            self._updated = self._now
        for entry, encoded in zip(entries, said, strict=True):
            self._transcript.show(entry, self._traced)
            self._trace.append(encoded)
            self._traced += 1

    def session(self, wire_id: bytes, *, before_turn: bool = False) -> bytes:
        """The session object; ``wire_id`` is the session's id as JSON text, quotes and all.

        ``before_turn`` gives it as it was when the open turn began.
        """
        stand = self._shown(before_turn)
        rest = {
            "turn": stand.turn,
            "user_prompt": msgspec.Raw(stand.prompt),
            "iteration": stand.iteration,
            "result": stand.result,
            "updated": stand.updated,
            "mode": self._mode,
        }
        trace = islice(self._trace, max(0, len(self._trace) - (self._traced - stand.traced)))
        pieces: list[Piece] = [b'{"session_id":', wire_id, b',"messages":', *self._transcript.messages(stand.size)]
        pieces += (b',"trace":[', b",".join(trace), b"],", _encoder.encode(rest)[1:])
        return b"".join(pieces)

    def chat_items(self, *, before_turn: bool = False) -> bytes:
        """What a chat shows of the conversation, as a JSON list, in the order in which it happened.

        ``before_turn`` gives it as it was when the open turn began: to be shown before that turn's events.
        """
        return b"".join(self._transcript.items(self._shown(before_turn).size))

    def _shown(self, before_turn: bool) -> _Stand:
        return self._before_turn if before_turn and self._before_turn is not None else self._stand()

    def _stand(self) -> _Stand:
        size = self._transcript.size
        return _Stand(size, self._traced, self._turn, self._iteration, self._updated, self._prompt, self._result)

    # What each fact does to it, and whether that is a change of what the session object shows

    def _created(self, fact: SessionCreated, _: list[Entry]) -> bool:
        self._set_mode(fact.settings)
        return False

    def _settings(self, fact: SettingsChanged, _: list[Entry]) -> bool:
        before = self._mode
        self._set_mode(fact.changes)
        return self._mode != before and self.measure != Measure()

    def _set_mode(self, settings: dict[str, Json]) -> None:
        if "mode" in settings:
            self._mode = mode_word(settings["mode"])

    def _submitted(self, fact: PromptSubmitted, _: list[Entry]) -> bool:
        self._waiting[fact.prompt] = fact.text
        return False

    def _withdrawn(self, fact: PromptWithdrawn, _: list[Entry]) -> bool:
        self._waiting.pop(fact.prompt, None)
        return False

    def _turn_started(self, fact: TurnStarted, entries: list[Entry]) -> bool:
        self._before_turn = self._stand()
        self._turn += 1
        self._iteration = 0
        self._result = None
        self._prompt = self._ask(fact.prompt, entries)
        return True

    def _taken(self, fact: PromptTaken, entries: list[Entry]) -> bool:
        self._ask(fact.prompt, entries)
        return True

    def _ask(self, prompt: str, entries: list[Entry]) -> bytes:
        """A prompt reached the agent: what was typed, not what a client made of it for the model."""
        text = self._waiting.pop(prompt, None)
        if text is None:
            return b"null"
        return bytes(self._transcript.asked(text, _content(entries)))

    def _step_started(self, fact: StepStarted, _: list[Entry]) -> bool:
        self._transcript.close()
        self._in_step = True
        self._iteration = fact.step
        return True

    def _step_ended(self, _fact: StepEnded, _: list[Entry]) -> bool:
        self._transcript.close()
        self._in_step = False
        return True

    def _added(self, fact: MessageAdded, entries: list[Entry]) -> bool:
        if _of_subagent(fact):
            return False
        if fact.role == "user":
            self._transcript.asked(fact.text, _content(entries))
        elif fact.role == "assistant":
            self._transcript.answered(fact.text, joins=self._in_step)
        return fact.role in ("user", "assistant")

    def _called(self, fact: ToolCalled, _: list[Entry]) -> bool:
        if fact.parent is not None or _of_subagent(fact):
            return False
        self._transcript.called(fact.call, fact.tool, fact.input)
        return True

    def _ended(self, fact: ToolEnded, entries: list[Entry]) -> bool:
        shown = next((entry.result for entry in entries if entry.type == "tool_result"), None)
        self._transcript.ended(fact.call, _encoder.encode(result_text(fact)) if shown is None else shown)
        if not self._in_step:
            # Nothing else says where one answer of a program ends and the next begins.
            self._transcript.close()
        return True

    def _turn_ended(self, fact: TurnEnded, _: list[Entry]) -> bool:
        self._before_turn = None
        self._transcript.close()
        self._in_step = False
        if fact.outcome == "completed":
            self._result = fact.result or ""
        elif fact.outcome == "cancelled":
            self._result = WHAT_NEXT
        return True

    def _reset(self, _fact: HistoryReset, _: list[Entry]) -> bool:
        self._begin()
        self._since = self._now
        return True

    def _merged(self, fact: HistoryMerged, _: list[Entry]) -> bool:
        if fact.replace:
            self._transcript = Transcript()
        for message in fact.messages:
            self._remember(message)
        self._transcript.close()
        after = measure_after(fact, self.measure)
        if after is None:
            return True
        self._turn, self._iteration = after.turn, after.iteration
        self._updated = after.updated if "updated" in fact.detail else self._now
        return False

    def _remember(self, message: HistoryMessage) -> None:
        """A message of a history that was taken in. What the system said is nobody's to see."""
        text = text_of(message.content)
        self._transcript.close()
        if message.role == "user":
            self._transcript.asked(text)
        elif message.role == "assistant":
            self._transcript.answered(text, joins=False)
            for call in message.calls:
                self._transcript.called(call.call, call.tool, call.input)
        elif message.role == "tool" and message.call is not None:
            self._transcript.ended(message.call, _encoder.encode(text or _as_text(message.content)))


def _of_subagent(fact: Fact) -> bool:
    return fact.origin is not None and fact.origin.subagent is not None


def _content(entries: list[Entry]) -> Piece | None:
    """A prompt's text as the trace has it already."""
    return next((entry.content for entry in entries if entry.type == "user_input"), None)


def _as_text(value: Json) -> str:
    """A string as it is, anything else as JSON."""
    return value if isinstance(value, str) else _encoder.encode(value).decode()


_FOLDS: dict[type, Callable[[Conversation, Any, list[Entry]], bool]] = {
    SessionCreated: Conversation._created,
    SettingsChanged: Conversation._settings,
    PromptSubmitted: Conversation._submitted,
    PromptWithdrawn: Conversation._withdrawn,
    TurnStarted: Conversation._turn_started,
    PromptTaken: Conversation._taken,
    StepStarted: Conversation._step_started,
    StepEnded: Conversation._step_ended,
    MessageAdded: Conversation._added,
    ToolCalled: Conversation._called,
    ToolEnded: Conversation._ended,
    TurnEnded: Conversation._turn_ended,
    HistoryReset: Conversation._reset,
    HistoryMerged: Conversation._merged,
}
