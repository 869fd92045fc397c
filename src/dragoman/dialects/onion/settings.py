"""Settings of the onion dialect (``[dialects.onion]``)."""

from __future__ import annotations

from typing import Literal

import msgspec

Tolerance = Literal["assistant", "assistant_delta", "replay_interrupted", "session_sync"]
"""What goes beyond the seed and may be switched (docs/dialects/onion.md)."""


class OnionSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Sessions that onion links make, and limits of those links. Times are seconds."""

    kind: str = "native"
    """Kind of the sessions that CONNECT makes."""

    name: str = "dragoman"
    """The agent's name, as ``/info`` and ``/health`` have it."""

    tolerate: tuple[Tolerance, ...] = ("assistant", "assistant_delta", "replay_interrupted")
    """What is said beyond the seed: ``assistant_delta`` (text as it comes), ``assistant`` (what an agent says at its
    own terminal), ``replay_interrupted`` (after a lost server, the turn that it cut off), ``session_sync`` (the whole
    session once a turn)."""

    ping_seconds: float = 30.0
    """Between two PINGs on a socket."""

    idle_seconds: float = 600.0
    """After so long without a sign of anybody an idle session is ``new`` to whoever connects to it; nothing is lost."""

    stuck_seconds: float = 3600.0
    """A turn in which so long nothing has happened, nobody has been there and nothing is asked, is cancelled."""

    result_seconds: float = 86400.0
    """For how long ``/sessions`` shows what came of a turn."""

    results_bytes: int = 64 * 1024 * 1024
    """Bytes of the file that keeps that; beyond, the oldest are forgotten early."""

    listed_results: int = 200
    """Results that ``GET /sessions`` lists, the newest."""

    listed_bytes: int = 16 * 1024 * 1024
    """Bytes of such a list."""

    input_seconds: float = 3600.0
    """How long ``POST /input`` waits for its turn's end; the turn goes on."""

    waiting_inputs: int = 64
    """Requests to ``POST /input`` under way; a further one is answered 503."""

    input_bytes: int = 288 * 1024 * 1024
    """Bytes of the bodies of all of them, until what came along is stored."""

    message_limit: int = 144 * 1024 * 1024
    """Bytes of a message of a link that is let in, or is on this machine: ten files of 10 MB, as base64, fit."""

    stranger_message_limit: int = 1024 * 1024
    """Bytes of a message of any other link. Its CONNECT brings the session along that the last OUTPUT told it."""

    big_message: int = 256 * 1024
    """Bytes of a message from which on it is decoded in a thread."""

    commands: int = 64
    """Requests of one link that are worked on at once; what comes then waits in its socket."""

    reply_backlog: int = 4 * 1024 * 1024
    """Bytes of replies that wait for a link, from which on it is read no further."""

    trace_entries: int = 5000
    """Entries of a session's trace that OUTPUT shows; the newest stay."""

    claim_messages: int = 2000
    """Messages of a client's own history that are taken in."""

    view_bytes: int = 4 * 1024 * 1024
    """Bytes of events of a session that are kept as they were sent, for links that come back or lag; older ones are
    made again."""

    kept_views: int = 64
    """Sessions whose conversation stays in memory without a link."""

    shared_frames: int = 512
    """Frames that are kept for the other links of their session."""

    shared_bytes: int = 8 * 1024 * 1024
    """Bytes of such frames."""

    def __post_init__(self) -> None:
        for name in _TIMES:
            if not getattr(self, name) > 0:  # so that it is no nan either
                raise ValueError(f"dialects.onion.{name}: a time has to be more than 0")
        for name in _COUNTS:
            if getattr(self, name) < 0:
                raise ValueError(f"dialects.onion.{name}: it cannot be less than 0")
        for name in _NEEDED:
            if getattr(self, name) < 1:
                raise ValueError(f"dialects.onion.{name}: it has to be 1 at least")


_TIMES = ("ping_seconds", "idle_seconds", "stuck_seconds", "result_seconds", "input_seconds")

_NEEDED = ("message_limit", "stranger_message_limit", "commands", "reply_backlog")
"""Without which nobody could be served."""

_COUNTS = (
    "results_bytes",
    "listed_results",
    "listed_bytes",
    "waiting_inputs",
    "input_bytes",
    "big_message",
    "trace_entries",
    "claim_messages",
    "view_bytes",
    "kept_views",
    "shared_frames",
    "shared_bytes",
)
