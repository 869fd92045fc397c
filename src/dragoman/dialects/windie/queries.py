"""A query: what its session runs with, its screenshots, its prompt (spec §5 query).

A query that comes again with the same id is the same one (invariant 3): nothing new comes of it. A link that was not
there is told its turn from the beginning, whether it runs or is over.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from dragoman.hub.errors import InvalidRequest, LimitReached
from dragoman.hub.events import Attachment, PromptSubmitted, TurnEnded
from dragoman.hub.permissions import Principal
from dragoman.hub.session import Session
from dragoman.hub.turns import Receipt
from dragoman.services.uploads import Received, discard

from . import screenshots
from .agent_definition import AgentDefinition, merged
from .client_messages import ClientMessage, Query, content_of
from .conversations import DIALECT
from .host import Host
from .lanes import Place
from .link_tools import LinkTools
from .turn_settings import TurnSettings, Wanted, turn_settings

if TYPE_CHECKING:
    from .link import WindieLink
    from .users import User

log = logging.getLogger("dragoman.windie")

_NEWEST = 64
"""Events among which the end of a turn that has just ended is looked for."""

_DETAIL = ("system_state_internal", "workspace_path", "query_context", "capture_meta", "revision_id")
"""What is kept of a query beside its texts, and not shown to the model."""

_FAILURES = {
    "provider_rate_limited": "LLM_RATE_LIMIT",
    "provider_overloaded": "LLM_RATE_LIMIT",
    "provider_unauthorized": "LLM_API_ERROR",
    "provider_invalid_request": "LLM_API_ERROR",
    "provider_failed": "LLM_API_ERROR",
    "provider_network": "LLM_API_ERROR",
    "provider_too_long": "INPUT_SIZE_LIMIT_ERROR",
}
"""The contract's internal codes (seed: Error Codes) by the codes of our problems."""


async def query(link: WindieLink, user: User, host: Host, message: ClientMessage, tools: LinkTools) -> None:
    """Wait for the queries before it, submit it, and return when its turn has ended. Raises what the hub refuses, and
    ``InvalidRequest`` for what is wrong with it."""
    asked = message.payload
    assert isinstance(asked, Query)
    if user.lanes.knows(asked.conversation_ref, message.id):
        log.info("query %s came again while it waits or runs", message.id)
        return
    async with user.lanes.turn(link, asked.conversation_ref, message.id) as place:
        await _Asking(link, user, host, message, asked, tools).run(place)


class _Asking:
    """One query whose turn it is."""

    def __init__(
        self, link: WindieLink, user: User, host: Host, message: ClientMessage, asked: Query, tools: LinkTools
    ) -> None:
        self._link = link
        self._caller = user.caller
        self._host = host
        self._message = message
        self._asked = asked
        self._tools = tools
        self._definition = merged(link.definition, asked.agent_definition)
        self._path = asked.workspace_path or _runtime_path(self._definition)

    async def run(self, place: Place) -> None:
        wanted = await self._wanted()
        session = await self._session(wanted)
        principal = self._caller.for_session(session.id)
        ours = session.state.kind == "native" and session.state.owner == principal.id
        again = await session.accepted(principal, self._message.id, via=DIALECT)
        if ours and not again:
            await _until(session, lambda: session.state.turn is None and not session.state.queue)
            await self._set_up(session, principal, wanted)
        receipt = await self._submit(session, principal, ours=ours)
        if receipt is None:
            return
        place.begun = True
        if receipt.duplicate:
            await self._tell_again(session, receipt)
        elif ours:
            await _over(session, receipt)

    async def _tell_again(self, session: Session, receipt: Receipt) -> None:
        """A turn that is over is told from its beginning to a link that was not there for it: its client has come back
        and does not know what became of its query."""
        turn, queue = session.shown.turn, session.shown.queue
        if (turn is not None and turn.prompt == receipt.prompt) or any(it.prompt == receipt.prompt for it in queue):
            return  # it is told as it goes
        began = await session.seq_of(f"turn:{receipt.prompt}")
        prompt = await session.fact_at(receipt.seq)
        assert isinstance(prompt, PromptSubmitted)
        first = receipt.seq + 1 if began is None else began
        if not self._link.has_told_from(session, first):
            self._link.retell(session, prompt, first - 1)

    # What it runs with

    async def _wanted(self) -> Wanted:
        asked = self._asked
        return Wanted(
            definition=self._definition,
            accepted=await self._tools.accepted(self._definition),
            preferences=await self._host.users.read(self._caller.user_id),
            layers=asked.client_prompt_layers or (),
            instructions=tuple(each.content for each in asked.repo_instruction_messages or ()),
        )

    async def _session(self, wanted: Wanted) -> Session:
        conversations = self._host.conversations
        made = self._settings(wanted, str(conversations.workspace(self._path) or ""))
        given = {name: value for name, value in made.session.items() if value is not None}
        return await conversations.open(self._caller, self._asked.conversation_ref, given, self._path)

    def _settings(self, wanted: Wanted, cwd: str) -> TurnSettings:
        """A path that is not where the session works is told to its model."""
        real = self._host.conversations.workspace(self._path)
        works_there = real is not None and str(real) == cwd
        definition = _without_path(wanted.definition) if works_there else wanted.definition
        told = None if works_there else self._path
        return turn_settings(
            msgspec.structs.replace(wanted, definition=definition, workspace=told), self._host.settings
        )

    async def _set_up(self, session: Session, principal: Principal, wanted: Wanted) -> None:
        """Only what differs: most queries of a conversation run with what the one before did."""
        made = self._settings(wanted, session.state.cwd)
        changes = {name: value for name, value in made.session.items() if session.state.settings.get(name) != value}
        if changes:
            await session.change_settings(principal, changes)
        await self._tools.offer(principal, session, made.offers)

    # Its prompt

    async def _submit(self, session: Session, principal: Principal, *, ours: bool) -> Receipt | None:
        """None: the link was ended meanwhile, and nobody would hear of it."""
        received = await self._received(session)
        receipt = None
        try:
            # Before it is submitted: whoever loses this link must find that it follows the session.
            self._link.follow(session)
            if self._link.follows(session.id):
                receipt = await self._submitted(session, principal, received, ours=ours)
        finally:
            if received.images and (receipt is None or receipt.duplicate):
                await discard(session, received)
        return receipt

    async def _submitted(self, session: Session, principal: Principal, received: Received, *, ours: bool) -> Receipt:
        asked = self._asked
        # What is no model with a conversation of ours (a program at a terminal, say) is told what the person wrote.
        content = content_of(asked) if session.state.kind == "native" else asked.text
        return await session.submit(
            principal,
            asked.text,
            via=DIALECT,
            client_message_id=self._message.id,
            when_busy="queue",
            content=None if content == asked.text else content,
            attachments=received.images,
            detail={name: value for name in _DETAIL if (value := getattr(asked, name)) is not None},
            client=self._link.id if ours else None,
        )

    async def _received(self, session: Session) -> Received:
        """The query's screenshots, kept with the session."""
        asked, since = self._asked, session.head
        refs = self._refs()
        if not (refs or asked.screenshot):
            return Received()
        if not await session.shows_pictures():
            log.info("session %s goes without screenshots: its agent is shown none", session.id)
            return Received()
        kept: list[Attachment] = []
        try:
            for ref in refs:
                found = await screenshots.uploaded(session, self._host.artifacts, self._caller.owner, ref)
                kept += [found] if found is not None else []
            if asked.screenshot:
                kept.append(await screenshots.inline(session, asked.screenshot))
        except BaseException:
            await screenshots.let_go(session, tuple(kept))
            raise
        return Received(images=tuple(kept), cwd=session.state.cwd, since=since)

    def _refs(self) -> list[str]:
        """The artifacts in order, each once; the single one is the first of all where the list lacks it."""
        asked, most = self._asked, self._host.settings.screenshots
        listed = [ref for ref in asked.screenshot_refs or () if ref.strip()]
        single = [asked.screenshot_ref] if asked.screenshot_ref and asked.screenshot_ref not in listed else []
        refs = list(dict.fromkeys([*single, *listed]))
        if len(refs) > most:
            raise InvalidRequest(f"Invalid query: it has more than {most} screenshots")
        return refs


def log_refusal(message: ClientMessage, problem: Exception) -> None:
    """A line with the contract's internal code for a query that was refused."""
    code = "INPUT_SIZE_LIMIT_ERROR" if isinstance(problem, LimitReached) else "SESSION_ERROR"
    log.info("%s: query %s was refused: %.500s", code, message.id, problem)


async def _until(session: Session, condition: Callable[[], bool]) -> None:
    """Wait until this holds of the session: as long as somebody's turn takes."""
    changed = asyncio.Event()
    stop = session.watch(changed.set)
    try:
        while not condition():
            changed.clear()
            await changed.wait()
    finally:
        stop()


async def _over(session: Session, receipt: Receipt) -> None:
    """Wait until the prompt's turn has ended, or it was withdrawn."""
    turn = receipt.turn

    def over() -> bool:
        nonlocal turn
        shown = session.shown
        if shown.turn is not None and shown.turn.prompt == receipt.prompt:
            turn = shown.turn.turn
            return False
        return shown.seq >= receipt.seq and all(waiting.prompt != receipt.prompt for waiting in shown.queue)

    await _until(session, over)
    for event in reversed(session.recent(max(0, session.shown.seq - _NEWEST)) or ()):
        fact = event.fact
        if isinstance(fact, TurnEnded) and fact.turn == turn and fact.problem is not None:
            code = _FAILURES.get(fact.problem.code, "LLM_ERROR")
            log.info("%s: turn %s of session %s failed: %.500s", code, turn, session.id, fact.problem.message)


def _without_path(definition: AgentDefinition | None) -> AgentDefinition | None:
    if definition is None:
        return None
    runtime = msgspec.structs.replace(definition.runtime, workspace_path=None)
    return msgspec.structs.replace(definition, runtime=runtime)


def _runtime_path(definition: AgentDefinition | None) -> str | None:
    return definition.runtime.workspace_path if definition is not None else None
