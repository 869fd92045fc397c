"""Which folders may be looked into (spec §3.3, §3.4; design §7).

Known are the server's own workplace, the folders that the settings name, those in which sessions were started here, and
those of the person's own agents elsewhere, which say so through the person's own socket. Whoever may post a hook by
HTTP or into a file can name any folder: that alone opens nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from pathlib import Path

from dragoman.hub.journal import SessionRow
from dragoman.hub.permissions import Principal
from dragoman.hub.real_path import real_path
from dragoman.hub.registry import Registry
from dragoman.services.workspace.inside import Inside

from .disk import Disk
from .projects import Projects
from .settings import CinSettings

ELSEWHERE = "hooked"
"""The kind of sessions of agents that were not started here."""


class KnownFolders:
    """See the module. ``private`` folders are the server's own, and in no known one."""

    def __init__(
        self,
        registry: Registry,
        settings: CinSettings,
        projects: Projects,
        disk: Disk,
        *,
        folder: Path,
        private: Sequence[Path],
    ) -> None:
        self._registry = registry
        self._projects = projects
        self._disk = disk
        self._private = tuple(private)
        self._fixed = (folder, *(Path(each).expanduser() for each in settings.projects))

    async def all(self, principal: Principal) -> list[Path]:
        """Every known folder that is there, and known to this principal, each once: real paths, projects first."""
        kept = [project.path for project in await self._projects.all()] if principal.only is None else []
        sessions = [row.cwd for row in self._registry.rows(principal) if _vouched(row)]
        return await self._disk.run(lambda: _real((*kept, *sessions), self._fixed))

    async def inside(self, known: Iterable[Path]) -> Inside:
        """What opens things in known folders."""
        return await self._disk.run(lambda: Inside(known, private=self._private))

    async def inside_of(self, principal: Principal, row: SessionRow) -> Inside | None:
        """What opens things in the folder of a session; None where that folder is not known."""
        folder = Path(row.cwd)
        known = [] if _vouched(row) else await self.all(principal)

        def found() -> Inside | None:
            if not _vouched(row) and not any(folder.is_relative_to(each) for each in known):
                return None
            return Inside([folder], private=self._private)

        return await self._disk.run(found)


def _vouched(row: SessionRow) -> bool:
    """Whether whoever made the session may look into its folder anyway. The whole system is nobody's folder."""
    own = row.kind != ELSEWHERE or (row.detail.get("vouched") is True and row.cwd != "/")
    return own and row.status != "closed"


def _real(written: Iterable[str], fixed: Iterable[Path]) -> list[Path]:
    """Those of sessions were real paths when they were begun, and have to be so still: an agent may have put a link in
    the place of its folder. What the person who runs the server names may be a link."""
    found: dict[Path, None] = {}
    for each in map(Path, dict.fromkeys(written)):
        with contextlib.suppress(OSError, ValueError):
            if each.is_dir() and real_path(each) == each:
                found[each] = None
    for each in fixed:
        with contextlib.suppress(OSError, ValueError):
            if (real := real_path(each)).is_dir():
                found[real] = None
    return list(found)
