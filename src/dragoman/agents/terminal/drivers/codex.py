"""Codex: it reports its status by itself (OSC 7501) and keeps a rollout log; its settings are left alone."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from dragoman.agents.common.files import open_regular
from dragoman.agents.common.logs import read_codex_line
from dragoman.agents.common.observation import Observation
from dragoman.hub.errors import NOT_JSON, InvalidRequest

from .profile import Launch, LaunchContext, home_of, newest

_HEAD = 64 * 1024
"""Bytes of a rollout's first line that are looked at: it holds the session's folder."""


class Codex:
    """See the module. Hooks would need the user's trust or its bypass, so none are installed."""

    name = "codex"
    hooks: tuple[str, ...] = ()
    settles = 1.0
    interrupt: tuple[str, ...] = ("escape",)
    clear: tuple[str, ...] = ("ctrl-u", "ctrl-c")

    def launch(self, context: LaunchContext) -> Launch:
        if context.resume is not None:
            raise InvalidRequest("resume works with claude only")
        return Launch()

    def find_log(self, environment: Mapping[str, str], cwd: str, since: float) -> Path | None:
        base = environment.get("CODEX_HOME")
        folder = (Path(base) if base else home_of(environment) / ".codex") / "sessions"
        real = os.path.realpath(cwd)
        for path in newest(list(folder.glob("*/*/*/rollout-*.jsonl")), since):
            if _folder_of(path) in (cwd, real):
                return path
        return None

    def read_record(self, record: dict[str, Any]) -> Observation:
        return read_codex_line(record)


def _folder_of(path: Path) -> str | None:
    """The working folder that a rollout's first record names."""
    try:
        with open_regular(path) as file:
            line = file.readline(_HEAD)
        record = msgspec.json.decode(line, type=dict[str, Any])
    except (OSError, *NOT_JSON):
        return None  # not written yet, or none of ours to read: it is looked at again
    payload = record.get("payload")
    cwd = payload.get("cwd") if isinstance(payload, dict) else None
    return cwd if isinstance(cwd, str) else None
