"""A conversation as the client's own store has it, put in the place of what is known here (spec §5
rehydrate-conversation). All of it is taken, or nothing."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from dragoman.hub.errors import Unsupported
from dragoman.hub.events import Attachment, HistoryCall, HistoryMessage, Json
from dragoman.hub.session import Session

from . import screenshots
from .callers import Caller
from .client_messages import ClientMessage, HistoryEntry, RehydrateConversation
from .conversations import DIALECT
from .history_calls import calls_of
from .host import Host

if TYPE_CHECKING:
    from .link import WindieLink
    from .users import User

log = logging.getLogger("dragoman.windie")

PICTURES = 20
"""The newest screenshots of a history that are kept; a model is shown no more of a conversation, and a history may name
one with each of its thousands of messages. The text of all others stays."""

_Pictures = dict[int, tuple[Attachment, ...]]
"""The pictures of a history's entries, by the entry's place."""


async def rehydrate(link: WindieLink, user: User, host: Host, message: ClientMessage) -> None:
    """Replace the history of a conversation, which is made when there is none. Nothing is said of a success.

    It has its place among the queries of the conversation: one that comes right behind it finds what it brings. Raises
    ``Busy`` while a turn runs there, ``InvalidRequest`` for a picture that is none, and what else the hub refuses.
    """
    asked = message.payload
    assert isinstance(asked, RehydrateConversation)
    if user.lanes.knows(asked.conversation_ref, message.id):
        log.info("message %s came again while it is worked on", message.id)
        return
    async with user.lanes.turn(link, asked.conversation_ref, message.id, query=False):
        session = await host.conversations.open(user.caller, asked.conversation_ref, {}, asked.workspace_path)
        if session.state.kind != "native":
            raise Unsupported("the agent of this conversation remembers it by itself")
        await _replace(session, user.caller, host, asked)


async def _replace(session: Session, caller: Caller, host: Host, asked: RehydrateConversation) -> None:
    principal = caller.for_session(session.id)
    session.check_at_rest()
    kept: _Pictures = {}
    taken = False
    try:
        await _keep_pictures(session, caller, host, asked.messages, kept)
        new = await session.new_artifacts([picture for each in kept.values() for picture in each])
        session.check_at_rest()
        # No await between these two: what is new in the store is recorded with what refers to it.
        for fact in new:
            session.record(fact)
        taken = True
        messages = list(_messages(asked.messages, kept))
        await session.merge_history(principal, messages, replace=True, via=DIALECT, detail=_detail(asked))
    finally:
        if not taken:
            await screenshots.let_go(session, tuple(picture for each in kept.values() for picture in each))


def _detail(asked: RehydrateConversation) -> dict[str, Json]:
    """What came beside the messages. It is kept, and not shown to the model: each query brings its own."""
    instructions: list[Json] = [each.content for each in asked.repo_instruction_messages or ()]
    return {
        **({"workspace_path": asked.workspace_path} if asked.workspace_path else {}),
        **({"repo_instruction_messages": instructions} if instructions else {}),
    }


# Pictures


async def _keep_pictures(
    session: Session, caller: Caller, host: Host, entries: Collection[HistoryEntry], kept: _Pictures
) -> None:
    """Fill in the pictures that can be had, the newest first."""
    named = [(at, entry) for at, entry in enumerate(entries) if entry.screenshot_ref or entry.screenshot]
    if not named or not await session.shows_pictures():
        return
    if len(named) > PICTURES:
        log.info("session %s goes without the %d oldest screenshots", session.id, len(named) - PICTURES)
    for at, entry in reversed(named[-PICTURES:]):
        if entry.screenshot_ref:
            found = await screenshots.uploaded(session, host.artifacts, caller.owner, entry.screenshot_ref)
        else:
            assert entry.screenshot is not None
            found = await screenshots.inline(session, entry.screenshot)
        if found is not None:
            kept[at] = (found,)


# Messages


def _messages(entries: Collection[HistoryEntry], pictures: _Pictures) -> Iterator[HistoryMessage]:
    """The entries in order. In a history that names no call at all, which the contract's own fields cannot, each result
    that names its tool is taken for that of a call just before it; elsewhere one without its call is an orphan."""
    known: set[str] = set()
    calls_are_told = any(entry.tool_calls for entry in entries)
    for at, entry in enumerate(entries):
        calls = tuple(calls_of(entry.tool_calls)) if entry.role == "assistant" else ()
        call = _call_of(entry, known)
        if entry.role == "tool" and entry.tool_name and not calls_are_told:
            call = call or f"rehydrated_{at}"
            yield HistoryMessage("assistant", "", calls=(HistoryCall(call, entry.tool_name, {}),))
        known.update(each.call for each in calls)
        yield HistoryMessage(
            role=entry.role,
            content=entry.content,
            kind=entry.message_type,
            tool=entry.tool_name,
            call=call,
            at=_milliseconds(entry.timestamp),
            artifacts=tuple(picture.artifact for picture in pictures.get(at, ())),
            calls=calls,
        )


def _call_of(entry: HistoryEntry, known: Collection[str]) -> str | None:
    """The call that an entry is the result of: by whichever of its two names the call was made."""
    names = [name for name in (entry.tool_call_id, entry.correlation_id) if name]
    return next((name for name in names if name in known), next(iter(names), None))


def _milliseconds(timestamp: str | None) -> int | None:
    """Milliseconds since 1970, of ISO 8601; a time without a zone is in UTC, one that cannot be read is none."""
    if timestamp is None:
        return None
    try:
        at = datetime.fromisoformat(timestamp)
        return round((at if at.tzinfo is not None else at.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        log.info("a rehydrated message is of no time that can be read: %.64r", timestamp)
        return None
