"""Tell whose process is whose: what a program started, wherever it moved since."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from .processes import MARKER, Process


class Family:
    """One program and what descends from it. Whoever was met once is remembered: a session outlives its leader.

    Only what provably belongs is told: the very process with the program's pid *and* start time, the members of the
    session that it leads, and whatever carries the ``marker`` in its environment; with ``children`` also the children
    of all these. ``held`` says whether the program's pid cannot have been given to anybody else (it is our child, and
    not reaped); without it, its session counts only as long as one of its proven members is in it.
    """

    def __init__(
        self,
        leader: int | None,
        start: int | None,
        *,
        marker: str | None,
        children: bool = False,
        held: Callable[[], bool] = lambda: False,
    ) -> None:
        self._session = leader
        self._proven = set() if leader is None or start is None else {(leader, start)}
        # A marker that we carry ourselves would name those who started us.
        self._marker = marker if marker and marker != os.environ.get(MARKER) else None
        self._children = children
        self._held = held

    def among(self, rows: Sequence[Process]) -> list[Process]:
        """The rows that belong to the program."""
        mine = [row for row in rows if self._is_proven(row)]
        # The number cannot have been given to another session while one of ours is still in it.
        if self._session is not None and (self._held() or any(row.session == self._session for row in mine)):
            mine = [row for row in rows if row.session == self._session or self._is_proven(row)]
        if self._children:
            mine = _with_descendants(rows, mine)
        self._proven.update((row.pid, row.start) for row in mine)
        return mine

    def _is_proven(self, row: Process) -> bool:
        if (row.pid, row.start) in self._proven:
            return True
        return self._marker is not None and row.marker == self._marker


def _with_descendants(rows: Sequence[Process], known: Sequence[Process]) -> list[Process]:
    family = {row.pid for row in known}
    found = list(known)
    while new := [row for row in rows if row.parent in family and row.pid not in family]:
        found += new
        family.update(row.pid for row in new)
    return found
