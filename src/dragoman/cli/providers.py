"""``dragoman providers``: which model providers there are, their keys, and signing in: a server's, or where none runs
those of the data folder.

A key is never taken from the command line, where other programs could read it.
"""

from __future__ import annotations

import argparse
import getpass
import json
import sys
from collections.abc import Awaitable, Callable
from typing import Any, Protocol
from urllib.parse import quote

from dragoman.hub.errors import HubError
from dragoman.server.settings import Settings

from .main import complain
from .reaching import Reach, reach
from .sessions import printable

KEY_CHARS = 64 * 1024
"""Of standard input that are read; the server takes less."""

MODELS_SHOWN = 3
"""Of a provider, in one line."""

Entry = dict[str, Any]


def run(arguments: argparse.Namespace) -> int:
    """List them, keep or remove one key, or sign in to one."""
    action, name = arguments.action, arguments.name
    if arguments.more:
        return complain("providers: a key is not taken from the command line, but from a prompt or standard input")
    if action == "list":
        return complain("providers list takes no name") if name is not None else _list(arguments)
    if name is None:
        return complain(f"providers {action}: whose key? (dragoman providers lists the names)")
    work = {"forget": _forget, "sign-in": _sign_in}.get(action, _keep)
    return work(name, arguments)


class Shop(Protocol):
    """Where the providers are asked for: a server, or the data folder itself."""

    async def catalogue(self, *, verify: bool) -> tuple[list[Entry], list[Entry]]:
        """The providers, and how each stands."""

    async def keep(self, name: str, key: str) -> None:
        """Keep a key."""

    async def forget(self, name: str) -> bool:
        """Remove a key or a sign-in; False when none was kept."""

    async def ways(self, name: str) -> list[Entry]:
        """How one can be signed in to; nothing for one that is not known."""

    async def begin(self, name: str, way: str) -> Entry:
        """What a person is to do for that."""

    async def sign_in(self, name: str, way: str, tell: Callable[[str], None]) -> Entry:
        """Sign in, which may wait for a person; ``ok`` and ``message``. ``tell`` gets what the program says."""


def _list(arguments: argparse.Namespace) -> int:
    async def work(shop: Shop) -> int:
        entries, statuses = await shop.catalogue(verify=arguments.verify)
        stands = {status["id"]: status for status in statuses}
        # A local server may have come or gone between the two questions.
        known = [(entry, stands[entry["id"]]) for entry in entries if entry["id"] in stands]
        for entry, status in known:
            print(json.dumps({**entry, **status}) if arguments.json else line(entry, status))
        return 0

    return _at_a_shop(work, arguments)


def _keep(name: str, arguments: argparse.Namespace) -> int:
    try:
        key = _ask_for_key(name)
    except (EOFError, KeyboardInterrupt):
        return complain("no key was given")
    if not key:
        return complain("no key was given")

    async def work(shop: Shop) -> int:
        await shop.keep(name, key)
        print(f"the key of {printable(name)} is kept")
        return 0

    return _at_a_shop(work, arguments)


def _forget(name: str, arguments: argparse.Namespace) -> int:
    async def work(shop: Shop) -> int:
        removed = await shop.forget(name)
        print(f"the key of {printable(name)} is removed" if removed else f"no key of {printable(name)} was kept")
        return 0

    return _at_a_shop(work, arguments)


def _sign_in(name: str, arguments: argparse.Namespace) -> int:
    async def work(shop: Shop) -> int:
        ways = await shop.ways(name)
        way = next((way["id"] for way in ways if way["type"] == "oauth"), None)
        if way is None:
            known = "takes a key (dragoman providers key)" if ways else "is not known (dragoman providers lists them)"
            return complain(f"providers sign-in: {printable(name)} {known}")
        challenge = await shop.begin(name, way)
        command = challenge.get("command") or challenge.get("url") or ""
        print(printable(f"{challenge['instructions']} ({command})"))
        done = await shop.sign_in(name, way, lambda line: print(printable(line), flush=True))
        print(printable(done["message"]))
        return 0 if done["ok"] else 1

    return _at_a_shop(work, arguments)


def _at_a_shop(work: Callable[[Shop], Awaitable[int]], arguments: argparse.Namespace) -> int:
    async def at_the_server(server: Reach) -> int:
        return await work(Served(server))

    async def at_the_folder(settings: Settings) -> int:
        from .chat_plain import Printer  # noqa: PLC0415  with the next, needless where a server runs
        from .providers_folder import opened  # noqa: PLC0415

        Printer(sys.stderr)([[("dim", f"· no server runs: these are the keys in {settings.data.path()}")]])
        try:
            async with opened(settings) as shop:
                return await work(shop)
        except HubError as problem:
            print(f"dragoman: {problem}", file=sys.stderr)
            return 1

    return reach(at_the_server, arguments, otherwise=at_the_folder)


class Served:
    """The providers of a server."""

    def __init__(self, server: Reach) -> None:
        self._server = server
        self._http = server.http

    async def catalogue(self, *, verify: bool) -> tuple[list[Entry], list[Entry]]:
        """As ``Shop``; all raise ``ClientError``."""
        entries = (await self._http.get("/providers"))["providers"]
        return entries, (await self._http.post("/providers/status", verify=verify))["statuses"]

    async def keep(self, name: str, key: str) -> None:
        """As ``Shop``."""
        await self._http.put(_path(name), key=key)

    async def forget(self, name: str) -> bool:
        """As ``Shop``."""
        return bool((await self._http.delete(_path(name)))["removed"])

    async def ways(self, name: str) -> list[Entry]:
        """As ``Shop``."""
        return list((await self._http.get("/providers/auth"))["methods"].get(name, ()))

    async def begin(self, name: str, way: str) -> Entry:
        """As ``Shop``."""
        challenge: Entry = await self._http.post(f"/providers/{quote(name, safe='')}/sign-in", method=way)
        return challenge

    async def sign_in(self, name: str, way: str, tell: Callable[[str], None]) -> Entry:
        """As ``Shop``. Over a socket: what the program says comes while it runs."""
        from dragoman.client.hub import HubClient  # noqa: PLC0415  needed for this alone

        async with HubClient(self._server.url, token=self._server.token) as client:
            return await client.finish_sign_in(name, way, tell)


def line(entry: Entry, status: Entry) -> str:
    """``openai  ready  stored  gpt-5.2, gpt-5.1, gpt-5-mini +2  key stored here``"""
    ready = "verified" if status["verified"] else "ready" if status["ready"] else "-"
    models = entry["models"]
    more = f" +{len(models) - MODELS_SHOWN}" if len(models) > MODELS_SHOWN else ""
    shown = ", ".join(models[:MODELS_SHOWN]) + more
    columns = (f"{entry['id']:<13}", f"{ready:<8}", f"{status['key']:<11}", f"{shown or '-':<48}", status["message"])
    return printable("  ".join(columns))


def _path(name: str) -> str:
    return f"/providers/{quote(name, safe='')}/key"


def _ask_for_key(name: str) -> str:
    """The key from a prompt that does not show it, or from standard input when that is no terminal."""
    if sys.stdin.isatty():
        return getpass.getpass(f"Key of {printable(name)} (it is not shown): ").strip()
    return sys.stdin.read(KEY_CHARS).strip()
