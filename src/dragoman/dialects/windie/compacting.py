"""Shortening a conversation on demand (spec §5 compact-history). What comes of it is in the conversation's log, and
links are told it from there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.hub.errors import InvalidRequest
from dragoman.hub.events import Compacted
from dragoman.hub.session import Session

from .client_messages import ClientMessage, CompactHistory
from .conversations import ref_of
from .host import Host

if TYPE_CHECKING:
    from .link import WindieLink
    from .users import User

NOT_FORCED = "This conversation is shortened by itself when it is time. Ask with force to have it shortened now."


async def compact(link: WindieLink, user: User, host: Host, message: ClientMessage) -> None:
    """Shorten the named conversation, or the one that the link was told of last; its log says what came of it.

    It has its place among the conversation's queries. Raises ``InvalidRequest`` where there is none, where nothing can
    be shortened, or without ``force``; ``Busy`` while a turn runs there; ``Unsupported`` for an agent that remembers by
    itself.
    """
    asked = message.payload
    assert isinstance(asked, CompactHistory)
    if not asked.force:
        raise InvalidRequest(NOT_FORCED)
    ref = asked.conversation_ref or _newest(link)
    if user.lanes.knows(ref, message.id):
        return  # it came again while it is worked on
    async with user.lanes.turn(link, ref, message.id, query=False):
        session = await host.conversations.find(user.caller, ref)
        if session is None:
            raise InvalidRequest(f"there is no conversation {ref[:100]!r}")
        link.follow(session)
        await _shorten(session, user)


async def _shorten(session: Session, user: User) -> None:
    since = session.head
    try:
        await session.compact(user.caller.for_session(session.id))
    except InvalidRequest:
        if not _told(session, since):
            raise


def _told(session: Session, since: int) -> bool:
    """Whether the log says that it failed: one failure is not told twice."""
    facts = (event.fact for event in session.recorded_since(since) or ())
    return any(isinstance(fact, Compacted) and fact.phase == "failed" for fact in facts)


def _newest(link: WindieLink) -> str:
    sessions = link.sessions()
    if not sessions:
        raise InvalidRequest("there is no conversation here yet that could be shortened")
    return ref_of(sessions[-1])
