"""Where dialects are mounted: which one a path belongs to, and where each one's WebSocket is."""

from __future__ import annotations

from collections.abc import Sequence

from dragoman.dialects.base import Dialect


class Mounts:
    """Every dialect lies below its prefix (``/NAME/...``), and ``root``, if any, at the root as well.

    ``front``'s WebSocket has its path without a prefix, too, to the letter. That path and prefixes win over a root
    dialect, except over its own WebSocket: whoever asks for a root dialect wants that address for it.
    """

    def __init__(self, dialects: Sequence[Dialect], *, root: str | None = None, front: str | None = None) -> None:
        self._dialects = {dialect.name: dialect for dialect in dialects}
        self._root = self._dialects[root] if root is not None else None
        self._exact: dict[str, Dialect] = {}
        if front is not None:
            first = self._dialects[front]
            self._exact[first.websocket] = first
        if self._root is not None:
            self._exact[self._root.websocket] = self._root

    def find(self, path: str) -> tuple[Dialect | None, str]:
        """The dialect that serves ``path``, and what of the path lies below its root; None where nobody does."""
        if path in self._exact:
            return self._exact[path], path
        name, _, rest = path[1:].partition("/")
        dialect = self._dialects.get(name)
        if dialect is not None and path != f"/{name}":
            return dialect, f"/{rest}"
        return self._root, path

    def websockets(self) -> dict[str, str]:
        """Dialect name -> path of its WebSocket, the short one where it has one."""
        return {
            name: ("" if self._exact.get(dialect.websocket) is dialect else f"/{name}") + dialect.websocket
            for name, dialect in self._dialects.items()
        }
