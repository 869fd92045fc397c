"""What surrounds a session of a hub client: checkpoints of its folder, skills, and slash commands.

workspace = client.workspace(session)
saved = await workspace.take_checkpoint()
...
await workspace.restore(saved["checkpoint"])
"""

from __future__ import annotations

import uuid
from typing import Any, Protocol

from .hub_streams import Message


class Asker(Protocol):
    """What a workspace needs of its client."""

    async def request(self, op: str, *, again: bool = False, **fields: Any) -> Message: ...


class Workspace:
    """See the module; made by ``HubClient.workspace``. All of it raises as ``HubClient.request`` does."""

    def __init__(self, client: Asker, session: str) -> None:
        self.session = session
        self._client = client

    # Checkpoints

    async def checkpoints(self) -> Message:
        """The ``checkpoints``, oldest first, with the cursor ``seq`` that they are true at; whether more are
        ``wanted``, and in which ``folder`` they lie."""
        return await self._ask("checkpoints", again=True)

    async def take_checkpoint(self) -> Message:
        """Save the folder now, and return the checkpoint."""
        saved: Message = (await self._ask("take_checkpoint"))["saved"]
        return saved

    async def restore(self, checkpoint: str | None = None) -> Message:
        """Make the folder what a checkpoint holds, the first one by default. What is there is saved before."""
        return await self._ask("restore_checkpoint", checkpoint=checkpoint)

    async def delete_checkpoint(self, checkpoint: str) -> Message:
        """Let one go; the first one stays."""
        return await self._ask("delete_checkpoint", checkpoint=checkpoint)

    # Skills

    async def skills(self) -> list[Message]:
        """The skills of the folder, those that are switched off among them."""
        return await self._skills("skills", again=True)

    async def read_skill(self, skill: str) -> Message:
        """One ``skill`` with its ``content``."""
        return await self._ask("read_skill", again=True, skill=skill)

    async def enable_skill(self, skill: str) -> list[Message]:
        """Switch a global skill on, for every session of the server; the skills as they are then."""
        return await self._skills("enable_skill", again=True, skill=skill)

    async def disable_skill(self, skill: str) -> list[Message]:
        """Switch it off."""
        return await self._skills("disable_skill", again=True, skill=skill)

    async def delete_skill(self, skill: str) -> list[Message]:
        """Remove it for good."""
        return await self._skills("delete_skill", skill=skill)

    # Slash commands

    async def commands(self) -> list[Message]:
        """The slash commands of the folder, sorted by name."""
        found: list[Message] = (await self._ask("commands", again=True))["commands"]
        return found

    async def run(
        self, command: str, arguments: str = "", *, when_busy: str = "refuse", key: str | None = None
    ) -> Message:
        """Submit what a slash command means. With a message id (``key``) in any case, as ``HubClient.submit``."""
        key = key or str(uuid.uuid4())
        return await self._ask(
            "run_command",
            again=True,
            command=command,
            arguments=arguments,
            when_busy=when_busy,
            client_message_id=key,
        )

    # Inside

    async def _skills(self, op: str, *, again: bool = False, **fields: Any) -> list[Message]:
        found: list[Message] = (await self._ask(op, again=again, **fields))["skills"]
        return found

    async def _ask(self, op: str, *, again: bool = False, **fields: Any) -> Message:
        return await self._client.request(op, again=again, session=self.session, **fields)
