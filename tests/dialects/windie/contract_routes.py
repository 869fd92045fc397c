"""The routes that the contract has, as requests that are right, written from the seed and the spec alone (§1)."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from .http_rig import BOUNDARY, PNG, form

RUNS_KEY_HEADER = "x-windie-runs-key"
CONTROL_KEY_HEADER = "x-windie-runs-control-key"

NOWHERE = "0" * 32
UNKNOWN_ARTIFACT = f"{NOWHERE}.png"
UNKNOWN_RUN = "run-that-nobody-asked-for"

PREVIEW = {"user_query_raw": "open file", "messages": [{"role": "user", "content": "open file"}]}


@dataclass(frozen=True)
class Row:
    """A route, a request to it that is right, and what that is answered: ``status``, and ``detail`` where it is an
    error. ``keyed``: it wants the runs key. ``of``: which services of the host it may ask."""

    method: str
    path: str
    target: str = ""
    body: Any = None
    media: str = "application/json"
    status: int = 200
    detail: str | None = None
    keyed: bool = False
    of: frozenset[str] = field(default_factory=frozenset)

    @property
    def id(self) -> str:
        return f"{self.method} {self.path}"

    @property
    def asked(self) -> str:
        """The path with something in the place of names in braces."""
        return self.target or self.path

    @property
    def content(self) -> bytes | None:
        """The body's bytes."""
        return self.body if self.body is None or isinstance(self.body, bytes) else json.dumps(self.body).encode()

    @property
    def headers(self) -> list[tuple[str, str | bytes]]:
        """Without any credential."""
        return [] if self.body is None else [("Content-Type", self.media)]


def _row(method: str, path: str, body: Any = None, *of: str, **more: Any) -> Row:
    return Row(method=method, path=path, body=body, of=frozenset(of), **more)


def _run(method: str, path: str, body: Any = None, *, unknown: str = "Run not found") -> Row:
    below = f"/api/runs{path}"
    more: dict[str, Any] = {"target": below.replace("{run_id}", UNKNOWN_RUN)} if "{" in path else {}
    if more:
        more |= {"status": 404, "detail": unknown}
    return _row(method, below, body, "runs", keyed=True, **more)


REGISTER = _row("POST", "/api/install/register", {"operating_system": "Windows"})
ME = _row("GET", "/api/install/me")
FORGET_ME = _row("DELETE", "/api/install/me")
"""Beyond the contract."""

INSTALL = (REGISTER, ME, FORGET_ME)

DOCUMENT = (_row("GET", "/api/openapi.json"),)
"""Beyond the contract."""

ARTIFACTS = (
    _row("POST", "/api/artifacts/", form(PNG), "artifacts", media=f"multipart/form-data; boundary={BOUNDARY}"),
    _row(
        "GET",
        "/api/artifacts/{artifact_id}",
        None,
        "artifacts",
        target=f"/api/artifacts/{UNKNOWN_ARTIFACT}",
        status=404,
        detail="Artifact not found",
    ),
)

INTROSPECTION = (
    _row("GET", "/api/sdk/models"),
    _row("GET", "/api/sdk/tool-schemas"),
    _row(
        "GET",
        "/api/sdk/tool-capabilities/{tool_name}",
        target="/api/sdk/tool-capabilities/no_such_tool",
        status=404,
        detail="Tool not found",
    ),
    _row("GET", "/api/sdk/system-prompt"),
    _row("POST", "/api/sdk/prompt-preview", PREVIEW, "previews"),
    _row("POST", "/api/sdk/query-plan", {**PREVIEW, "conversation_ref": "conv_sdk"}, "previews"),
)

RUN = {
    "workspace_id": "workspace-demo",
    "agent_id": "agent-alpha",
    "query": "apply this internship job for me",
    "requested_by": "user_123",
    "files": [{"artifact_id": "resume.pdf", "filename": "resume.pdf", "content_type": "application/pdf"}],
    "metadata": {},
}
HEARTBEAT = {
    "workspace_id": "workspace-demo",
    "worker_id": "worker-1",
    "vm_id": "vm-1",
    "user_id": "vm-user-1",
    "session_id": "session-1",
    "status": "ready",
    "metadata": {},
}
DISPATCH = {
    "worker_id": "worker-1",
    "user_id": "vm-user-1",
    "turn_ref": "turn-uuid",
    "conversation_ref": "run-run-uuid",
}
RELAY = {"event_type": "tool-call", "source": "worker-stream", "payload": {"payload": {}, "turn_ref": "turn-uuid"}}

STOP_ALL = _run("POST", "/stop-all", {"workspace_id": "workspace-of-nobody", "requested_by": "operator"})

RUNS = (
    _run("POST", "/", RUN),
    _run("GET", "/{run_id}"),
    _run("GET", "/{run_id}/events"),
    _run("POST", "/{run_id}/events", RELAY),
    _run("POST", "/{run_id}/control", {"action": "pause", "requested_by": "user_123"}),
    _run("POST", "/{run_id}/worker-dispatched", DISPATCH, unknown="Run not found or worker mismatch"),
    _run("POST", "/workers/heartbeat", HEARTBEAT),
    STOP_ALL,
)

ROWS = (*DOCUMENT, *INSTALL, *ARTIFACTS, *INTROSPECTION, *RUNS)
