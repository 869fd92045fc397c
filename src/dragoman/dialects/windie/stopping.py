"""Stopping queries (spec §5 stop-query): one turn, those of a conversation, or all of the user's.

A client is told of it by the ack alone: from here on its link hears nothing more of what it stopped.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from dragoman.hub.errors import HubError, InvalidRequest, UnknownTurn
from dragoman.hub.events import PromptSubmitted
from dragoman.hub.permissions import LOCAL
from dragoman.hub.session import Session
from dragoman.hub.standing import OpenTurn

from .callers import Caller
from .client_messages import ClientMessage, StopQuery
from .conversations import DIALECT, ref_of
from .host import Host
from .messages import Error, StopQueryAck
from .projection import CANCELLED

if TYPE_CHECKING:
    from .link import WindieLink
    from .users import User

log = logging.getLogger("dragoman.windie")

Stopped = tuple[str, str]
"""The conversation and the turn, by their names on the wire."""


async def stop_query(link: WindieLink, user: User, host: Host, message: ClientMessage) -> None:
    """Stop what is asked for, and answer ``stop-query-ack`` once all of it has ended. Raises what the hub refuses."""
    asked = message.payload
    assert isinstance(asked, StopQuery)
    # What is asked after the stop begins after its answer: a client takes whatever runs then for stopped.
    with user.lanes.held(asked.conversation_ref):
        stopped = await _given_up(link, user, asked)
        for session in await _sessions(user, host, asked):
            stopped += await _stop(link, user.caller, session, asked)
        link.reply_behind(message.id, _ack(asked, stopped))


def _ack(asked: StopQuery, stopped: list[Stopped]) -> StopQueryAck:
    one = stopped[0] if len(set(stopped)) == 1 else (None, None)
    return StopQueryAck(
        status="stopped" if stopped else "not-running",
        canceled=bool(stopped),
        conversation_ref=asked.conversation_ref or one[0],
        turn_ref=asked.turn_ref or one[1],
    )


async def _given_up(link: WindieLink, user: User, asked: StopQuery) -> list[Stopped]:
    """The queries that had not begun. Another link of the user hears that its own will not."""
    places = list(user.lanes.waiting(asked.conversation_ref, asked.turn_ref))
    await asyncio.gather(*(place.given_up() for place in places))
    for place in places:
        if place.link is not link:
            place.link.reply(place.message_id, Error(message=CANCELLED))
    return [(place.ref, place.message_id) for place in places]


async def _sessions(user: User, host: Host, asked: StopQuery) -> list[Session]:
    """Where it may run: the conversation that is named, or all of the user's that something runs or waits in."""
    if asked.conversation_ref is not None:
        found = await host.conversations.find(user.caller, asked.conversation_ref)
        return [found] if found is not None else []
    # Rows say what is on the disk: a prompt that has only just been given is known where it was given.
    sessions = {session.id: session for link in user.links.values() for session in link.sessions()}
    for row in host.registry.rows(LOCAL):
        if row.unsettled and row.session not in sessions:
            try:
                sessions[row.session] = await host.registry.get(LOCAL, row.session)
            except HubError:
                continue  # it went meanwhile
    return [session for session in sessions.values() if _has_own(session, user.caller.principal.id)]


async def _stop(link: WindieLink, caller: Caller, session: Session, asked: StopQuery) -> list[Stopped]:
    """Stop it here. In a conversation that is named, whatever runs; elsewhere only what its user began here."""
    principal, ref = caller.for_session(session.id), ref_of(session)
    stopped: list[Stopped] = []
    for waiting in list(session.state.queue):
        name = waiting.client_message_id or waiting.prompt
        if _is_own(waiting, principal.id) and asked.turn_ref in (None, name):
            link.mute(session, name)
            try:
                await session.withdraw(principal, waiting.prompt)
            except InvalidRequest:
                continue  # its turn began meanwhile, and is ended below
            stopped.append((ref, name))
    turn = session.state.turn
    if turn is None or asked.turn_ref not in (None, _name(turn)):
        return stopped
    if asked.conversation_ref is None and not _is_own(turn.submitted, principal.id):
        return stopped
    link.mute(session, _name(turn))
    try:
        await session.cancel(principal, turn.turn, via=DIALECT)
    except UnknownTurn:
        return stopped
    return [*stopped, (ref, _name(turn))]


def _has_own(session: Session, by: str) -> bool:
    turn = session.state.turn
    submitted = turn.submitted if turn is not None else None
    return any(_is_own(prompt, by) for prompt in (submitted, *session.state.queue))


def _is_own(prompt: PromptSubmitted | None, by: str) -> bool:
    """Whether this user has asked it here."""
    return prompt is not None and (prompt.via, prompt.by) == (DIALECT, by)


def _name(turn: OpenTurn) -> str:
    """What a turn is called on the wire: its query's id, or its own where it came in another dialect."""
    submitted = turn.submitted
    if submitted is None or submitted.via != DIALECT:
        return turn.turn
    return submitted.client_message_id or turn.turn
