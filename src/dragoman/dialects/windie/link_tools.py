"""The tools that the client of one link runs: which hold, and in which sessions they are offered."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from dragoman.hub.events import Json
from dragoman.hub.permissions import Principal
from dragoman.hub.session import Session
from dragoman.hub.tool_offers import ToolOffer

from .agent_definition import AgentDefinition
from .client_manifest import AcceptedTool, validate_manifest

if TYPE_CHECKING:
    from .link import WindieLink

log = logging.getLogger("dragoman.windie")


class LinkTools:
    """See the module. ``most`` is in how many sessions they are offered at once: each of those stays in memory. It is
    more than there are queries at once, so that none loses its tools before its turn begins."""

    def __init__(self, link: WindieLink, most: int) -> None:
        self._link = link
        self._most = most
        self._last: tuple[Any, tuple[AcceptedTool, ...]] = (None, ())
        """The newest manifest that came with a query, and what of it holds: clients send the same with each."""
        self._declared: dict[str, tuple[Session, tuple[ToolOffer, ...], Json]] = {}

    async def accepted(self, definition: AgentDefinition | None) -> tuple[AcceptedTool, ...]:
        """The client's tools of this definition that hold."""
        handshake, known = self._link.definition, self._link.accepted
        manifest = definition.tools.client_manifest if definition is not None else None
        if manifest is None:
            return ()
        if handshake is not None and manifest == handshake.tools.client_manifest:
            return known
        if manifest != self._last[0]:
            accepted, rejected = await asyncio.to_thread(validate_manifest, manifest)
            for tool in rejected:
                log.info("TOOL_VALIDATION_ERROR: tool %.100r of a query is not used: %s", tool.name, tool.reason)
            self._last = manifest, accepted
        return self._last[1]

    async def offer(self, principal: Principal, session: Session, offers: tuple[ToolOffer, ...]) -> None:
        """Have the session offer these of this link, and no others. Raises what the hub refuses."""
        # What a client may call its tools depends on which tools the session has itself.
        own = session.state.settings.get("enabled_tools")
        declared = self._declared.get(session.id)
        known = (declared[1], declared[2]) if declared is not None else ((), own)
        if known == (offers, own):
            if declared is not None:
                self._declared[session.id] = self._declared.pop(session.id)  # the newest is last
            return
        self._declared.pop(session.id, None)
        self._make_room()
        self._declared[session.id] = session, offers, own
        try:
            made = await session.declare_tools(principal, self._link.id, offers)
        except BaseException:
            self._declared[session.id] = session, (), None  # what holds now is not known: the next query says it anew
            raise
        for tool in made.rejected:
            log.warning("TOOL_VALIDATION_ERROR: session %s: tool %.100r: %s", session.id, tool.name, tool.reason)

    def retract(self) -> None:
        """The link is gone: its tools are nowhere offered any more, and their open calls fail."""
        for session, _, _ in self._declared.values():
            session.retract_tools(self._link.id)
        self._declared.clear()

    def _make_room(self) -> None:
        """Take them back where nothing runs, the longest unused first: the next query there offers them again."""
        for name, (session, _, _) in list(self._declared.items()):
            if len(self._declared) < self._most:
                return
            if session.state.turn is None:
                session.retract_tools(self._link.id)
                del self._declared[name]
