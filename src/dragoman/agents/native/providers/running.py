"""The catalogue as it is now: with the model servers that run on this machine, and which name each of them has.

A server has the same name whoever else runs: the usual place of its kind has the kind's name (``ollama``), what
settings put at a URL the name they gave (or several, for several APIs), every other one its kind and port
(``vllm-8001``).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from .catalogue import LOCAL, CatalogueEntry
from .local_servers import LocalServer

_PLACED = re.compile(r"(ollama|lmstudio|vllm|llamacpp|local)-(\d{1,5})")


class Running(msgspec.Struct, frozen=True):
    """``entries`` in the catalogue's order, those of local servers with their models; ``servers`` by the entry's id."""

    entries: tuple[CatalogueEntry, ...]
    servers: dict[str, LocalServer]

    def find(self, name: str) -> CatalogueEntry | None:
        """The provider of that name; for a kind of local server that runs elsewhere than usual, the first of it."""
        entry = next((entry for entry in self.entries if entry.id == name), None)
        if entry is None or not entry.local or name in self.servers:
            return entry
        elsewhere = (other for other in self.entries if other.id.startswith(f"{name}-") and other.id in self.servers)
        return next(elsewhere, entry)

    def window(self, name: str, model: str) -> int:
        """Tokens that a local server says its model takes; 0 where it says nothing."""
        server = self.servers.get(name)
        found = (known.context_window for known in server.models if known.id == model) if server is not None else ()
        return next(iter(found), 0)


def running(catalogue: Sequence[CatalogueEntry], servers: Sequence[LocalServer]) -> Running:
    """``servers`` are those that answered."""
    found = {name: server for server in servers for name in _names(server, catalogue)}
    entries = [_with_models(entry, found.get(entry.id)) for entry in catalogue]
    known = {entry.id for entry in entries}
    more = [_entry(name, server) for name, server in found.items() if name not in known]
    return Running((*entries[:-1], *more, entries[-1]), found)


def placed_port(name: str) -> int | None:
    """The port in a name that a local server somewhere else than usual would have."""
    match = _PLACED.fullmatch(name)
    return int(match[2]) if match is not None else None


def _names(server: LocalServer, catalogue: Sequence[CatalogueEntry]) -> Sequence[str]:
    usual = {entry.id for entry in LOCAL}
    at = [entry.id for entry in catalogue if entry.local and entry.base_url == server.base_url]
    named = [name for name in at if name == server.kind or name not in usual]
    return named or [f"{server.kind}-{server.port}"]


def _entry(name: str, server: LocalServer) -> CatalogueEntry:
    kind = next((entry.name for entry in LOCAL if entry.id == server.kind), "Model server")
    return CatalogueEntry(
        id=name,
        name=f"{kind} on port {server.port}",
        api="openai-chat",
        base_url=server.base_url,
        models=tuple(model.id for model in server.models),
        needs_key=False,
        local=True,
    )


def _with_models(entry: CatalogueEntry, server: LocalServer | None) -> CatalogueEntry:
    if server is None or entry.models:
        return entry
    return msgspec.structs.replace(entry, models=tuple(model.id for model in server.models))
