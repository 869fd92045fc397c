"""Settings of checkpoints (``[checkpoints]``): where they lie, how much they may take, and how hard to try."""

from __future__ import annotations

import msgspec


class CheckpointSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Saving sessions' workspaces. Times are seconds, sizes bytes."""

    folder: str = "~/.cowork/session-backups"
    """Where checkpoints lie. It is left out of every checkpoint, should it lie in a workspace."""

    private: tuple[str, ...] = (".co",)
    """Names at the top of a workspace that are neither saved nor restored."""

    quota: int = 20 * 1024 * 1024 * 1024
    """All that is kept, of all sessions, as it lies on disk. Above it, a session's oldest checkpoints but its first go;
    where that is not enough, nothing new is taken."""

    spare: int = 256 * 1024 * 1024
    """Left free on the disk, but no more than a fiftieth of it; what would need more than that leaves is not taken."""

    per_session: int = 100
    """Checkpoints of one session beside its first; the oldest go."""

    walks: int = 8
    """Looks at a workspace until two of them find the same; one that never stands still cannot be saved."""

    walk_pause: float = 0.05
    """Before the third and each further look: time for whoever writes there to finish."""

    files: int = 200_000
    """Files and folders of a workspace; a larger one, somebody's whole home say, cannot be saved."""

    depth: int = 200
    """Folders within folders; a deeper workspace cannot be saved."""

    chunk: int = 4 * 1024 * 1024
    """Large files are read, kept and shared in pieces of this size."""

    threads: int = 4
    """Workspaces that are saved or restored at once; others wait."""

    lock_seconds: float = 30.0
    """Wait for another server that keeps its checkpoints in the same folder."""

    sweep_seconds: float = 2.0
    """Wait until nothing is being saved, for throwing away what nobody needs; else that is left to the next time."""

    sync: bool = True
    """Whether what is written is on disk before it counts. Without it a power cut may cost checkpoints."""
