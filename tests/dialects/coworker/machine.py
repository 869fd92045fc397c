"""A HOME and a PATH with no program of this machine in them, and real providers that use them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from dragoman.agents.native.providers.directory import ProviderDirectory
from dragoman.agents.native.providers.keys import KeyStore
from dragoman.agents.native.settings import DelegateSettings, NativeSettings
from dragoman.dialects.coworker import messages as wire
from dragoman.dialects.coworker.sign_in import ProviderRequests

CODEX, CLAUDE = "codex-cli", "claude-code"
SECRET = "sk-very-secret-0123456789"


class Machine:
    """``said`` is what links were told, as on the wire. Nothing of it runs after the block."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bin, self.home = folder / "bin", folder / "home"
        for place in (self.bin, self.home / ".codex", self.home / ".claude"):
            place.mkdir(parents=True)
        self.keys = folder / "keys" / "providers.json"
        self.environment = {"PATH": str(self.bin), "HOME": str(self.home)}
        self.made: list[ProviderDirectory] = []
        self.said: list[dict[str, Any]] = []

    async def __aenter__(self) -> Machine:
        return self

    async def __aexit__(self, *_: object) -> None:
        for directory in self.made:
            await directory.close()

    def program(self, name: str, script: str) -> None:
        (self.bin / name).write_text(f"#!/bin/sh\nPATH=/usr/bin:/bin\n{script}\n")
        (self.bin / name).chmod(0o755)

    def directory(self, delegates: dict[str, Any] | None = None, **settings: Any) -> ProviderDirectory:
        given = NativeSettings(**{"local_servers": (), "delegates": DelegateSettings(**(delegates or {})), **settings})
        self.made.append(ProviderDirectory(given, KeyStore(self.keys), environment=self.environment))
        return self.made[-1]

    def link(self, directory: ProviderDirectory, session: str = "s") -> ProviderRequests:
        return ProviderRequests(directory, session, self.say)

    def say(self, message: wire.ServerMessage) -> None:
        self.said.append(msgspec.json.decode(wire.encode(message)))

    def take(self) -> list[dict[str, Any]]:
        """What was said since this was asked last."""
        said, self.said = self.said, []
        return said

    def codex_signs_in(self) -> None:
        tokens = {"access_token": SECRET, "refresh_token": SECRET}
        (self.home / ".codex" / "auth.json").write_text(json.dumps({"OPENAI_API_KEY": None, "tokens": tokens}))

    def claude_signs_in(self) -> None:
        (self.home / ".claude" / ".credentials.json").write_text("{}")


def types(said: list[dict[str, Any]]) -> list[str]:
    return [message["type"] for message in said]


def standing(message: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The entries of a ``provider_status``, by provider."""
    assert message["type"] == "provider_status"
    return {entry["provider"]: entry for entry in message["providers"]}


def without_times(message: dict[str, Any], *unasked: str) -> dict[str, Any]:
    """Without what differs from run to run; of those providers, without the message too: who is not asked cannot say
    what is wrong with it."""
    rest = {name: value for name, value in message.items() if name != "sessionId"}
    if message["type"] == "provider_status":
        rest["providers"] = list(_without_times(message["providers"], unasked))
    return rest


def _without_times(entries: list[dict[str, Any]], unasked: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    for entry in entries:
        left_out = {"checkedAt", "message"} if entry["provider"] in unasked else {"checkedAt"}
        yield {name: value for name, value in entry.items() if name not in left_out}
