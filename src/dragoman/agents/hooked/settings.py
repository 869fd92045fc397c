"""Settings of sessions that exist through hooks only (``[hooked]``). Times are seconds."""

from __future__ import annotations

from pathlib import Path

import msgspec


class HookedSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is believed of an agent that runs elsewhere, and for how long."""

    socket: str = ""
    """Path of the unix socket that installed hooks post to, 0600; empty means ``hooks.sock`` in the data folder."""

    links: int = 256
    """Installed hooks that are heard at once; the others wait their turn. Half of them may wait for an answer."""

    answer_seconds: float = 600.0
    """For which a permission's hook waits for an answer. Then it prints nothing, and the agent asks by itself."""

    answer_blocking: float = 60.0
    """The same for an agent that shows no dialog of its own meanwhile (Codex, Claude Code without a terminal). It waits
    only while somebody is there who could answer."""

    silence: float = 120.0
    """After which an agent whose process lives, and that works by its own account, but in no tool call, is taken to be
    idle."""

    settles: float = 3.0
    """After a session's start, with nothing else said, until the agent is taken to be idle."""

    gone_working: float = 120.0
    """Without a sign of life until an agent at work is taken to be gone, where its process is not known."""

    gone_idle: float = 300.0
    """The same for one that is not at work."""

    gone_codex: float = 1800.0
    """The same for Codex, whose rollout alone was seen."""

    look: float = 0.5
    """Between two looks at the session log of an agent at work, and at the events file."""

    discover: float = 2.0
    """Between two searches for session logs of agents that have no hooks of ours."""

    watch: tuple[str, ...] = ("claude", "codex")
    """Agents whose session logs are watched for in the user's folders, whether or not they have hooks."""

    watch_hours: float = 0.5
    """Age up to which a session log that was there before the server is taken for one of a session that still runs."""

    search_files: int = 500
    """Session logs that are looked at in one search, beside those in folders that changed; the next goes on there."""

    logs: int = 1000
    """Session logs that are followed at once; beyond that the quietest is left."""

    log_behind: int = 16 * 1024 * 1024
    """Bytes that were written to a session log while the server was down and are still read; beyond that none are."""

    events_file: str = ""
    """A file of hook posts, one JSON object a line, that scripts append to; what is appended from now on is taken in.
    Empty: none."""

    forget: float = 3600.0
    """After its end until a session leaves the list. Its log stays until retention."""

    sessions: int = 500
    """Sessions of agents elsewhere that are open at once; a further one is not made."""

    posts_waiting: int = 1000
    """Posts that may wait for the disk at once; a further one is refused."""

    def socket_path(self, data: Path) -> Path:
        """Where installed hooks post to, absolute; ``data`` is the data folder."""
        return Path(self.socket).expanduser().absolute() if self.socket else data.absolute() / "hooks.sock"
