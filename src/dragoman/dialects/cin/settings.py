"""Settings of the cin dialect (``[dialects.cin]``)."""

from __future__ import annotations

from typing import Literal

import msgspec

Tolerance = Literal["legacy"]


class CinSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the bridge speaks to its clients. Sizes are bytes."""

    tolerate: tuple[Tolerance, ...] = ("legacy",)
    """``legacy``: every frame also has ``payload``, and the frames of the dashboard in use go out beside the seed's."""

    message_limit: int = 1024 * 1024
    """Of one message of a client."""

    body_limit: int = 32 * 1024 * 1024
    """Of a request's body; more is answered 413."""

    outbox_bytes: int = 1024 * 1024
    """Replies kept for one link; while there are more, no further message of its is read."""

    feed_bytes: int = 8 * 1024 * 1024
    """Frames kept for all links together; who lags further behind is told the rest from the disk."""

    history_events: int = 1000
    """Events that a client may ask for at once, and that are kept at hand."""

    history_bytes: int = 16 * 1024 * 1024
    """Events kept at hand, together; older ones are read from the disk."""

    burst_events: int = 50
    """Events in the ``history`` that a link of a dashboard begins with."""

    list_seconds: float = 0.05
    """Least time between two ``sessions`` lists of which only states differ (``legacy``)."""

    harness_bytes: int = 64 * 1024
    """Of one ``harness:*`` message that is handed on to the other links."""

    harness_per_second: float = 50.0
    """Such messages that one link may send, on average; more are dropped."""

    answer_settles: float = 1.0
    """Seconds for which a permission must have been asked for before an answer over HTTP that does not name it is to
    it, where the one before was answered by somebody else."""

    projects: tuple[str, ...] = ()
    """Folders that may be browsed, completed and read besides those of sessions that were started here."""

    projects_kept: int = 200
    """Folders in which sessions were started that are remembered; the one that was not used for longest goes first."""

    file_bytes: int = 1024 * 1024
    """Of a file that is shown; a larger one is refused."""

    folder_entries: int = 10_000
    """Looked at of one folder, or of one tree of folders; an answer that lacks more says ``truncated``."""

    screenshot_bytes: int = 10 * 1024 * 1024
    """Of one picture that comes with feedback."""

    image_bytes: int = 5 * 1024 * 1024
    """Of one picture that comes with a prompt."""

    feedback_entries: int = 1000
    """Entries of feedback that are kept; the oldest go first."""

    feedback_entry_bytes: int = 64 * 1024
    """Of one entry without its picture; a larger one is refused."""

    feedback_bytes: int = 256 * 1024 * 1024
    """Of all pictures that are kept with feedback; the oldest entries go first."""

    tiles: int = 500
    """Text tiles that are kept; a further one is refused."""

    tile_chars: int = 1000
    """Of the text of one."""
