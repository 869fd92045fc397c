"""The document of all routes says what they do: checked by a program that knows nothing else of them."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from dragoman.dialects.windie.routes import ROUTES

from .http_rig import PNG, RUNS_KEY, WindieServer, serving_windie

schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is not installed (make install)")

import requests  # noqa: E402  it comes with schemathesis
from schemathesis import GenerationMode  # noqa: E402
from schemathesis.checks import CHECKS, load_all_checks  # noqa: E402

EXAMPLES = 15
"""Requests of each kind that each operation gets."""

INDEX = {f"{route.method} {route.path}": route for route in ROUTES}

load_all_checks()

CONFORMS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
)
"""What is checked of every answer, whatever was asked."""

CHECKED = {
    GenerationMode.POSITIVE: (*CONFORMS, "positive_data_acceptance"),
    GenerationMode.NEGATIVE: (*CONFORMS, "negative_data_rejection"),
}

MODELS = "there are only so many providers and models"

BY_FACTS = {
    ("POST /api/runs/{run_id}/control", GenerationMode.POSITIVE): "an action may need a field that others do not",
    ("POST /api/artifacts/", GenerationMode.POSITIVE): "random bytes are no picture",
    ("GET /api/artifacts/{artifact_id}", GenerationMode.POSITIVE): "not every text is an artifact's id",
    ("POST /api/install/register", GenerationMode.POSITIVE): "not every character can be shown",
    ("GET /api/sdk/tool-schemas", GenerationMode.POSITIVE): MODELS,
    ("GET /api/sdk/system-prompt", GenerationMode.POSITIVE): MODELS,
    ("GET /api/sdk/tool-capabilities/{tool_name}", GenerationMode.POSITIVE): MODELS,
    ("POST /api/sdk/prompt-preview", GenerationMode.POSITIVE): MODELS,
    ("POST /api/sdk/query-plan", GenerationMode.POSITIVE): MODELS,
}
"""Where data that the document allows may be refused all the same: for these reasons, which no schema has."""


MODES = [
    pytest.param(asked, mode, id=f"{asked}-{mode.value}")
    for asked, route in sorted(INDEX.items())
    for mode in GenerationMode
    # Where a request has neither, there is nothing about it that could be wrong.
    if mode is GenerationMode.POSITIVE or route.query is not None or route.body is not None or route.streams
]


@pytest.mark.slow
@pytest.mark.parametrize(("asked", "mode"), MODES)
async def test_it_says_what_the_routes_do(tmp_path: Path, asked: str, mode: GenerationMode) -> None:
    names = [name for name in CHECKED[mode] if name != "positive_data_acceptance" or (asked, mode) not in BY_FACTS]
    checks = CHECKS.get_by_names(names)
    async with serving_windie(tmp_path, auth="on", runs={"longest_wait_seconds": 0.01}) as server:
        token = (await server.register())["install_token"]
        headers = {"authorization": f"Bearer {token}", "x-windie-runs-key": RUNS_KEY}
        told = (await server.get("/api/openapi.json", token)).json
        method, _, path = asked.partition(" ")
        operation = schemathesis.openapi.from_dict(told)[path][method]
        strategies = [_cases(operation, mode)]
        if "{" in path:
            strategies.append(_cases(operation, mode, path_parameters=await _there(server, token, path)))

        with requests.Session() as session:

            @settings(
                max_examples=EXAMPLES,
                deadline=None,
                database=None,
                derandomize=True,
                phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
            )
            @given(case=st.one_of(*strategies))
            def agrees(case: Any) -> None:
                case.call_and_validate(
                    base_url=f"http://127.0.0.1:{server.port}/windie",
                    session=session,
                    headers=headers,
                    checks=checks,
                    timeout=20,
                )

            await asyncio.to_thread(agrees)


async def _there(server: WindieServer, token: str, path: str) -> dict[str, str]:
    """Names of the path that something has."""
    run = await server.post("/api/runs/", {"workspace_id": "w", "query": "q"}, token, x_windie_runs_key=RUNS_KEY)
    known = {
        "run_id": run.json["run"]["run_id"],
        "artifact_id": (await server.upload(PNG, token)).json["artifact_id"],
        "tool_name": "web_search",
    }
    return {name: known[name] for name in re.findall(r"{(\w+)}", path)}


def _cases(operation: Any, mode: GenerationMode, **fixed: Any) -> Any:
    return operation.as_strategy(generation_mode=mode, **fixed)
