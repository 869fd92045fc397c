"""``dragoman skills``: the skills of a session's folder, and switching global ones on and off."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

from .chat_text import clean, fit
from .main import complain
from .reaching import Reach, UnclearSession, reach
from .sessions import printable

SHOWN = 100
"""Characters of a description in one line."""

Skill = dict[str, Any]

_DONE = {"enable": "is on", "disable": "is off", "delete": "is deleted"}


def run(arguments: argparse.Namespace) -> int:
    """List them, print one, or change one for every session of the server."""
    action, name = arguments.action, arguments.name
    if action == "list" and name is not None:
        return complain("skills list takes no name")
    if action != "list" and name is None:
        return complain(f"skills {action}: which one? (dragoman skills lists them)")

    async def work(server: Reach) -> int:
        path = f"/sessions/{quote(await _session(server, arguments.session), safe='')}/skills"
        if action == "list":
            _show((await server.http.get(path))["skills"], as_json=arguments.json)
            return 0
        path = f"{path}/{quote(name, safe='')}"
        match action:
            case "read":
                print(clean((await server.http.get(path))["content"]).rstrip("\n"))
                return 0
            case "delete":
                await server.http.delete(path)
            case _:
                await server.http.post(f"{path}/{action}")
        print(f"{printable(name)} {_DONE[action]}")
        return 0

    return reach(work, arguments)


async def _session(server: Reach, beginning: str | None) -> str:
    """The session whose folder is meant: the one that is named, else the newest in this folder, else the only live one.

    Raises ``UnclearSession``.
    """
    if beginning is not None:
        return str((await server.find(beginning))["session"])
    here = str(Path.cwd())
    found = [row for row in await server.sessions() if row["cwd"] == here]
    if found:
        return str(found[-1]["session"])
    try:
        return str((await server.find(None))["session"])
    except UnclearSession as problem:
        raise UnclearSession(f"no session works in this folder, and {problem}; --session ID says which") from None


def _show(skills: list[Skill], *, as_json: bool) -> None:
    for skill in skills:
        print(json.dumps(skill) if as_json else line(skill))
    if not skills and not as_json:
        print("no skills")


def line(skill: Skill) -> str:
    """``pdf               on   global    Use when tasks involve PDF files``"""
    about = fit(" ".join(skill["description"].split()), SHOWN)
    state = "on" if skill["enabled"] else "off"
    return printable("  ".join((f"{skill['name']:<16}", f"{state:<3}", f"{skill['source']:<8}", about)))
