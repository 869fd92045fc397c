"""The hub's named limits. All of them are settings (``[hub]``)."""

from __future__ import annotations

import msgspec


class HubLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much the hub keeps, holds and waits. Sizes are counts unless a name says otherwise."""

    tail_events: int = 2048
    """Durable events of a session kept in memory for readers that keep up; older ones come from the journal."""

    tail_bytes: int = 4 * 1024 * 1024
    """Bytes of those events (as text) kept in memory."""

    read_batch: int = 512
    """Events a reader gets at most at once."""

    snapshot_every: int = 1000
    """Events after which a new snapshot of a session's state is stored."""

    loaded_idle: int = 32
    """Settled sessions that nobody watches kept in memory; the rest is on disk, and so are closed ones."""

    ack_seconds: float = 10.0
    """Seconds a command waits for the disk before it answers that it may not have been kept."""

    queue_prompts: int = 100
    """Prompts that may wait in one session."""

    open_decisions: int = 100
    """Decisions that may be open in one session at once."""

    sessions: int = 100_000
    """Sessions stored, closed ones included."""

    live_sessions: int = 1000
    """Sessions with a live executor or an open turn at once."""

    checkpoint_seconds: float = 60.0
    """For saving or restoring a session's workspace. What takes longer has failed, and a turn that waits goes on."""

    prompt_bytes: int = 4 * 1024 * 1024
    """Length of one prompt, in UTF-8, with its client message id and what else it carries; of one answer, as JSON."""

    settings_bytes: int = 1024 * 1024
    """Length of what one change of a session's settings sets, as JSON."""

    hook_bytes: int = 4 * 1024 * 1024
    """Length of what one hook posts; a longer one is left out, and its agent goes on. What a tool has read is in it."""

    hook_values: int = 100_000
    """JSON values in what one hook posts: each costs far more than its length."""

    client_tools: int = 256
    """Tools that one client link may offer in one session."""

    client_tool_bytes: int = 64 * 1024
    """Length of one offered tool, as JSON."""

    client_tools_bytes: int = 1024 * 1024
    """Length of all that one link offers in one session, as JSON."""

    tool_links: int = 64
    """Client links that may offer tools in one session at once."""

    tool_result_bytes: int = 4 * 1024 * 1024
    """Length of what a client gives as the result of a tool that it ran, as JSON; for a bundle of all of it."""

    history_messages: int = 10_000
    """Messages of a history that a client gives at once."""

    history_bytes: int = 8 * 1024 * 1024
    """Length of such a history, as JSON."""

    retention_days: float = 0.0
    """Days after which a closed session's log is dropped; 0 keeps logs for ever."""

    tombstone_days: float = 30.0
    """Days for which a dropped session still answers ``gone`` instead of ``unknown_session``."""
