"""Tools that clients run: who offers which, the calls that wait for their results, and the one result of each.

An offer lives as long as its link. A call goes to exactly one link and only that link can end it, once. A call whose
link is gone fails at once, and its turn goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec

from .artifacts import is_artifact
from .errors import AlreadyEnded, HubError, InvalidRequest, LimitReached, UnknownCall
from .events import (
    AnyFact,
    ArtifactStored,
    Attachment,
    ClientToolsDeclared,
    Event,
    Json,
    Problem,
    SessionClosed,
    ToolCalled,
    ToolEnded,
)
from .events.nesting import MAX_NESTING, nests_too_deep
from .events.tools import ToolStatus
from .log import SessionLog, SessionParts
from .permissions import Principal, Right
from .sizes import json_size
from .standing import OpenCall
from .state import SessionState
from .tool_offers import OfferedTool, RefusedOffer, ToolOffer, sift

if TYPE_CHECKING:
    from .turns import TurnContext


UNTYPED = "application/octet-stream"
"""What bytes are of which nobody said what they are."""


class Declared(msgspec.Struct, frozen=True):
    """What became of a declaration, durable at ``seq``."""

    seq: int
    accepted: tuple[str, ...]
    rejected: tuple[RefusedOffer, ...]


class ClientCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call that an agent has a client run. ``call`` is new in its session."""

    call: str
    tool: str
    input: Json = None
    title: str | None = None
    parent: str | None = None
    provider_metadata: Json = None


class CallResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a client says of a call that it ran."""

    call: str
    status: ToolStatus = "ok"
    output: Json = None
    problem: Problem | None = None
    artifacts: tuple[str, ...] = ()
    detail: dict[str, Json] = {}


class ToolSession(SessionLog):
    """See the module. A part of ``Session``."""

    def __init__(self, state: SessionState, parts: SessionParts) -> None:
        super().__init__(state, parts)
        self._offers: dict[str, dict[str, ToolOffer]] = {}
        self._results: dict[str, asyncio.Future[ToolEnded]] = {}

    # For clients

    async def declare_tools(self, principal: Principal, link: str, tools: Sequence[ToolOffer]) -> Declared:
        """Offer tools that ``link`` will run, in place of what it offered before; returns once that is durable.

        What cannot be taken is refused one by one, with reasons. Calls of tools that are still offered go on; others of
        this link fail. Raises ``LimitReached`` when too many links offer tools here.
        """
        self.admit(principal, Right.WRITE)
        if link not in self._offers and len(self._offers) >= self.limits.tool_links:
            raise LimitReached(f"{self.limits.tool_links} clients offer tools here (tool_links)")
        accepted, refused = sift(tools, reserved=self.reserved_tools(), limits=self.limits)
        event = self.record(
            ClientToolsDeclared(
                by=principal.id,
                client=link,
                accepted=tuple(map(msgspec.to_builtins, accepted)),
                rejected=tuple(map(msgspec.to_builtins, refused)),
            )
        )
        # Before the disk is waited for: the link may go meanwhile, and takes its tools with it.
        self._offers.pop(link, None)
        if accepted:
            self._offers[link] = {offer.name: offer for offer in accepted}
        self._fail_calls(link, but=self._offers.get(link, ()))
        await self.acknowledged(event)
        return Declared(event.seq, tuple(offer.name for offer in accepted), tuple(refused))

    def retract_tools(self, link: str) -> None:
        """The link is gone: so are its tools, and its open calls fail at once. Nothing happens to others."""
        self._offers.pop(link, None)
        self._fail_calls(link)

    async def end_tool(
        self,
        principal: Principal,
        call: str,
        *,
        link: str,
        status: ToolStatus = "ok",
        output: Json = None,
        problem: Problem | None = None,
        artifacts: tuple[str, ...] = (),
        detail: dict[str, Json] | None = None,
        stored: Collection[Attachment] = (),
    ) -> Event:
        """Give a call its one result; returns once that is durable. Whatever is refused changes nothing.

        ``stored`` says what the ``artifacts`` are; those that are new here are recorded with it.
        Raises ``UnknownCall`` (also for another link's), ``AlreadyEnded`` (a second result, or a late one),
        ``LimitReached``, ``InvalidRequest``.
        """
        result = CallResult(
            call=call, status=status, output=output, problem=problem, artifacts=artifacts, detail=detail or {}
        )
        new = await self._admitted(principal, stored)
        if not self._runs(link, call):
            raise await self._not_open(link, call)
        return await self._end_all([self._ended(result)], new)

    async def end_tools(
        self,
        principal: Principal,
        bundle: str,
        results: Sequence[CallResult],
        *,
        link: str,
        stored: Collection[Attachment] = (),
    ) -> Event:
        """End a whole bundle in one go, in the order of its steps; a step without a result was not run.

        ``stored`` is as for ``end_tool``. Returns once that is durable. Raises as ``end_tool``, for the first result
        that cannot be taken, and then none is; ``InvalidRequest`` for a call of another bundle, or two results of one.
        """
        new = await self._admitted(principal, stored)
        for result in results:
            if not self._runs(link, result.call):
                raise await self._not_open(link, result.call)
        steps = sorted(self._calls_of(link, bundle), key=lambda step: step.position or 0)
        if not steps:
            raise UnknownCall(bundle)
        given = {result.call: result for result in results}
        if len(given) < len(results) or not given.keys() <= {step.call for step in steps}:
            raise InvalidRequest(f"results are for the calls of bundle {bundle!r}, one each")
        return await self._end_all([self._ended(given.get(step.call) or _not_run(step.call)) for step in steps], new)

    # For agents

    def reserved_tools(self) -> Collection[str]:
        """Names that no client can offer, because the agent has such tools itself."""
        return ()

    @property
    def client_tools(self) -> tuple[OfferedTool, ...]:
        """The tools that can be called now, each with the link that runs it: whoever offered the name last.

        In a turn whose prompt names the link of its client, that link's tools only.
        """
        turn = self.state.turn
        only = turn.client if turn is not None else None
        tools = {
            name: OfferedTool(offer, link)
            for link, offers in self._offers.items()
            if only in (None, link)
            for name, offer in offers.items()
        }
        return tuple(tools.values())

    def offers_tools(self, link: str) -> bool:
        """Whether this link offers any tool now."""
        return link in self._offers

    async def call_client_tools(
        self, turn: TurnContext, calls: Sequence[ClientCall], timeout: float
    ) -> list[ToolEnded]:
        """Have clients run these calls of one step, and wait for all results: in the order of ``calls``, and durable.

        Calls for the same link are one bundle. What is not there after ``timeout`` seconds fails with problem
        ``timeout``, what has no link (any more) with ``client_gone``. When cancelled, the end of the turn settles what
        is open. Raises ``InvalidRequest`` for a call id that is in use.
        """
        self._check_new(calls)
        if not calls:
            return []
        loop = asyncio.get_running_loop()
        waiting = {call.call: loop.create_future() for call in calls}
        self._results.update(waiting)
        try:
            self._hand_out_all(turn, calls)
            await asyncio.wait(waiting.values(), timeout=timeout)
            for call in waiting.keys() & self.state.calls.keys():
                self._fail(call, "timeout", f"no result came within {timeout:g} s")
            await asyncio.wait(waiting.values())  # for the disk alone: every one of them has ended
            return [future.result() for future in waiting.values()]
        finally:
            for call in waiting:
                self._results.pop(call, None)

    # For the session

    async def new_artifacts(self, attachments: Collection[Attachment]) -> list[ArtifactStored]:
        """Those of them that the log does not speak of yet."""
        named = {it.artifact: it for it in attachments if is_artifact(it.artifact)}
        return [
            ArtifactStored(
                artifact=name, media_type=it.media_type or UNTYPED, size=it.size or 0, sha256=name, name=it.name
            )
            for name, it in named.items()
            if await self.seq_of(f"artifact:{name}") is None
        ]

    # Inside

    def _check_new(self, calls: Sequence[ClientCall]) -> None:
        names = [call.call for call in calls]
        used = self.state.calls.keys() | self._results.keys()
        if len(set(names)) < len(names) or used & set(names):
            raise InvalidRequest("a call id is used twice")

    def _hand_out_all(self, turn: TurnContext, calls: Sequence[ClientCall]) -> None:
        try:
            self._hand_out(turn, calls)
        except HubError:
            for call in {call.call for call in calls} & self.state.calls.keys():
                self._fail(call, "not_run", "another call of this step could not be recorded")
            raise

    def _hand_out(self, turn: TurnContext, calls: Sequence[ClientCall]) -> None:
        """Give every call to the link that runs its tool; those without one fail."""
        links = {tool.offer.name: tool.link for tool in self.client_tools}
        shares: dict[str | None, list[ClientCall]] = {}
        for call in calls:
            shares.setdefault(links.get(call.tool), []).append(call)
        for link, share in shares.items():
            bundle = self.ids() if link is not None and len(share) > 1 else None
            for position, call in enumerate(share):
                turn.record(
                    ToolCalled(
                        call=call.call,
                        tool=call.tool,
                        input=call.input,
                        turn=turn.turn,
                        executor="client",
                        title=call.title,
                        parent=call.parent,
                        bundle=bundle,
                        position=position if bundle else None,
                        bundle_size=len(share) if bundle else None,
                        provider_metadata=call.provider_metadata,
                        client=link,
                    )
                )
        for call in shares.get(None, ()):
            self._fail(call.call, "client_gone", f"no client offers {call.tool!r} any more")

    def _runs(self, link: str, call: str) -> bool:
        open_ = self.state.calls.get(call)
        return open_ is not None and open_.client == link

    def _calls_of(self, link: str, bundle: str) -> Iterable[OpenCall]:
        return [open_ for open_ in self.state.calls.values() if open_.client == link and open_.bundle == bundle]

    async def _not_open(self, link: str, call: str) -> AlreadyEnded | UnknownCall:
        """What a result is refused with. That another link's call exists is nobody else's business."""
        found = None if call in self.state.calls else await self.fact_of(f"call:{call}")
        ours = isinstance(found, ToolCalled) and found.client == link
        return AlreadyEnded(call) if ours else UnknownCall(call)

    async def _admitted(self, principal: Principal, stored: Collection[Attachment]) -> list[ArtifactStored]:
        """Those of them that the log does not speak of yet, for somebody who may write here."""
        self.admit(principal, Right.WRITE)
        if not stored:
            return []
        new = await self.new_artifacts(stored)
        self.admit(principal, Right.WRITE)  # the session may have been closed meanwhile
        return new

    async def _end_all(self, ends: list[ToolEnded], new: Collection[ArtifactStored]) -> Event:
        """Record them all or none, without a step in between; before them what is new in the artifact store."""
        if sum(map(json_size, ends)) > self.limits.tool_result_bytes:
            raise LimitReached(f"a result is longer than {self.limits.tool_result_bytes} bytes (tool_result_bytes)")
        if (new or len(ends) > 1) and any(map(nests_too_deep, ends)):  # a single one is refused by ``record``
            raise InvalidRequest(f"a result nests over {MAX_NESTING} levels deep")
        for fact in new:
            self.record(fact)
        last = self.record(ends[0])
        for end in ends[1:]:
            last = self.record(end, settling=True)  # a journal that took the first takes the rest
        return await self.acknowledged(last)

    def _ended(self, result: CallResult) -> ToolEnded:
        open_ = self.state.calls[result.call]
        return ToolEnded(
            call=result.call,
            tool=open_.tool,
            status=result.status,
            output=result.output,
            problem=result.problem,
            turn=open_.turn,
            duration_ms=max(0, self.clock.now() - open_.at),
            artifacts=result.artifacts,
            detail=result.detail,
        )

    def _fail_calls(self, link: str, but: Collection[str] = ()) -> None:
        for open_ in list(self.state.calls.values()):
            if open_.client == link and open_.tool not in but:
                self._fail(open_.call, "client_gone", f"the client that ran {open_.tool!r} is gone")

    def _fail(self, call: str, code: str, why: str) -> None:
        result = CallResult(call=call, status="error", problem=Problem(code=code, message=why))
        self.record(self._ended(result), settling=True)

    def _became_durable(self, fact: AnyFact) -> None:
        super()._became_durable(fact)
        if isinstance(fact, SessionClosed):
            self._offers.clear()
        elif isinstance(fact, ToolEnded):
            future = self._results.get(fact.call)
            if future is not None and not future.done():
                future.set_result(fact)


def _not_run(call: str) -> CallResult:
    problem = Problem(code="not_run", message="an earlier step of the bundle ended it")
    return CallResult(call=call, status="interrupted", problem=problem)
