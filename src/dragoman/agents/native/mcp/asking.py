"""Asking a person whether a server that a project wants may be used: the question names exactly what would be run."""

from __future__ import annotations

import shlex

from dragoman.hub.events import DecisionOpened, Json, Option
from dragoman.hub.workspace_config import McpServer

from .hiding import shown_url

TOOL = "mcp"
"""``decision.opened.tool`` of these questions."""

LONGEST = 4000
"""Characters of a command line that a person can be asked about; with a longer one a server is not had."""


def shown_place(entry: McpServer) -> str:
    """The command line, or the URL without what may be secret; on one line, whatever characters it is made of."""
    place = shlex.join([entry.command, *entry.args]) if entry.transport == "stdio" else shown_url(entry.url)
    return "".join(each if each.isprintable() else each.encode("unicode_escape", "replace").decode() for each in place)


def question(entry: McpServer, *, decision: str, mark: str, cwd: str) -> DecisionOpened:
    """The question. It belongs to no turn: none is held up by it, and none takes it along when it ends."""
    given: dict[str, Json] = {"server": entry.name, "transport": entry.transport, "place": shown_place(entry)}
    if entry.transport == "stdio":
        given |= {"cwd": entry.cwd or cwd, "environment": sorted(entry.env)}
    else:
        given |= {"headers": sorted(entry.headers)}
    return DecisionOpened(
        decision=decision,
        kind="permission",
        text=_with_environment(entry),
        tool=TOOL,
        input=given,
        options=(
            Option("Yes, for this session", "session"),
            Option("Yes, always for this server here", f"rule:{for_good(mark)}"),
            Option("No", "deny"),
        ),
        dangerous=entry.transport == "stdio",
        reason="project_mcp_server",
        detail={"grant": rule(mark), "title": f"This project wants to use the MCP server {entry.name}"},
    )


def _with_environment(entry: McpServer) -> str:
    """The place, with the variables that are set for it, without what they hold: with a ``PATH`` of the project's own
    a harmless command line is another program."""
    names = (name if name.isprintable() else ascii(name) for name in sorted(entry.env))
    return " ".join([*(f"{name}=…" for name in names), shown_place(entry)])


def rule(mark: str) -> str:
    """What a session's grants hold of a server that was permitted."""
    return f"mcp-server({mark})"


def for_good(mark: str) -> str:
    """The same, where the permission holds in other sessions too."""
    return f"{rule(mark)}:always"
