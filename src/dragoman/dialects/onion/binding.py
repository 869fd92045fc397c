"""To which question an answer on a link is (invariant 4): answers of this protocol may name none.

A question is put to a client in a frame with a protocol ping right behind it, and answers are to it only once the pong
has come: an answer that was on its way before that is to whatever was asked earlier, or to nothing. Where the question
before was answered by somebody else, the next one waits until the client has proved (by a pong, too) that it got so
far.
"""

from __future__ import annotations

from .asking import Ask, WireKind


class Binding:
    """A state machine without I/O. Payloads of its pings begin with ``PREFIX``.

    ``number`` tells the bindings of one socket apart: a pong of an earlier one proves nothing to a later one.
    """

    PREFIX = b"asked "

    def __init__(self, number: int = 0) -> None:
        self._number = number
        self._bound: dict[WireKind, Ask] = {}
        self._shown: dict[WireKind, Ask] = {}
        self._answered: set[str] = set()
        self._proofs = 0
        self._awaited: dict[bytes, Ask] = {}
        self._held: bytes | None = None

    @property
    def held(self) -> bool:
        """Whether nothing more is to be said until a pong has come."""
        return self._held is not None

    def bound(self, kind: WireKind) -> Ask | None:
        """What an answer of this kind that names nothing is to; None when it is to nothing."""
        return self._bound.get(kind)

    def knows(self, ask: Ask) -> None:
        """The client has said itself that it has seen this one."""
        self._shown[ask.kind] = self._bound[ask.kind] = ask

    def answered(self, decision: str) -> None:
        """The client gives the answer itself: it need not be told."""
        self._answered.add(decision)

    def unanswered(self, decision: str) -> None:
        """That answer was not taken."""
        self._answered.discard(decision)

    def hold(self, ask: Ask) -> bytes | None:
        """Before ``ask`` is shown: the payload of a ping that must be answered first, if there must be one."""
        before = self._shown.get(ask.kind)
        if before is None or before.decision == ask.decision or before.decision in self._answered:
            return None
        # From now on it is over, and whatever comes for it is late.
        self._shown.pop(ask.kind)
        self._held = self._payload()
        return self._held

    def shown(self, ask: Ask) -> bytes:
        """``ask`` leaves for the client. The payload of the ping to be sent right behind it."""
        self._shown[ask.kind] = ask
        payload = self._payload()
        self._awaited[payload] = ask
        return payload

    def pong(self, payload: bytes) -> bool:
        """A pong arrived, in order with the client's messages. True when what was held may go on."""
        ask = self._awaited.pop(payload, None)
        if ask is not None:
            self._bound[ask.kind] = ask
        if self._held is not None and payload == self._held:
            self._held = None
            return True
        return False

    def _payload(self) -> bytes:
        self._proofs += 1
        return b"%b%d.%d" % (self.PREFIX, self._number, self._proofs)
