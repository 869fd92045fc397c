"""``/projects``: folders to begin a session in (spec §3.4). What is completed stays inside known folders."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from starlette.responses import Response
from starlette.routing import Route

from dragoman.hub.permissions import Right
from dragoman.services.workspace.inside import Inside, OutsideError

from . import folder_lists
from .calls import Call, Problem, ok, resource
from .folder_lists import Budget
from .host import Host

DEFAULT_LIMIT = 15
MOST = 100
QUERY_CHARS = 4096


def project_routes(host: Host) -> list[Route]:
    """See the module."""
    return [
        resource(host, "/projects", GET=listed),
        resource(host, "/projects/autocomplete", GET=completed),
        resource(host, "/projects/default", GET=default),
        resource(host, "/projects/{path:path}", DELETE=forgotten),
    ]


async def listed(call: Call) -> Response:
    """The newest first."""
    return ok(projects=await call.host.projects.all() if call.principal.only is None else [])


async def default(call: Call) -> Response:
    """Where a session was started last, if that is still there; else the server's own folder."""
    kept = await call.host.projects.all() if call.principal.only is None else []
    known = {str(each) for each in await call.host.known.all(call.principal)}
    last = next((project.path for project in kept if project.path in known), str(call.host.folder))
    return ok(path=last)


async def completed(call: Call) -> Response:
    """Folders that ``q`` may be the beginning of, or a part of the name of. Those on disk come first where it ends in
    ``/``, which asks for what lies there; known ones else."""
    limit, asked = min(call.number("limit", DEFAULT_LIMIT), MOST), (call.query("q") or "").strip()
    if "\0" in asked or len(asked) > QUERY_CHARS:
        raise Problem(400, "q is no path")
    known = await call.host.known.all(call.principal)
    inside = await call.host.known.inside(known)
    budget = Budget(call.host.settings.folder_entries)
    suggestions = await call.host.disk.run(lambda: _completed(map(str, known), inside, asked, budget))
    return ok(suggestions=suggestions[:limit])


async def forgotten(call: Call) -> Response:
    """It is listed no more until it is used again. Nothing happens to the folder."""
    call.check(Right.WRITE)
    folder = "/" + str(call.request.path_params["path"]).lstrip("/")
    if not await call.host.projects.forget(folder):
        raise Problem(404, "Project not found")
    return ok()


def _completed(known: Iterable[str], inside: Inside, asked: str, budget: Budget) -> list[str]:
    written = os.path.expanduser(asked) if asked == "~" or asked.startswith("~/") else asked  # noqa: PTH111
    wanted = written.rstrip("/").casefold() or written
    fitting = [path for path in known if wanted in path.casefold()]
    found = _on_disk(inside, written, budget) if written.startswith("/") else []
    both = (*found, *fitting) if written.endswith("/") else (*fitting, *found)
    return list(dict.fromkeys(both))


def _on_disk(inside: Inside, written: str, budget: Budget) -> list[str]:
    """Folders on disk whose paths begin so."""
    folder, _, begun = written.rpartition("/")
    above = Path(os.path.normpath(folder or "/"))
    try:
        found = folder_lists.listed(inside, above, budget)
    except (OutsideError, OSError, ValueError):
        return []
    return [
        each.path for each in found if each.type == "directory" and each.name.casefold().startswith(begun.casefold())
    ]
