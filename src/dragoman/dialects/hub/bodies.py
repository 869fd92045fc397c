"""What HTTP and WebSocket messages of the hub dialect share: bodies and queries, without ``op``, ``id`` and path.

Spelled as on the wire; unknown fields of a body are refused.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from dragoman.hub.events import Answer, HistoryMessage, Json
from dragoman.hub.events.tools import ToolStatus
from dragoman.hub.session import WhenBusy

Whole = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
"""A count, cursor or offset that every JSON reader can hold exactly."""

Limit = Annotated[int, msgspec.Meta(ge=1, le=2**31)]
"""How many at most; the server's own limit holds if it is lower."""

Side = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31)]
"""Columns or rows; which sizes can be served is the terminal's to say (``invalid_size``)."""

Name = Annotated[str, msgspec.Meta(max_length=200)]
"""An id, or a short word."""

Key = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
"""A client's own message id, or another id where an empty one would mean something else."""

Arguments = Annotated[str, msgspec.Meta(max_length=100_000)]
"""What stands behind the name of a slash command. A template may repeat it; a long text is a prompt of its own."""


class Body(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a command says. Shared by WebSocket and HTTP."""


class CreateBody(Body, frozen=True, kw_only=True):
    """A new session. ``options`` are the agent's own (a terminal's ``command``, ``cols``, ``rows``, ``env``)."""

    kind: Name
    cwd: str
    agent: Name = "unknown"
    title: str | None = None
    options: dict[str, Json] = {}
    settings: dict[str, Json] = {}
    start: bool = True


class PromptBody(Body, frozen=True, kw_only=True):
    """A prompt. The same ``client_message_id`` gives one turn, however often it is sent."""

    text: str
    client_message_id: Key | None = None
    when_busy: WhenBusy = "refuse"


class CommandBody(Body, frozen=True, kw_only=True):
    """What a slash command is called with. What goes with a prompt goes with the one that it becomes."""

    arguments: Arguments = ""
    client_message_id: Key | None = None
    when_busy: WhenBusy = "refuse"


class RestoreBody(Body, frozen=True, kw_only=True):
    """The checkpoint to go back to; without one, the session's first."""

    checkpoint: Key | None = None


class AnswerBody(Body, frozen=True, kw_only=True):
    """The answer to a decision."""

    answer: Answer


class CancelBody(Body, frozen=True, kw_only=True):
    """Cancel this turn; without a name the open one."""

    turn: Name | None = None


class SettingsBody(Body, frozen=True, kw_only=True):
    """Settings to change; null removes one."""

    settings: dict[str, Json]


class HistoryBody(Body, frozen=True, kw_only=True):
    """A history to append to what is known, or (``replace``) to put in its place."""

    messages: tuple[HistoryMessage, ...]
    replace: bool = False


class OfferedTool(Body, frozen=True, kw_only=True):
    """A tool that the link would run. ``parameters`` is the JSON schema of its input, an object."""

    name: str
    description: str = ""
    parameters: Json = {}


class CallEnd(Body, frozen=True, kw_only=True):
    """What became of a call. ``error`` says why it failed; artifacts are ids of what is stored."""

    call: Name
    status: ToolStatus = "ok"
    output: Json = None
    error: str | None = None
    artifacts: tuple[Name, ...] = ()
    detail: dict[str, Json] = {}


class InputBody(Body, frozen=True, kw_only=True):
    """Raw terminal input: ``text``, then ``data`` (base64), then a carriage return if ``enter``; or named ``keys``."""

    text: str | None = None
    data: bytes | None = None
    enter: bool = False
    keys: tuple[Name, ...] | None = None


class ResizeBody(Body, frozen=True, kw_only=True):
    """A new terminal size."""

    cols: Side
    rows: Side


class SignalBody(Body, frozen=True, kw_only=True):
    """A signal to the program's group, by name (``INT``) or number (``"2"``)."""

    signal: Name


class StatusBody(Body, frozen=True, kw_only=True):
    """``verify`` asks each provider whether it takes the key that is there."""

    verify: bool = False


class KeyBody(Body, frozen=True, kw_only=True):
    """A provider's key: in no answer, no log, no ``repr``."""

    key: str

    def __repr__(self) -> str:
        return f"{type(self).__name__}(***)"


class SignInBody(Body, frozen=True, kw_only=True):
    """Which of a provider's ways to sign in: the ``id`` of one of the type ``oauth``."""

    method: Name


class SignInEndBody(SignInBody, frozen=True, kw_only=True):
    """``code`` is what the provider showed the person, where it shows one: in no answer, no log, no ``repr``."""

    code: Annotated[str, msgspec.Meta(max_length=4096)] | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.method!r}, ***)"


class ListQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which sessions; of more than ``limit`` the newest."""

    status: Name | None = None
    kind: Name | None = None
    limit: Limit | None = None


class EventsQuery(msgspec.Struct, frozen=True, kw_only=True):
    """``after``: the page behind a cursor. ``before``, or neither: the newest page before it, or of all."""

    after: Whole | None = None
    before: Whole | None = None
    limit: Limit | None = None


class NewestQuery(msgspec.Struct, frozen=True, kw_only=True):
    """How many."""

    limit: Limit | None = None


class TapeQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Raw output from an absolute offset on; without one, the newest."""

    offset: Whole | None = None
    limit: Limit | None = None


class ScreenQuery(msgspec.Struct, frozen=True, kw_only=True):
    """``styled`` adds how the cells look."""

    format: Literal["json", "text"] = "json"
    styled: bool = False
