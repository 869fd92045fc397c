"""How replies and events become frames."""

from __future__ import annotations

import msgspec

from dragoman.dialects.frames import text_frame
from dragoman.hub.events import Event

from .errors import Problem
from .ops import RequestId
from .replies import StreamError
from .views import JoinedEvent, join_deltas, show_event

_encoder = msgspec.json.Encoder()
encode = _encoder.encode
"""A value of ours as JSON."""


def frame(message: msgspec.Struct) -> bytes:
    """A message of ours as a text frame."""
    return text_frame(encode(message))


def ok_frame(request: RequestId, result: msgspec.Struct) -> bytes:
    """The answer to a request that went well: ``ok``, its id, and the fields of its result."""
    return text_frame(b'{"type":"ok"%b%b' % (_id(request), _rest(encode(result))))


def error_frame(request: RequestId, problem: Problem) -> bytes:
    """The answer to a request that did not."""
    return text_frame(b'{"type":"error"%b%b' % (_id(request), _rest(encode(problem))))


def stream_error(problem: Problem, *, session: str | None = None, stream: str | None = None) -> bytes:
    """An error that answers no request."""
    fields = {name: getattr(problem, name) for name in Problem.__struct_fields__}
    return frame(StreamError(**fields, session=session, stream=stream))  # type: ignore[arg-type]


def _id(request: RequestId) -> bytes:
    return b"" if request is None else b',"id":%b' % encode(request)


def _rest(encoded: bytes) -> bytes:
    """The fields of an encoded object, to be put behind others."""
    return b"}" if encoded == b"{}" else b"," + encoded[1:]


def events_frame(session: str, events: list[Event], limit: int, *, coalesce: bool) -> tuple[int, bytes]:
    """An ``events`` message with as many of ``events`` as fit into ``limit`` bytes (one at least), and the last ``seq``
    in it."""
    if events[0].seq == 1:
        events = [show_event(events[0]), *events[1:]]
    shown: list[Event | JoinedEvent] = join_deltas(events) if coalesce else list(events)
    payload = bytearray(b'{"type":"events","session":%b,"events":[' % encode(session))
    last = 0
    for event in shown:
        start = len(payload)
        _encoder.encode_into(event, payload, -1)
        if last and len(payload) > limit:
            del payload[start:]
            break
        payload += b","
        last = event.seq
    payload[-1:] = b"]}"
    return last, text_frame(bytes(payload))
