"""``dragoman hooks``: agents that are started elsewhere tell this user's server what they do."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from dragoman.agents.hooked.installation.agents import AGENTS, Agent
from dragoman.agents.hooked.installation.doctor import check_agent, check_server
from dragoman.agents.hooked.installation.installer import install, uninstall
from dragoman.agents.hooked.installation.place import Place
from dragoman.agents.hooked.installation.problems import CannotInstall
from dragoman.agents.hooked.installation.standing import Standing, standing
from dragoman.server.settings import config_folder, default_file, load

from .main import complain

Row = dict[str, Any]

_NOBODY = "none of the agents seems to be here; name one to install its hooks all the same: "


def run(arguments: argparse.Namespace) -> int:
    """Do it, and say how it came out: a line for each agent, or a JSON object. 1 where something is wrong."""
    unknown = [name for name in arguments.agents if name not in AGENTS and name != "all"]
    if unknown:
        return complain(f"hooks: {unknown[0]!r} is none of {', '.join(AGENTS)}, all")
    place = _place(arguments)
    named = list(dict.fromkeys(arguments.agents))
    chosen = list(AGENTS.values()) if not named or "all" in named else [AGENTS[name] for name in named]
    if arguments.action == "install" and not named:
        chosen = [agent for agent in chosen if place.present(agent)]
        if not chosen:
            return complain(f"hooks: {_NOBODY}{', '.join(AGENTS)}")
    rows, wrong = _ACTIONS[arguments.action](place, chosen, bool(named))
    for row in rows:
        print(msgspec.json.encode(row).decode() if arguments.json else _line(row))
    return 1 if wrong else 0


def _place(arguments: argparse.Namespace) -> Place:
    """Raises ``SettingsError``."""
    file = Path(arguments.config) if arguments.config else default_file(os.environ)
    settings = load(file, os.environ, {"data": {"folder": arguments.data}})
    socket = settings.hooked.socket_path(settings.data.path())
    return Place(config_folder(os.environ) / "hooks", socket, settings.hooked.answer_seconds, os.environ)


def _install(place: Place, agents: Sequence[Agent], named: bool) -> tuple[list[Row], bool]:  # noqa: ARG001
    rows, wrong = [], False
    for agent in agents:
        before = standing(place, agent).state
        try:
            left = install(place, agent)
        except CannotInstall as problem:
            wrong = True
            rows.append(_row(place, agent, "failed", [str(problem)]))
            continue
        wrong = wrong or left is not None
        state = "installed" if before != "installed" else "already installed"
        rows.append(_row(place, agent, state, [left] if left is not None else _notes(standing(place, agent))))
    if any(row["state"] != "failed" for row in rows):
        print("agents that run already take them up when they are started anew", file=sys.stderr)
    return rows, wrong


def _uninstall(place: Place, agents: Sequence[Agent], named: bool) -> tuple[list[Row], bool]:  # noqa: ARG001
    rows, wrong = [], False
    for agent in agents:
        try:
            there_were = uninstall(place, agent)
            rows.append(_row(place, agent, "removed" if there_were else "not installed", []))
        except CannotInstall as problem:
            wrong = True
            rows.append(_row(place, agent, "failed", [str(problem)]))
    return rows, wrong


def _status(place: Place, agents: Sequence[Agent], named: bool) -> tuple[list[Row], bool]:  # noqa: ARG001
    found = [standing(place, agent) for agent in agents]
    return [_row(place, AGENTS[it.agent], it.state, _notes(it), present=it.present) for it in found], False


def _doctor(place: Place, agents: Sequence[Agent], named: bool) -> tuple[list[Row], bool]:
    server = check_server(place)
    rows: list[Row] = [{"server": str(place.socket), "state": "reached" if server is None else "not reached"}]
    rows[0]["problems"] = [] if server is None else [server]
    wrong = server is not None
    for agent in agents:
        found = check_agent(place, agent, served=server is None)
        problems = list(found.problems)
        if found.ran == 0 and (named or found.state == "unreadable") and not problems:
            problems.append(f"it has no hooks of ours (run: dragoman hooks install {agent.name})")
        wrong = wrong or bool(problems)
        about = {"ran": found.ran, "milliseconds": found.milliseconds}
        rows.append(_row(place, agent, found.state, problems, **about))
    return rows, wrong


def _notes(found: Standing) -> list[str]:
    others = [f"hooks of another dragoman stand there, too: {program}" for program in found.others]
    return [*found.problems, *others]


def _row(place: Place, agent: Agent, state: str, problems: Sequence[str], **more: Any) -> Row:
    return {"agent": agent.name, "state": state, "settings": str(place.path(agent)), "problems": list(problems), **more}


def _line(row: Row) -> str:
    if "server" in row:
        head = f"{'server':<8}{row['state']:<19}{row['server']}"
    else:
        about = row["settings"]
        if row.get("present") is False:
            about = f"{about} (this agent does not seem to be here)"
        if row.get("ran"):
            about = f"{about} ({row['ran']} hooks run, the quickest in {row['milliseconds']} ms)"
        head = f"{row['agent']:<8}{row['state']:<19}{about}"
    return "\n".join([head, *(f"{'':<8}! {problem}" for problem in row["problems"])])


_ACTIONS: dict[str, Callable[[Place, Sequence[Agent], bool], tuple[list[Row], bool]]] = {
    "install": _install,
    "uninstall": _uninstall,
    "status": _status,
    "doctor": _doctor,
}
