"""What can happen in a session: typed, immutable, and readable on disk without us.

A *fact* is what an agent or a command reports; an *event* is a fact that the session
stamped with its place in the log. On disk an event's fact is one JSON object whose
``type`` names it (``{"type":"turn.started","turn":"…"}``).

Every dialect is a projection of these facts; ``docs/mapping.md`` shows which wire message
of which protocol each one serves.
"""

from __future__ import annotations

import msgspec

from .base import Fact, Json, Origin, Problem
from .decisions import (
    Answer,
    DecisionKind,
    DecisionOpened,
    DecisionOutcome,
    DecisionResolved,
    DecisionRevised,
    Option,
    Question,
)
from .lifecycle import (
    AgentExited,
    AgentStarted,
    ErrorCategory,
    HistoryCall,
    HistoryMerged,
    HistoryMessage,
    HistoryReset,
    SessionClosed,
    SessionCreated,
    SettingsChanged,
    StateChanged,
)
from .stream import (
    STREAMED,
    Compacted,
    ContextReported,
    LogWritten,
    MessageAdded,
    PartDelta,
    PartEnded,
    PartStarted,
    RawPart,
    SourceCited,
    StepEnded,
    StepStarted,
    UsageReported,
)
from .terminal import HookAnswered, HookSignalled, TerminalReserved, TerminalResized, TerminalTitled
from .tools import ClientToolsDeclared, SubagentEnded, SubagentStarted, ToolCalled, ToolEnded, ToolProgressed
from .turns import (
    Attachment,
    CancelRequested,
    Outcome,
    PromptSubmitted,
    PromptTaken,
    PromptWithdrawn,
    TurnEnded,
    TurnSettled,
    TurnStarted,
)
from .workspace import (
    ArtifactStored,
    CheckpointDeleted,
    CheckpointRestored,
    CheckpointTaken,
    Notified,
    TodosChanged,
)

AnyFact = (
    SessionCreated
    | SettingsChanged
    | SessionClosed
    | AgentStarted
    | AgentExited
    | StateChanged
    | HistoryMerged
    | HistoryReset
    | PromptSubmitted
    | PromptTaken
    | PromptWithdrawn
    | TurnStarted
    | CancelRequested
    | TurnSettled
    | TurnEnded
    | StepStarted
    | StepEnded
    | PartStarted
    | PartDelta
    | PartEnded
    | RawPart
    | SourceCited
    | MessageAdded
    | UsageReported
    | Compacted
    | ContextReported
    | LogWritten
    | ToolCalled
    | ToolProgressed
    | ToolEnded
    | SubagentStarted
    | SubagentEnded
    | ClientToolsDeclared
    | DecisionOpened
    | DecisionRevised
    | DecisionResolved
    | TerminalResized
    | TerminalTitled
    | TerminalReserved
    | HookAnswered
    | HookSignalled
    | TodosChanged
    | Notified
    | ArtifactStored
    | CheckpointTaken
    | CheckpointRestored
    | CheckpointDeleted
)
"""Every fact there is, told apart by its ``type`` tag."""


class Event(msgspec.Struct, frozen=True, gc=False):
    """A fact with its place in one session's log.

    ``seq`` counts 1, 2, 3… per session and is never reused (invariant 1). ``at`` is the
    wall clock in milliseconds since 1970. ``epoch`` names the run of the server that wrote
    it: two servers can never both own a data folder, and the epoch proves which one did.
    """

    seq: int
    at: int
    epoch: str
    fact: AnyFact


_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[AnyFact] = msgspec.json.Decoder(AnyFact)


def encode_fact(fact: Fact) -> bytes:
    """The fact as one JSON object, as it stands on disk."""
    return _encoder.encode(fact)


def tag_of(fact: Fact | type[Fact]) -> str:
    """The ``type`` that names the fact on disk."""
    return str(fact.__struct_config__.tag)


def decode_fact(data: bytes) -> AnyFact:
    """The fact that ``data`` holds. Raises ``msgspec.ValidationError`` for anything else."""
    return _decoder.decode(data)


__all__ = [
    "STREAMED",
    "AgentExited",
    "AgentStarted",
    "Answer",
    "AnyFact",
    "ArtifactStored",
    "Attachment",
    "CancelRequested",
    "CheckpointDeleted",
    "CheckpointRestored",
    "CheckpointTaken",
    "ClientToolsDeclared",
    "Compacted",
    "ContextReported",
    "DecisionKind",
    "DecisionOpened",
    "DecisionOutcome",
    "DecisionResolved",
    "DecisionRevised",
    "ErrorCategory",
    "Event",
    "Fact",
    "HistoryCall",
    "HistoryMerged",
    "HistoryMessage",
    "HistoryReset",
    "HookAnswered",
    "HookSignalled",
    "Json",
    "LogWritten",
    "MessageAdded",
    "Notified",
    "Option",
    "Origin",
    "Outcome",
    "PartDelta",
    "PartEnded",
    "PartStarted",
    "Problem",
    "PromptSubmitted",
    "PromptTaken",
    "PromptWithdrawn",
    "Question",
    "RawPart",
    "SessionClosed",
    "SessionCreated",
    "SettingsChanged",
    "SourceCited",
    "StateChanged",
    "StepEnded",
    "StepStarted",
    "SubagentEnded",
    "SubagentStarted",
    "TerminalReserved",
    "TerminalResized",
    "TerminalTitled",
    "TodosChanged",
    "ToolCalled",
    "ToolEnded",
    "ToolProgressed",
    "TurnEnded",
    "TurnSettled",
    "TurnStarted",
    "UsageReported",
    "decode_fact",
    "encode_fact",
    "tag_of",
]
