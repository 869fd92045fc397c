"""Every route of the bridge, for tests that ask something of all of them."""

from __future__ import annotations

ID = "00000000-0000-4000-8000-000000000000"

ROUTES: dict[str, tuple[str, ...]] = {
    "/event": ("POST",),
    "/event/codex": ("POST",),
    "/sessions": ("GET", "POST"),
    "/sessions/refresh": ("POST",),
    "/sessions/cleanup": ("DELETE",),
    f"/sessions/{ID}": ("GET", "PATCH", "DELETE"),
    f"/sessions/{ID}/prompt": ("POST",),
    f"/sessions/{ID}/cancel": ("POST",),
    f"/sessions/{ID}/restart": ("POST",),
    f"/sessions/{ID}/terminal": ("POST",),
    f"/sessions/{ID}/focus": ("POST",),
    f"/sessions/{ID}/permission": ("POST",),
    f"/sessions/{ID}/link": ("POST",),
    f"/sessions/{ID}/files": ("GET",),
    f"/sessions/{ID}/file": ("GET",),
    f"/sessions/{ID}/files/tree": ("GET",),
    "/browse": ("GET",),
    "/tiles": ("GET", "POST"),
    f"/tiles/{ID}": ("PUT", "DELETE"),
    "/projects": ("GET",),
    "/projects/autocomplete": ("GET",),
    "/projects/default": ("GET",),
    "/projects/some/folder": ("DELETE",),
    "/health": ("GET",),
    "/config": ("GET",),
    "/info": ("GET",),
    "/stats": ("GET",),
    "/version.json": ("GET",),
    "/prompt": ("GET", "POST", "DELETE"),
    "/cancel": ("POST",),
    "/tmux-output": ("GET",),
    "/feedback": ("GET", "POST"),
    "/feedback/unprocessed": ("GET",),
    "/feedback/config": ("GET", "PATCH"),
    "/feedback/validation/config": ("GET", "PATCH"),
    f"/feedback/{ID}": ("GET", "PATCH", "DELETE"),
    f"/feedback/{ID}/status": ("GET",),
    f"/feedback/{ID}/screenshot": ("GET",),
}
"""Path -> methods."""

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")

HOOKS = ("/event", "/event/codex")
"""Taken by hand: their errors have no ``ok`` (spec §3.1)."""

EVERY = [(method, path) for path, methods in ROUTES.items() for method in methods]
