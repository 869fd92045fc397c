"""The tools that the server itself runs for a conversation, as links are told of them (spec §3, start-up events)."""

from __future__ import annotations

from .host import Host
from .messages import RemoteTool, RemoteToolCatalog
from .projection import WEB_SEARCH

DESCRIPTION = "Search the web. Gives a numbered list of pages: title, URL and what they say about it."


def remote_tools(host: Host) -> RemoteToolCatalog:
    """One entry: web search, and why it cannot be used where it cannot."""
    problem = host.search_problem()
    search = RemoteTool(
        name=WEB_SEARCH,
        description=DESCRIPTION,
        enabled=problem is None,
        available=problem is None,
        reason_unavailable=problem,
    )
    return RemoteToolCatalog(remote_tools=(search,))
