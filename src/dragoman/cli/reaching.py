"""What ``attach``, ``sessions`` and ``send`` share: where the server is, and which session is meant."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

from dragoman.client.errors import ClientError, ConnectionLost, Refused
from dragoman.client.hub_http import HubHttp

from .main import complain

DEFAULT_URL = "http://127.0.0.1:7337"

Row = dict[str, Any]


class UnclearSession(Exception):
    """No session, or more than one, is meant by what was typed."""


class Reach:
    """A server as a command reaches it: ``--url`` and ``--token``, else DRAGOMAN_URL and DRAGOMAN_TOKEN."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        url = (arguments.url or os.environ.get("DRAGOMAN_URL") or DEFAULT_URL).rstrip("/")
        self.url = url if urlsplit(url).path else f"{url}/hub"
        self.token: str | None = arguments.token or os.environ.get("DRAGOMAN_TOKEN")
        self.http = HubHttp(self.url, token=self.token)

    async def sessions(self) -> list[Row]:
        """Every session's row, oldest first."""
        rows: list[Row] = (await self.http.get("/sessions"))["sessions"]
        return rows

    async def find(self, beginning: str | None, *, kind: str | None = None) -> Row:
        """The one session whose id begins so; without a beginning, the only live one. Raises ``UnclearSession``."""
        rows = [row for row in await self.sessions() if kind in (None, row["kind"])]
        if beginning is None:
            found = [row for row in rows if row["status"] not in ("exited", "closed")]
        else:
            found = [row for row in rows if row["session"].startswith(beginning)]
        if len(found) == 1:
            return found[0]
        if not found:
            what = f"begins with {beginning!r}" if beginning is not None else "is live"
            raise UnclearSession(f"no session {what} (dragoman sessions lists them)")
        what = f"begin with {beginning!r}" if beginning is not None else "are live"
        raise UnclearSession(f"{len(found)} sessions {what}: {', '.join(row['session'][:8] for row in found[:8])}")


def reach(work: Callable[[Reach], Awaitable[int]], arguments: argparse.Namespace) -> int:
    """Run a command's work; what goes wrong is one line."""
    server = Reach(arguments)

    async def running() -> int:
        return await work(server)

    try:
        return asyncio.run(running())
    except UnclearSession as problem:
        return complain(str(problem))
    except ConnectionLost:
        print(f"dragoman: no server answers at {server.url} (--url, or dragoman serve)", file=sys.stderr)
        return 1
    except Refused as problem:
        hint = " (--token, or DRAGOMAN_TOKEN)" if problem.code == "unauthorized" else ""
        print(f"dragoman: {problem.message}{hint}", file=sys.stderr)
        return 1
    except ClientError as problem:
        print(f"dragoman: {problem}", file=sys.stderr)
        return 1
