"""A coop link: what one WebSocket client sees and may do (seed: subscription modes, authentication, both directions).

It holds cursors only: a tape offset, a place in the log, the last picture sent. So it costs the same however slowly the
client reads, and what it sends next is always what is newest, in the order the seed's readers rely on: all output, then
the last screen, then exactly one ``exit``.
"""

from __future__ import annotations

import asyncio
import binascii
import logging
from base64 import b64decode
from collections.abc import Callable, Collection, Coroutine
from typing import TYPE_CHECKING, Any

from dragoman.dialects.base import Outbox, Wire
from dragoman.dialects.frames import ping_frame, text_frame
from dragoman.dialects.reading import EventSource
from dragoman.hub.errors import NOT_JSON, HubError
from dragoman.hub.events import AgentExited, SessionClosed
from dragoman.hub.permissions import Principal, Right
from dragoman.hub.ports import Terminal
from dragoman.hub.session import Session

from . import messages as wire
from . import projection
from .binding import Asked, Binding, asked_by
from .deliveries import nudge, respond
from .errors import BAD_BASE64, FAILED, INVALID, NO_MODEL, NOT_AUTHENTICATED, WRONG_TOKEN, as_error

if TYPE_CHECKING:
    from .dialect import CoopDialect

log = logging.getLogger("dragoman.links")

_OUTPUT_MODES = ("raw", "all")
_SCREEN_MODES = ("screen", "all")
_STATE_MODES = ("state", "all")


OUTPUTS_PER_SCREEN = 4
"""Output messages after which a picture is sent although the link has not caught up with the bytes."""


class CoopLink:
    """One client. Implements ``Link`` and, for its terminal, ``TerminalWatcher``."""

    joins = True

    def __init__(
        self, dialect: CoopDialect, session: Session, terminal: Terminal, mode: str, principal: Principal, wire_: Wire
    ) -> None:
        self._dialect = dialect
        self._session = session
        self._terminal = terminal
        self._principal = principal
        self._wire = wire_
        self._outbox = Outbox(dialect.settings.reply_backlog)
        self._shows_output = mode in _OUTPUT_MODES
        self._shows_screen = mode in _SCREEN_MODES
        self._shows_state = mode in _STATE_MODES
        self._frames = dialect.frames(session.id)
        self.offset = terminal.tape.end
        self._screen_due = False
        self._outputs_since_screen = 0
        # What was shown before the link opened is no news.
        self._sent = terminal.screen.snapshot() if terminal.screen is not None else None
        self._size = (terminal.cols, terminal.rows)
        self._projection = projection.StateProjection(session.shown)
        # Only states come from the log: who is shown none is not woken by what is logged.
        self._events: EventSource | None = None
        if self._shows_state:
            self._events = EventSource(session, session.shown.seq, tasks=dialect.tasks, wake=wire_.wake)
            self._unfollow = self._events.close
        else:
            self._unfollow = session.watch(self._end_with_session)
        self._unwatch = terminal.watch(self)
        # A link that is shown no states answers what is current, as HTTP does.
        self._binding = Binding(asked_by(session.shown.prompt)) if self._shows_state else None
        self._waiting: tuple[wire.Transition, Asked | None] | None = None
        self._proof: asyncio.TimerHandle | None = None
        self._unproven = False
        self._delivering = False
        self._gone = False

    # Link

    @property
    def congested(self) -> bool:
        return self._delivering or self._outbox.full

    def receive(self, message: str | bytes) -> None:
        if isinstance(message, bytes):
            self._say(INVALID)
            return
        try:
            decoded = wire.decode(message)
        except NOT_JSON:
            self._say(INVALID)
            return
        try:
            self._handle(decoded)
        except HubError as problem:
            self._say(as_error(problem))

    def pong(self, payload: bytes) -> None:
        if self._binding is not None and self._binding.pong(payload):
            self._end_proof()
            self._wire.wake()

    def pull(self) -> bytes | None:
        reply = self._outbox.take()
        if reply is not None:
            return reply
        if (self._terminal.cols, self._terminal.rows) != self._size:
            self._size = (self._terminal.cols, self._terminal.rows)
            return _frame(wire.Resized(cols=self._size[0], rows=self._size[1]))
        tape = self._terminal.tape
        behind = self._shows_output and self.offset < tape.end
        if self.offset < tape.start:
            self._outputs_since_screen = 0  # the jump comes first
        # A picture follows the bytes it shows; but a flood must not hide the screen from a link that never catches up.
        starved = self._outputs_since_screen >= OUTPUTS_PER_SCREEN and self._terminal.running
        if (starved or not behind) and (frame := self._next_screen()) is not None:
            return frame
        if behind:
            self._outputs_since_screen += 1
            limit = self._dialect.settings.output_frame
            self.offset, frame = self._frames.output(tape, self.offset, limit)
            return frame
        return self._next_event()

    def lost(self) -> None:
        self._gone = True
        self._end_proof()
        self._unwatch()
        self._unfollow()
        self._dialect.link_lost(self._session.id, self)

    def end(self) -> None:
        """The session is over for its coop clients."""
        self._wire.close(1001, "the session ended")

    def _end_with_session(self) -> None:
        if self._session.shown.closed is not None:
            self.end()

    # TerminalWatcher

    def readers(self) -> Collection[CoopLink]:
        return (self,) if self._shows_output else ()

    def tape_grew(self) -> None:
        if self._shows_output:
            self._wire.wake()

    def screen_changed(self) -> None:
        if self._shows_screen:
            self._screen_due = True
            self._wire.wake()

    def resized(self) -> None:
        self._wire.wake()

    # Out

    def _next_screen(self) -> bytes | None:
        screen = self._terminal.screen
        if not self._screen_due or screen is None:
            return None
        if screen.held:
            return None  # the terminal says so again once the picture is complete
        self._screen_due = False
        self._outputs_since_screen = 0
        picture = screen.snapshot()
        if picture is self._sent:
            return None
        self._sent = picture
        return self._frames.screen(picture)

    def _next_event(self) -> bytes | None:
        if self._events is None:
            return None
        if self._waiting is not None:
            return self._transition(*self._waiting)
        while (event := self._events.peek()) is not None:
            if isinstance(event.fact, AgentExited) and self._owes_the_end():
                return self._last_screen()
            self._events.skip()
            if isinstance(event.fact, SessionClosed):
                self.end()
            message = self._projection.project(event.fact)
            if isinstance(message, wire.Transition):
                return self._transition(message, self._projection.asked)
            if message is not None:
                return _frame(message)
        return None

    def _transition(self, message: wire.Transition, asked: Asked | None) -> bytes | None:
        """The message, unless it must wait until the client has seen that the prompt before is over."""
        assert self._binding is not None
        if self._binding.holds(asked) and not self._unproven:
            self._waiting = (message, asked)
            return None
        self._waiting = None
        self._prove(self._binding.shown(asked))
        return _frame(message)

    def _prove(self, payload: bytes | None) -> None:
        """Send the ping that must go with what the client is told, if any."""
        if payload is not None:
            self._end_proof()
            limit = self._dialect.settings.proof
            self._proof = asyncio.get_running_loop().call_later(limit, self._proof_is_late)
            self._outbox.put(ping_frame(payload))

    def _proof_is_late(self) -> None:
        """The client may see what comes next, but until its pong its answers are to what was before."""
        self._unproven = True
        self._wire.wake()

    def _end_proof(self) -> None:
        self._unproven = False
        if self._proof is not None:
            self._proof.cancel()
            self._proof = None

    def _owes_the_end(self) -> bool:
        """Whether the last picture has not been sent yet; by now all output has."""
        screen = self._terminal.screen
        return self._shows_screen and screen is not None and screen.snapshot() is not self._sent

    def _last_screen(self) -> bytes:
        assert self._terminal.screen is not None
        self._sent = self._terminal.screen.snapshot()
        self._screen_due = False
        return self._frames.screen(self._sent)

    def _say(self, message: wire.ServerMessage) -> None:
        self._outbox.put(_frame(message))
        self._wire.wake()

    # In

    def _handle(self, message: wire.AnyClientMessage) -> None:
        handler = _HANDLERS[type(message)]
        if type(message) in _NEEDS_AUTH and Right.WRITE not in self._principal.rights:
            self._say(NOT_AUTHENTICATED)
            return
        handler(self, message)

    def _ping(self, _: wire.Ping) -> None:
        self._say(wire.Pong())

    def _auth(self, message: wire.Auth) -> None:
        principal = self._dialect.authenticate(message.token)
        if principal is not None:
            self._principal = principal
            self._wire.set_message_limit(self._dialect.settings.message_limit)
        else:
            self._say(WRONG_TOKEN)

    def _screen_get(self, _: wire.ScreenGet) -> None:
        screen = self._terminal.screen
        if screen is None:
            self._say(NO_MODEL)
            return
        self._outbox.put(self._frames.screen(screen.snapshot()))
        self._wire.wake()

    def _state_get(self, _: wire.StateGet) -> None:
        state = self._session.shown
        self._say(projection.state_now(state))
        if self._binding is not None:
            self._prove(self._binding.shown(asked_by(state.prompt)))
            self._wire.wake()

    def _status_get(self, _: wire.StatusGet) -> None:
        self._say(self._dialect.status(self._session, self._terminal))

    def _replay(self, message: wire.Replay) -> None:
        self._say(replay_result(self._terminal, message.offset, message.limit))

    def _resize(self, message: wire.Resize) -> None:
        if self._dialect.settings.resize_needs_write and Right.WRITE not in self._principal.rights:
            self._say(NOT_AUTHENTICATED)
            return
        self._terminal.resize(message.cols, message.rows, self._principal.id)

    def _input(self, message: wire.Input) -> None:
        self._control().write(message.text.encode() + (b"\r" if message.enter else b""))

    def _input_raw(self, message: wire.InputRaw) -> None:
        data = decode_base64(message.data)
        if data is None:
            self._say(BAD_BASE64)
            return
        self._control().write(data)

    def _keys(self, message: wire.Keys) -> None:
        self._control().press(message.keys)

    def _signal(self, message: wire.Signal) -> None:
        self._control().signal(message.signal)

    def _nudge(self, message: wire.Nudge) -> None:
        self._deliver(nudge(self._session, self._principal, message.message, limit=self._dialect.settings.delivery))

    def _respond(self, message: wire.Respond) -> None:
        self._deliver(self._responded(message))

    async def _responded(self, message: wire.Respond) -> wire.ServerMessage:
        binding, limit = self._binding, self._dialect.settings.delivery
        asked = asked_by(self._session.shown.prompt) if binding is None else binding.bound
        result, after = await respond(self._session, self._principal, asked, message, limit=limit)
        if binding is not None and asked is not None and not self._gone:
            # The ping goes before the result: a client that takes one frame at a time has answered it by then.
            self._prove(binding.answered(asked, after))
        return result

    def _deliver(self, work: Coroutine[Any, Any, wire.ServerMessage]) -> None:
        """Off the link's way: pushes go on, later messages wait in the socket. It runs on if the client leaves."""
        self._delivering = True
        self._dialect.tasks.start(self._run(work), "delivery")

    async def _run(self, work: Coroutine[Any, Any, wire.ServerMessage]) -> None:
        try:
            reply = await work
        except HubError as problem:
            reply = as_error(problem)
        except Exception:
            log.exception("a delivery failed")
            reply = FAILED
        finally:
            self._delivering = False
        if not self._gone:
            self._say(reply)

    def _shutdown(self, _: wire.Shutdown) -> None:
        self._dialect.shut_down(self._session)

    def _control(self) -> Terminal:
        return self._session.control(self._principal)


_HANDLERS: dict[type, Callable[[CoopLink, Any], None]] = {
    wire.Ping: CoopLink._ping,
    wire.Auth: CoopLink._auth,
    wire.ScreenGet: CoopLink._screen_get,
    wire.StateGet: CoopLink._state_get,
    wire.StatusGet: CoopLink._status_get,
    wire.Replay: CoopLink._replay,
    wire.Resize: CoopLink._resize,
    wire.Input: CoopLink._input,
    wire.InputRaw: CoopLink._input_raw,
    wire.Keys: CoopLink._keys,
    wire.Signal: CoopLink._signal,
    wire.Nudge: CoopLink._nudge,
    wire.Respond: CoopLink._respond,
    wire.Shutdown: CoopLink._shutdown,
}

_NEEDS_AUTH = frozenset({wire.Input, wire.InputRaw, wire.Keys, wire.Nudge, wire.Respond, wire.Signal, wire.Shutdown})
"""The seed's write operations; ``resize`` is not one of them."""


def replay_result(terminal: Terminal, offset: int, limit: int | None) -> wire.ReplayResult:
    """The reply to ``replay``, and the body of ``GET output``."""
    tape = terminal.tape
    start, data, end = projection.replay(tape, offset, limit)
    text = binascii.b2a_base64(data, newline=False).decode()
    return wire.ReplayResult(data=text, offset=start, next_offset=end, total_written=tape.end)


def decode_base64(text: str) -> bytes | None:
    """Standard base64 with padding, strictly; None for anything else."""
    try:
        return b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None


def _frame(message: wire.ServerMessage) -> bytes:
    return text_frame(wire.encode(message))
