"""Whether a client or the server knows more of a conversation, and what is taken in of what a client says it was.

What a client sends as its session is a claim: data, never authority. Only what people and the model said is read of
it, as text; tool results, system rows, mode, permissions and trace are not looked at, and nothing nested is built.

Nothing is ever taken away here. What a claim may do is to add to the end: when its *measure* is beyond the server's
and its texts begin with all that the server has. So a stale client cannot erase a turn, whatever numbers it sends
(spec §7, "Merge", and §15 row 4). In all other cases the server's log stands.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple, Protocol

import msgspec
from msgspec import Raw

from dragoman.hub.events import HistoryMerged, HistoryMessage, Json

MOST_ROWS = 32
"""A claim is looked into while its messages have at most so many objects per message that may be taken in. What has
more would cost more to read than it is worth; such a client is told what the server has."""

MOST_BYTES = 4 * 1024 * 1024
"""Bytes of text of a claim that are taken in; the newest. Half of what the hub takes."""

_MOST_TURNS = 1_000_000_000
_LAST_SECOND = 1e11
"""Numbers beyond these say nothing, and count as missing."""

_NOTHING = Raw(b"null")


class Measure(NamedTuple):
    """How far a conversation is. Compared in this order; ``updated`` is in seconds since 1970."""

    turn: int = 0
    iteration: int = 0
    updated: float = 0.0


class BadClaim(Exception):
    """What was sent as a session is none; the text says why and may be shown."""


class Claim(msgspec.Struct, frozen=True):
    """What a client says the conversation was: texts of users and of the model, in order.

    ``count`` is how many messages it gave, of any kind.
    """

    messages: tuple[HistoryMessage, ...] = ()
    count: int = 0
    measure: Measure = Measure()

    def detail(self) -> dict[str, Json]:
        """What ``history.merged.detail`` keeps of it: its measure, which ``measure_after`` reads again."""
        return self.measure._asdict()


class Known(Protocol):
    """What the server knows of a conversation."""

    @property
    def measure(self) -> Measure:
        """How far it is; all zero when nothing is known."""

    @property
    def since(self) -> float:
        """When it was begun anew, in seconds since 1970; 0 when it never was."""

    def texts(self) -> Iterator[tuple[str, bytes]]:
        """Who said what, in order: ``user`` or ``assistant``, and the text as JSON."""


class _Session(msgspec.Struct):
    messages: Raw = _NOTHING
    turn: Raw = _NOTHING
    iteration: Raw = _NOTHING
    updated: Raw = _NOTHING


class _Row(msgspec.Struct):
    role: Raw = _NOTHING
    content: Raw = _NOTHING


class _Part(msgspec.Struct):
    text: Raw = _NOTHING


_sessions = msgspec.json.Decoder(_Session | None)
_rows = msgspec.json.Decoder(list[_Row] | None)
_parts = msgspec.json.Decoder(list[_Part])
_texts = msgspec.json.Decoder(str)
_numbers = msgspec.json.Decoder(int | float)
_encoder = msgspec.json.Encoder()

_BRACE = re.compile(rb"\{")

_ROLES = {b'"user"': "user", b'"assistant"': "assistant"}


def read_claim(raw: bytes | Raw, *, limit: int) -> Claim | None:
    """What CONNECT or INPUT brought as ``session``; None when it is null.

    ``limit`` is how many messages may be taken in later. Raises ``BadClaim`` when it is no object, or its messages are
    no list of objects. Whatever else is odd in it counts as missing.
    """
    try:
        session = _sessions.decode(raw)
    except msgspec.DecodeError as problem:
        raise BadClaim("session must be an object") from problem
    if session is None:
        return None
    rows = _rows_of(session.messages, MOST_ROWS * limit)
    messages = tuple(_messages(rows))
    asked = sum(message.role == "user" for message in messages)
    return Claim(
        messages, len(rows), _measure(_value(session.turn), _value(session.iteration), _value(session.updated), asked)
    )


def measure_after(merged: HistoryMerged, known: Measure) -> Measure | None:
    """How far a conversation is once this history was taken in; None when what was ``known`` was further.

    Whoever has that history is not behind: so the conversation is as far as that says of itself
    (``history.merged.detail``), or has as many turns more as it has prompts.
    """
    asked = sum(message.role == "user" for message in merged.messages)
    detail = merged.detail
    turns = asked if merged.replace else known.turn + asked
    after = _measure(detail.get("turn"), detail.get("iteration"), detail.get("updated"), turns)
    return None if after < known else after


def server_newer(server: Known, claim: Claim | None) -> bool:
    """Whether the client must be told what the server has (seed: ``server_newer``).

    So it is when the server is further, or when the client lacks something that the server has. A client that sends
    back exactly what the last OUTPUT gave it lacks nothing, and neither does one that shows a prompt already that it
    has yet to send. What a client knows from before the conversation was begun anew is always old.
    """
    if claim is None:
        claim = Claim()
    if _knows_nothing(server):
        return False
    return _outdated(server, claim) or server.measure > claim.measure or _beyond(server, claim.messages) is None


def taken_in(server: Known, claim: Claim | None, *, limit: int) -> tuple[HistoryMessage, ...]:
    """What of the claim is to be added to the end of the conversation (``merge_history`` with ``replace=False``).

    Usually nothing. The newest ``limit`` messages and ``MOST_BYTES`` of what is beyond the server's, when the claim is
    strictly further and begins with all that the server has; of all of it when the server knows nothing.
    """
    if claim is None or _outdated(server, claim):
        return ()
    if not _knows_nothing(server) and claim.measure <= server.measure:
        return ()
    return _newest(_beyond(server, claim.messages) or (), limit)


def text_of(content: Json) -> str:
    """The text of a message's content: a string, or a list of parts of which those with text count."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    texts = (part.get("text") if isinstance(part, dict) else part for part in content)
    return "\n\n".join(text for text in texts if isinstance(text, str))


def _knows_nothing(server: Known) -> bool:
    return server.measure == Measure() and next(server.texts(), None) is None


def _outdated(server: Known, claim: Claim) -> bool:
    return claim.measure.updated < server.since


def _beyond(server: Known, messages: Sequence[HistoryMessage]) -> Sequence[HistoryMessage] | None:
    """What comes after all that the server has; None when it does not begin with that."""
    same = 0
    for role, text in server.texts():
        if same == len(messages) or messages[same].role != role or _encoder.encode(messages[same].content) != text:
            return None
        same += 1
    return messages[same:]


def _newest(messages: Sequence[HistoryMessage], limit: int) -> tuple[HistoryMessage, ...]:
    size, first = 0, len(messages)
    while first > max(0, len(messages) - limit):
        size += len(_encoder.encode(messages[first - 1]))
        if size > MOST_BYTES:
            break
        first -= 1
    return tuple(messages[first:])


def _rows_of(raw: Raw, most: int) -> list[_Row]:
    """The messages of a claim. Each costs an object, and each object a brace: so that can be told before."""
    if next(islice(_BRACE.finditer(raw), most, None), None) is not None:
        return []
    try:
        return _rows.decode(raw) or []
    except msgspec.DecodeError as problem:
        raise BadClaim("session.messages must be a list of objects") from problem


def _messages(rows: list[_Row]) -> Iterator[HistoryMessage]:
    for row in rows:
        role = _ROLES.get(bytes(row.role))
        if role is not None and (text := _text(row.content)).strip():
            yield HistoryMessage(role=role, content=text)


def _text(content: Raw) -> str:
    if not bytes(content).startswith(b"["):
        return _string(content)
    try:
        parts = _parts.decode(content)
    except msgspec.DecodeError:
        return ""
    return "\n\n".join(filter(None, (_string(part.text) for part in parts)))


def _string(raw: Raw) -> str:
    try:
        return _texts.decode(raw)
    except msgspec.DecodeError:
        return ""


def _value(raw: Raw) -> Json:
    """A number, or None for anything else."""
    try:
        return _numbers.decode(raw)
    except msgspec.DecodeError:
        return None


def _measure(turn: Json, iteration: Json, updated: Json, asked: int) -> Measure:
    return Measure(
        int(turn) if _within(turn, _MOST_TURNS) else asked,
        int(iteration) if _within(iteration, _MOST_TURNS) else 0,
        float(updated) if _within(updated, _LAST_SECOND) else 0.0,
    )


def _within(number: Json, most: float) -> bool:
    return type(number) in (int, float) and bool(0 <= number <= most)
