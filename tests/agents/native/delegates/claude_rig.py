"""A hub whose sessions are answered by Claude Code's stand-in, or by the scripted model, as they name them."""

from __future__ import annotations

import json
import sys
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from dragoman.agents.common.processes import Process, ProcessTable
from dragoman.agents.native.delegates.claude import ClaudeCode
from dragoman.agents.native.delegates.port import Delegate
from dragoman.agents.native.factory import NativeFactory
from dragoman.agents.native.providers.port import Spent
from dragoman.agents.native.providers.scripted import Scripted
from dragoman.agents.native.settings import DelegateSettings, NativeSettings
from dragoman.hub.registry import Registry
from tests.agents.native.native_rig import Given, NativeHub
from tests.hub.rig import InMemory, Store, proven

FAKE = Path(__file__).parent / "fake_claude.py"

KEY = "sk-ant-given-0123456789"
OTHER_SECRET = "sk-of-somebody-else-0123456789"


class Chooser:
    """``claude-code`` where a session names it, else the scripted model."""

    def __init__(self, delegate: Delegate, key: str | None = None) -> None:
        self.delegate = delegate
        self.key = key

    async def choose(self, provider: str | None, model: str | None) -> Given:
        if provider != self.delegate.name:
            scripted = Scripted()
            return Given("scripted", "test-model", lambda: scripted)
        return Given(provider, model or "sonnet", Scripted, lambda: self.delegate, lambda: self.key)

    async def context_window(self, provider: str, model: str) -> int | None:
        return None

    async def cost(self, provider: str, model: str, spent: Spent) -> float | None:
        return None


def _unique() -> str:
    return str(uuid.uuid4())


class ClaudeHub(NativeHub):
    """See the module."""

    home: Path

    async def open(self) -> Registry:
        """With ids that no other test has: processes are told apart, and ended, by the session's."""
        self.journal = self.store.journal()
        self.registry = Registry(self.journal, self.factories, limits=self.limits, clock=self.clock, ids=_unique)
        await self.registry.open()
        return self.registry

    def starts(self) -> list[dict[str, Any]]:
        """How the program was started, each time: ``argv``, ``env``, ``cwd``."""
        lines = (self.home / ".fake-claude" / "starts.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]

    async def living(self, session: str) -> list[Process]:
        """The processes that carry the session's marker."""
        rows = await ProcessTable().read()
        return [row for row in rows if row.marker is not None and row.marker.startswith(f"{session}/")]


@asynccontextmanager
async def claude_hub(
    folder: Path,
    *,
    store: Store | None = None,
    key: str | None = None,
    environment: dict[str, str] | None = None,
    settings: NativeSettings | None = None,
    **limits: Any,
) -> AsyncIterator[ClaudeHub]:
    """A hub, opened; its logs are held to the grammar afterwards. ``limits`` are of ``DelegateSettings``."""
    home, work, program = folder / "home", folder / "work", folder / "claude"
    for needed in (home, work):
        needed.mkdir(exist_ok=True)
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I -S "{FAKE}" "$@"\n')
    program.chmod(0o755)
    env = {"PATH": "/usr/bin:/bin", "HOME": str(home), "OPENAI_API_KEY": OTHER_SECRET, **(environment or {})}
    settings = msgspec.structs.replace(
        settings or NativeSettings(), delegates=DelegateSettings(claude=str(program), **limits)
    )
    factory = NativeFactory(Chooser(ClaudeCode(settings, environment=env), key), settings)
    async with proven(ClaudeHub(store or InMemory(), work, factories=[factory])) as hub:
        assert isinstance(hub, ClaudeHub)
        hub.home = home
        yield hub
