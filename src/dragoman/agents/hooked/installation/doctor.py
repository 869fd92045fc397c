"""Whether installed hooks reach the server: each is run as its agent runs it, with a payload that only the server knows
how to answer."""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec

from dragoman.agents.common.hook_links import short_path
from dragoman.agents.hooked.post_script import CHECK, WITHIN
from dragoman.agents.hooked.user_hooks import CHECK_EVENT

from .agents import Agent
from .hook_entries import entries
from .place import Place
from .problems import CannotInstall
from .standing import State, standing

RUN_LIMIT = 10.0
"""Seconds in which a hook must have ended; it should need one at most."""

TRIES = 3
"""How often a hook is run before it is said to be broken: on a busy machine the server may be late once."""

SLOW = 0.5
"""Seconds of the quickest hook from which on it is told of: an agent waits for each."""


class Checkup(msgspec.Struct, frozen=True, kw_only=True):
    """What was found. ``ran`` hooks were run, ``milliseconds`` is what the quickest took; None where none was run."""

    agent: str
    state: State
    settings: str
    ran: int = 0
    milliseconds: int | None = None
    problems: tuple[str, ...] = ()


def check_server(place: Place) -> str | None:
    """What is wrong where hooks post to; None where somebody listens. Blocks."""
    where = f"{place.socket}: start it (dragoman serve)"
    try:
        folder = os.open(place.socket.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            with socket.socket(socket.AF_UNIX) as link:
                link.settimeout(WITHIN)
                link.connect(short_path(place.socket, folder))
        finally:
            os.close(folder)
    except FileNotFoundError:
        return f"no server has made {where}; one with another data folder needs --data or --config here, too"
    except ConnectionRefusedError:
        return f"the server is gone that made {where}"
    except (OSError, ValueError) as problem:
        return f"nobody answers at {place.socket}: {problem}"
    return None


def check_agent(place: Place, agent: Agent, *, served: bool) -> Checkup:
    """Look at its settings, and run every hook of ours that stands there. ``served``: a server listens. Blocks."""
    found = standing(place, agent)
    problems = list(found.problems)
    times: list[float] = []
    for event, line in _commands(place, agent):
        for _ in range(TRIES):
            began = time.monotonic()
            problem = _run(line, place.environment, served=served)
            taken = time.monotonic() - began
            if problem is None:
                break
        else:
            problems.append(f"{event}: {problem}")
        times.append(taken)
    if served and times and min(times) > SLOW:
        problems.append(f"a hook takes {min(times):.1f} s, and the agent waits for each")
    return Checkup(
        agent=agent.name,
        state=found.state,
        settings=found.settings,
        ran=len(times),
        milliseconds=round(min(times) * 1000) if times else None,
        problems=tuple(problems),
    )


def _commands(place: Place, agent: Agent) -> list[tuple[str, str]]:
    try:
        settings = place.settings(agent)
    except CannotInstall:
        return []
    return [
        (entry.event, str(entry.whole["hooks"][entry.place]["command"]))
        for entry in entries(settings)
        if entry.program == place.program
    ]


def _run(line: str, environment: Mapping[str, str], *, served: bool) -> str | None:
    """Run it as an agent does; what is wrong with it."""
    number = secrets.token_hex(8)
    payload = {"hook_event_name": CHECK_EVENT, "check": number, "session_id": number, "cwd": str(Path.cwd())}
    given = {name: value for name, value in environment.items() if not name.startswith("DRAGOMAN_")}
    try:
        done = subprocess.run(
            ["/bin/sh", "-c", line],
            input=json.dumps(payload).encode(),
            capture_output=True,
            timeout=RUN_LIMIT,
            check=False,
            env={**given, CHECK: "1"},
        )
    except subprocess.TimeoutExpired:
        return f"it does not end within {RUN_LIMIT:g} s: {line}"
    if done.returncode != 0 or done.stderr:
        said = done.stderr.decode(errors="replace").strip()[:200]
        return f"it leaves with {done.returncode}{f' and says {said!r}' if said else ''}: {line}"
    heard = done.stdout.decode(errors="replace")
    if served and heard != f"{CHECK_EVENT} {number}":
        return f"it does not reach the server{f' and says {heard[:100]!r}' if heard else ''}: {line}"
    return None
