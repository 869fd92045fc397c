"""Settings of the coop dialect (``[dialects.coop]``)."""

from __future__ import annotations

import msgspec


class CoopSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the seed leaves open. Sizes are bytes, times are seconds."""

    open_reads: bool | None = None
    """Whether reading needs no token although one is set. None: on loopback only."""

    resize_needs_write: bool = False
    """Whether only links that may write can resize; the seed lets every link."""

    message_limit: int = 64 * 1024 * 1024
    """A client message, once the link may write."""

    stranger_message_limit: int = 1024 * 1024
    """A client message before that."""

    output_frame: int = 256 * 1024
    """Raw bytes in one ``output`` message at most."""

    delivery: float = 30.0
    """Seconds that a ``nudge`` or ``respond`` waits for the agent before it is answered with ``delivered: false``."""

    proof: float = 5.0
    """Seconds that a prompt waits for a client to show that it knows the one before to be over."""

    reply_backlog: int = 1024 * 1024
    """Bytes of replies waiting for a client that does not read, before its messages are left in the socket."""
