"""Claude Code's transcripts, and the session logs of the agents whose hooks name them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from dragoman.agents.common.fields import text_of
from dragoman.agents.common.logs import read_claude_line, read_gemini_line, read_qwen_line
from dragoman.agents.common.observation import Observation
from dragoman.hub.events import MessageAdded, ToolCalled
from dragoman.hub.limits import HubLimits

from .log_source import CallNames, Head, LogReader, LogSource, first_records

_TRANSCRIPT = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\.jsonl")
"""Named after its session. Those of sub-agents have other names."""

MAX_TOLD = 20_000
"""Ids of records of which is remembered whose they are."""


class Transcripts:
    """Implements ``LogSource`` for Claude Code: a folder for each folder that it worked in."""

    agent = "claude"

    def __init__(self, home: Path, environ: Mapping[str, str], limits: HubLimits) -> None:
        given = environ.get("CLAUDE_CONFIG_DIR")
        shared = environ.get("XDG_CONFIG_HOME")
        bases = (
            [Path(given)] if given else [home / ".claude", (Path(shared) if shared else home / ".config") / "claude"]
        )
        self.roots: tuple[Path, ...] = tuple(base / "projects" for base in bases)
        self._limits = limits
        self._told: dict[str, str] = {}

    def folders(self) -> Iterator[Path]:
        for root in self.roots:
            yield from folders_in(root)

    def busy_folders(self) -> Collection[Path]:
        """None: a session of any of them may go on."""
        return ()

    def is_log(self, name: str) -> bool:
        return _TRANSCRIPT.fullmatch(name) is not None

    def head(self, path: Path) -> Head | None:
        """It is named after its session, and says so; what may come before was copied from another."""
        said = False
        for record in first_records(path, self._limits):
            said = said or text_of(record, "sessionId") == path.stem
            cwd = text_of(record, "cwd")
            if said and cwd is not None:
                return Head(session=path.stem, cwd=cwd)
        return Head(session=path.stem) if said else None

    def reader(self, session: str) -> LogReader:
        return TranscriptReader(session, read_claude_line, self._told)


class TranscriptReader:
    """Implements ``LogReader``. Records that were copied from another session's transcript are left out.

    A branch of a conversation is a new session whose transcript begins with all of the old one's records, under its own
    name, but as old as they were and with their ids. ``told`` is whose each id is, for all sessions.
    """

    def __init__(
        self, session: str, read: Callable[[dict[str, Any]], Observation], told: dict[str, str] | None = None
    ) -> None:
        self.cwd: str | None = None
        self._session = session
        self._read = read
        self._calls = CallNames()
        self._told = told
        self._broken_off = False

    def read(self, record: dict[str, Any]) -> Observation | None:
        if (text_of(record, "sessionId") or self._session) != self._session or self._is_copy(record):
            return None
        self.cwd = text_of(record, "cwd") or self.cwd
        seen = self._read(record)
        facts = tuple(self._calls.named(fact) for fact in seen.facts)
        again = seen.interrupted and self._broken_off
        if seen.interrupted:
            self._broken_off = True
        elif any(isinstance(fact, (MessageAdded, ToolCalled)) for fact in facts):
            self._broken_off = False
        return msgspec.structs.replace(seen, facts=facts, interrupted=seen.interrupted and not again)

    def _is_copy(self, record: dict[str, Any]) -> bool:
        named = text_of(record, "uuid")
        if self._told is None or named is None:
            return False
        whose = self._told.setdefault(named, self._session)
        if len(self._told) > MAX_TOLD:
            del self._told[next(iter(self._told))]
        return whose != self._session


class NamedLogs:
    """Implements ``LogSource`` for an agent whose logs are only followed where its hooks name them."""

    def __init__(
        self, agent: str, root: Path, read: Callable[[dict[str, Any]], Observation], limits: HubLimits
    ) -> None:
        self.agent = agent
        self.roots: tuple[Path, ...] = (root,)
        self._read = read
        self._limits = limits

    def folders(self) -> Iterator[Path]:
        """None: what they hold is not enough to make a session of."""
        return iter(())

    def busy_folders(self) -> Collection[Path]:
        return ()

    def is_log(self, name: str) -> bool:
        return name.endswith((".jsonl", ".json"))

    def head(self, path: Path) -> Head | None:
        found = (text_of(record, "sessionId") for record in first_records(path, self._limits))
        session = next((name for name in found if name is not None), None)
        return None if session is None else Head(session=session)

    def reader(self, session: str) -> LogReader:
        return TranscriptReader(session, self._read)


def named_logs(home: Path, limits: HubLimits) -> tuple[LogSource, ...]:
    """Those of Gemini CLI and Qwen Code."""
    return (
        NamedLogs("gemini", home / ".gemini" / "tmp", read_gemini_line, limits),
        NamedLogs("qwen", home / ".qwen", read_qwen_line, limits),
    )


def folders_in(folder: Path) -> Iterator[Path]:
    """The folders in a folder, links to folders among them; none where it cannot be read."""
    try:
        with os.scandir(folder) as entries:
            yield from (Path(entry.path) for entry in entries if entry.is_dir())
    except OSError:
        return
