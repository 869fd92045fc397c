"""``dragoman providers``: which model providers a server has, and their keys.

A key is never taken from the command line, where other programs could read it.
"""

from __future__ import annotations

import argparse
import getpass
import json
import sys
from typing import Any
from urllib.parse import quote

from .main import complain
from .reaching import Reach, reach
from .sessions import printable

KEY_CHARS = 64 * 1024
"""Of standard input that are read; the server takes less."""

MODELS_SHOWN = 3
"""Of a provider, in one line."""

Entry = dict[str, Any]


def run(arguments: argparse.Namespace) -> int:
    """List them, or keep or remove one key."""
    action, name = arguments.action, arguments.name
    if arguments.more:
        return complain("providers: a key is not taken from the command line, but from a prompt or standard input")
    if action == "list":
        return complain("providers list takes no name") if name is not None else _list(arguments)
    if name is None:
        return complain(f"providers {action}: whose key? (dragoman providers lists the names)")
    return _forget(name, arguments) if action == "forget" else _keep(name, arguments)


def _list(arguments: argparse.Namespace) -> int:
    async def work(server: Reach) -> int:
        entries = (await server.http.get("/providers"))["providers"]
        statuses = (await server.http.post("/providers/status", verify=arguments.verify))["statuses"]
        stands = {status["id"]: status for status in statuses}
        # A local server may have come or gone between the two questions.
        known = [(entry, stands[entry["id"]]) for entry in entries if entry["id"] in stands]
        for entry, status in known:
            print(json.dumps({**entry, **status}) if arguments.json else line(entry, status))
        return 0

    return reach(work, arguments)


def _keep(name: str, arguments: argparse.Namespace) -> int:
    try:
        key = _ask_for_key(name)
    except (EOFError, KeyboardInterrupt):
        return complain("no key was given")
    if not key:
        return complain("no key was given")

    async def work(server: Reach) -> int:
        await server.http.put(_path(name), key=key)
        print(f"the key of {printable(name)} is kept")
        return 0

    return reach(work, arguments)


def _forget(name: str, arguments: argparse.Namespace) -> int:
    async def work(server: Reach) -> int:
        removed = (await server.http.delete(_path(name)))["removed"]
        print(f"the key of {printable(name)} is removed" if removed else f"no key of {printable(name)} was kept")
        return 0

    return reach(work, arguments)


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
