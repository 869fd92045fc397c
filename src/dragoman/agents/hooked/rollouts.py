"""Codex' rollouts: one file for each of its sessions, in a folder for each day."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import msgspec

from dragoman.agents.common.codex_log import read_codex_line
from dragoman.agents.common.fields import dict_of, text_of
from dragoman.agents.common.observation import Observation
from dragoman.hub.events import AnyFact, HookAnswered, MessageAdded, ToolCalled
from dragoman.hub.limits import HubLimits

from .codex_words import in_words_of_hooks
from .log_source import CallNames, Head, LogReader, first_records
from .transcripts import folders_in

OURS = "dragoman"
"""What Codex calls itself where it runs turns for us: those are sessions of ours."""

_ROLLOUT = re.compile(r"rollout-.{1,100}\.jsonl")


class Rollouts:
    """Implements ``LogSource`` for Codex. ``today`` is asked anew at each search: days pass."""

    agent = "codex"

    def __init__(
        self, home: Path, environ: Mapping[str, str], limits: HubLimits, *, today: Callable[[], date] = date.today
    ) -> None:
        given = environ.get("CODEX_HOME")
        self._root = (Path(given) if given else home / ".codex") / "sessions"
        self.roots: tuple[Path, ...] = (self._root,)
        self._limits = limits
        self._today = today

    def folders(self) -> Iterator[Path]:
        for year in folders_in(self._root):
            for month in folders_in(year):
                yield from folders_in(month)

    def busy_folders(self) -> Collection[Path]:
        """Today's and yesterday's."""
        today = self._today()
        return [self._root / f"{day:%Y}" / f"{day:%m}" / f"{day:%d}" for day in (today, today - timedelta(days=1))]

    def is_log(self, name: str) -> bool:
        return _ROLLOUT.fullmatch(name) is not None

    def head(self, path: Path) -> Head | None:
        """From its first record; its name may hold anything beside the id."""
        first = next(first_records(path, self._limits), None)
        if first is None or first.get("type") != "session_meta":
            return None
        about = dict_of(first, "payload")
        session = text_of(about, "id", "session_id")
        if session is None:
            return None
        return Head(
            session=session,
            cwd=text_of(about, "cwd"),
            # newer versions refer to what they go on from, and copy nothing
            forked=text_of(about, "forked_from_id") is not None and not dict_of(about, "history_base"),
            aside=isinstance(about.get("source"), dict) or about.get("originator") == OURS,
        )

    def reader(self, session: str) -> LogReader:
        return RolloutReader(session)


class RolloutReader:
    """Implements ``LogReader``, in the words of Codex' own hooks: either may tell of a call first.

    That a turn is over is told as what it is evidence of; a stop is made of that where no hook has told of it.
    """

    def __init__(self, session: str) -> None:
        self.cwd: str | None = None
        self._session = session
        self._calls = CallNames()
        self._said: str | None = None
        """Its last words, of which the record of a turn's end tells again."""

    def read(self, record: dict[str, Any]) -> Observation | None:
        about = dict_of(record, "payload")
        kind = record.get("type")
        if kind == "session_meta" and text_of(about, "id", "session_id") != self._session:
            return None  # copied with the story of another
        if kind in ("session_meta", "turn_context"):
            self.cwd = text_of(about, "cwd") or self.cwd
        seen = read_codex_line(record)
        if not seen.facts:
            return seen
        return msgspec.structs.replace(seen, facts=tuple(self._retold(seen.facts, about)))

    def _retold(self, facts: tuple[AnyFact, ...], about: dict[str, Any]) -> Iterator[AnyFact]:
        for fact in facts:
            if isinstance(fact, ToolCalled):
                yield self._calls.named(in_words_of_hooks(fact))
                continue
            if isinstance(fact, MessageAdded):
                self._said = fact.text if fact.role == "assistant" else None if fact.role == "user" else self._said
            elif isinstance(fact, HookAnswered) and fact.hook == "stop":
                yield from self._last_words(fact, about)
                continue
            yield self._calls.named(fact)

    def _last_words(self, stop: HookAnswered, about: dict[str, Any]) -> Iterator[AnyFact]:
        """Those that were not read where they were said: in a line too long, or before we read."""
        text = text_of(about, "last_agent_message")
        if text is not None and text != self._said:
            yield MessageAdded(message="", role="assistant", text=text, origin=stop.origin)
        self._said = None
