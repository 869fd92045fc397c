"""The tools that one link runs: what it offered in which session, and the calls that it is told of.

It is told of calls from the session's state, not from the log: a call that ended before the link took the message is
not told at all, and what waits for a client that does not read is bounded by what is open.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING

from dragoman.hub.client_tools import CallResult
from dragoman.hub.errors import LimitReached
from dragoman.hub.events import Problem
from dragoman.hub.journal import SessionRow
from dragoman.hub.permissions import Principal
from dragoman.hub.session import Session
from dragoman.hub.standing import OpenCall
from dragoman.hub.tool_offers import ToolOffer

from . import bodies
from . import messages as ask
from .errors import check_json
from .frames import frame
from .replies import At, CallOver, Calls, CallToRun, DeclaredTools, RejectedTool
from .ring import Ring, Stream

if TYPE_CHECKING:
    from .dialect import HubDialect


class LinkTools:
    """See the module. ``client`` is how the log names the link."""

    def __init__(self, dialect: HubDialect, principal: Principal, ring: Ring) -> None:
        self.client = str(uuid.uuid4())
        self._commands = dialect.commands
        self._settings = dialect.settings
        self._principal = principal
        self._ring = ring
        self._streams: dict[str, CallStream] = {}
        self._fresh: list[Stream] = []
        self._over = False

    def begin(self) -> None:
        """What announced the newest tools is on its way: calls may follow."""
        fresh, self._fresh = self._fresh, []
        for stream in fresh:
            stream.begin()

    def row_changed(self, row: SessionRow) -> None:
        """A session's row is new; one whose log was dropped calls nothing any more."""
        if row.dropped_at is not None and (stream := self._streams.get(row.session)) is not None:
            self._forget(stream)

    def end(self) -> None:
        """The link is gone, and its tools with it."""
        self._over = True
        for stream in list(self._streams.values()):
            self._forget(stream)
            stream.session.retract_tools(self.client)

    async def declare(self, asked: ask.DeclareTools) -> DeclaredTools:
        """Raises ``LimitReached``, and whatever the session refuses."""
        check_json([tool.parameters for tool in asked.tools], self._settings.json_depth)
        session = await self._commands.session(self._principal, asked.session)
        if self._over:
            raise LimitReached("the link is gone")
        fresh = self._watch(session)
        offers = [
            ToolOffer(name=tool.name, description=tool.description, parameters=tool.parameters) for tool in asked.tools
        ]
        try:
            declared = await session.declare_tools(self._principal, self.client, offers)
        finally:
            self._fresh += fresh
        rejected = tuple(RejectedTool(refused.name, refused.reason) for refused in declared.rejected)
        return DeclaredTools(declared.seq, self.client, declared.accepted, rejected)

    async def end_tool(self, asked: ask.EndTool) -> At:
        session = await self._commands.session(self._principal, asked.session)
        event = await session.end_tool(
            self._principal,
            asked.call,
            link=self.client,
            status=asked.status,
            output=asked.output,
            problem=_problem(asked),
            artifacts=asked.artifacts,
            detail=asked.detail,
        )
        return At(event.seq)

    async def end_tools(self, asked: ask.EndTools) -> At:
        session = await self._commands.session(self._principal, asked.session)
        results = [
            CallResult(
                call=said.call,
                status=said.status,
                output=said.output,
                problem=_problem(said),
                artifacts=said.artifacts,
                detail=said.detail,
            )
            for said in asked.results
        ]
        return At((await session.end_tools(self._principal, asked.bundle, results, link=self.client)).seq)

    # Inside

    def _watch(self, session: Session) -> list[Stream]:
        """Have a stream for the session's calls: the new one, if there was none."""
        if session.id in self._streams:
            return []
        if len(self._streams) >= self._settings.tool_sessions:
            raise LimitReached(f"this link offers tools in {self._settings.tool_sessions} sessions (tool_sessions)")
        stream = CallStream(self._ring, session, self.client, over=self._forget)
        self._streams[session.id] = stream
        return [stream]

    def _forget(self, stream: CallStream) -> None:
        stream.end()
        if self._streams.get(stream.session.id) is stream:
            del self._streams[stream.session.id]


class CallStream(Stream):
    """The calls of one session that a link is to run. Over once the link offers nothing there and all is told."""

    __slots__ = ("_client", "_over", "_stop", "_told", "session")

    def __init__(self, ring: Ring, session: Session, client: str, *, over: Callable[[CallStream], None]) -> None:
        super().__init__(ring)
        self.session = session
        self._client = client
        self._over = over
        self._told: set[str] = set()
        self._stop = session.watch(self.ready)

    def pull(self) -> bytes | None:
        mine = {call: open_ for call, open_ in self.session.shown.calls.items() if open_.client == self._client}
        for call in self._told - mine.keys():
            self._told.discard(call)
            return frame(CallOver(self.session.id, call))
        fresh = [open_ for call, open_ in mine.items() if call not in self._told]
        if (whole := _first_whole(fresh)) is not None:
            self._told.update(open_.call for open_ in whole)
            return frame(_calls(self.session.id, whole))
        if not (mine or self.session.offers_tools(self._client)):
            self._over(self)
        return None

    def end(self) -> None:
        super().end()
        self._stop()


def _problem(said: bodies.CallEnd) -> Problem | None:
    return Problem(code="client", message=said.error) if said.error is not None else None


def _first_whole(fresh: list[OpenCall]) -> list[OpenCall] | None:
    """The oldest call that is none of a bundle, or the oldest bundle that is there with all its steps."""
    for open_ in fresh:
        if open_.bundle is None:
            return [open_]
        steps = [other for other in fresh if other.bundle == open_.bundle]
        if len(steps) == open_.bundle_size:
            return sorted(steps, key=lambda step: step.position or 0)
    return None


def _calls(session: str, steps: list[OpenCall]) -> Calls:
    calls = tuple(CallToRun(step.call, step.tool, step.input) for step in steps)
    return Calls(session=session, turn=steps[0].turn, bundle=steps[0].bundle, calls=calls)
