"""Recorded hooks and session logs of the real programs, and how to read them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dragoman.agents.common.logs import read_claude_line, read_codex_line, read_gemini_line, read_qwen_line
from dragoman.agents.common.observation import Observation

DATA = Path(__file__).parents[2] / "data" / "agents"

READERS = {
    "claude": read_claude_line,
    "codex": read_codex_line,
    "gemini": read_gemini_line,
    "qwen": read_qwen_line,
}

SAMPLES: dict[str, dict[str, dict[str, Any]]] = json.loads((DATA / "hooks" / "samples.json").read_text())
"""One payload of each hook that an agent was seen to fire: by agent, then by event, ``:`` and what it is about."""

LOGS = [(path.parent.name, path.stem.removeprefix("log-")) for path in sorted(DATA.glob("*/log-*.jsonl"))]


def sample(agent: str, name: str) -> tuple[str, str, dict[str, Any]]:
    """The arguments of ``read_hook``."""
    return agent, name.partition(":")[0], SAMPLES[agent][name]


def lines(path: Path) -> Iterator[dict[str, Any]]:
    for line in path.read_text().splitlines():
        yield json.loads(line)


def log(agent: str, name: str) -> list[Observation]:
    return [READERS[agent](record) for record in lines(DATA / agent / f"log-{name}.jsonl")]


def hooks(name: str) -> list[tuple[str, dict[str, Any]]]:
    """A recorded session of Claude Code: each hook's name and payload."""
    return [(payload["hook_event_name"], payload) for payload in lines(DATA / "claude" / f"hooks-{name}.jsonl")]


def causes(observations: list[Observation]) -> list[str]:
    """The states in order, one word each, without repeats."""
    found: list[str] = []
    for observation in observations:
        if observation.sighting is not None and found[-1:] != [observation.sighting.cause]:
            found.append(observation.sighting.cause)
    return found
