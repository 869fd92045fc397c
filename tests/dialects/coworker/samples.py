"""A valid message of each type, and what is decoded of it."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from dragoman.dialects.coworker import client_messages as say
from dragoman.dialects.coworker.client_messages import ClientMessage, ProtocolProblem, decode
from dragoman.hub.events import Json
from dragoman.services.observability.harness import HarnessContext
from dragoman.services.observability.queries import QueryRequest
from dragoman.services.observability.slo import SloCheck

SESSION = "550e8400-e29b-41d4-a716-446655440000"
KEY, OAUTH = "api_key", "oauth_cli"
METHODS = {
    "google": (KEY,),
    "openai": (KEY,),
    "anthropic": (KEY,),
    "codex-cli": (OAUTH, KEY),
    "claude-code": (OAUTH, KEY),
}
BLANK: tuple[Json, ...] = (None, 5, "", " \t\ufeff", [], {})
"""What is no text with anything in it."""

CONTEXT = {"runId": "r", "objective": "o", "acceptanceCriteria": ["a"], "constraints": []}
QUERY = {"queryType": "promql", "query": "up"}
CHECK = {
    "id": "c",
    "type": "custom",
    "queryType": "promql",
    "query": "up",
    "op": "<",
    "threshold": 1,
    "windowSec": 10,
}

VALID: dict[str, tuple[dict[str, Any], ClientMessage]] = {
    "client_hello": ({"client": "ui"}, say.ClientHello(client="ui")),
    "user_message": ({"text": ""}, say.UserMessage(text="")),
    "ask_response": ({"requestId": "r", "answer": ""}, say.AskResponse(request_id="r", answer="")),
    "approval_response": (
        {"requestId": "r", "approved": False},
        say.ApprovalResponse(request_id="r", approved=False),
    ),
    "set_model": ({"model": " m "}, say.SetModel(model=" m ")),
    "refresh_provider_status": ({}, say.RefreshProviderStatus()),
    "provider_catalog_get": ({}, say.ProviderCatalogGet()),
    "provider_auth_methods_get": ({}, say.ProviderAuthMethodsGet()),
    "provider_auth_authorize": (
        {"provider": "codex-cli", "methodId": OAUTH},
        say.ProviderAuthAuthorize(provider="codex-cli", method_id=OAUTH),
    ),
    "provider_auth_callback": (
        {"provider": "openai", "methodId": KEY},
        say.ProviderAuthCallback(provider="openai", method_id=KEY),
    ),
    "provider_auth_set_api_key": (
        {"provider": "openai", "methodId": KEY, "apiKey": " k "},
        say.ProviderAuthSetApiKey(provider="openai", method_id=KEY, api_key=" k "),
    ),
    "list_tools": ({}, say.ListTools()),
    "list_commands": ({}, say.ListCommands()),
    "execute_command": ({"name": "review"}, say.ExecuteCommand(name="review")),
    "list_skills": ({}, say.ListSkills()),
    "read_skill": ({"skillName": "pdf"}, say.ReadSkill(skill_name="pdf")),
    "disable_skill": ({"skillName": "pdf"}, say.DisableSkill(skill_name="pdf")),
    "enable_skill": ({"skillName": "pdf"}, say.EnableSkill(skill_name="pdf")),
    "delete_skill": ({"skillName": "pdf"}, say.DeleteSkill(skill_name="pdf")),
    "set_enable_mcp": ({"enableMcp": False}, say.SetEnableMcp(enable_mcp=False)),
    "harness_context_get": ({}, say.HarnessContextGet()),
    "harness_context_set": (
        {"context": CONTEXT},
        say.HarnessContextSet(
            context=HarnessContext(run_id="r", objective="o", acceptance_criteria=("a",), constraints=())
        ),
    ),
    "observability_query": (
        {"query": QUERY},
        say.ObservabilityQuery(query=QueryRequest(query_type="promql", query="up")),
    ),
    "harness_slo_evaluate": (
        {"checks": [CHECK]},
        say.HarnessSloEvaluate(checks=(msgspec.convert(CHECK, SloCheck),)),
    ),
    "reset": ({}, say.Reset()),
    "cancel": ({}, say.Cancel()),
    "ping": ({}, say.Ping()),
    "session_backup_get": ({}, say.SessionBackupGet()),
    "session_backup_checkpoint": ({}, say.SessionBackupCheckpoint()),
    "session_backup_restore": ({}, say.SessionBackupRestore()),
    "session_backup_delete_checkpoint": (
        {"checkpointId": "cp-0001"},
        say.SessionBackupDeleteCheckpoint(checkpoint_id="cp-0001"),
    ),
}


def text(kind: str, **values: Any) -> str:
    return json.dumps({"type": kind, "sessionId": SESSION, **values})


def decoded(message: str | bytes) -> ClientMessage:
    return decode(message, SESSION, METHODS)


def problem(message: str | bytes) -> tuple[str, str]:
    with pytest.raises(ProtocolProblem) as raised:
        decoded(message)
    assert raised.value.message == str(raised.value)
    return raised.value.message, raised.value.code


def outcome(message: str | bytes) -> ClientMessage | tuple[str, str]:
    """The message, or what is wrong with it, and its code."""
    try:
        return decoded(message)
    except ProtocolProblem as wrong:
        return wrong.message, wrong.code
