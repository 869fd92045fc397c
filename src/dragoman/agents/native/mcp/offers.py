"""The tools that servers list, as a model may be given them: with names of their own, and not too many."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from dragoman.agents.native.tools.found import FoundTool

from .names import tool_name
from .port import ListedTool
from .schema import UnusableSchema, usable_schema
from .server import Say, Server
from .settings import McpSettings
from .tool import McpTool

_MOST_NAMES = 4096
"""Names that are remembered of a session's tools; a server may list new ones for ever."""

_MOST_TOLD = 200
"""Lines that are written about a session's tools."""


class Offers:
    """For one session. A tool keeps its name as long as nobody else has it; what is left out is said once."""

    def __init__(self, settings: McpSettings, say: Say) -> None:
        self._settings = settings
        self._say = say
        self._names: dict[tuple[str, str], str] = {}
        self._told: set[str] = set()
        self._tools: dict[str, McpTool] = {}

    @property
    def names(self) -> Collection[str]:
        """The names that were given out last."""
        return self._tools.keys()

    def made(self, servers: Iterable[tuple[Server, str]], taken: Collection[str]) -> Mapping[str, FoundTool]:
        """The tools of these servers, each with the mark of its entry, by names that are none of ``taken``."""
        tools: dict[str, McpTool] = {}
        for server, mark in servers:
            for listed in _each_once(server.tools):
                if len(tools) >= self._settings.tools:
                    self._tell(f"Left out tools of {server.entry.name}: {len(tools)} are taken (native.mcp.tools)")
                    break
                self._add(tools, server, mark, listed, taken)
        self._tools = tools
        return tools

    def _add(
        self, tools: dict[str, McpTool], server: Server, mark: str, listed: ListedTool, taken: Collection[str]
    ) -> None:
        known = self._tools.get(self._names.get((server.entry.name, listed.name), ""))
        if known is not None and known.name not in taken and known.is_of(server, listed):
            tools[known.name] = known  # each step asks, and there is much to look at in a schema
            return
        try:
            schema = usable_schema(listed.schema, self._settings.schema_bytes)
        except UnusableSchema as problem:
            self._tell(f"Left out {listed.name[:100]} of {server.entry.name}: {problem}")
            return
        name = self._name(server.entry.name, listed.name, taken)
        tools[name] = McpTool(server, listed, name=name, schema=schema, mark=mark, settings=self._settings)

    def _name(self, server: str, tool: str, taken: Collection[str]) -> str:
        name = self._names.get((server, tool))
        if len(self._names) > _MOST_NAMES:
            self._names.clear()
        if name is None or name in taken:
            others = {given for whose, given in self._names.items() if whose != (server, tool)}
            name = self._names[server, tool] = tool_name(server, tool, others.union(taken))
            if name != f"mcp__{server}__{tool}":
                self._tell(f"{tool[:100]} of {server} is called {name}")
        return name

    def _tell(self, line: str) -> None:
        if line not in self._told and len(self._told) < _MOST_TOLD:
            self._told.add(line)
            self._say(line, "warning")


def _each_once(tools: Iterable[ListedTool]) -> list[ListedTool]:
    """One of each name, the first: a call says nothing but the name."""
    found: dict[str, ListedTool] = {}
    for tool in tools:
        found.setdefault(tool.name, tool)
    return list(found.values())
