"""What a ConnectOnion client says beside prompts: answers, modes, questions about the session."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Literal

from . import onion_requests as requests
from .onion_place import Message
from .onion_requests import Request

Mode = Literal["safe", "plan", "accept_edits", "ulw"]
Scope = Literal["once", "session"]
Rejection = Literal["reject_hard", "reject_soft", "reject_explain"]


class OnionAsking(ABC):
    """See the module."""

    session_id: str | None

    @abstractmethod
    def _send(self, request: Request) -> None:
        """Send it now, or with the next connection."""

    @abstractmethod
    def _respond(self, request_id: str, request: Request) -> None:
        """The same, and again after a cut that may have lost it."""

    @abstractmethod
    async def _ask(self, request: Request) -> Message:
        """Send it, and return the answer."""

    @abstractmethod
    def _signed(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """The fields that say who signed these arguments. Raises ``ValueError`` without a key."""

    def interrupt(self) -> None:
        """Have the turn that runs end; its OUTPUT follows."""
        self._send(Request({"type": "INTERRUPT"}))

    def mode(self, mode: Mode) -> None:
        """Change how much the agent may do unasked; ``mode_changed`` follows, or an ERROR."""
        self._send(Request({"type": "mode_change", "mode": mode}))

    # Answering

    def answer(self, request_id: str, given: str | list[str]) -> None:
        """Answer an ``ask_user`` by its ``id``. One that came too late is told by an ERROR with code STALE_ANSWER."""
        self._respond(request_id, requests.answer(request_id, given))

    def approve(
        self,
        request_id: str,
        *,
        approved: bool,
        scope: Scope = "once",
        feedback: str | None = None,
        rejection: Rejection | None = None,
    ) -> None:
        """Answer an ``approval_needed``, as ``answer``. ``rejection`` says how a no is meant."""
        given = requests.approval(request_id, approved=approved, scope=scope, feedback=feedback, rejection=rejection)
        self._respond(request_id, given)

    def review(self, request_id: str, message: str) -> None:
        """Answer a ``plan_review``, as ``answer``."""
        self._respond(request_id, requests.review(request_id, message))

    # Asking

    async def ask_status(self) -> str:
        """What the server says of the session: ``running``, ``connected`` or ``not_found``."""
        assert self.session_id is not None, "there is no session before start() has returned"
        request = requests.status(self.session_id)
        return str((await self._ask(request))["status"])

    async def administer(self, action: str, **arguments: Any) -> Message:
        """``promote``, ``demote``, ``block``, ``unblock``, ``get_level``, ``add`` or ``remove``: its ADMIN_RESULT.

        Raises ``Refused`` for who may not.
        """
        return await self._ask(requests.administer(action, self._signed(arguments)))
