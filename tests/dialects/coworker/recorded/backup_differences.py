"""Differences in what is said of checkpoints."""

from __future__ import annotations

import copy
from typing import Any

from .recording import Entry, Frame, Note, Received, Sent
from .rewriting import each

STATE = "session_backup_state"

FAILED = frozenset({"error backup_error/backup"})


def restored(name: str, entries: list[Entry]) -> list[Entry]:
    """A restore that failed, or did nothing, brings back what its checkpoint holds; a link alone is no change."""
    if name not in ("session_backup_matrix", "session_backup_real_w4_sub", "session_backup_real_w5"):
        return entries
    folder = _Folder()
    made = [folder.as_restored(entry) for entry in entries]
    return made if name == "session_backup_matrix" else each(made, _links_are_no_change)


class _Folder:
    """What was seen in the folder when each checkpoint was taken."""

    def __init__(self) -> None:
        self._state: Frame = {}
        self._seen: dict[str, str] = {}
        self._wanted = ""

    def as_restored(self, entry: Entry) -> Entry:
        match entry:
            case Sent(dict(message), _):
                self._wanted = message.get("checkpointId", "")
            case Received(frame) if frame["type"] == "error":
                assert frame["message"].startswith("restore failed: "), frame
                self._state = {**self._state, "reason": "restore"}
                return Received(copy.deepcopy(self._state))
            case Received(frame) if frame["type"] == STATE:
                self._state = frame
            case Note(text) if text.startswith("tree: "):
                return Note(self._tree(text))
        return entry

    def _tree(self, seen: str) -> str:
        if self._state["reason"] == "manual_checkpoint":
            self._seen[self._state["backup"]["checkpoints"][-1]["id"]] = seen
        return self._seen.get(self._wanted, seen) if self._state["reason"] == "restore" else seen


def _links_are_no_change(frame: Frame) -> None:
    for checkpoint in frame["backup"]["checkpoints"][:1] if frame["type"] == STATE else ():
        checkpoint["changed"] = False
        checkpoint["patchBytes"] = 0


def numbered(name: str, entries: list[Entry]) -> list[Entry]:
    """Numbers go up and are never given twice. What a restore saves of the folder before it has one, too."""
    numbers = _Numbers()
    return [numbers.renamed(entry) for entry in entries] if name.startswith("session_backup") else entries


class _Numbers:
    def __init__(self) -> None:
        self._last = 0
        self._ours: dict[str, str] = {}
        """By the time of a checkpoint: two of the original's may have one id."""
        self._named: dict[str, str] = {}

    def renamed(self, entry: Entry) -> Entry:
        match entry:
            case Sent(dict(message), _) if message.get("checkpointId") in self._named:
                return Sent({**message, "checkpointId": self._named[message["checkpointId"]]})
            case Received(frame) if frame["type"] == STATE:
                frame = copy.deepcopy(frame)
                self._last += frame["reason"] == "restore"
                for checkpoint in frame["backup"]["checkpoints"]:
                    self._rename(checkpoint)
                return Received(frame)
        return entry

    def _rename(self, checkpoint: dict[str, Any]) -> None:
        made = checkpoint["createdAt"]
        if made not in self._ours:
            self._last += 1
            self._ours[made] = self._named[checkpoint["id"]] = f"cp-{self._last:04}"
        checkpoint["id"] = self._ours[made]
        checkpoint["index"] = int(checkpoint["id"].removeprefix("cp-"))


def in_place(name: str, entries: list[Entry]) -> list[Entry]:
    """Where the folder is the home, its checkpoints are left out of themselves instead of put elsewhere."""
    if name != "session_backup_home_is_workdir":
        return entries

    def change(frame: Frame) -> None:
        if frame["type"] == STATE:
            backup = frame["backup"]
            backup["backupDirectory"] = backup["backupDirectory"].replace("/tmp/cowork-", "/project/.cowork/")

    return each(entries, change)
