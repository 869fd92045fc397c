"""Settings of the hub dialect (``[dialects.hub]``): every limit of its links and routes, by name."""

from __future__ import annotations

import msgspec


class HubDialectSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Sizes are bytes, times are seconds, the rest are counts."""

    message_limit: int = 16 * 1024 * 1024
    """One message of a client that may use the server. A larger one ends the link (1009). HTTP: ``server.max_body``."""

    stranger_message_limit: int = 1024 * 1024
    """One message before that is known."""

    json_bytes: int = 256 * 1024
    """A message or body whose fields hold JSON of the client's own (options, settings, answers)."""

    json_depth: int = 64
    """Levels of lists and objects in such JSON."""

    large_json_bytes: int = 1024 * 1024
    """A message or body that brings a history, or results of tools."""

    reply_backlog: int = 1024 * 1024
    """Replies that wait for a client that does not read, before its messages are left in the socket."""

    commands: int = 64
    """Commands of one link under way at once; more are left in the socket until some are answered."""

    read_weight: int = 16
    """How many of those a command counts for whose reply may be large (events, tape, screen, snapshot, newest,
    skills)."""

    follows: int = 256
    """Sessions one link may follow."""

    attachments: int = 64
    """Terminals one link may be attached to."""

    tool_sessions: int = 64
    """Sessions in which one link may offer tools."""

    fetches: int = 4
    """Reads from the journal, and frames made from them, that one link may hold at once."""

    events_frame: int = 256 * 1024
    """An ``events`` message; only a single event that is larger makes a larger one."""

    terminal_frame: int = 256 * 1024
    """Raw output in one binary message."""

    shared_frames: int = 256
    """Frames kept because the next link may need the same bytes, per sort (events, output)."""

    shared_bytes: int = 2 * 1024 * 1024
    """Bytes of those frames, per sort."""

    marks: int = 64
    """Resizes, starts and ends of a terminal that wait for a client that does not read; then the oldest go."""

    page_events: int = 500
    """Events in one page at most."""

    page_bytes: int = 1024 * 1024
    """Events in one page, together; only a single event that is larger makes a larger page."""

    rows: int = 1000
    """Sessions in one list at most."""

    tape_chunk: int = 1024 * 1024
    """Raw output in one answer of the tape."""

    heartbeat: float = 10.0
    """Time between two ``heartbeat`` messages."""

    close_budget: float = 2.0
    """Time that ``close`` and ``delete`` give a program to end."""
