"""To which prompt an answer on a link is (invariant 4). The seed's ``respond`` names none: it is to the one last seen.

What was sent last is not always what the client had seen when it answered: an answer and the next prompt can cross on
their way. So once a prompt that the link was shown is over, answers go on being to that one until the client has
answered a protocol ping sent with the news; and the next prompt waits for that pong too, unless it is itself the news.
"""

from __future__ import annotations

from typing import NamedTuple

from dragoman.hub.events import DecisionOpened


class Asked(NamedTuple):
    """A prompt, or one question of it (from 0), as a client sees it. ``type`` is its name on the wire."""

    decision: str
    question: int
    type: str


class Binding:
    """A state machine without I/O. ``bound`` is what an answer that arrives now is to; None when it is to nothing.

    It begins with what was current when the link opened: a client may know that from elsewhere.
    """

    def __init__(self, asked: Asked | None) -> None:
        self.bound = asked
        self._seen = asked
        self._proofs = 0
        self._awaited = b""

    @property
    def proving(self) -> bool:
        """Whether a ping is on its way whose pong has not come yet."""
        return bool(self._awaited)

    def holds(self, asked: Asked | None) -> bool:
        """Whether a message that shows this must wait for the pong."""
        return self.proving and asked is not None and not _same(asked, self._seen)

    def shown(self, asked: Asked | None) -> bytes | None:
        """The client is told that this is asked now. Returns the payload of the ping that must go with it, if any."""
        self._seen = asked
        if self.proving or _same(asked, self.bound):
            return None
        if self.bound is None:
            self.bound = asked
            return None
        self._proofs += 1
        self._awaited = b"seen %d" % self._proofs
        return self._awaited

    def answered(self, asked: Asked, after: Asked | None) -> bytes | None:
        """The result of an answer to ``asked`` says what is asked after it. As ``shown``, unless more was since."""
        return self.shown(after) if _same(asked, self._seen) else None

    def pong(self, payload: bytes) -> bool:
        """A pong arrived, in order with the client's messages. True when it is the awaited one."""
        if not self._awaited or payload != self._awaited:
            return False
        self._awaited = b""
        self.bound = self._seen
        return True


def asked_by(opened: DecisionOpened | None) -> Asked | None:
    """What an open decision asks."""
    return None if opened is None else Asked(opened.decision, opened.question_current, wire_type(opened))


def wire_type(opened: DecisionOpened) -> str:
    """The prompt type of a decision: the wire has no forms, they are questions there."""
    return "question" if opened.kind == "form" else opened.kind


def _same(one: Asked | None, other: Asked | None) -> bool:
    if one is None or other is None:
        return one is other
    return one[:2] == other[:2]
