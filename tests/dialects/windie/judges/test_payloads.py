"""The table of payloads: each kind of value that is wrong is named with its path."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from .good import CATALOG
from .payloads import faults


def catalog(**changes: Any) -> dict[str, Any]:
    payload = copy.deepcopy(CATALOG["payload"])
    payload["remote_tools"][0] |= changes
    return payload


@pytest.mark.parametrize(
    ("kind", "payload", "found"),
    [
        ("streaming-response", {"text": None}, "payload.text: no text"),
        ("streaming-response", [], "payload: no object"),
        ("tool-output", {"tool_name": "x", "success": 1}, "payload.success: no boolean"),
        (
            "tool-output",
            {"tool_name": "x", "success": True, "execution_time": "1"},
            "payload.execution_time: no duration",
        ),
        ("tool-output", {"tool_name": "x", "success": True, "metadata": []}, "payload.metadata: no object"),
        ("tool-schemas", {"tool_schemas": {}}, "payload.tool_schemas: no list"),
        ("tool-bundle", {"bundle_id": "b", "tools": [{"name": "x"}]}, "payload.tools[0].args: not there"),
        ("settings-updated", {"updated_keys": [""]}, "payload.updated_keys[0]: no text, or a blank one"),
        ("models-listed", {"local": [{"id": "m", "provider": "p"}]}, "payload.local[0].display_name: not there"),
        ("settings-loaded", {"config": {"provider_api_keys": []}}, "payload.config.provider_api_keys: no object"),
        ("settings-loaded", {"config": {"api_key": "x"}}, "payload.config.api_key: not in the contract"),
        ("remote-tool-catalog", catalog(enabled=True), "payload.remote_tools[0]: enabled though not available"),
        (
            "remote-tool-catalog",
            catalog(available=True),
            "payload.remote_tools[0]: a reason for what is available, or none for what is not",
        ),
        ("client-tool-manifest", {"accepted": []}, "payload.rejected: not there"),
    ],
)
def test_what_is_wrong_is_named_with_its_path(kind: str, payload: Any, found: str) -> None:
    assert found in faults(kind, payload)


@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        ("tool-output", {"tool_name": "x", "success": True, "output": None, "error": None, "screenshot_ref": "u.jpg"}),
        ("tool-bundle", {"bundle_id": "b", "tools": [{"name": "x", "args": {}, "tool_call_id": "c"}]}),
        ("streaming-complete", {}),
        ("remote-tool-catalog", catalog(available=True, reason_unavailable=None)),
        ("stop-query-ack", {"status": "not-running", "canceled": False, "conversation_ref": None, "turn_ref": None}),
        ("context-compaction-failed", {"reason": "asked", "strategy": "summary", "error": "no model"}),
        ("trace-event", {"anything": 1}),
    ],
)
def test_what_the_contract_leaves_open_is_let_pass(kind: str, payload: Any) -> None:
    assert faults(kind, payload) == []
