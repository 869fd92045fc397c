"""The wire contract of coop: every message in both directions, spelled as on the wire (seed: both message sections)."""

from __future__ import annotations

from base64 import b64encode
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

UInt16 = Annotated[int, Meta(ge=0, le=65535)]
Int32 = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
Offset = Annotated[int, Meta(ge=0)]
MAX_OFFSET = 2**64 - 1
"""Offsets are unsigned 64-bit numbers; a schema bound cannot say so."""

Mode = Literal["raw", "screen", "state", "all"]


class ClientMessage(Struct, frozen=True, tag_field="event"):
    """Something a client sends. Unknown fields are ignored, unknown events are not."""


class Ping(ClientMessage, frozen=True, tag="ping"):
    """Keepalive."""


class Auth(ClientMessage, frozen=True, tag="auth"):
    """Authenticate this connection."""

    token: str


class ScreenGet(ClientMessage, frozen=True, tag="screen:get"):
    """Ask for the screen."""


class StateGet(ClientMessage, frozen=True, tag="state:get"):
    """Ask for the agent's state."""


class StatusGet(ClientMessage, frozen=True, tag="get:status"):
    """Ask for the session's status."""


class Replay(ClientMessage, frozen=True, tag="replay"):
    """Ask for raw output from an offset on; ``limit`` (not in the seed) bounds the bytes."""

    offset: Offset
    limit: Offset | None = None


class Input(ClientMessage, frozen=True, tag="input"):
    """Write text; ``enter`` appends CR."""

    text: str
    enter: bool = False


class InputRaw(ClientMessage, frozen=True, tag="input:raw"):
    """Write bytes, in base64."""

    data: str


class Keys(ClientMessage, frozen=True, tag="keys"):
    """Press named keys, all or none."""

    keys: list[str]


class Resize(ClientMessage, frozen=True, tag="resize"):
    """Resize the terminal."""

    cols: UInt16
    rows: UInt16


class Nudge(ClientMessage, frozen=True, tag="nudge"):
    """Send a follow-up message to an idle agent."""

    message: str


class QuestionAnswer(Struct, frozen=True):
    """One answer of a dialog with several questions."""

    option: Int32 | None = None
    text: str | None = None


class Respond(ClientMessage, frozen=True, tag="respond"):
    """Answer the active prompt."""

    accept: bool | None = None
    option: Int32 | None = None
    text: str | None = None
    answers: list[QuestionAnswer] | None = None


class Signal(ClientMessage, frozen=True, tag="signal"):
    """Signal the program."""

    signal: str


class Shutdown(ClientMessage, frozen=True, tag="shutdown"):
    """End the server (under ``run``) or the session's program (under ``serve``)."""


AnyClientMessage = (
    Ping
    | Auth
    | ScreenGet
    | StateGet
    | StatusGet
    | Replay
    | Input
    | InputRaw
    | Keys
    | Resize
    | Nudge
    | Respond
    | Signal
    | Shutdown
)

_decoder: msgspec.json.Decoder[AnyClientMessage] = msgspec.json.Decoder(AnyClientMessage)
_encode = msgspec.json.Encoder().encode


def decode(text: str | bytes) -> AnyClientMessage:
    """A client's text message, typed. Raises ``msgspec.MsgspecError`` for anything else."""
    message = _decoder.decode(text)
    if isinstance(message, Replay) and message.offset > MAX_OFFSET:
        raise msgspec.ValidationError("offset is wider than 64 bits")
    return message


class CursorPosition(Struct, frozen=True):
    """0-indexed."""

    row: int
    col: int


class ServerMessage(Struct, frozen=True, kw_only=True, tag_field="event"):
    """Something the server sends. Nulls are written out."""


class Screen(ServerMessage, frozen=True, tag="screen"):
    """Rendered terminal screen."""

    lines: tuple[str, ...]
    cols: int
    rows: int
    alt_screen: bool
    cursor: CursorPosition | None
    seq: int


class QuestionContext(Struct, frozen=True):
    """One question of a dialog."""

    question: str
    options: tuple[str, ...]


class PromptContext(Struct, frozen=True, kw_only=True):
    """What the agent asks. Nulls are written out."""

    type: str
    subtype: str | None
    tool: str | None
    input: str | None
    auth_url: str | None
    options: tuple[str, ...]
    options_fallback: bool
    questions: tuple[QuestionContext, ...]
    question_current: int
    ready: bool


class Transition(ServerMessage, frozen=True, tag="transition"):
    """The agent's state moved; or, as a reply, what it is (``prev`` equals ``next``)."""

    prev: str
    next: str
    seq: int
    prompt: PromptContext | None
    error_detail: str | None
    error_category: str | None
    cause: str
    last_message: str | None


class Exit(ServerMessage, frozen=True, tag="exit"):
    """The program ended."""

    code: int | None
    signal: int | None


class NudgeResult(ServerMessage, frozen=True, tag="nudge:result"):
    """What became of a ``nudge``."""

    delivered: bool
    state_before: str | None
    reason: str | None


class RespondResult(ServerMessage, frozen=True, tag="respond:result"):
    """What became of a ``respond``."""

    delivered: bool
    prompt_type: str | None
    reason: str | None


class Status(ServerMessage, frozen=True, tag="status"):
    """Session summary."""

    state: Literal["starting", "running", "exited"]
    pid: int | None
    uptime_secs: int
    exit_code: int | None
    screen_seq: int
    bytes_read: int
    bytes_written: int
    ws_clients: int


class ReplayResult(ServerMessage, frozen=True, tag="replay_result"):
    """Buffered raw output."""

    data: str
    offset: int
    next_offset: int
    total_written: int


class Stop(ServerMessage, frozen=True, tag="stop"):
    """A stop hook's verdict."""

    type: str
    signal: Any
    error_detail: str | None
    seq: int


class Start(ServerMessage, frozen=True, tag="start"):
    """A start hook's event."""

    source: str
    session_id: str | None
    injected: bool
    seq: int


class Resized(ServerMessage, frozen=True, tag="resize"):
    """The terminal has a new size."""

    cols: int
    rows: int


class Error(ServerMessage, frozen=True, tag="error"):
    """A client message was refused."""

    code: str
    message: str


class Pong(ServerMessage, frozen=True, tag="pong"):
    """Answer to a ping."""


def encode(message: ServerMessage) -> bytes:
    """The message as JSON."""
    return _encode(message)


def encode_output(offset: int, data: bytes) -> bytes:
    """An ``output`` message. Put together by hand: base64 needs no escaping, and this is the hot path."""
    return b'{"event":"output","data":"%b","offset":%d}' % (b64encode(data), offset)
