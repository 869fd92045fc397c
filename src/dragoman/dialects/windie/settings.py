"""Settings of the windie dialect (``[dialects.windie]``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

Tolerance = Literal["python_handshake"]
"""What the contract refuses and may be let through: ``python_handshake`` (the fields that the Python SDK puts into its
handshake: ``operating_system`` beside the agent definition, ``mcps`` in it; both are ignored)."""

RUNS_KEY = "WINDIE_RUNS_API_KEY"
RUNS_CONTROL_KEY = "WINDIE_RUNS_CONTROL_API_KEY"
"""WindieOS's own names for ``runs_key`` and ``runs_control_key``."""


class WindieSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What windie links may say and how much, and what its conversations may do. Times are seconds."""

    tolerate: tuple[Tolerance, ...] = ()
    """What is let through though the contract refuses it."""

    host_tools: tuple[str, ...] = ()
    """Tools of the server's own that touch this host (``bash``, ``read``…) and that conversations are offered besides
    web search. Whoever may open a conversation may then have them run here, once somebody permits it."""

    workspaces: tuple[str, ...] = ()
    """Folders below which a client's ``workspace_path`` is where its conversation works; any other is only told to the
    model."""

    runs_key: str | None = None
    """What ``x-windie-runs-key`` must say; without it the runs API answers 503. ``WINDIE_RUNS_API_KEY`` sets it too."""

    runs_control_key: str | None = None
    """What ``x-windie-runs-control-key`` must say as well to stop all runs; none: the runs key is enough for that.
    ``WINDIE_RUNS_CONTROL_API_KEY`` sets it too."""

    message_limit: int = 10 * 1024 * 1024
    """Bytes of a message; a longer one is answered with an error. One of more than twice as many ends the link."""

    message_values: int = 100_000
    """Values of a message or a handshake; one of more is not taken apart."""

    handshake_limit: int = 2 * 1024 * 1024
    """Bytes of a handshake."""

    offload_bytes: int = 64 * 1024
    """Bytes from which on a message is taken apart in a thread."""

    handshake_seconds: float = 30.0
    """For a link to say who it is."""

    receive_seconds: float = 3600.0
    """Without any message after which a link is ended."""

    tasks: int = 50
    """Messages of one link that are worked on at once, queries that wait or run among them; one more is refused.
    Results of tools and stops are always taken."""

    tasks_bytes: int = 32 * 1024 * 1024
    """Bytes of those messages together; one beyond that is refused alike."""

    decision_seconds: float = 300.0
    """That a turn begun here waits for a decision, which nobody can take in this protocol, before it is a denial."""

    linger_seconds: float = 0.0
    """That a user's turns go on after their last link is gone."""

    screenshots: int = 20
    """Screenshots of one query; one with more is refused."""

    followed: int = 64
    """Conversations that one link follows at once, and has its tools offered in; of more, those at rest are let go."""

    outbox_bytes: int = 1024 * 1024
    """Of replies that wait for their socket; while there are more, no further message is taken."""

    shared_frames: int = 4096
    """Frames that are kept to be shared by links that are told the same."""

    shared_bytes: int = 16 * 1024 * 1024
    """Bytes of those together."""

    body_limit: int = 2 * 1024 * 1024
    """Bytes of a JSON body."""

    uploads: int = 4
    """Artifacts of one user that are taken at once; others wait."""


def with_environment(settings: WindieSettings, environment: Mapping[str, str]) -> WindieSettings:
    """The settings with the keys that WindieOS's own variables set, where ours do not."""
    return msgspec.structs.replace(
        settings,
        runs_key=settings.runs_key or environment.get(RUNS_KEY) or None,
        runs_control_key=settings.runs_control_key or environment.get(RUNS_CONTROL_KEY) or None,
    )
