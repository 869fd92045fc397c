"""To which decision an answer on a link is (invariant 4): answers of this protocol may name only the session.

A prompt is put to a client with a protocol ping right behind it, and answers are to it only once the pong has come.
Where the one before was answered elsewhere, the next one waits until the client has proved, by a pong too, that it was
told.
"""

from __future__ import annotations

from .feed import Asked


class Binding:
    """A state machine without I/O."""

    PREFIX = b"cin "

    def __init__(self) -> None:
        self._bound: dict[str, str] = {}
        self._shown: dict[str, str] = {}
        self._mine: set[str] = set()
        self._proofs = 0
        self._awaited: dict[bytes, Asked] = {}
        self._unproved: dict[str, bytes] = {}

    @property
    def standing(self) -> tuple[tuple[str, str], ...]:
        """Sessions, and the decisions of theirs that the client was shown last and not told to be over."""
        return tuple(self._shown.items())

    def bound(self, session: str) -> str | None:
        """The decision that an answer to this session which names none is to."""
        return self._bound.get(session)

    def holds(self, asked: Asked) -> bool:
        """Whether what is asked must wait: the client has not proved yet that the one before is over."""
        return asked.decision is not None and asked.session in self._unproved

    def answers(self, decision: str) -> None:
        """The client gives the answer itself: it need not be told."""
        self._mine.add(decision)

    def shown(self, asked: Asked) -> bytes | None:
        """It leaves for the client. The payload of the ping to be sent right behind it, if there is to be one."""
        session, decision = asked
        before = self._shown.pop(session, None)
        over = before is not None and before != decision and before not in self._mine
        self._mine.discard(before or "")
        if decision is not None:
            self._shown[session] = decision
        elif not over:
            self._bound.pop(session, None)
            return None
        self._proofs += 1
        payload = self.PREFIX + b"%d" % self._proofs
        self._awaited[payload] = asked
        if over:
            self._unproved[session] = payload
        return payload

    def pong(self, payload: bytes) -> bool:
        """A pong arrived, in order with the client's messages. True when what was held may go on."""
        asked = self._awaited.pop(payload, None)
        if asked is None:
            return False
        if asked.decision is None:
            self._bound.pop(asked.session, None)
        else:
            self._bound[asked.session] = asked.decision
        if self._unproved.get(asked.session) == payload:
            del self._unproved[asked.session]
            return True
        return False
