"""Settings of the coworker dialect (``[dialects.coworker]``)."""

from __future__ import annotations

import msgspec


class CoworkerSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Sessions that coworker links make, and limits of those links."""

    yolo: bool = False
    """Whether every command runs unasked; what a tool may touch stays guarded."""

    mode: str = "accept_edits"
    """Permission mode of these sessions otherwise: the protocol asks about commands, never about edits of files."""

    make_folders: bool = False
    """Whether ``.agent``, the output folder and the uploads folder are made in the server's folder at its start."""

    raw_parts: bool = True
    """Whether the provider's own events are kept and sent as ``raw`` chunks, where its adapter gives them."""

    resume_seconds: float = 60.0
    """For a link that asked for ``resume``: how long its session outlives it, in seconds."""

    message_limit: int = 16 * 1024 * 1024
    """Bytes of a message."""

    stranger_message_limit: int = 1024 * 1024
    """Bytes of a message of a link whose token has not been checked."""

    commands: int = 64
    """Requests of one link that are worked on at once; what comes then waits in its socket."""

    reply_backlog: int = 4 * 1024 * 1024
    """Bytes of replies that wait for a link, from which on it is read no further."""

    shared_frames: int = 512
    """Frames that are kept for the other links of their session."""

    shared_bytes: int = 8 * 1024 * 1024
    """Bytes of such frames."""
