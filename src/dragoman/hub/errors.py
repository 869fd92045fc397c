"""What the hub refuses, as types. Each dialect maps them to its own error form in one table."""

from __future__ import annotations

import msgspec

from .events import Answer

NOT_JSON = (msgspec.MsgspecError, UnicodeError, RecursionError)
"""What decoding raises for bytes or text that are not the JSON they should be: wrong, not UTF-8, nested too deep."""


class HubError(Exception):
    """Base of everything the hub refuses. ``code`` is stable; the message is for people."""

    code = "internal"


class UnknownSession(HubError):
    """No such session, or none that this principal may see: the two answer alike (invariant 12)."""

    code = "unknown_session"

    def __init__(self, session: str) -> None:
        super().__init__(f"no session {session!r}")
        self.session = session


class Gone(HubError):
    """The log no longer reaches back to that cursor: retention or a delete dropped it."""

    code = "gone"

    def __init__(self, session: str, floor: int | None) -> None:
        where = "it was dropped" if floor is None else f"it starts at {floor}"
        super().__init__(f"the log of session {session!r} is gone before that cursor: {where}")
        self.session = session
        self.floor = floor


class NotPermitted(HubError):
    """The principal may see the session but not do this."""

    code = "not_permitted"

    def __init__(self, right: str) -> None:
        super().__init__(f"this needs the {right} right")
        self.right = right


class Busy(HubError):
    """A turn is open and the caller asked not to wait behind it.

    ``turn`` is None when the agent works or asks of its own, or a person at its terminal has it do so.
    """

    code = "busy"

    def __init__(self, turn: str | None) -> None:
        super().__init__("a turn is running" if turn is not None else "the agent is busy at its terminal")
        self.turn = turn


class NotReady(HubError):
    """The agent is still starting."""

    code = "not_ready"

    def __init__(self) -> None:
        super().__init__("agent is still starting")


class Closed(HubError):
    """The session is closed: nothing runs in it any more."""

    code = "closed"

    def __init__(self, session: str) -> None:
        super().__init__(f"session {session!r} is closed")


class NotRunning(HubError):
    """There is no live executor for this: the program ended, or was never started."""

    code = "not_running"


class AlreadyRunning(HubError):
    """It runs: an executor cannot be started twice, nor a sign-in."""

    code = "already_running"


class Unsupported(HubError):
    """This session's agent cannot do that (a terminal without a driver takes no prompt)."""

    code = "unsupported"


class UnknownTurn(HubError):
    """No such turn is open."""

    code = "unknown_turn"

    def __init__(self, turn: str) -> None:
        super().__init__(f"turn {turn!r} is not open" if turn else "no turn is open")
        self.turn = turn


class UnknownDecision(HubError):
    """This session never had that decision."""

    code = "unknown_decision"

    def __init__(self, decision: str) -> None:
        super().__init__(f"no decision {decision!r}")
        self.decision = decision


class AlreadyResolved(HubError):
    """Someone was first (invariant 4). Carries the outcome that stands, and the winner's answer if there is one."""

    code = "already_resolved"

    def __init__(self, decision: str, outcome: str, answer: Answer | None = None) -> None:
        super().__init__(f"decision {decision!r} is already {outcome}")
        self.decision = decision
        self.outcome = outcome
        self.answer = answer


class AnsweredAlready(HubError):
    """Someone was first with this question of a dialog, which goes on with another one."""

    code = "already_resolved"

    def __init__(self, question: int) -> None:
        super().__init__(f"question {question + 1} is answered already")
        self.question = question


class InvalidAnswer(HubError):
    """The answer does not fit the decision that is open; it stays open."""

    code = "invalid_answer"


class UnknownCall(HubError):
    """No such call is this link's to end: there never was one, or somebody else runs it."""

    code = "unknown_call"

    def __init__(self, call: str) -> None:
        super().__init__(f"no call {call!r} is yours to end")
        self.call = call


class AlreadyEnded(HubError):
    """The call has its one result: an earlier one, or it was too late (the turn ended, a limit passed)."""

    code = "already_ended"

    def __init__(self, call: str) -> None:
        super().__init__(f"call {call!r} has ended already")
        self.call = call


class ConflictingRepeat(HubError):
    """This client message id was used before with other content."""

    code = "conflicting_repeat"

    def __init__(self, client_message_id: str) -> None:
        super().__init__(f"client message id {client_message_id!r} was already used with other content")


class InvalidSize(HubError):
    """A terminal size outside the named limits. Nothing was touched."""

    code = "invalid_size"


class InvalidRequest(HubError):
    """Something the caller asked for cannot be: a missing folder, an unknown program, a bad value."""

    code = "invalid_request"


class InputRefused(HubError):
    """The program does not read its input and the buffer that holds it is full. Nothing was written."""

    code = "input_refused"


class LimitReached(HubError):
    """A named limit stands in the way. The message names it."""

    code = "limit_reached"


class UnknownCheckpoint(HubError):
    """This session has no such checkpoint, or no longer."""

    code = "unknown_checkpoint"

    def __init__(self, checkpoint: str) -> None:
        super().__init__(f"no checkpoint {checkpoint!r}")
        self.checkpoint = checkpoint


class CheckpointFailed(HubError):
    """The workspace could not be saved or restored. It is as it was."""

    code = "checkpoint_failed"


class StorageUnavailable(HubError):
    """The journal cannot write now (disk full, say). Nothing was acknowledged; try again later."""

    code = "storage_unavailable"


class DataFolderError(HubError):
    """The data folder cannot be used: in use, damaged, foreign or from a newer version. Nothing was changed."""

    code = "data_folder"
