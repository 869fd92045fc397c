"""Settings of the ``[runs]`` section: the caps, leases and sizes of runs on workers."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

CAP_VARIABLE = "WINDIE_VM_MAX_ACTIVE_RUNS_PER_WORKSPACE"
"""Windie's own name for ``max_active_per_workspace``."""

_WHOLE = re.compile(r"[0-9]{1,9}", re.ASCII)


class RunsSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Caps, leases and sizes of runs. What ends in ``_seconds`` is seconds, in ``_bytes`` bytes of JSON."""

    max_active_per_workspace: int = 1
    """Runs of a workspace that are not finished; one more is refused."""

    lease_seconds: float = 60.0
    """From its assignment to its dispatch; then the run is given to whichever worker asks next."""

    again_seconds: float = 5.0
    """After so long a worker that has not dispatched its run is given it again: the answer may have been lost.
    Sooner, overlapping heartbeats of one worker would have it begin twice."""

    worker_lost_seconds: float = 120.0
    """How long the worker of a dispatched run may be silent before it counts as lost."""

    restart_grace_seconds: float = 30.0
    """After a start nobody counts as lost for so long: while the server was away, no worker could be heard."""

    default_events: int = 200
    """Events in one answer, where the client names no limit."""

    most_events: int = 1000
    """The largest limit that a client may name."""

    longest_wait_seconds: float = 30.0
    """How long a poll for events waits at most."""

    most_waiting: int = 1000
    """Polls that wait at once; one more is answered at once."""

    events_per_run: int = 100_000
    """Events in the log of one run, after which no worker can add to it."""

    query_bytes: int = 256 * 1024
    """Of what a run is to do."""

    payload_bytes: int = 1024 * 1024
    """Of one event of a worker's."""

    metadata_bytes: int = 64 * 1024
    """Of the metadata of a run, or of a worker."""

    files_bytes: int = 64 * 1024
    """Of what a run says of its files."""

    most_files: int = 64
    """Files of one run."""

    name_characters: int = 512
    """Characters of an id, a name or a word."""

    runs_kept: int = 10_000
    """Runs in the store; for one more the oldest finished one goes, and if none is finished it is refused."""

    retention_days: float = 30.0
    """After so long a finished run goes, with its log."""

    def __post_init__(self) -> None:
        """Raises ``ValueError`` for a setting with which nothing could run."""
        for name in ("max_active_per_workspace", "most_events", "default_events", "events_per_run", "runs_kept"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be 1 or more")
        if self.default_events > self.most_events:
            raise ValueError(f"default_events is {self.default_events}, more than most_events, {self.most_events}")
        for name in ("lease_seconds", "worker_lost_seconds", "retention_days"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be more than 0")


def with_environment(settings: RunsSettings, environment: Mapping[str, str]) -> RunsSettings:
    """The settings with windie's own variable for the cap, if it is set (windie spec §9, §11 bug 26).

    Raises ``ValueError`` for anything but a whole number from 1: ``2500ms`` is not 2500.
    """
    given = environment.get(CAP_VARIABLE)
    if given is None:
        return settings
    if not _WHOLE.fullmatch(given) or int(given) < 1:
        raise ValueError(f"{CAP_VARIABLE} is {given!r}; it must be a whole number, 1 or more")
    return msgspec.structs.replace(settings, max_active_per_workspace=int(given))
