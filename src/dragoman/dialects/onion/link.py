"""An onion link: one client's socket (seed: WebSocket Lifecycle). No I/O, and a cursor, not a queue.

Messages are handled one after the other, in the order they came; PONG and what only looks are handled at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

import msgspec

from dragoman.dialects.base import Outbox, Upgrade, Wire
from dragoman.dialects.frames import ping_frame, text_frame
from dragoman.hub.errors import HubError, LimitReached

from . import client_messages as asked
from . import messages as wire
from .binding import Binding
from .commands import Commands
from .errors import FAILED, GONE, refusal
from .forwarder import Forwarder, Outgoing
from .sessions import Joined
from .view import Reach

if TYPE_CHECKING:
    from .dialect import OnionDialect

log = logging.getLogger("dragoman.links")

FULL_FRAME = 64 * 1024
"""Bytes of messages that leave together, when so much is there."""

FULL_INBOX = 1024 * 1024
"""Bytes of messages that wait for their turn, from which on the socket is read no further."""

TURN_SECONDS = 0.005
"""Time for which one link's messages are handled before the others get their turn."""

LONGEST_SEQ = 18
"""Digits of a place in a log."""

PING = text_frame(wire.encode(wire.Ping()))


class _Pong(msgspec.Struct, frozen=True):
    """The client has got everything up to a ping with this payload, and what it says from now on may be to that."""

    payload: bytes


class Shown(msgspec.Struct, frozen=True):
    """The session that a link shows, and its reading of it."""

    joined: Joined
    forwarder: Forwarder


class OnionLink:
    """One client. Implements ``Link``."""

    joins = False
    """Every message is a frame of its own: a pause would only delay it."""

    def __init__(self, dialect: OnionDialect, upgrade: Upgrade, wire_: Wire, *, loopback: bool, token: bool) -> None:
        self.peer = upgrade.peer
        self.loopback = loopback
        self.token = token
        self.shown: Shown | None = None
        self.binding = Binding()
        self.gone = False
        self._dialect = dialect
        self._wire = wire_
        self._outbox = Outbox(dialect.settings.reply_backlog)
        self._inbox: deque[str | bytes | _Pong] = deque()
        self._inbox_bytes = 0
        self._working = False
        self._asides = 0
        self._commands = Commands(self, dialect)
        self._ping_due = False
        self._held: Outgoing | None = None
        self._proved = self._shows = 0
        self._told_gone = False
        self._left: Joined | None = None
        self._pinging = self._ping_later()

    # Link

    @property
    def congested(self) -> bool:
        return (
            len(self._inbox) >= self._dialect.settings.commands or self._outbox.full or self._inbox_bytes > FULL_INBOX
        )

    def receive(self, message: str | bytes) -> None:
        self._inbox_bytes += len(message)
        self._put(message)

    def pong(self, payload: bytes) -> None:
        proof, _, seq = payload.rpartition(b" ")
        if proof == self._proof and seq.isdigit() and len(seq) <= LONGEST_SEQ:  # pongs may come that nobody asked for
            self._proved = max(self._proved, int(seq))
        else:
            self._put(_Pong(payload))  # an answer before it, which may still wait, is to what was asked before

    def pull(self) -> bytes | None:
        if self._ping_due:
            self._ping_due = False
            return PING
        reply = self._outbox.take()
        return reply if reply is not None else self._told()

    def lost(self) -> None:
        if not self.gone:
            self.gone = True
            self._pinging.cancel()
            # What came before the end still counts: clients answer, or say a last thing, and close at once.
            binding, self._left = self.binding, self.joined
            self._leave()
            self.binding = binding
            self._dialect.left(self)

    # For commands

    @property
    def joined(self) -> Joined | None:
        """The session whose client this is; of a link that is gone, the last."""
        return self.shown.joined if self.shown is not None else self._left

    def say(self, message: wire.Control) -> None:
        """Reply."""
        if not self.gone:
            self._outbox.put(text_frame(wire.encode(message)))
            self._wire.wake()

    def let_in(self) -> None:
        """The client may send larger messages from now on."""
        self._wire.set_message_limit(self._dialect.settings.message_limit)

    def aside(self, work: Coroutine[Any, Any, object]) -> None:
        """Do this while further messages are handled. Raises ``LimitReached`` when so much is being done already."""
        if self._asides >= self._dialect.settings.commands:
            work.close()
            raise LimitReached("too many requests are under way (dialects.onion.commands)")
        self._asides += 1
        task = self._dialect.tasks.start(self._answered(work), "aside")
        task.add_done_callback(self._aside_done)

    def _aside_done(self, _: asyncio.Task[object]) -> None:
        self._asides -= 1

    def wake(self) -> None:
        """There is something to send."""
        if not self.gone:
            self._wire.wake()

    def show(self, joined: Joined, forwarder: Forwarder, connected: wire.Connected) -> None:
        """Show this session instead of whatever was shown before, beginning with CONNECTED."""
        if self.gone:
            forwarder.close()
            return
        self._leave()
        self.shown = Shown(joined, forwarder)
        joined.view.present[self] = self._reach
        self._dialect.sessions.entered(joined.view)
        self.say(connected)

    def dismiss(self, why: wire.Error) -> None:
        """Show nothing more; only another CONNECT helps."""
        self._leave()
        self.say(why)

    def recheck(self) -> None:
        """Whether the client is still let in: the lists changed."""
        self._commands.recheck()

    # Out

    def _told(self) -> bytes | None:
        """What the log says next, as much as leaves together."""
        frames: list[bytes] = []
        size = 0
        while size < FULL_FRAME and not self.binding.held and (out := self._next()) is not None:
            sent = self._sent(out)
            frames += sent
            size += sum(map(len, sent))
        return b"".join(frames) if frames else None

    def _next(self) -> Outgoing | None:
        if self._held is not None:
            held, self._held = self._held, None
            return held
        if self.shown is None:
            return None
        out = self.shown.forwarder.next()
        if out is None and self.shown.forwarder.gone and not self._told_gone:
            self._told_gone = True
            self.say(wire.Error(message=GONE))
        elif out is not None and out.gone:
            self._told_gone = True
        return out

    def _sent(self, out: Outgoing) -> list[bytes]:
        """The frame with what must go around it."""
        if out.ask is not None:
            first = self.binding.hold(out.ask)
            if first is not None:
                self._held = out
                return [ping_frame(first)]
            return [out.frame, ping_frame(self.binding.shown(out.ask))]
        if out.second:
            return [out.frame, ping_frame(b"%b %d" % (self._proof, out.seq))]
        if out.failed is not None:
            self._dialect.failed(self, out.failed)
        return [out.frame]

    def _leave(self) -> None:
        """Nothing more of the session that was shown."""
        if self.shown is not None:
            view = self.shown.joined.view
            view.departed.append(view.present.pop(self)())
            self.shown.forwarder.close()
            self._dialect.sessions.left(view)
        self.shown, self._held = None, None
        self._shows += 1
        self.binding = Binding(self._shows)
        self._told_gone = False
        self._proved = 0

    def _reach(self) -> Reach:
        """How far the client is in the session that is shown."""
        assert self.shown is not None
        return Reach(self.shown.joined.principal.id, self.shown.forwarder.cursor, self._proved)

    @property
    def _proof(self) -> bytes:
        """How a ping begins whose pong proves that something of the session that is shown now has come."""
        return b"got %d" % self._shows

    def _ping_later(self) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(self._dialect.settings.ping_seconds, self._ping)

    def _ping(self) -> None:
        self._pinging = self._ping_later()
        self._ping_due = True
        self.recheck()  # somebody may have edited a list
        self.wake()

    # In

    def _put(self, message: str | bytes | _Pong) -> None:
        self._inbox.append(message)
        if not self._working:
            self._working = True
            self._dialect.tasks.start(self._work(), "messages")

    async def _work(self) -> None:
        """Handle what has come, one after the other; after its turn this link goes on in the next one."""
        loop = asyncio.get_running_loop()
        until = loop.time() + TURN_SECONDS
        try:
            while self._inbox:
                if loop.time() > until:
                    await asyncio.sleep(0)
                    until = loop.time() + TURN_SECONDS
                message = self._inbox.popleft()
                if isinstance(message, _Pong):
                    if self.binding.pong(message.payload):
                        self.wake()
                    continue
                try:
                    await self._handle(message)
                finally:
                    self._inbox_bytes -= len(message)
        finally:
            self._working = False
        self.wake()

    async def _handle(self, message: str | bytes) -> None:
        await self._answered(self._do(message))

    async def _do(self, message: str | bytes) -> None:
        if len(message) < self._dialect.settings.big_message:
            decoded = asked.decode(message)
        else:
            decoded = await self._dialect.apart(asked.decode, message)
        await self._commands.handle(decoded)

    async def _answered(self, work: Coroutine[Any, Any, object]) -> None:
        """Do it; whatever goes wrong is an ERROR."""
        try:
            await work
        except asked.ProtocolProblem as problem:
            received = msgspec.UNSET if problem.received is None else problem.received
            self.say(wire.Error(message=str(problem), received=received))
        except HubError as problem:
            self.say(refusal(problem))
        except Exception:
            log.exception("a request failed")
            self.say(wire.Error(message=FAILED))
