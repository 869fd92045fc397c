"""``dragoman worker``: does the runs that are queued in a workspace, one after the other (docs/runs.md, "A worker").

The runs may be kept by a server elsewhere; the agents are those of the server that runs here, or, where none does, of
the one that keeps the runs. Keys come from the environment or from flags; other users of the machine can read flags.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from dragoman.client.errors import ClientError, Refused
from dragoman.client.windie import AgentSdkClient, WindieOptions
from dragoman.client.windie.addresses import resolved
from dragoman.client.windie_worker import Memory, Outcome, RunsClient, Worker, WorkerOptions, identity
from dragoman.server.logs import Scrubber, set_up
from dragoman.server.settings import Settings, default_file, load

from .leaving import leave_without_waiting, own_threads
from .main import complain
from .reaching import Reach, reach

log = logging.getLogger("dragoman.worker")

VARIABLES: dict[str, tuple[str, ...]] = {
    "server": ("BACKEND_HTTP_URL",),
    "agents": (),
    "runs_key": ("AGENT_RUNS_API_KEY", "WINDIE_RUNS_API_KEY"),
    "workspace": ("AGENT_VM_WORKSPACE_ID", "WINDIE_VM_WORKSPACE_ID"),
    "worker_id": ("AGENT_VM_WORKER_ID", "WINDIE_VM_WORKER_ID"),
    "vm_id": ("AGENT_VM_ID", "WINDIE_VM_ID"),
    "user": ("AGENT_VM_USER_ID", "WINDIE_VM_USER_ID"),
    "install_token": ("AGENT_INSTALL_TOKEN", "WINDIE_API_KEY"),
}
"""WindieOS's names for the flags; a flag hides them."""

EVENTS = 100_000
"""Events of a turn that may wait to be relayed."""

CONNECTING = 20.0
"""Seconds for an agent to be there."""


def run(arguments: argparse.Namespace) -> int:
    """Work until a signal: 0. 1 where the server does not want it; with ``--once`` also where the run failed."""
    given = {flag: _given(arguments, flag, os.environ) for flag in VARIABLES}
    if (missing := next((flag for flag in ("runs_key", "workspace") if not given[flag]), None)) is not None:
        name = missing.replace("_", "-")
        return complain(f"worker: --{name} is missing (or {VARIABLES[missing][0]})")
    if not arguments.interval > 0:
        return complain("worker: --interval must be more than 0")
    scrubber = Scrubber()
    for flag in ("runs_key", "install_token"):
        scrubber.add(given[flag])
    set_up("info", as_json=False, scrubber=scrubber)
    places = _places(given, arguments)
    return places if isinstance(places, int) else _living(arguments, given, *places)


class Place(NamedTuple):
    """A server: the root of WindieOS's protocol there, and what is shown to it."""

    root: str
    token: str | None


def _given(arguments: argparse.Namespace, flag: str, environment: Mapping[str, str]) -> str | None:
    """A flag, else the first of its variables that is set; an empty one is none."""
    said: str | None = getattr(arguments, flag)
    return said if said is not None else next(filter(None, map(environment.get, VARIABLES[flag])), None)


def _places(given: dict[str, str | None], arguments: argparse.Namespace) -> tuple[Place, Place] | int:
    """Where the runs are, and where the agents; else the exit code, when it was said why."""
    token = given["install_token"]
    runs = Place(given["server"], token) if given["server"] else None
    agents = Place(given["agents"], token) if given["agents"] else None
    if runs is None or agents is None:
        ours = _ours(arguments, is_needed=runs is None)
        if isinstance(ours, int):
            return ours
        here = None if ours is None else _here(ours, token if runs is None else None)
        runs = runs or here
        agents = agents or here or runs
    assert runs is not None
    assert agents is not None
    return runs, agents


def _here(server: Reach, token: str | None) -> Place:
    """Whoever shows a server's own token needs no install, while installs are not asked for theirs."""
    return Place(f"{server.url.removesuffix('/hub')}/windie", token or server.token)


def _ours(arguments: argparse.Namespace, *, is_needed: bool) -> Reach | int | None:
    """The server that runs here; None where there is none and none is needed."""
    found: list[Reach] = []

    async def look(server: Reach) -> int:
        found.append(server)
        return 0

    async def nobody(_: Settings) -> int:
        return 0

    arguments.url = arguments.token = None
    code = reach(look, arguments, otherwise=None if is_needed else nobody)
    if not found:
        return code or None
    if not found[0].url.endswith("/hub"):
        return complain(f"worker: where windie is at {found[0].url} cannot be told (--server, --agents)")
    return found[0]


def _living(arguments: argparse.Namespace, given: dict[str, str | None], at: Place, agents: Place) -> int:
    async def living() -> int:
        threads = own_threads()
        code = await _until_signalled(arguments, given, at, agents)
        leave_without_waiting(threads, code)
        return code

    try:
        return asyncio.run(living())
    except ValueError as problem:  # an address that is none
        return complain(f"worker: {problem}")


async def _until_signalled(
    arguments: argparse.Namespace, given: dict[str, str | None], at: Place, agents: Place
) -> int:
    sdk = AgentSdkClient(
        agents.root,
        install_token=agents.token,
        options=WindieOptions(event_backlog=EVENTS, answer_limit=CONNECTING),
    )
    runs = RunsClient(resolved(at.root, None, {}).http, given["runs_key"] or "", install_token=at.token)
    who = identity(given["workspace"] or "", worker_id=given["worker_id"], vm_id=given["vm_id"], user_id=given["user"])
    memory = _memory(at.root, who.workspace_id, given["worker_id"])
    ended: list[Outcome] = []
    worker = Worker(
        who,
        runs=runs,
        sdk=sdk,
        memory=memory,
        folder=arguments.folder,
        shows_pictures=at.root == agents.root,
        options=WorkerOptions(interval=arguments.interval),
        ended=lambda run_id, outcome: _print(run_id, outcome, ended),
    )
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, _leave, worker, asyncio.current_task())
    log.info("worker %s of the workspace %s at %s", who.worker_id, who.workspace_id, at.root)
    if at.root != agents.root:
        log.info("its agents are those of %s", agents.root)
    try:
        with memory or contextlib.nullcontext():
            await worker.run(once=arguments.once)
    except Refused as problem:
        print(f"dragoman: the server does not want this worker: {problem.message}", file=sys.stderr)
        return 1
    except (ClientError, OSError) as problem:
        print(f"dragoman: {problem}", file=sys.stderr)
        return 1
    except asyncio.CancelledError:
        return 1
    return 1 if arguments.once and ended[-1:] == ["failed"] else 0


def _memory(server: str, workspace: str, worker_id: str | None) -> Memory | None:
    """For a worker whose name outlives this process."""
    if worker_id is None:
        return None
    folder: Path = load(default_file(os.environ), os.environ, {}).data.path() / "windie-workers"
    return Memory(folder, server, workspace, worker_id)


def _leave(worker: Worker, task: asyncio.Task[object] | None) -> None:
    """The first signal ends it in order, the second at once."""
    if worker.is_leaving and task is not None:
        task.cancel()
    worker.leave()


def _print(run_id: str, outcome: Outcome, ended: list[Outcome]) -> None:
    ended.append(outcome)
    if outcome != "not begun":
        print(f"{run_id} {outcome}", flush=True)
