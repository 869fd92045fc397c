"""One socket pump for every dialect: it moves frames between a ``Socket`` and a ``Link`` and knows nothing of either.

Out: whenever something is new, or the transport can take more, frames are pulled and written in the same step; no task
wakes up, no queue grows. Where a link's frames join, the next one after a large one waits a few milliseconds, so that
what arrives meanwhile joins it; a small frame (an echo) always leaves at once. In: messages are handed over in order; a
link that is congested stops the reading, and so does a client that sends faster than the rate limit.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque

import msgspec

from dragoman.dialects.base import Link
from dragoman.dialects.frames import PING

from .sockets import Socket

log = logging.getLogger("dragoman.links")


class PumpLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits of every link (``[links]``)."""

    heartbeat: float = 30.0
    """Seconds between pings of a silent link; one that neither answers nor reads for two intervals is dropped."""

    large_frame: int = 1024
    """Bytes from which a frame counts as large."""

    join_gap: float = 0.004
    """Seconds after a large frame during which new output is joined instead of sent."""

    full_frame: int = 64 * 1024
    """Bytes from which a frame is full: what is left behind it follows without a gap, so that a gap cannot cap the rate
    of a link that is behind."""

    flush_bytes: int = 1024 * 1024
    """Bytes pulled for one link before the others get their turn."""

    messages_per_second: float = 2000.0
    """Messages taken from one link, on average; more are left in the socket, none is lost."""

    message_burst: int = 4000
    """Messages taken at once before that average counts."""

    turn: float = 0.005
    """Seconds for which one link's messages are handled before the others get their turn."""

    max_links: int = 2000
    """Open links; a further upgrade is answered 503."""


CLOSE_LIMIT = 10.0
"""Seconds after which a link that was closed, and whose socket takes nothing, is dropped."""

BROKEN = (1011, "internal error")
"""How a link ends that cannot go on: its client may come back, and silence would tell it nothing."""


class _Pong(msgspec.Struct, frozen=True):
    """A pong among the messages."""

    payload: bytes


class Pump:
    """Moves the frames of one link. Implements both ``SocketUser`` and the link's ``Wire``."""

    def __init__(self, socket: Socket, limits: PumpLimits) -> None:
        self._socket = socket
        self._limits = limits
        self._loop = socket.loop
        self._link: Link | None = None
        self._incoming: deque[str | bytes | _Pong] = deque()
        self._held: asyncio.TimerHandle | None = None
        self._throttled: asyncio.TimerHandle | None = None
        self._flush_soon = False
        self._stalled = False
        self._resting = False
        self._closing: tuple[int, str] | None = None
        self._gone = False
        self._broken = False
        self._allowance = float(limits.message_burst)
        self._allowance_at = self._loop.time()
        self._beat = self._loop.call_later(limits.heartbeat, self._heartbeat)
        self._sent_at_beat = 0

    def begin(self, link: Link) -> None:
        """The upgrade is accepted: let messages and frames flow."""
        self._link = link
        self._socket.attach(self)
        self._flush()

    # For the link

    def wake(self) -> None:
        if self._link is not None and self._held is None:
            self._flush()

    def close(self, code: int, reason: str = "") -> None:
        if self._closing is None:
            self._loop.call_later(CLOSE_LIMIT, self._close_unread)
        self._closing = (code, reason)
        if self._link is not None:
            self._flush()

    def set_message_limit(self, size: int) -> None:
        self._socket.set_message_limit(size)

    # For the socket

    def message(self, data: str | bytes) -> None:
        self._arrived(data)

    def pong(self, payload: bytes) -> None:
        self._arrived(_Pong(payload))

    def writable(self) -> None:
        if self._held is None:
            self._flush()

    def gone(self) -> None:
        if self._gone:
            return
        self._gone = True
        self._beat.cancel()
        for timer in (self._held, self._throttled):
            if timer is not None:
                timer.cancel()
        self._incoming.clear()
        if self._link is not None:
            self._link.lost()

    # In

    def _arrived(self, what: str | bytes | _Pong) -> None:
        self._incoming.append(what)
        if not self._resting:
            self._handle()

    def _handle(self) -> None:
        """Hand over what has arrived, as far as link and rate allow; stop reading while they do not."""
        if self._broken:
            self._incoming.clear()
            return
        link = self._link
        assert link is not None
        try:
            self._hand_over(link)
        except Exception:
            log.exception("a link failed and is ended")
            self._give_up()

    def _hand_over(self, link: Link) -> None:
        until = self._loop.time() + self._limits.turn
        while self._incoming and not self._gone and not link.congested and self._within_rate():
            next_ = self._incoming.popleft()
            if isinstance(next_, _Pong):
                link.pong(next_.payload)
            else:
                link.receive(next_)
            if self._incoming and self._loop.time() > until:
                self._take_turns()
                return
        if self._gone:
            return
        self._stalled = bool(self._incoming) or link.congested
        if self._stalled:
            self._socket.pause_receiving()
        else:
            self._socket.resume_receiving()
        self._flush_later()

    def _take_turns(self) -> None:
        """Its turn is over: go on in the next one, and read nothing more until then."""
        self._resting = True
        self._socket.pause_receiving()
        self._flush_later()
        self._loop.call_soon(self._handle_again)

    def _within_rate(self) -> bool:
        now = self._loop.time()
        earned = (now - self._allowance_at) * self._limits.messages_per_second
        self._allowance = min(float(self._limits.message_burst), self._allowance + earned)
        self._allowance_at = now
        if self._allowance >= 1:
            self._allowance -= 1
            return True
        if self._throttled is None:
            self._throttled = self._loop.call_later(0.05, self._unthrottle)
        return False

    def _unthrottle(self) -> None:
        self._throttled = None
        self._handle()

    # Out

    def _flush_later(self) -> None:
        """Flush once in this turn of the loop: many messages parsed together give their replies together."""
        if not self._flush_soon:
            self._flush_soon = True
            self._loop.call_soon(self._flush_now)

    def _flush_now(self) -> None:
        self._flush_soon = False
        if self._held is None:
            self._flush()

    def _flush(self) -> None:
        link = self._link
        if link is None or self._gone or self._broken:
            return
        try:
            self._write(link)
        except Exception:
            log.exception("a link failed and is ended")
            self._give_up()

    def _write(self, link: Link) -> None:
        socket = self._socket
        limits = self._limits
        sent = 0
        while socket.ready:
            frame = link.pull()
            if frame is None:
                break
            socket.write_frame(frame)
            size = len(frame)
            sent += size
            if sent >= limits.flush_bytes:
                self._flush_later()
                break
            if link.joins and limits.large_frame <= size < limits.full_frame:
                self._hold()
                break
        if self._closing is not None and self._held is None and socket.ready:
            socket.write_close(*self._closing)
        elif self._stalled and not link.congested:
            self._stalled = False
            self._loop.call_soon(self._handle_again)

    def _handle_again(self) -> None:
        self._resting = False
        if not self._gone and self._throttled is None:
            self._handle()

    def _hold(self) -> None:
        self._held = self._loop.call_later(self._limits.join_gap, self._release)

    def _release(self) -> None:
        self._held = None
        self._flush()

    # Life

    def _give_up(self) -> None:
        """The link failed, which is our mistake: its client is told by the end, and no other link is harmed."""
        self._broken = True
        self._incoming.clear()
        self._socket.write_close(*BROKEN)

    def _close_unread(self) -> None:
        """A peer that reads nothing cannot be told that it is over: it is so all the same."""
        if not self._gone and self._socket.alive:
            self._socket.kill()

    def _heartbeat(self) -> None:
        """Ping a silent peer. Drop one that has not been heard for two intervals and reads nothing either."""
        socket, every = self._socket, self._limits.heartbeat
        progressed = socket.bytes_sent - socket.unsent > self._sent_at_beat
        self._sent_at_beat = socket.bytes_sent - socket.unsent
        silent = self._loop.time() - socket.last_heard
        if silent > 2 * every and not progressed:
            log.info("a link is dropped: nothing heard for %.0f s", silent)
            socket.kill()
            return
        if silent >= every * 0.9 and socket.ready:
            socket.write_frame(PING)
        self._beat = self._loop.call_later(every, self._heartbeat)
