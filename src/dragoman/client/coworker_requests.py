"""What a client may ask in agent-coworker 3.0, and by which frame it knows the answer. No I/O.

The protocol has no ids for requests: a reply is known by its type and by what it is about, a refusal by its code and
source. Where several requests wait, the oldest one that a frame fits has it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from .coworker_place import Message

Fits = Callable[[Message], bool]
Refusals = frozenset[tuple[str, str]]

_BUSY: Refusals = frozenset({("busy", "session")})
_TURN: Refusals = _BUSY | {("validation_failed", "session"), ("internal_error", "session")}
_SKILL: Refusals = _TURN
_PROVIDER: Refusals = _BUSY | {("provider_error", "provider")}
_BACKUP: Refusals = _BUSY | {("backup_error", "backup"), ("validation_failed", "backup")}


@dataclass(frozen=True)
class Request:
    """One message, without its ``sessionId``. ``reply`` None: nothing answers it.

    ``again``: it may be sent a second time, to the same session, without doing harm.
    """

    message: Message
    reply: str | None = None
    fits: Fits = field(default=lambda _: True)
    refusals: Refusals = frozenset()
    again: bool = False

    @property
    def type(self) -> str:
        """The type of the message."""
        return str(self.message["type"])

    def is_answer(self, frame: Message) -> bool:
        """Whether the frame is what was asked for."""
        return frame["type"] == self.reply and self.fits(frame)

    def is_refusal(self, frame: Message) -> bool:
        """Whether the frame says that it will not be done."""
        if frame["type"] != "error":
            return False
        if frame["source"] == "protocol":
            return frame["code"] != "validation_failed" or str(frame["message"]).startswith(f"{self.type} ")
        return (frame["code"], frame["source"]) in self.refusals


def _plain(kind: str, reply: str, **fields: Any) -> Request:
    """A question: asked again after a cut, it has its answer then."""
    return Request({"type": kind, **fields}, reply, again=True)


def _about(name: str, value: object) -> Fits:
    return lambda frame: frame.get(name) == value


def ping() -> Request:
    """Answered by ``pong``."""
    return _plain("ping", "pong")


# Turns


def user_message(text: str, message_id: str) -> Request:
    """Answered by its echo."""
    message = {"type": "user_message", "text": text, "clientMessageId": message_id}
    return Request(message, "user_message", _about("clientMessageId", message_id), _TURN, again=True)


def execute_command(name: str, arguments: str | None, message_id: str) -> Request:
    """Answered by the echo of what was typed."""
    message = {"type": "execute_command", "name": name, "clientMessageId": message_id}
    if arguments is not None:
        message["arguments"] = arguments
    return Request(message, "user_message", _about("clientMessageId", message_id), _TURN, again=True)


def ask_response(request_id: str, answer: str) -> Request:
    """Nothing answers it: the agent goes on."""
    return Request({"type": "ask_response", "requestId": request_id, "answer": answer})


def approval_response(request_id: str, *, approved: bool) -> Request:
    """Nothing answers it: the agent goes on."""
    return Request({"type": "approval_response", "requestId": request_id, "approved": approved})


def cancel() -> Request:
    """Nothing answers it: the turn's end is seen, if there is a turn."""
    return Request({"type": "cancel"})


def reset() -> Request:
    """Answered by ``reset_done``."""
    return Request({"type": "reset"}, "reset_done", refusals=_TURN)


# Settings


def set_model(model: str, provider: str | None) -> Request:
    """Answered by ``config_updated``."""
    message = {"type": "set_model", "model": model} | ({"provider": provider} if provider is not None else {})
    return Request(message, "config_updated", refusals=_TURN)


def set_enable_mcp(*, enable: bool) -> Request:
    """Answered by ``session_settings``."""
    message = {"type": "set_enable_mcp", "enableMcp": enable}
    return Request(message, "session_settings", _about("enableMcp", enable), _TURN)


def harness_context_get() -> Request:
    """Answered by ``harness_context``."""
    return _plain("harness_context_get", "harness_context")


def harness_context_set(context: Message) -> Request:
    """Answered by ``harness_context``."""
    message = {"type": "harness_context_set", "context": context}
    return Request(message, "harness_context", refusals=frozenset({("internal_error", "session")}))


# Providers


def provider_catalog_get() -> Request:
    """Answered by ``provider_catalog``."""
    return _plain("provider_catalog_get", "provider_catalog")


def provider_auth_methods_get() -> Request:
    """Answered by ``provider_auth_methods``."""
    return _plain("provider_auth_methods_get", "provider_auth_methods")


def refresh_provider_status() -> Request:
    """Answered by ``provider_status``."""
    return _plain("refresh_provider_status", "provider_status")


def _signing_in(kind: str, reply: str, provider: str, method: str, **fields: Any) -> Request:
    def fits(frame: Message) -> bool:
        return bool(frame["provider"] == provider and frame["methodId"] == method)

    return Request({"type": kind, "provider": provider, "methodId": method, **fields}, reply, fits, _PROVIDER)


def provider_auth_authorize(provider: str, method: str) -> Request:
    """Answered by ``provider_auth_challenge``."""
    return _signing_in("provider_auth_authorize", "provider_auth_challenge", provider, method)


def provider_auth_callback(provider: str, method: str, code: str | None) -> Request:
    """Answered by ``provider_auth_result``."""
    fields = {} if code is None else {"code": code}
    return _signing_in("provider_auth_callback", "provider_auth_result", provider, method, **fields)


def provider_auth_set_api_key(provider: str, method: str, key: str) -> Request:
    """Answered by ``provider_auth_result``."""
    return _signing_in("provider_auth_set_api_key", "provider_auth_result", provider, method, apiKey=key)


# Tools, commands, skills


def list_tools() -> Request:
    """Answered by ``tools``."""
    return _plain("list_tools", "tools")


def list_commands() -> Request:
    """Answered by ``commands``."""
    return _plain("list_commands", "commands")


def list_skills() -> Request:
    """Answered by ``skills_list``."""
    return _plain("list_skills", "skills_list")


def read_skill(name: str) -> Request:
    """Answered by ``skill_content``."""

    def fits(frame: Message) -> bool:
        return bool(frame["skill"]["name"] == name.strip())

    return Request({"type": "read_skill", "skillName": name}, "skill_content", fits, _SKILL, again=True)


def toggle_skill(kind: str, name: str) -> Request:
    """``enable_skill``, ``disable_skill`` or ``delete_skill``: answered by ``skills_list``, before ``commands``."""
    return Request({"type": kind, "skillName": name}, "skills_list", refusals=_SKILL)


# Backups


def _backup(kind: str, reason: str, checkpoint: str | None = None) -> Request:
    message = {"type": kind} | ({"checkpointId": checkpoint} if checkpoint is not None else {})
    refusals = frozenset[tuple[str, str]]() if reason == "requested" else _BACKUP
    return Request(message, "session_backup_state", _about("reason", reason), refusals, again=reason == "requested")


def session_backup_get() -> Request:
    """Answered by ``session_backup_state``, with the reason ``requested``."""
    return _backup("session_backup_get", "requested")


def session_backup_checkpoint() -> Request:
    """Answered by ``session_backup_state``, with the reason ``manual_checkpoint``."""
    return _backup("session_backup_checkpoint", "manual_checkpoint")


def session_backup_restore(checkpoint: str | None) -> Request:
    """Answered by ``session_backup_state``, with the reason ``restore``."""
    return _backup("session_backup_restore", "restore", checkpoint)


def session_backup_delete_checkpoint(checkpoint: str) -> Request:
    """Answered by ``session_backup_state``, with the reason ``delete``."""
    return _backup("session_backup_delete_checkpoint", "delete", checkpoint)


# Observability


def observability_query(query: Message) -> Request:
    """Answered by ``observability_query_result``, also where the query failed."""

    def fits(frame: Message) -> bool:
        result = frame["result"]
        return bool((result["queryType"], result["query"]) == (query["queryType"], query["query"]))

    return Request({"type": "observability_query", "query": query}, "observability_query_result", fits, again=True)


def harness_slo_evaluate(checks: Iterable[Message]) -> Request:
    """Answered by ``harness_slo_result``, also where a check could not be made."""
    return _plain("harness_slo_evaluate", "harness_slo_result", checks=list(checks))
