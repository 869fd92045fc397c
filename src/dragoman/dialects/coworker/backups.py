"""The checkpoints of a session's folder as this protocol has them (seed: ``SessionBackupState``): from the fold.

The first image is the *original*: it is listed nowhere, and going back without a checkpoint's name goes back to it.
Those that only guard a restore are the hub's own, and one that failed holds nothing: neither is listed.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from msgspec import UNSET

from dragoman.hub.clock import iso_time
from dragoman.hub.standing import SavedCheckpoint
from dragoman.hub.state import SessionState
from dragoman.hub.workspace import WANTED

from . import workspace_messages as around

_FAILED = "session backup initialization failed: "
_NONE_KEPT = "this server keeps no checkpoints"
_NONE_BEFORE_THE_END = "the session was closed before it was done"
_NONE_WANTED = f"the setting {WANTED} of this session is off"


def session_backup_state(
    state: SessionState, folder: Path | None, reason: around.BackupReason
) -> around.SessionBackupState:
    """All of it, and why it is told. ``folder`` is ``Session.checkpoint_folder``."""
    return around.SessionBackupState(session_id=state.session, reason=reason, backup=backup_state(state, folder))


def backup_state(state: SessionState, folder: Path | None) -> around.Backup:
    """``initializing`` until the original is there; ``failed`` where there will be none unless somebody asks again."""
    original, failure = state.first_checkpoint, failure_reason(state, folder)
    first = original or next(_initial(state), None)
    ready = original is not None and failure is None
    return around.Backup(
        status="failed" if failure is not None else "ready" if ready else "initializing",
        session_id=state.session,
        working_directory=state.cwd,
        backup_directory=str(folder) if ready else None,
        created_at=iso_time(first.at if first is not None else state.created_at),
        original_snapshot=around.OriginalSnapshot(kind="directory" if ready else "pending"),
        checkpoints=tuple(_listed(state)) if ready else (),
        failure_reason=UNSET if failure is None else failure,
    )


def failure_reason(state: SessionState, folder: Path | None) -> str | None:
    """Why the session has no original; None where it has one, or where one is to be taken still."""
    if folder is None:
        return _FAILED + _NONE_KEPT
    if state.first_checkpoint is not None:
        return None
    failed = next(_initial(state), None)
    if failed is not None:
        return f"{_FAILED}{failed.problem}"
    if state.settings.get(WANTED) is not True:
        return _FAILED + _NONE_WANTED
    return None if state.closed is None else _FAILED + _NONE_BEFORE_THE_END


def _initial(state: SessionState) -> Iterator[SavedCheckpoint]:
    return (saved for saved in state.checkpoints.values() if saved.trigger == "initial")


def _listed(state: SessionState) -> Iterator[around.Checkpoint]:
    for saved in state.checkpoints.values():
        if saved.problem is None and (saved.trigger == "auto" or saved.trigger == "manual"):  # noqa: PLR1714 mypy
            yield around.Checkpoint(
                id=saved.checkpoint,
                index=saved.number,
                created_at=iso_time(saved.at),
                trigger=saved.trigger,
                changed=saved.changed,
                # What an unchanged one takes on disk is the list of what is in it, no patch.
                patch_bytes=saved.size if saved.changed else 0,
            )
