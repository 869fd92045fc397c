"""The wire contract of the hub dialect, one half: every message a client may send, as types.

A client message is one JSON object whose ``op`` names it; unknown fields are refused, so that a misspelt one is not
silently lost. What a message shares with an HTTP route is in ``bodies``, what surrounds a session in
``workspace_messages``.
Spelled as on the wire; ``docs/dialects/hub.md`` says the same in prose.
"""

from __future__ import annotations

from typing import get_args

import msgspec

from .bodies import (
    AnswerBody,
    CallEnd,
    CancelBody,
    CreateBody,
    EventsQuery,
    HistoryBody,
    InputBody,
    KeyBody,
    ListQuery,
    Name,
    NewestQuery,
    OfferedTool,
    PromptBody,
    ResizeBody,
    SettingsBody,
    SignalBody,
    SignInBody,
    SignInEndBody,
    StatusBody,
    TapeQuery,
    Whole,
)
from .ops import OnSession, Op, RequestId
from .workspace_messages import (
    DeleteCheckpoint,
    DeleteSkill,
    DisableSkill,
    EnableSkill,
    ListCheckpoints,
    ListCommands,
    ListSkills,
    ReadSkill,
    RestoreCheckpoint,
    RunCommand,
    TakeCheckpoint,
)

PROTOCOL = 1
"""Version of this contract. It grows by fields and messages; a change that breaks a client raises it."""


class Ping(Op, frozen=True, tag="ping"):
    """Is anyone there?"""


class List(ListQuery, frozen=True, kw_only=True, tag_field="op", tag="list", forbid_unknown_fields=True):
    """The sessions, newest last."""

    id: RequestId = None


class Watch(ListQuery, frozen=True, kw_only=True, tag_field="op", tag="watch", forbid_unknown_fields=True):
    """The same, and from now on a ``session`` message for every session that changes."""

    id: RequestId = None


class Unwatch(Op, frozen=True, tag="unwatch"):
    """No more of those."""


class Create(CreateBody, frozen=True, kw_only=True, tag_field="op", tag="create"):
    """Make a session."""

    id: RequestId = None


class Delete(OnSession, frozen=True, kw_only=True, tag="delete"):
    """Close it and drop its log."""


class Start(OnSession, frozen=True, kw_only=True, tag="start"):
    """Start its agent (again)."""


class Close(OnSession, frozen=True, kw_only=True, tag="close"):
    """End what runs; the log stays."""


class GetSnapshot(OnSession, frozen=True, kw_only=True, tag="snapshot"):
    """What is true of it now."""


class Follow(OnSession, frozen=True, kw_only=True, tag="follow"):
    """Send every event behind ``after``, the old ones first; without it only new ones."""

    after: Whole | None = None
    coalesce: bool = False


class Unfollow(OnSession, frozen=True, kw_only=True, tag="unfollow"):
    """No more of those."""


class Events(EventsQuery, frozen=True, kw_only=True, tag_field="op", tag="events", forbid_unknown_fields=True):
    """One page of the log."""

    session: Name
    id: RequestId = None


class Newest(NewestQuery, frozen=True, kw_only=True, tag_field="op", tag="newest", forbid_unknown_fields=True):
    """The newest events over all sessions."""

    id: RequestId = None


class Submit(PromptBody, frozen=True, kw_only=True, tag_field="op", tag="submit"):
    """Submit a prompt."""

    session: Name
    id: RequestId = None


class Withdraw(OnSession, frozen=True, kw_only=True, tag="withdraw"):
    """Take back a prompt that waits."""

    prompt: Name


class AnswerDecision(AnswerBody, frozen=True, kw_only=True, tag_field="op", tag="answer"):
    """Answer a decision."""

    session: Name
    decision: Name
    id: RequestId = None


class Cancel(CancelBody, frozen=True, kw_only=True, tag_field="op", tag="cancel"):
    """End a turn."""

    session: Name
    id: RequestId = None


class ChangeSettings(SettingsBody, frozen=True, kw_only=True, tag_field="op", tag="settings"):
    """Change settings."""

    session: Name
    id: RequestId = None


class ResetHistory(OnSession, frozen=True, kw_only=True, tag="reset_history"):
    """Let later turns see nothing from before."""


class MergeHistory(HistoryBody, frozen=True, kw_only=True, tag_field="op", tag="merge_history"):
    """Give the session a history."""

    session: Name
    id: RequestId = None


class Compact(OnSession, frozen=True, kw_only=True, tag="compact"):
    """Have the agent shorten its context."""


class DeclareTools(OnSession, frozen=True, kw_only=True, tag="declare_tools"):
    """Offer tools that this link runs, in place of what it offered there before."""

    tools: tuple[OfferedTool, ...]


class EndTool(CallEnd, frozen=True, kw_only=True, tag_field="op", tag="end_tool"):
    """Give a call its one result."""

    session: Name
    id: RequestId = None


class EndTools(OnSession, frozen=True, kw_only=True, tag="end_tools"):
    """End a whole bundle; a step without a result was not run."""

    bundle: Name
    results: tuple[CallEnd, ...]


class Attach(OnSession, frozen=True, kw_only=True, tag="attach"):
    """Stream raw output from ``offset`` on (without one: from the end). ``screen`` adds the picture to the reply and
    starts the stream where the picture ends."""

    offset: Whole | None = None
    screen: bool = False
    styled: bool = False


class Detach(OnSession, frozen=True, kw_only=True, tag="detach"):
    """No more of that."""


class Input(InputBody, frozen=True, kw_only=True, tag_field="op", tag="input"):
    """Type into the terminal."""

    session: Name
    id: RequestId = None


class Keys(OnSession, frozen=True, kw_only=True, tag="keys"):
    """Press named keys, all or none."""

    keys: tuple[Name, ...]


class Resize(ResizeBody, frozen=True, kw_only=True, tag_field="op", tag="resize"):
    """Change the terminal's size."""

    session: Name
    id: RequestId = None


class Signal(SignalBody, frozen=True, kw_only=True, tag_field="op", tag="signal"):
    """Signal the program."""

    session: Name
    id: RequestId = None


class Screen(OnSession, frozen=True, kw_only=True, tag="screen"):
    """The picture now."""

    styled: bool = False


class Tape(TapeQuery, frozen=True, kw_only=True, tag_field="op", tag="tape", forbid_unknown_fields=True):
    """A piece of the raw output."""

    session: Name
    id: RequestId = None


class ListProviders(Op, frozen=True, tag="providers"):
    """The model providers that sessions may use."""


class CheckProviders(StatusBody, frozen=True, kw_only=True, tag_field="op", tag="provider_status"):
    """How each of them stands."""

    id: RequestId = None


class SetKey(KeyBody, frozen=True, kw_only=True, tag_field="op", tag="set_key"):
    """Keep a provider's key."""

    provider: Name
    id: RequestId = None


class ForgetKey(Op, frozen=True, kw_only=True, tag="forget_key"):
    """Remove a key that was kept."""

    provider: Name


class ListAuthMethods(Op, frozen=True, kw_only=True, tag="auth_methods"):
    """How each provider can be signed in to."""


class BeginSignIn(SignInBody, frozen=True, kw_only=True, tag_field="op", tag="begin_sign_in"):
    """What is to be done to sign in."""

    provider: Name
    id: RequestId = None


class FinishSignIn(SignInEndBody, frozen=True, kw_only=True, tag_field="op", tag="finish_sign_in"):
    """Sign in; the provider's program runs meanwhile, and what it says comes to this link only."""

    provider: Name
    id: RequestId = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.provider!r}, {self.method!r}, ***)"


ClientMessage = (
    Ping
    | List
    | Watch
    | Unwatch
    | Create
    | Delete
    | Start
    | Close
    | GetSnapshot
    | Follow
    | Unfollow
    | Events
    | Newest
    | Submit
    | Withdraw
    | AnswerDecision
    | Cancel
    | ChangeSettings
    | ResetHistory
    | MergeHistory
    | Compact
    | DeclareTools
    | EndTool
    | EndTools
    | Attach
    | Detach
    | Input
    | Keys
    | Resize
    | Signal
    | Screen
    | Tape
    | ListProviders
    | CheckProviders
    | SetKey
    | ForgetKey
    | ListAuthMethods
    | BeginSignIn
    | FinishSignIn
    | ListCheckpoints
    | TakeCheckpoint
    | RestoreCheckpoint
    | DeleteCheckpoint
    | ListSkills
    | ReadSkill
    | EnableSkill
    | DisableSkill
    | DeleteSkill
    | ListCommands
    | RunCommand
)

MESSAGES: tuple[type, ...] = get_args(ClientMessage)
"""The same as a tuple."""

_decoder: msgspec.json.Decoder[ClientMessage] = msgspec.json.Decoder(ClientMessage)


HEAVY = (Events, Newest, GetSnapshot, Screen, Tape, ListSkills, ReadSkill)
"""What may have a large answer."""

OWN_JSON = (CreateBody, SettingsBody, AnswerBody, DeclareTools)
"""What holds JSON of the client's own, which is limited more tightly (``json_bytes``)."""

LARGE_JSON = (HistoryBody, CallEnd, EndTools)
"""What holds more of it (``large_json_bytes``)."""


class _OnlyId(msgspec.Struct, frozen=True):
    id: RequestId = None


_id_decoder = msgspec.json.Decoder(_OnlyId)


def decode(text: str) -> ClientMessage:
    """The message in ``text``. Raises ``ValueError`` or ``RecursionError`` for anything that is none."""
    return _decoder.decode(text)


def id_in(text: str) -> RequestId:
    """The id of a message that could not be decoded, if it can be made out."""
    try:
        return _id_decoder.decode(text).id
    except (ValueError, RecursionError):
        return None
