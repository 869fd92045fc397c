"""The state of a session's checkpoints on the wire, from facts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from dragoman.dialects.coworker.backups import backup_state, failure_reason, session_backup_state
from dragoman.dialects.coworker.messages import encode
from dragoman.dialects.coworker.workspace_messages import Backup
from dragoman.hub.events import (
    AnyFact,
    CheckpointDeleted,
    CheckpointRestored,
    CheckpointTaken,
    Event,
    Json,
    SessionClosed,
    SessionCreated,
    SettingsChanged,
)
from dragoman.hub.state import SessionState

from .recordings import names, received, recorded

FOLDER = Path("/home/user/.cowork/session-backups/s")
START = 1_770_000_000_000


def folded(*facts: AnyFact, settings: dict[str, Json] | None = None) -> SessionState:
    """The state after these facts, a second apart."""
    wanted: dict[str, Json] = {"checkpoints": True} if settings is None else settings
    created = SessionCreated(kind="native", agent="native", cwd="/project", title="", owner="me", settings=wanted)
    state = SessionState("s")
    for seq, fact in enumerate((created, *facts), 1):
        state.apply(Event(seq=seq, at=START + seq * 1000, epoch="e", fact=fact))
    return state


def taken(number: int, trigger: Any = "manual", *, problem: str | None = None, **more: Any) -> CheckpointTaken:
    return CheckpointTaken(checkpoint=f"cp-{number:04}", trigger=trigger, problem=problem, **more)


INITIAL = taken(0, "initial", changed=False, size=5000)


def listed(backup: Backup) -> list[tuple[str, int]]:
    return [(saved.id, saved.index) for saved in backup.checkpoints]


def test_until_the_original_is_there() -> None:
    backup = backup_state(folded(), FOLDER)
    assert (backup.status, backup.original_snapshot.kind) == ("initializing", "pending")
    assert (backup.backup_directory, backup.checkpoints, backup.failure_reason) == (None, (), msgspec.UNSET)
    assert backup.created_at == "2026-02-02T02:40:01.000Z"


def test_once_it_is() -> None:
    state = folded(INITIAL, taken(1, "auto", changed=True, size=147), taken(2, "manual", changed=False, size=99))
    assert msgspec.json.decode(encode(session_backup_state(state, FOLDER, "manual_checkpoint"))) == {
        "type": "session_backup_state",
        "sessionId": "s",
        "reason": "manual_checkpoint",
        "backup": {
            "status": "ready",
            "sessionId": "s",
            "workingDirectory": "/project",
            "backupDirectory": "/home/user/.cowork/session-backups/s",
            "createdAt": "2026-02-02T02:40:02.000Z",
            "originalSnapshot": {"kind": "directory"},
            "checkpoints": [
                {
                    "id": "cp-0001",
                    "index": 1,
                    "createdAt": "2026-02-02T02:40:03.000Z",
                    "trigger": "auto",
                    "changed": True,
                    "patchBytes": 147,
                },
                {
                    "id": "cp-0002",
                    "index": 2,
                    "createdAt": "2026-02-02T02:40:04.000Z",
                    "trigger": "manual",
                    "changed": False,
                    "patchBytes": 0,
                },
            ],
        },
    }


def test_only_those_that_a_person_can_go_back_to_are_listed() -> None:
    state = folded(
        INITIAL,
        taken(1),
        taken(2, problem="the disk is full"),
        taken(3, "safety"),
        CheckpointRestored(checkpoint="cp-0001", by="me"),
        taken(4, "auto"),
    )
    assert listed(backup_state(state, FOLDER)) == [("cp-0001", 1), ("cp-0004", 4)]


def test_no_number_is_used_twice() -> None:
    """Known defect 34 of the original: after one of three was deleted the next one was the third again."""
    state = folded(INITIAL, taken(1), taken(2), taken(3), CheckpointDeleted(checkpoint="cp-0001", by="me"), taken(4))
    assert listed(backup_state(state, FOLDER)) == [("cp-0002", 2), ("cp-0003", 3), ("cp-0004", 4)]


def test_an_original_that_could_not_be_taken() -> None:
    state = folded(taken(0, "initial", problem="no space left on the device"))
    backup = backup_state(state, FOLDER)
    assert msgspec.json.decode(msgspec.json.encode(backup)) == {
        "status": "failed",
        "sessionId": "s",
        "workingDirectory": "/project",
        "backupDirectory": None,
        "createdAt": "2026-02-02T02:40:02.000Z",
        "originalSnapshot": {"kind": "pending"},
        "checkpoints": [],
        "failureReason": "session backup initialization failed: no space left on the device",
    }
    assert failure_reason(state, FOLDER) == backup.failure_reason


def test_one_that_was_taken_in_the_end() -> None:
    state = folded(
        taken(0, "initial", problem="no space left on the device"),
        taken(1, "initial"),
        CheckpointDeleted(checkpoint="cp-0000"),
        taken(2),
    )
    backup = backup_state(state, FOLDER)
    assert (backup.status, backup.created_at, listed(backup)) == ("ready", "2026-02-02T02:40:03.000Z", [("cp-0002", 2)])
    assert failure_reason(state, FOLDER) is None


@pytest.mark.parametrize("settings", [{}, {"checkpoints": False}])
def test_a_session_that_is_not_to_be_saved_does_not_wait_for_it(settings: dict[str, Json]) -> None:
    backup = backup_state(folded(settings=settings), FOLDER)
    assert (backup.status, backup.failure_reason) == (
        "failed",
        "session backup initialization failed: the setting checkpoints of this session is off",
    )
    assert backup_state(folded(INITIAL, settings=settings), FOLDER).status == "ready"
    assert backup_state(folded(SettingsChanged(changes={"checkpoints": True}), settings={}), FOLDER).status == (
        "initializing"
    )


def test_a_session_that_was_closed_before_it_was_saved_does_not_wait_for_it() -> None:
    assert backup_state(folded(), FOLDER).status == "initializing"
    backup = backup_state(folded(SessionClosed(reason="closed")), FOLDER)
    assert (backup.status, backup.failure_reason) == (
        "failed",
        "session backup initialization failed: the session was closed before it was done",
    )
    assert backup_state(folded(INITIAL, SessionClosed(reason="closed")), FOLDER).status == "ready"


def test_a_server_that_keeps_none() -> None:
    for state in (folded(), folded(INITIAL, taken(1))):
        backup = backup_state(state, None)
        assert (backup.status, backup.backup_directory, backup.checkpoints) == ("failed", None, ())
        assert backup.failure_reason == "session backup initialization failed: this server keeps no checkpoints"


@recorded
@pytest.mark.parametrize("name", [name for name in names() if name.startswith("session_backup")])
def test_recorded_states_have_our_shape(name: str) -> None:
    """Each recorded state, told as facts, comes out as it was: each field but the times, and no field beyond."""
    frames = received(name, "session_backup_state")
    assert frames
    for frame in frames:
        backup = frame["backup"]
        if len({saved["id"] for saved in backup["checkpoints"]}) < len(backup["checkpoints"]):
            continue  # known defect 34: an id that was given twice
        folder = None if backup["backupDirectory"] is None else Path(backup["backupDirectory"])
        told = msgspec.json.decode(encode(session_backup_state(as_folded(backup), folder or FOLDER, frame["reason"])))
        assert without_times(told) == without_times(frame)


def as_folded(backup: dict[str, Any]) -> SessionState:
    prefix = "session backup initialization failed: "
    problem = backup.get("failureReason", "").removeprefix(prefix) or None
    facts: list[AnyFact] = [taken(0, "initial", problem=problem)]
    for saved in backup["checkpoints"]:
        while len(facts) < saved["index"]:
            facts += [taken(len(facts), "safety")]
        facts.append(
            taken(saved["index"], saved["trigger"], changed=saved["changed"], size=saved["patchBytes"]),
        )
    state = folded(*facts)
    state.session, state.cwd = backup["sessionId"], backup["workingDirectory"]
    return state


def without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_times(inner) for key, inner in value.items() if key != "createdAt"}
    return [without_times(inner) for inner in value] if isinstance(value, list) else value
