"""What a client may say in agent-coworker 3.0, typed (seed: Client -> Server Messages).

Every message but ``client_hello`` names the link's own session; that is checked here, and not kept. A field that may be
left out is None then. Texts are as they were given, white space around them and all, but for halves of characters:
those are U+FFFD. What a client sends beside these fields is ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import msgspec
from msgspec import Raw

from dragoman.services.observability.harness import HarnessContext
from dragoman.services.observability.queries import QueryRequest
from dragoman.services.observability.slo import SloCheck

from . import fields, harness_fields
from .fields import Wrong
from .given import Given, taken_apart
from .javascript import clipped, printed
from .messages import PROVIDERS, ErrorCode

Methods = Mapping[str, Collection[str]]
"""The ids of the ways to sign in, by provider."""

FEATURES_BYTES = 64 * 1024
"""Bytes of JSON in which features are looked for."""


class ProtocolProblem(Exception):
    """A message that is none. The text and ``code`` are the protocol's; the source of the error is ``protocol``."""

    def __init__(self, message: str, code: ErrorCode) -> None:
        super().__init__(message)
        self.message = message
        self.code: ErrorCode = code


class ClientMessage(msgspec.Struct, frozen=True):
    """What all have in common: nothing."""


class ClientHello(ClientMessage, frozen=True, kw_only=True):
    """Who it is. ``features`` is beyond the seed: what the client knows that the seed lacks."""

    client: str
    version: str | None = None
    features: tuple[str, ...] = ()


class UserMessage(ClientMessage, frozen=True, kw_only=True):
    """A prompt, which may be empty."""

    text: str
    client_message_id: str | None = None


class AskResponse(ClientMessage, frozen=True, kw_only=True):
    """An answer to ``ask``."""

    request_id: str
    answer: str


class ApprovalResponse(ClientMessage, frozen=True, kw_only=True):
    """An answer to ``approval``."""

    request_id: str
    approved: bool


class SetModel(ClientMessage, frozen=True, kw_only=True):
    """``provider`` is one of ``PROVIDERS``."""

    model: str
    provider: str | None = None


class RefreshProviderStatus(ClientMessage, frozen=True):
    """Answered by ``provider_status``."""


class ProviderCatalogGet(ClientMessage, frozen=True):
    """Answered by ``provider_catalog``."""


class ProviderAuthMethodsGet(ClientMessage, frozen=True):
    """Answered by ``provider_auth_methods``."""


class ProviderAuthAuthorize(ClientMessage, frozen=True, kw_only=True):
    """``method_id`` is one of the provider's own, here and below."""

    provider: str
    method_id: str


class ProviderAuthCallback(ClientMessage, frozen=True, kw_only=True):
    """Sign in now. The code is a secret."""

    provider: str
    method_id: str
    code: str | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.provider!r}, {self.method_id!r}, ***)"


class ProviderAuthSetApiKey(ClientMessage, frozen=True, kw_only=True):
    """Keep a key, which is a secret."""

    provider: str
    method_id: str
    api_key: str

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.provider!r}, {self.method_id!r}, ***)"


class ListTools(ClientMessage, frozen=True):
    """Answered by ``tools``."""


class ListCommands(ClientMessage, frozen=True):
    """Answered by ``commands``."""


class ExecuteCommand(ClientMessage, frozen=True, kw_only=True):
    """A slash command, by its name without the slash."""

    name: str
    arguments: str | None = None
    client_message_id: str | None = None


class ListSkills(ClientMessage, frozen=True):
    """Answered by ``skills_list``."""


class ReadSkill(ClientMessage, frozen=True, kw_only=True):
    """Answered by ``skill_content``."""

    skill_name: str


class DisableSkill(ClientMessage, frozen=True, kw_only=True):
    """Answered by ``skills_list``, then ``commands``."""

    skill_name: str


class EnableSkill(ClientMessage, frozen=True, kw_only=True):
    """Answered as ``disable_skill``."""

    skill_name: str


class DeleteSkill(ClientMessage, frozen=True, kw_only=True):
    """Answered as ``disable_skill``."""

    skill_name: str


class SetEnableMcp(ClientMessage, frozen=True, kw_only=True):
    """Answered by ``session_settings``."""

    enable_mcp: bool


class HarnessContextGet(ClientMessage, frozen=True):
    """Answered by ``harness_context``."""


class HarnessContextSet(ClientMessage, frozen=True, kw_only=True):
    """In place of what was set before."""

    context: HarnessContext


class ObservabilityQuery(ClientMessage, frozen=True, kw_only=True):
    """Answered by ``observability_query_result``."""

    query: QueryRequest


class HarnessSloEvaluate(ClientMessage, frozen=True, kw_only=True):
    """One check at least."""

    checks: tuple[SloCheck, ...]


class Reset(ClientMessage, frozen=True):
    """Forget the conversation."""


class Cancel(ClientMessage, frozen=True):
    """End the turn that runs."""


class Ping(ClientMessage, frozen=True):
    """Answered by ``pong``."""


class SessionBackupGet(ClientMessage, frozen=True):
    """Answered by ``session_backup_state``, as those below."""


class SessionBackupCheckpoint(ClientMessage, frozen=True):
    """Take one now."""


class SessionBackupRestore(ClientMessage, frozen=True, kw_only=True):
    """None: to what the session began with."""

    checkpoint_id: str | None = None


class SessionBackupDeleteCheckpoint(ClientMessage, frozen=True, kw_only=True):
    """Let go of one."""

    checkpoint_id: str


_any_list: msgspec.json.Decoder[list[object]] = msgspec.json.Decoder(list[object])


def decode(message: str | bytes, session: str, methods: Methods) -> ClientMessage:
    """A client's message, for the link of this session. Bytes are UTF-8. Raises ``ProtocolProblem``, nothing else."""
    try:
        return _decoded(message, session, methods)
    except Wrong as wrong:
        raise ProtocolProblem(str(wrong), wrong.code) from None
    except RecursionError:
        raise ProtocolProblem("Invalid JSON", "invalid_json") from None


def _decoded(message: str | bytes, session: str, methods: Methods) -> ClientMessage:
    given = taken_apart(message)
    kind = fields.read_text(given.type)
    if kind is None:
        raise Wrong("Missing type", "missing_type")
    reader = _READERS.get(kind)
    if reader is None:
        raise Wrong(f"Unknown type: {clipped(kind)}", "unknown_type")
    try:
        named = None if reader is _hello else fields.filled(given.session_id, "missing sessionId")
        found = reader(given, methods)
    except Wrong as wrong:
        raise Wrong(f"{kind} {wrong}") from None
    if named not in (None, session):
        raise Wrong(f"Unknown sessionId: {clipped(named or '')}", "unknown_session")
    return found


# One reader per message: what it checks, in this order (spec 2)

_Reader = Callable[[Given, Methods], ClientMessage]


def _hello(given: Given, _: Methods) -> ClientHello:
    client = fields.filled(given.client, "missing/invalid client")
    version = fields.maybe_text(given.version, "invalid version")
    return ClientHello(client=client, version=version, features=_features(given.features))


def _features(raw: Raw) -> tuple[str, ...]:
    """What is no list of texts is nothing, and a mistake in it no error: the seed knows no such field."""
    found = fields.read(raw, _any_list) if memoryview(raw).nbytes <= FEATURES_BYTES else None
    return tuple(name for name in found or () if isinstance(name, str))


def _user_message(given: Given, _: Methods) -> UserMessage:
    text = fields.text(given.text, "missing text")
    return UserMessage(text=text, client_message_id=_message_id(given))


def _message_id(given: Given) -> str | None:
    return fields.maybe_text(given.client_message_id, "invalid clientMessageId")


def _ask_response(given: Given, _: Methods) -> AskResponse:
    request = fields.filled(given.request_id, "missing requestId")
    return AskResponse(request_id=request, answer=fields.text(given.answer, "missing answer"))


def _approval_response(given: Given, _: Methods) -> ApprovalResponse:
    request = fields.filled(given.request_id, "missing requestId")
    return ApprovalResponse(request_id=request, approved=fields.flag(given.approved, "missing/invalid approved"))


def _set_model(given: Given, _: Methods) -> SetModel:
    model = fields.filled(given.model, "missing/invalid model")
    if not fields.given(given.provider):
        return SetModel(model=model)
    try:
        return SetModel(model=model, provider=fields.one_of(given.provider, PROVIDERS, ""))
    except Wrong:
        raise Wrong(f"invalid provider: {printed(bytes(given.provider))}") from None


def _authorize(given: Given, methods: Methods) -> ProviderAuthAuthorize:
    provider, method = _method(given, methods)
    return ProviderAuthAuthorize(provider=provider, method_id=method)


def _callback(given: Given, methods: Methods) -> ProviderAuthCallback:
    provider, method = _method(given, methods)
    code = fields.maybe_text(given.code, "invalid code")
    return ProviderAuthCallback(provider=provider, method_id=method, code=code)


def _set_api_key(given: Given, methods: Methods) -> ProviderAuthSetApiKey:
    provider, method = _method(given, methods)
    key = fields.filled(given.api_key, "missing/invalid apiKey")
    return ProviderAuthSetApiKey(provider=provider, method_id=method, api_key=key)


def _method(given: Given, methods: Methods) -> tuple[str, str]:
    provider = fields.one_of(given.provider, PROVIDERS, "missing/invalid provider")
    method = fields.filled(given.method_id, "missing/invalid methodId")
    if method not in methods.get(provider, ()):
        raise Wrong("unknown methodId")
    return provider, method


def _execute_command(given: Given, _: Methods) -> ExecuteCommand:
    name = fields.filled(given.name, "missing/invalid name")
    arguments = fields.maybe_text(given.arguments, "invalid arguments")
    return ExecuteCommand(name=name, arguments=arguments, client_message_id=_message_id(given))


def _skill(given: Given) -> str:
    return fields.filled(given.skill_name, "missing/invalid skillName")


def _restore(given: Given, _: Methods) -> SessionBackupRestore:
    if not fields.given(given.checkpoint_id):
        return SessionBackupRestore()
    return SessionBackupRestore(checkpoint_id=fields.filled(given.checkpoint_id, "invalid checkpointId"))


def _delete_checkpoint(given: Given, _: Methods) -> SessionBackupDeleteCheckpoint:
    return SessionBackupDeleteCheckpoint(checkpoint_id=fields.filled(given.checkpoint_id, "missing checkpointId"))


def _set_enable_mcp(given: Given, _: Methods) -> SetEnableMcp:
    return SetEnableMcp(enable_mcp=fields.flag(given.enable_mcp, "missing/invalid enableMcp"))


_READERS: dict[str, _Reader] = {
    "client_hello": _hello,
    "user_message": _user_message,
    "ask_response": _ask_response,
    "approval_response": _approval_response,
    "set_model": _set_model,
    "refresh_provider_status": lambda *_: RefreshProviderStatus(),
    "provider_catalog_get": lambda *_: ProviderCatalogGet(),
    "provider_auth_methods_get": lambda *_: ProviderAuthMethodsGet(),
    "provider_auth_authorize": _authorize,
    "provider_auth_callback": _callback,
    "provider_auth_set_api_key": _set_api_key,
    "list_tools": lambda *_: ListTools(),
    "list_commands": lambda *_: ListCommands(),
    "execute_command": _execute_command,
    "list_skills": lambda *_: ListSkills(),
    "read_skill": lambda given, _: ReadSkill(skill_name=_skill(given)),
    "disable_skill": lambda given, _: DisableSkill(skill_name=_skill(given)),
    "enable_skill": lambda given, _: EnableSkill(skill_name=_skill(given)),
    "delete_skill": lambda given, _: DeleteSkill(skill_name=_skill(given)),
    "set_enable_mcp": _set_enable_mcp,
    "harness_context_get": lambda *_: HarnessContextGet(),
    "harness_context_set": lambda given, _: HarnessContextSet(context=harness_fields.context(given.context)),
    "observability_query": lambda given, _: ObservabilityQuery(query=harness_fields.query(given.query)),
    "harness_slo_evaluate": lambda given, _: HarnessSloEvaluate(checks=harness_fields.checks(given.checks)),
    "reset": lambda *_: Reset(),
    "cancel": lambda *_: Cancel(),
    "ping": lambda *_: Ping(),
    "session_backup_get": lambda *_: SessionBackupGet(),
    "session_backup_checkpoint": lambda *_: SessionBackupCheckpoint(),
    "session_backup_restore": _restore,
    "session_backup_delete_checkpoint": _delete_checkpoint,
}

TYPES = tuple(_READERS)
"""Every type of message."""
