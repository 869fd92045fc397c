"""How hooks that the person has installed are told from foreign ones inside a program that runs a turn of ours.

All that such a hook could tell is heard from the program itself already.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from dragoman.agents.common.hook_secret import SECRET, new_secret, same_secret
from dragoman.hub.errors import Unsupported
from dragoman.hub.events import Json
from dragoman.hub.permissions import Principal
from dragoman.hub.ports import StopVerdict

KEPT = 64
"""Names of conversations that are remembered: a program's last hooks may come after its end."""

_AGENTS = {"claude-code": "claude", "codex-cli": "codex"}
"""The agent that a provider runs, as its hooks name it."""

_NONE = "this session's program is not driven by its hooks"


class DelegateHooks:
    """Implements the hub's ``Hooks`` for one session whose turns programs may run: it only says whose a hook is."""

    def __init__(self) -> None:
        self._secret = new_secret()
        self._running: str | None = None
        self._unnamed = False
        self._known: dict[tuple[str, str], None] = {}

    def environment(self) -> dict[str, str]:
        """What a program's environment needs beside the session's id."""
        return {SECRET: self._secret}

    @contextlib.contextmanager
    def round(self, provider: str, conversation: str | None) -> Iterator[None]:
        """Around one round of this provider's program, which goes on with a conversation or begins one."""
        self._running, self._unnamed = _AGENTS.get(provider, provider), True
        if conversation is not None:
            self.named(conversation)
        try:
            yield
        finally:
            self._running = None

    def named(self, conversation: str) -> None:
        """The program has said what it calls its conversation."""
        if self._running is not None:
            self._unnamed = False
            self._known[self._running, conversation] = None
            while len(self._known) > KEPT:
                del self._known[next(iter(self._known))]

    def hears(self, agent: str, agent_session: str | None) -> bool | None:
        """See the port. None while the program has not named its conversation yet."""
        if agent_session is not None and (agent, agent_session) in self._known:
            return True
        return None if agent == self._running and (self._unnamed or agent_session is None) else False

    def proves(self, secret: str) -> bool:
        """See the port."""
        return same_secret(secret, self._secret)

    async def ingest(self, event: str, data: Json) -> None:  # noqa: ARG002
        raise Unsupported(_NONE)

    async def stop(self, data: Json) -> StopVerdict:  # noqa: ARG002
        raise Unsupported(_NONE)

    async def signal(self, principal: Principal, body: Json) -> None:  # noqa: ARG002
        raise Unsupported(_NONE)

    async def start(self, data: Json) -> str:  # noqa: ARG002
        raise Unsupported(_NONE)
