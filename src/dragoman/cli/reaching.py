"""What all commands that use a server share: where it is, which session is meant, and what is said when it fails.

A server that is named is the only one that is asked. Else it is the one at the port of the settings, else the one that
holds the data folder of the settings.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from dragoman.client.errors import ClientError, ConnectionLost, Refused
from dragoman.client.hub_http import HubHttp
from dragoman.hub.folder import Holder
from dragoman.server.settings import Settings, default_file, load

from .main import complain

Row = dict[str, Any]


class UnclearSession(Exception):
    """No session, or more than one, is meant by what was typed."""


class Reach:
    """A server as a command reaches it; ``note`` is a line that says which it is, where that is worth a word."""

    def __init__(self, url: str, token: str | None, *, note: str = "") -> None:
        url = url.rstrip("/")
        self.url = url if urlsplit(url).path else f"{url}/hub"
        self.token = token
        self.note = note
        self.http = HubHttp(self.url, token=token)

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
            which = f"{kind} session" if kind is not None else "session"
            what = f"begins with {beginning!r}" if beginning is not None else "is live"
            hint = "; dragoman chat --session ID takes up any" if kind is not None else ""
            raise UnclearSession(f"no {which} {what} (dragoman sessions lists them{hint})")
        what = f"begin with {beginning!r}" if beginning is not None else "are live"
        raise UnclearSession(f"{len(found)} sessions {what}: {', '.join(row['session'][:8] for row in found[:8])}")


def reach(
    work: Callable[[Reach], Awaitable[int]],
    arguments: argparse.Namespace,
    *,
    otherwise: Callable[[Settings], Awaitable[int]] | None = None,
) -> int:
    """Run a command's work; what goes wrong is one line. ``otherwise`` is what it does where no server runs.

    Raises ``SettingsError``, unless a server is named.
    """
    named = _named(arguments)
    settings = None if named is not None else load(default_file(os.environ), os.environ, {})

    async def running() -> int:
        server = named
        if settings is not None and (server := await _running(settings, arguments.token)) is None:
            return _none(settings) if otherwise is None else await otherwise(settings)
        assert server is not None
        try:
            return await work(server)
        except ConnectionLost:
            return _unanswered(f"at {server.url}")

    try:
        return asyncio.run(running())
    except UnclearSession as problem:
        return complain(str(problem))
    except Refused as problem:
        hint = " (--token, or DRAGOMAN_TOKEN)" if problem.code == "unauthorized" else ""
        print(f"dragoman: {problem.message}{hint}", file=sys.stderr)
        return 1
    except ClientError as problem:
        print(f"dragoman: {problem}", file=sys.stderr)
        return 1


def _named(arguments: argparse.Namespace) -> Reach | None:
    """The server of ``--url`` and ``--token``, else of DRAGOMAN_URL and DRAGOMAN_TOKEN."""
    url = arguments.url or os.environ.get("DRAGOMAN_URL")
    return Reach(url, arguments.token or os.environ.get("DRAGOMAN_TOKEN")) if url else None


async def _running(settings: Settings, token: str | None) -> Reach | None:
    """The server at the port of the settings, else the one that holds the data folder."""
    token, port = token or settings.server.token, settings.server.port
    places = [(f"http://127.0.0.1:{port}" if port else None, ""), (_announced(settings.data.path()), "· using {}")]
    for address, note in places:
        if address is not None and await _answers(found := Reach(address, token, note=note.format(address))):
            return found
    return None


async def _answers(server: Reach) -> bool:
    """Whether a hub answers there."""
    try:
        await server.http.get("/health")
    except ConnectionLost:
        return False
    except (Refused, ValueError) as problem:
        # It lives, and is not well or wants a token; or it is something else.
        return isinstance(problem, Refused) and not problem.code.startswith("http_")
    return True


def _announced(folder: Path) -> str | None:
    """Where the server of a data folder said that it listens; it need not be there any more."""
    try:
        return msgspec.json.decode((folder / "lock").read_bytes(), type=Holder).address
    except (OSError, msgspec.MsgspecError):
        return None


def _none(settings: Settings) -> int:
    port, folder = settings.server.port, settings.data.path()
    return _unanswered(f"{f'at http://127.0.0.1:{port}/hub, nor ' * bool(port)}for the data in {folder}")


def _unanswered(where: str) -> int:
    print(f"dragoman: no server answers {where} (--url, or dragoman serve)", file=sys.stderr)
    return 1
