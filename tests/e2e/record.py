"""Record what the real agents show: ``python -m tests.e2e.record claude [scenario…]`` renews ``tests/data/agents``.

Each moment is one file: the screen as our own terminal model sees it, the title, and the program's status reports so
far. Each scenario leaves the agent's own session log too, as ``log-<scenario>.jsonl``. With ``--hooks`` the same is
played while every hook of the agent is heard, and only ``hooks-<scenario>.jsonl`` is written: hooks show on screens.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from . import clis
from .driven import ModelServer, driven
from .homes import make_home
from .scenarios import SCENARIOS, Scenario
from .stage import PROJECT, Stage, hear_hooks


async def record(agent: str, name: str, scenario: Scenario, model: ModelServer, *, hooks: bool) -> bool:
    """Play one scenario. False if it did not go as expected; the screen is printed then."""
    print(f"{agent} {name}")
    shutil.rmtree(PROJECT, ignore_errors=True)
    # Not under /tmp: Codex says at its start that it does not like that.
    homes = clis.cache().parent / "homes"
    homes.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=homes, ignore_cleanup_errors=True) as folder:
        home = make_home(agent, Path(folder), PROJECT, model.port, answered=scenario.answered, args=scenario.args)
        if hooks:
            home = replace(home, command=(*home.command, *hear_hooks(home)))
        async with driven(home) as running:
            stage = Stage(running, hooks=hooks)
            try:
                await scenario.play(stage)
            except AssertionError as failed:
                print(failed, running.status, running.title, sep="\n")
                return False
            finally:
                stage.keep(name)
    return True


async def main() -> int:
    parser = argparse.ArgumentParser(description="record the screens and logs of the real agents")
    parser.add_argument("agent", choices=[*SCENARIOS])
    parser.add_argument("scenario", nargs="*")
    parser.add_argument("--hooks", action="store_true", help="record what hooks are told, instead of screens and logs")
    asked = parser.parse_intermixed_args()
    model = ModelServer()
    try:
        chosen = {name: SCENARIOS[asked.agent][name] for name in asked.scenario} or SCENARIOS[asked.agent]
        went = [
            await record(asked.agent, name, scenario, model, hooks=asked.hooks) for name, scenario in chosen.items()
        ]
    finally:
        model.close()
    return 0 if all(went) else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
