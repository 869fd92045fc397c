"""One client of the bridge: it sees all sessions that it may see, and has its own place in what all are told."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from dragoman.dialects.base import Outbox, Wire
from dragoman.dialects.frames import ping_frame, text_frame
from dragoman.hub.errors import HubError
from dragoman.hub.permissions import Principal, Right

from . import client_messages as client
from . import messages as wire
from .binding import Binding
from .catching_up import CatchingUp
from .feed import Asked, Entry
from .frames import PONG, encode

if TYPE_CHECKING:
    from .dialect import CinDialect

NO_VOICE = "Voice input not configured"

JOIN_BYTES = 64 * 1024
"""Of frames that leave together: more are pulled one by one, so that others get their turn."""


class CinLink:
    """See the module. Its first frames are in ``first``."""

    joins = False

    def __init__(self, dialect: CinDialect, principal: Principal, wire: Wire, first: list[bytes]) -> None:
        self._dialect = dialect
        self._feed = dialect.feed
        self._frames = dialect.frames
        self.principal = principal
        self._wire = wire
        self._outbox = Outbox(dialect.settings.outbox_bytes)
        self.place = self._feed.end
        self._binding = Binding()
        self._filter: client.Subscribe | None = None
        self._behind: CatchingUp | None = None
        self._reading: asyncio.Task[None] | None = None
        self._allowance = dialect.settings.harness_per_second
        self._allowance_at = asyncio.get_running_loop().time()
        for frame in first:
            self._outbox.put(frame)
        self._ask_open()
        self._feed.add(self, wire.wake)

    # In

    @property
    def congested(self) -> bool:
        return self._outbox.full or self._reading is not None

    def receive(self, message: str | bytes) -> None:
        """A message; binary ones are audio, which nobody hears yet."""
        if isinstance(message, bytes):
            return
        try:
            self._take(client.decode(message), len(message))
        except client.ProtocolProblem as problem:
            self._say(self._frames.problem(str(problem)))

    def pong(self, payload: bytes) -> None:
        if self._binding.pong(payload):
            self._wire.wake()

    def lost(self) -> None:
        self._feed.remove(self)
        for task in (self._reading, self._behind):
            if task is not None:
                task.cancel()
        self._dialect.left(self)

    def _take(self, message: client.ClientMessage, size: int) -> None:
        match message:
            case client.Ping():
                self._say(PONG)
            case client.GetHistory():
                self._reading = self._dialect.tasks.start(self._history(message), "history")
            case client.Subscribe():
                self._filter = message if message.sessions or message.event_types else None
            case client.PermissionResponse():
                self._answer(message)
            case client.Voice(start=True):
                self._say(self._frames.extension("voice_error", {"error": NO_VOICE}))
            case client.Harness():
                self._relay(message, size)

    async def _history(self, wanted: client.GetHistory) -> None:
        """Replies in the order of the questions: no further message is taken meanwhile."""
        dialect, named = self._dialect, wanted.session_id
        try:
            session = None if named is None else dialect.session_named(self.principal, named)
            events: list[bytes] = []
            if named is None or session is not None:
                events = await dialect.history.page(wanted.limit, session)
            self._say(self._frames.plain("history", b"[%b]" % b",".join(events)))
        except HubError as problem:
            self._say(self._frames.problem(str(problem)))
        finally:
            self._reading = None
            self._wire.wake()

    def _answer(self, given: client.PermissionResponse) -> None:
        session = self._dialect.session_named(self.principal, given.session_id)
        decision = given.decision_id
        if session is not None and decision is None:
            decision = self._binding.bound(session)
        if session is None or decision is None:
            self._say(self._frames.problem("nothing is asked there that this would answer"))
            return
        self._binding.answers(decision)
        self._dialect.tasks.start(self._answering(session, decision, given.response), "answer")

    async def _answering(self, session: str, decision: str, response: str) -> None:
        try:
            await self._dialect.answer(self.principal, session, decision, response)
        except HubError as problem:
            self._say(self._frames.problem(str(problem)))

    def _relay(self, message: client.Harness, size: int) -> None:
        """Hand it on to all links, within limits; whoever may not write is not heard."""
        settings = self._dialect.settings
        if Right.WRITE not in self.principal.rights or size > settings.harness_bytes or not self._within_rate():
            return
        data = encode(message.data)
        twin = b',"payload":%b' % data if self._frames.twins else b""
        kind = msgspec.json.encode(message.type)
        self._feed.relay(text_frame(b'{"type":%b,"data":%b%b}' % (kind, data, twin)))

    def _within_rate(self) -> bool:
        now, rate = asyncio.get_running_loop().time(), self._dialect.settings.harness_per_second
        self._allowance = min(rate, self._allowance + (now - self._allowance_at) * rate)
        self._allowance_at = now
        if self._allowance < 1:
            return False
        self._allowance -= 1
        return True

    # Out

    def pull(self) -> bytes | None:
        frame = self._outbox.take()
        if frame is not None:
            return frame
        if self._behind is not None:
            frame = self._behind.take()
            if frame is not None or not self._behind.done:
                return frame
            self._behind = None
        feed = self._feed
        if self.place >= feed.end:
            return None
        if self._filter is None and not feed.asks_after(self.place):
            frame, self.place = feed.joined(self.place, JOIN_BYTES)
            return frame
        return self._one_by_one()

    def fall_behind(self, cursors: dict[str, int]) -> None:
        """The feed lets go of what this link has not been told: it is read from the disk."""
        if self._behind is None:
            self._behind = CatchingUp(
                self._dialect, cursors, wants=self.wants, resume=self._caught_up, wake=self._wire.wake
            )
        else:
            self._behind.go_on(cursors)
        self.place = self._feed.end

    def _caught_up(self) -> None:
        """From here on it is told with all others; what is asked by now it is shown anew."""
        self.place = self._feed.end
        for session, decision in self._binding.standing:
            if self._feed.asked.get(session) != decision:
                over = wire.PermissionResolved(session_id=session, decision_id=decision, response=None)
                self._outbox.put(self._frames.resolved(over))
                if (payload := self._binding.shown(Asked(session, None))) is not None:
                    self._outbox.put(ping_frame(payload))
        self._ask_open()

    def wants(self, session: str, kind: str) -> bool:
        """Whether its subscription asks for such an event."""
        wanted = self._filter
        return wanted is None or (
            (not wanted.sessions or bool(wanted.sessions & self._dialect.names_of(session)))
            and (not wanted.event_types or kind in wanted.event_types)
        )

    def _one_by_one(self) -> bytes | None:
        """The next entry as this link wants it; what asks something is followed by a ping."""
        while self.place < self._feed.end:
            entry = self._feed.at(self.place)
            if entry.asked is not None and self._binding.holds(entry.asked):
                return None
            self.place += 1
            frame = self._wanted(entry)
            if entry.asked is not None:
                payload = self._binding.shown(entry.asked)
                frame += ping_frame(payload) if payload is not None else b""
            if frame:
                return frame
        return None

    def _wanted(self, entry: Entry) -> bytes:
        if not entry.event or self.wants(entry.session, entry.kind):
            return entry.before + entry.event
        return entry.before

    def _ask_open(self) -> None:
        """What is asked already when the link opens."""
        for session, prompt in self._dialect.open_prompts():
            self._outbox.put(self._frames.prompt(prompt))
            payload = self._binding.shown(Asked(session, prompt.decision_id))
            if payload is not None:
                self._outbox.put(ping_frame(payload))

    def _say(self, frame: bytes) -> None:
        self._outbox.put(frame)
        self._wire.wake()
