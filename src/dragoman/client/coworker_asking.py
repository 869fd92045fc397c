"""What a coworker client can ask beside its turns: settings, providers, tools, skills, backups, observability."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable

from . import coworker_requests as requests
from .coworker_place import Message
from .coworker_requests import Request


class CoworkerAsking(ABC):
    """The questions of ``CoworkerClient``. All raise as ``request`` does."""

    @abstractmethod
    async def request(self, request: Request, *, within: float | None = None) -> Message:
        """Send a request and return the frame that answers it, which must come ``within`` so many seconds, else the
        options' ``answer_limit``. Raises ``Refused``, ``ConnectionLost``, ``Denied``, ``TimeoutError``."""

    async def ping(self) -> None:
        """Ask whether the server is there; returns with its ``pong``."""
        await self.request(requests.ping())

    # Settings

    async def set_model(self, model: str, provider: str | None = None) -> Message:
        """Another model from the next turn on; returns the ``config``."""
        config: Message = (await self.request(requests.set_model(model, provider)))["config"]
        return config

    async def set_enable_mcp(self, *, enable: bool) -> None:
        """Whether tools of MCP servers are there."""
        await self.request(requests.set_enable_mcp(enable=enable))

    async def harness_context(self) -> Message | None:
        """What the run is about; None while nobody said so."""
        context: Message | None = (await self.request(requests.harness_context_get()))["context"]
        return context

    async def set_harness_context(self, context: Message) -> Message:
        """Say it anew (``runId``, ``objective``, ``acceptanceCriteria``, ``constraints``…); returns what is kept."""
        kept: Message = (await self.request(requests.harness_context_set(context)))["context"]
        return kept

    # Providers

    async def catalog(self) -> Message:
        """The providers: ``all``, ``default``, ``connected``."""
        return await self.request(requests.provider_catalog_get())

    async def auth_methods(self) -> dict[str, list[Message]]:
        """How each provider can be signed in to."""
        methods: dict[str, list[Message]] = (await self.request(requests.provider_auth_methods_get()))["methods"]
        return methods

    async def provider_status(self) -> list[Message]:
        """How each provider stands."""
        providers: list[Message] = (await self.request(requests.refresh_provider_status()))["providers"]
        return providers

    async def authorize(self, provider: str, method: str) -> Message:
        """What the person is to do to sign in. Raises ``Refused`` (``provider_error``)."""
        challenge: Message = (await self.request(requests.provider_auth_authorize(provider, method)))["challenge"]
        return challenge

    async def sign_in(self, provider: str, method: str, code: str | None = None, *, limit: float = 600.0) -> Message:
        """Complete it, which may wait ``limit`` seconds for a person: ``ok``, ``mode``, ``message``."""
        return await self.request(requests.provider_auth_callback(provider, method, code), within=limit)

    async def set_key(self, provider: str, key: str, *, method: str = "api_key") -> Message:
        """Keep a provider's key: ``ok``, ``mode``, ``message``."""
        return await self.request(requests.provider_auth_set_api_key(provider, method, key))

    # Tools, commands, skills

    async def tools(self) -> list[str]:
        """The names of the agent's own tools."""
        tools: list[str] = (await self.request(requests.list_tools()))["tools"]
        return tools

    async def commands(self) -> list[Message]:
        """The slash commands."""
        commands: list[Message] = (await self.request(requests.list_commands()))["commands"]
        return commands

    async def skills(self) -> list[Message]:
        """The skills, those that are switched off among them."""
        skills: list[Message] = (await self.request(requests.list_skills()))["skills"]
        return skills

    async def read_skill(self, name: str) -> Message:
        """One ``skill`` with its ``content``. Raises ``Refused`` (``validation_failed``), as all that name one."""
        return await self.request(requests.read_skill(name))

    async def enable_skill(self, name: str) -> list[Message]:
        """Switch a global skill on; the skills as they are then."""
        return await self._toggle("enable_skill", name)

    async def disable_skill(self, name: str) -> list[Message]:
        """Switch it off."""
        return await self._toggle("disable_skill", name)

    async def delete_skill(self, name: str) -> list[Message]:
        """Remove it for good."""
        return await self._toggle("delete_skill", name)

    # Backups

    async def backup(self) -> Message:
        """The checkpoints of the session's folder, with their ``status``."""
        return await self._backup(requests.session_backup_get())

    async def checkpoint(self) -> Message:
        """Save the folder now. Raises ``Refused`` (``backup_error``, ``busy``), as all that change something."""
        return await self._backup(requests.session_backup_checkpoint())

    async def restore(self, checkpoint: str | None = None) -> Message:
        """Make the folder what a checkpoint holds, or what it was when the session began."""
        return await self._backup(requests.session_backup_restore(checkpoint))

    async def delete_checkpoint(self, checkpoint: str) -> Message:
        """Let one go."""
        return await self._backup(requests.session_backup_delete_checkpoint(checkpoint))

    # Observability

    async def query(self, query: Message) -> Message:
        """Ask a store (``queryType``, ``query``…): ``status``, ``data``, ``error``."""
        result: Message = (await self.request(requests.observability_query(query)))["result"]
        return result

    async def evaluate(self, checks: Iterable[Message]) -> Message:
        """Whether what was promised holds: ``passed``, ``checks``."""
        result: Message = (await self.request(requests.harness_slo_evaluate(checks)))["result"]
        return result

    # Inside

    async def _toggle(self, kind: str, name: str) -> list[Message]:
        skills: list[Message] = (await self.request(requests.toggle_skill(kind, name)))["skills"]
        return skills

    async def _backup(self, request: Request) -> Message:
        backup: Message = (await self.request(request))["backup"]
        return backup
